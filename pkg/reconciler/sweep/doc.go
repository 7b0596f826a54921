// Package sweep looks every ten minutes for objects of instances that are gone:
// it reports them and deletes those that are certainly ours and older than an
// hour. Secrets are left to garbage collection. Whose an object is, and what
// follows, is decided in package plan.
package sweep
