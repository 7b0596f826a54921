package bundle

import (
	"archive/tar"
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"

	"opdev.io/guestcluster/pkg/steps/step"
)

// Bounds on an archive. Bundles are packed with zstd --ultra -22, whose window
// is 128 MiB; a larger one would need more memory than a step has.
const (
	maxWindow   = 128 << 20
	maxEntries  = 64
	maxUnpacked = 128 << 30
	maxRatio    = 500
	freeRatio   = 64 << 20 // unpacked, before the ratio counts
)

// Archive reads a bundle's members, which lie in one directory. Sparse members
// read as if they had no holes.
type Archive struct {
	tar     *tar.Reader
	zstd    *zstd.Decoder
	packed  counter
	total   counter
	top     string
	entries int
	seen    map[string]bool
}

// counter counts what passes.
type counter struct {
	io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	return n, err
}

var formats = map[string]string{"\xfd7zXZ\x00": "xz", "\x1f\x8b": "gzip", "BZh": "bzip2", "PK\x03\x04": "zip"}

// OpenArchive looks at how the archive is packed. Close it.
func OpenArchive(source io.Reader) (*Archive, error) {
	a := &Archive{packed: counter{Reader: source}, seen: map[string]bool{}}
	buffered := bufio.NewReaderSize(&a.packed, 256<<10)
	head, err := buffered.Peek(6)
	if err != nil {
		return nil, Damaged(err)
	}
	for magic, name := range formats {
		if bytes.HasPrefix(head, []byte(magic)) {
			return nil, step.UserError("the bundle is packed with %s, not zstd: its version is too old", name)
		}
	}
	a.zstd, err = zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return nil, Damaged(err)
	}
	a.total.Reader = a.zstd
	a.tar = tar.NewReader(unpacked{a})
	return a, nil
}

// Close frees the window.
func (a *Archive) Close() { a.zstd.Close() }

// unpacked is the tar stream, bounded.
type unpacked struct{ *Archive }

func (u unpacked) Read(p []byte) (int, error) {
	n, err := u.total.Read(p)
	switch {
	case errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return n, step.UserError("the bundle needs a zstd window larger than %s", size(maxWindow))
	case u.total.n > maxUnpacked, u.total.n > freeRatio && u.total.n/maxRatio > u.packed.n:
		return n, step.UserError("the bundle unpacks to more than a bundle can hold: %s from %s", size(u.total.n), size(u.packed.n))
	}
	return n, err
}

// Next moves to the next file and returns its plain name and size.
func (a *Archive) Next() (string, int64, error) {
	for {
		header, err := a.tar.Next()
		if errors.Is(err, io.EOF) {
			return "", 0, io.EOF
		}
		if err != nil {
			return "", 0, Damaged(err)
		}
		if a.entries++; a.entries > maxEntries {
			return "", 0, step.UserError("the bundle has more than %d members", maxEntries)
		}
		name, err := a.place(header)
		if err != nil || name != "" {
			return name, header.Size, err
		}
	}
}

// place returns the plain name of a file in the top directory, or nothing for
// that directory itself. Anything else has no business in a bundle.
func (a *Archive) place(header *tar.Header) (string, error) {
	path := strings.TrimPrefix(header.Name, "./")
	top, name, _ := strings.Cut(strings.TrimSuffix(path, "/"), "/")
	if a.top == "" {
		a.top = top
	}
	directory := header.Typeflag == tar.TypeDir
	switch {
	case !directory && header.Typeflag != tar.TypeReg && header.Typeflag != tar.TypeGNUSparse:
		return "", step.UserError("member %q of the bundle is neither a file nor a directory", header.Name)
	case !memberPattern.MatchString(top), top != a.top, directory != (name == ""), !directory && !memberPattern.MatchString(name):
		return "", step.UserError("member %q of the bundle is not a file in its one directory", header.Name)
	case a.seen[name]:
		return "", step.UserError("member %q is twice in the bundle", header.Name)
	case header.Size < 0 || header.Size > maxUnpacked:
		return "", step.UserError("member %q of the bundle is too large", header.Name)
	}
	a.seen[name] = true
	return name, nil
}

// Read reads the file that Next moved to.
func (a *Archive) Read(p []byte) (int, error) {
	n, err := a.tar.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = Damaged(err)
	}
	return n, err
}

// damage is an error in the bytes of a bundle: whether the download or the
// publisher is to blame, its checksum tells.
type damage struct{ error }

func (d damage) Unwrap() error { return d.error }

// Damaged marks an error as one in the bytes, unless it is classified already.
func Damaged(err error) error {
	if step.Final(err) {
		return err
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return damage{fmt.Errorf("unpack the bundle: %w", err)}
}

// IsDamaged says whether an error is one in the bytes.
func IsDamaged(err error) bool {
	var d damage
	return errors.As(err, &d)
}
