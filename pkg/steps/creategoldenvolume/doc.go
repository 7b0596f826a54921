// Package creategoldenvolume begins to prepare a bundle: it looks at the head
// of the download, refuses what cannot work before anything exists, and makes
// and locks the golden volume, as large as the disk in the bundle needs.
package creategoldenvolume
