package bundle

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"strconv"
	"strings"

	"opdev.io/guestcluster/pkg/steps/step"
)

// Download reads a bundle and computes its checksum. A cut connection is
// resumed; only a bounded number of tries in a row may bring nothing.
type Download struct {
	mirror *Mirror
	ctx    context.Context // of the whole download: Read has none
	url    string
	sum    hash.Hash
	body   *body
	etag   string
	offset int64
	total  int64 // -1 if the server does not tell
	tries  int   // in a row that brought nothing
	cuts   int   // in all
	err    error
	report report
}

// maxCuts bounds how often a connection may be cut although each brought something.
const maxCuts = 100

// Open begins the download of the bundle.
func (m *Mirror) Open(ctx context.Context) *Download {
	return &Download{mirror: m, ctx: ctx, url: m.Source.URL(), sum: sha256.New(), total: -1, report: report{began: m.Now(), said: m.Now()}}
}

// Read implements io.Reader.
func (d *Download) Read(p []byte) (int, error) {
	if d.err != nil {
		return 0, d.err
	}
	n, done := 0, false
	err := step.Retry(d.ctx, d.mirror.Pause, d.mirror.Progress, func(context.Context) (err error) {
		if done = d.total >= 0 && d.offset >= d.total; done {
			return nil
		}
		if n, err = d.try(p); n > 0 {
			d.tries = 0
			return nil
		}
		return bounded(&d.tries, err)
	})
	if err != nil {
		d.err = err
		return 0, err
	}
	d.sum.Write(p[:n])
	d.offset += int64(n)
	if done {
		d.err = io.EOF
	}
	d.report.line(d)
	if d.offset > d.mirror.max {
		d.err = step.UserError("%s: larger than %s, the most that is accepted", d.url, size(d.mirror.max))
	}
	return n, d.err
}

// try reads once. A short file is a cut, not an end.
func (d *Download) try(p []byte) (int, error) {
	if d.body == nil {
		if err := d.connect(); err != nil {
			return 0, err
		}
	}
	n, err := d.body.Read(p)
	if err == nil {
		if n == 0 {
			return 0, step.ErrAgain
		}
		return n, nil
	}
	d.disconnect()
	read := d.offset + int64(n)
	if errors.Is(err, io.EOF) && (d.total < 0 || read == d.total) {
		d.total = read
		return n, step.ErrAgain // Read sees that this is all
	}
	if d.cuts++; d.cuts > maxCuts {
		return 0, step.InfraError("%s: cut %d times: %w", d.url, d.cuts, err)
	}
	return n, fmt.Errorf("%s: cut after %s: %w", d.url, size(read), err)
}

// connect asks for what is missing yet. A server that starts anew although
// asked for the rest has its first bytes read again: the checksum tells in the
// end whether it is still the same file.
func (d *Download) connect() error {
	ctx, cancel := context.WithCancel(d.ctx)
	response, err := d.mirror.get(ctx, d.url, d.offset, d.etag)
	if err != nil {
		cancel()
		return err
	}
	d.body = watch(response.Body, cancel)
	if err := d.begin(response); err != nil {
		d.disconnect()
		return err
	}
	return nil
}

func (d *Download) begin(response *http.Response) error {
	total := response.ContentLength
	if response.StatusCode == http.StatusPartialContent {
		start, whole, err := contentRange(response.Header.Get("Content-Range"))
		if err != nil || start != d.offset {
			return step.InfraError("%s: the server sent another part of the file than asked for", d.url)
		}
		total = whole
	} else if d.offset > 0 {
		fmt.Fprintf(d.mirror.Progress, "the server cannot resume: reading %s again\n", size(d.offset))
		if _, err := io.CopyN(io.Discard, d.body, d.offset); err != nil {
			return fmt.Errorf("%s: cut while reading again: %w", d.url, err)
		}
	}
	if total > d.mirror.max {
		return step.UserError("%s: %s is larger than %s, the most that is accepted", d.url, size(total), size(d.mirror.max))
	}
	if d.total >= 0 && total != d.total {
		return step.InfraError("%s: the file changed while it was read: %d bytes, before %d", d.url, total, d.total)
	}
	d.total, d.etag = total, response.Header.Get("ETag")
	if strings.HasPrefix(d.etag, "W/") {
		d.etag = "" // a weak one is no use with If-Range
	}
	return nil
}

// contentRange parses "bytes 5-9/10".
func contentRange(header string) (start, whole int64, err error) {
	part, all, _ := strings.Cut(strings.TrimPrefix(header, "bytes "), "/")
	first, _, _ := strings.Cut(part, "-")
	start, err = strconv.ParseInt(first, 10, 64)
	if err != nil {
		return 0, 0, err
	}
	whole, err = strconv.ParseInt(all, 10, 64)
	return start, whole, err
}

func (d *Download) disconnect() {
	if d.body != nil {
		d.body.close()
		d.body = nil
	}
}

// Close ends the download, wherever it is.
func (d *Download) Close() { d.disconnect() }

// Err is what went wrong with the download itself, if anything did: a reader
// of the archive sees no more of that than a sudden end.
func (d *Download) Err() error {
	if errors.Is(d.err, io.EOF) {
		return nil
	}
	return d.err
}

// Offset is how much was read.
func (d *Download) Offset() int64 { return d.offset }

// Sum reads what is left and returns the checksum of the whole file.
func (d *Download) Sum() (string, error) {
	if _, err := io.Copy(io.Discard, d); err != nil {
		return "", err
	}
	return hex.EncodeToString(d.sum.Sum(nil)), nil
}

// URL is what is downloaded.
func (d *Download) URL() string { return d.url }
