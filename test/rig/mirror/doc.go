// Package mirror makes CRC bundles as Red Hat publishes them, and some that are
// broken or odd, and serves them as mirror.openshift.com does. What is in a
// bundle's disk is package guest's matter.
package mirror
