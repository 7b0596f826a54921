// Package qcow2 reads disk images in qcow2 format, versions 2 and 3, as far as
// bundles need it: one image that stands alone. Backing files, external data,
// encryption and extended L2 entries are refused by name; internal snapshots
// and reference counts are not looked at.
package qcow2
