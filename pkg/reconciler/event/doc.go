// Package event tells people once of each transition of condition Ready.
package event
