// Package bundle knows CRC bundles and where they come from: URLs and
// checksums, a download that survives cuts, the archive and its metadata, and
// the golden volume that a bundle becomes. The disk's format is in qcow2.
package bundle
