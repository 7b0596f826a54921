package redact

import "regexp"

// Mark stands where something was removed.
const Mark = "[redacted]"

var secrets = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]+-----.*?(-----END [A-Z0-9 ]+-----|$)`), Mark},
	{regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}`), "$1 " + Mark},
	{regexp.MustCompile(`\beyJ[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*`), Mark},
	{regexp.MustCompile(`\bsha256~[A-Za-z0-9_-]+`), Mark},
	{regexp.MustCompile(`\$2[abxy]\$\d\d\$[./A-Za-z0-9]+`), Mark},
	{regexp.MustCompile(`(?i)\b([a-z_-]*(password|passwd|passphrase|token|api-?key|[a-z]+-key-data))(\\?["']?\s*[:=]\s*)(\\?"[^"]*"|'[^']*'|\S+)`), "$1$3" + Mark},
	{regexp.MustCompile(`(?i)(\\?["']?\bauth\\?["']?\s*[:=]\s*)(\\?"[^"]*"|'[^']*'|[A-Za-z0-9+/]{4,}={0,2})`), "$1" + Mark},
	{regexp.MustCompile(`://[^/\s:@]+:[^/\s@]+@`), "://" + Mark + "@"},
}

var (
	long = regexp.MustCompile(`[A-Za-z0-9+/]{41,}={0,2}`)
	// A checksum is no secret, and a mismatch without its sums helps nobody.
	checksum = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// Text removes what may be a credential from a text.
func Text(text string) string {
	for _, s := range secrets {
		text = s.pattern.ReplaceAllString(text, s.with)
	}
	return long.ReplaceAllStringFunc(text, func(word string) string {
		if checksum.MatchString(word) {
			return word
		}
		return Mark
	})
}
