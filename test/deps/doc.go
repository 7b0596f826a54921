// Package deps tests who may import whom, and that every reason of a condition
// is explained in docs/troubleshooting.md. It has no code of its own.
package deps
