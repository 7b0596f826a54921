// Package fetchbundle downloads a bundle, checks it, writes its disk to the
// golden volume as a raw image and its boot key to a Secret. The volume has
// /disk.img only when all of it was right, and nothing at all of a bundle with
// a wrong checksum.
package fetchbundle
