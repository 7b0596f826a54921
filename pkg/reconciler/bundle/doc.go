// Package bundle prepares CRCBundles: it starts or follows a prepare-bundle
// run, hands golden volume and boot key over to the bundle, and deletes all of
// it with the bundle. Everything lives in namespace guestcluster-bundles.
package bundle
