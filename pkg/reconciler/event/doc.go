// Package event tells people once of each transition of condition Ready, and
// gives plain reconcilers a recorder.
package event
