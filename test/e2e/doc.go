// Package e2e tests Guestcluster on the running rig, as its users use it. Build
// tag e2e; `make e2e` starts the rig and installs first.
package e2e
