package guest

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"regexp"
)

// Account is whose rights a file is read and written with.
type Account string

// The accounts of a guest.
const (
	Root Account = "sudo -n "
	Core Account = ""
)

// absent is the exit code of read for a file that is not there.
const absent = 44

// plain paths need no quoting.
var plain = regexp.MustCompile(`^/[A-Za-z0-9._/-]+$`)

// Read returns a file's content; fs.ErrNotExist if there is none.
func (l *Link) Read(ctx context.Context, as Account, file string) ([]byte, error) {
	return l.content(ctx, as, file, `sh -c 'test -e "$1" || exit 44; exec cat "$1"' read `)
}

// Certificates returns the certificates of a PEM file and never its key.
func (l *Link) Certificates(ctx context.Context, file string) ([]byte, error) {
	return l.content(ctx, Root, file, `sh -c 'test -e "$1" || exit 44; exec sed -n "/BEGIN CERTIFICATE/,/END CERTIFICATE/p" "$1"' certificates `)
}

func (l *Link) content(ctx context.Context, as Account, file, script string) ([]byte, error) {
	if !plain.MatchString(file) {
		return nil, fmt.Errorf("read %q: not a plain path", file)
	}
	c := Command{Doing: "read " + file, Line: string(as) + script + file}
	out, err := l.Try(ctx, c)
	switch {
	case err != nil:
		return nil, err
	case out.Code == absent:
		return nil, fmt.Errorf("read %s: %w", file, fs.ErrNotExist)
	case out.Code != 0:
		return nil, fmt.Errorf("read %s: exit code %d in the guest: %s", file, out.Code, said(out.Stderr))
	}
	return out.Stdout, nil
}

// Write replaces a file. A connection that breaks looks to the guest like the
// end of the input: only the whole content takes the file's place.
func (l *Link) Write(ctx context.Context, as Account, file string, mode fs.FileMode, content []byte) error {
	if !plain.MatchString(file) {
		return fmt.Errorf("write %q: not a plain path", file)
	}
	const script = `sh -c 'umask 077 && cat >"$2" && test "$(wc -c <"$2")" -eq "$4" && chmod "$3" "$2" && mv -f "$2" "$1"' write`
	draft := path.Join(path.Dir(file), "."+path.Base(file)+".guestcluster")
	_, err := l.Run(ctx, Command{
		Doing: "write " + file, Stdin: content,
		Line: fmt.Sprintf("%s%s %s %s %04o %d", as, script, file, draft, mode, len(content)),
	})
	return err
}
