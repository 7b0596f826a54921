// Package redact removes what may be a credential from texts that are shown to
// people. It rather removes too much.
package redact
