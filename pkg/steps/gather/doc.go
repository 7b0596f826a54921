// Package gather is the step gather: after a run failed it keeps what can be
// known of the guest in one ConfigMap, bounded and without credentials. It
// works with as little as the VM's object, and never fails a run.
package gather
