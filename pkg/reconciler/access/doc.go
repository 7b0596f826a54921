// Package access asks the API server whether an admin gave the controller its
// rights in a namespace, and knows the command that gives them.
package access
