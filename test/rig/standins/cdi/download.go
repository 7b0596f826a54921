package cdi

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const writeChunk = 64 << 10

// CDI's own words, which tests of messages compare.
const (
	cannotConnect = "Unable to connect to http data source"
	cannotInspect = "Unable to obtain information about data source"
	noSpace       = "Unable to write to file: no space left on device"
)

var qcow2Magic = []byte("QFI\xfb")

// download is one import from a web server.
type download struct {
	source HTTPSource
	// roots are PEM certificates besides the machine's.
	roots [][]byte
	// user and password are from the source's secret.
	user, password string
	// limit is the size of the largest image that fits.
	limit int64
}

// run writes the raw image into dir. A qcow2 image is kept beside it until it
// is converted, as CDI keeps it in scratch space.
func (d download) run(ctx context.Context, dir string, report func(done, total int64)) error {
	response, err := d.get(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", cannotConnect, err)
	}
	defer response.Body.Close()
	sum := sha256.New()
	body := &counting{reader: io.TeeReader(response.Body, sum), total: response.ContentLength, report: report}
	buffered := bufio.NewReaderSize(body, writeChunk)
	head, err := buffered.Peek(len(qcow2Magic))
	if err != nil {
		return fmt.Errorf("%s: %w", cannotInspect, err)
	}
	file := filepath.Join(dir, diskName)
	if !bytes.Equal(head, qcow2Magic) {
		return errors.Join(writeSparse(buffered, file, d.limit), d.verify(sum))
	}
	scratch := dir + ".scratch"
	defer os.Remove(scratch)
	if err := errors.Join(writeSparse(buffered, scratch, d.limit), d.verify(sum)); err != nil {
		return err
	}
	return convert(ctx, scratch, file, d.limit)
}

func (d download) get(ctx context.Context) (*http.Response, error) {
	roots, err := x509.SystemCertPool()
	if err != nil {
		return nil, err
	}
	for _, pem := range d.roots {
		roots.AppendCertsFromPEM(pem)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, d.source.URL, nil)
	if err != nil {
		return nil, err
	}
	for _, header := range d.source.ExtraHeaders {
		name, value, _ := strings.Cut(header, ":")
		request.Header.Add(name, strings.TrimSpace(value))
	}
	if d.user != "" {
		request.SetBasicAuth(d.user, d.password)
	}
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, errors.Join(response.Body.Close(), fmt.Errorf("expected status code 200, got %d. Status: %s", response.StatusCode, response.Status))
	}
	return response, nil
}

func (d download) verify(sum hash.Hash) error {
	if got := fmt.Sprintf("sha256:%x", sum.Sum(nil)); d.source.Checksum != "" && d.source.Checksum != got {
		return fatalError{fmt.Errorf("checksum mismatch: expected %s, got %s", d.source.Checksum, got)}
	}
	return nil
}

var errCut = errors.New("the server closed the connection early")

// counting reports what was read, and keeps the end of a connection apart from
// the end of the data.
type counting struct {
	reader      io.Reader
	done, total int64
	report      func(done, total int64)
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.reader.Read(p)
	c.done += int64(n)
	c.report(c.done, c.total)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = errCut
	}
	return n, err
}

// writeSparse leaves holes for zeros.
func writeSparse(from io.Reader, file string, limit int64) error {
	out, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("create the image: %w", err)
	}
	defer out.Close()
	var size int64
	chunk, zero := make([]byte, writeChunk), make([]byte, writeChunk)
	for {
		n, readErr := io.ReadFull(from, chunk)
		if size+int64(n) > limit {
			return fmt.Errorf("virtual image size %d is larger than the reported available storage %d. A larger PVC is required", size+int64(n), limit)
		}
		if !bytes.Equal(chunk[:n], zero[:n]) {
			if _, err := out.WriteAt(chunk[:n], size); err != nil {
				return fmt.Errorf("write the image: %w", err)
			}
		}
		size += int64(n)
		if errors.Is(readErr, io.EOF) || errors.Is(readErr, io.ErrUnexpectedEOF) {
			return out.Truncate(size)
		}
		if readErr != nil {
			return fmt.Errorf("read the image: %w", readErr)
		}
	}
}

func convert(ctx context.Context, from, to string, limit int64) error {
	text, err := exec.CommandContext(ctx, "qemu-img", "info", "-f", "qcow2", "--output=json", from).Output()
	if err != nil {
		return fmt.Errorf("inspect the image: %w", err)
	}
	var info struct {
		Size int64 `json:"virtual-size"`
	}
	if err := json.Unmarshal(text, &info); err != nil {
		return fmt.Errorf("inspect the image: %w", err)
	}
	if info.Size > limit {
		return fmt.Errorf("virtual image size %d is larger than the reported available storage %d. A larger PVC is required", info.Size, limit)
	}
	out, err := exec.CommandContext(ctx, "qemu-img", "convert", "-f", "qcow2", "-O", "raw", from, to).CombinedOutput()
	if err != nil {
		return fmt.Errorf("convert the image: %w: %s", err, out)
	}
	return nil
}
