// Package publishbundle ends the preparation of a bundle: it seals the golden
// volume, which from then on is cloned and never written, and says what was
// prepared. It does not mount the volume.
package publishbundle
