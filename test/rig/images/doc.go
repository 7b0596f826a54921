// Package images makes the few images that no build tool makes for the rig,
// pushes them, and serves the registry that holds all images.
package images
