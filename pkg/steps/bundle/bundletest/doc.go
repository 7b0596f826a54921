// Package bundletest makes bundles, as small as they can be and as wrong as a
// test wants them, and serves them as the public mirror does: by https, under
// the mirror's name, with faults on demand.
package bundletest
