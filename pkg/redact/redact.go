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
	// A kubeadmin password stands alone in logs of installers.
	{regexp.MustCompile(`\b[A-Za-z0-9]{5}(-[A-Za-z0-9]{5}){3}\b`), Mark},
}

var (
	long = regexp.MustCompile(`[A-Za-z0-9+/]{41,}={0,2}`)
	// A checksum is no secret, and a mismatch without its sums helps nobody.
	checksum = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

var (
	address  = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://([^\s"'<>\\]|\\u00[0-9a-f]{2})+`) // as JSON writes & too
	userinfo = regexp.MustCompile(`://[^/?#]*@`)
	query    = regexp.MustCompile(`[?#].*?([:;,.)\]}]*)$`)
)

// URLs removes user, password, query and fragment from all URLs in a text:
// URLs that were signed in advance carry their credential in the query.
func URLs(text string) string {
	return address.ReplaceAllStringFunc(text, func(url string) string {
		url = userinfo.ReplaceAllString(url, "://"+Mark+"@")
		return query.ReplaceAllString(url, "?"+Mark+"$1")
	})
}

// Text removes what may be a credential from a text.
func Text(text string) string {
	text = URLs(text)
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
