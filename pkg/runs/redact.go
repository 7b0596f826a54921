package runs

import "opdev.io/guestcluster/pkg/redact"

// Redact removes what may be a credential from a text that is shown to people.
func Redact(text string) string { return redact.Text(text) }
