// Package kube gives steps the few API clients they need: leases by our own
// typed client, Secrets by a plain REST client, any other kind as JSON; and it
// says what belongs to an instance. The whole kubernetes clientset would double
// the image.
package kube
