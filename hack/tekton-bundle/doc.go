// Command tekton-bundle packs resolved Tekton objects into a Tekton bundle, an
// OCI image with one object in each layer, pushes it and prints its reference
// by digest. The same input gives the same digest.
//
//	ko resolve -f tasks/lessee | go run ./hack/tekton-bundle quay.io/me/guestcluster-tasks:v1
package main
