// Package objects reads custom kinds into structs that name only the fields of
// interest, and writes their status back without touching anything else.
package objects
