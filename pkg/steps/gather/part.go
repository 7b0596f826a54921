package gather

import (
	"context"
	"strings"
	"unicode/utf8"

	"opdev.io/guestcluster/pkg/redact"
)

const (
	// maxTotal bounds the ConfigMap, which etcd bounds at 1.5 MiB.
	maxTotal = 200 << 10
	// maxLine bounds what is said about a part on the step's own output.
	maxLine = 500
)

// part is one key of the ConfigMap.
type part struct {
	key   string
	limit int
	// newest keeps the end of a text that is too long, not its start.
	newest bool
	// of the cluster, or of the guest
	ask    func(context.Context) (string, error)
	within func(context.Context, *inside) (string, error)
	inside *inside
}

func (p part) read(ctx context.Context) (string, error) {
	if p.within == nil {
		return p.ask(ctx)
	}
	if p.inside.err != nil {
		return "", p.inside.err
	}
	return p.within(ctx, p.inside)
}

const cutMark = "[cut]\n"

// clean removes credentials and what is too long; in that order, for half a
// key is not known as one.
func clean(text string, limit int, newest bool) string {
	text = redact.Text(strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "?"))
	if len(text) <= limit {
		return text
	}
	room := limit - len(cutMark)
	if room <= 0 {
		return ""
	}
	if newest {
		return cutMark + strings.ToValidUTF8(text[len(text)-room:], "")
	}
	kept := text[:room]
	for !utf8.ValidString(kept) {
		kept = kept[:len(kept)-1]
	}
	return kept + cutMark
}
