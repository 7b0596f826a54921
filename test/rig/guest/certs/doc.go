// Package certs makes the certificates of the guest's cluster: authorities and
// leaves of any validity, as PEM. The builder and the guest's daemon share it.
package certs
