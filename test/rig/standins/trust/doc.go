// Package trust plays OpenShift's network operator where it fills ConfigMaps
// with trusted certificates. It knows nothing of who mounts them.
package trust
