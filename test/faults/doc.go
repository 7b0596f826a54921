// Package faults proves that the broker cannot leak, double-book or get stuck:
// it breaks calls, watches and processes at every point that it can count, and
// audits every revision of every object. FAULTS=all is the whole proof; without
// it a fixed sample of every kind of fault runs. SOAK=10m prolongs the random part.
package faults
