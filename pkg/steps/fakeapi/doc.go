// Package fakeapi is a small API server for tests of steps: any namespaced
// resource over HTTP, with UIDs, resource versions, preconditions, merge
// patches and watches, and faults on demand. It knows no schema, no admission
// and no rights.
package fakeapi
