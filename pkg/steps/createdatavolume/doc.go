// Package createdatavolume is the step that makes the root disk of an
// instance: a DataVolume that clones a golden volume or imports a disk image.
// It ends when a machine can be made for the disk, which with some storage is
// before the disk is filled.
package createdatavolume
