// Command step is the one step of the example topology: it boots a whole
// Kubernetes control plane in a single pod of the instance's namespace. It is
// the template for authors of their own topology: flags named after the Task's
// params, everything it makes owned by the ClusterInstance and adopted when it
// runs again, exit codes 10, 11 and 12, no shell.
package main
