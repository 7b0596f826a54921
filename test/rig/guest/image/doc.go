// Package image builds the guest's disk in layers that are cached apart: a
// Debian root file system, the parked cluster, and the image with both.
package image
