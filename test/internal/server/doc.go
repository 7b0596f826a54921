// Package server gives the tests of a package one API server with the CRDs of
// Guestcluster, and of Tekton on request, and clients for it. It starts no
// controller.
package server
