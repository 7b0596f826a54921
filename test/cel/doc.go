// Package cel proves on a real API server that the CRDs refuse what the types
// promise to refuse, accept everything else, and never store an object that a
// typed client cannot read.
package cel
