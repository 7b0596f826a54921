// Package faults reads what a stand-in is told to do wrong, from annotations
// of the object and of its namespace; README.md has the table.
package faults
