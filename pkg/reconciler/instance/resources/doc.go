// Package resources builds the children of an instance. Its functions are
// pure: nothing here reads or writes the API.
package resources
