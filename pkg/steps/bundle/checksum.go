package bundle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"opdev.io/guestcluster/pkg/steps/step"
)

// maxList bounds the list of checksums, which has a line for each bundle of a version.
const maxList = 1 << 20

// Checksum is what the bundle's SHA-256 must be: the one that was given, or the
// list's.
func (m *Mirror) Checksum(ctx context.Context) (string, error) {
	if m.Source.SHA256 != "" {
		return m.Source.SHA256, nil
	}
	url := m.Source.listURL()
	list, err := m.small(ctx, url)
	if err != nil {
		return "", err
	}
	return find(list, url, m.Source.fileName())
}

// small reads a small file, trying again a bounded number of times.
func (m *Mirror) small(ctx context.Context, url string) (string, error) {
	var content []byte
	tries := 0
	err := step.Retry(ctx, m.Pause, m.Progress, func(ctx context.Context) error {
		response, err := m.get(ctx, url, 0, "")
		if err == nil {
			defer response.Body.Close()
			content, err = io.ReadAll(io.LimitReader(response.Body, maxList+1))
		}
		return bounded(&tries, err)
	})
	if err == nil && len(content) > maxList {
		err = step.UserError("%s: larger than %d bytes: not a list of checksums", url, maxList)
	}
	return string(content), err
}

// bounded makes the last try's error final.
func bounded(tries *int, err error) error {
	if errors.Is(err, step.ErrAgain) {
		return err
	}
	if *tries++; err != nil && !step.Final(err) && *tries >= maxTries {
		return step.InfraError("gave up after %d tries: %w", maxTries, err)
	}
	return err
}

// find looks for the line whose last field is exactly the file's name: other
// bundles' names hold or begin with it.
func find(list, url, file string) (string, error) {
	sum := ""
	for _, line := range strings.Split(list, "\n") {
		fields := strings.Fields(line)
		if len(fields) != 2 || strings.TrimPrefix(fields[1], "*") != file {
			continue
		}
		if !sumPattern.MatchString(fields[0]) || (sum != "" && sum != fields[0]) {
			return "", step.UserError("%s: the checksum of %s is malformed or ambiguous", url, file)
		}
		sum = fields[0]
	}
	if sum == "" {
		return "", step.UserError("%s: no line for %s: give its sha256", url, file)
	}
	return sum, nil
}

// Mismatch says that a bundle is not the one that its publisher made.
func Mismatch(url, got, want string) error {
	return step.UserError("checksum of %s is %s, not %s: the bundle was damaged or replaced; nothing of it was kept", url, got, want)
}

// size prints a number of bytes for people.
func size(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%d bytes", n)
}
