// Package cdi plays the Containerized Data Importer: it makes the claim of a
// DataVolume, fills it with real bytes and reports as CDI does. decide tells
// what comes next, transfers move the bytes, Admission answers the API server.
package cdi
