package runs

import "regexp"

const redacted = "[redacted]"

var secrets = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]+-----.*?(-----END [A-Z0-9 ]+-----|$)`), redacted},
	{regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}`), "$1 " + redacted},
	{regexp.MustCompile(`\beyJ[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*`), redacted},
	{regexp.MustCompile(`\bsha256~[A-Za-z0-9_-]+`), redacted},
	{regexp.MustCompile(`(?i)\b([a-z_-]*(password|passwd|passphrase|token|api-?key|[a-z]+-key-data))(["']?\s*[:=]\s*)("[^"]*"|'[^']*'|\S+)`), "$1$3" + redacted},
	{regexp.MustCompile(`://[^/\s:@]+:[^/\s@]+@`), "://" + redacted + "@"},
	{regexp.MustCompile(`[A-Za-z0-9+/]{41,}={0,2}`), redacted},
}

// Redact removes what may be a credential from a text that is shown to people.
func Redact(text string) string {
	for _, s := range secrets {
		text = s.pattern.ReplaceAllString(text, s.with)
	}
	return text
}
