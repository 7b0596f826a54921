// Package volumes provisions local volumes for the rig's storage classes.
package volumes
