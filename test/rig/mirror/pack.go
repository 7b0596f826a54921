package mirror

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// quiet is the time between lines about a long packing.
const quiet = 20 * time.Second

// pack is `tar cSf - --sort=name DIR | zstd`, as bundles are made.
func (r *recipe) pack(ctx context.Context, dir, top, target string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	start := time.Now()
	archiver := exec.CommandContext(ctx, "tar", append(r.tar, "--sort=name", "-C", dir, top)...)
	compressor := exec.CommandContext(ctx, r.compress[0], r.compress[1:]...)
	var complaints bytes.Buffer
	archiver.Stderr, compressor.Stderr = &complaints, &complaints
	archive, err := archiver.StdoutPipe()
	if err != nil {
		return fmt.Errorf("make a pipe: %w", err)
	}
	out, err := os.Create(target)
	if err != nil {
		return fmt.Errorf("make the bundle: %w", err)
	}
	defer out.Close()
	seen := &progress{Reader: archive, said: start, log: r.log}
	compressor.Stdin, compressor.Stdout = seen, out
	if err := archiver.Start(); err != nil {
		return fmt.Errorf("start tar: %w", err)
	}
	// The reader of tar's output must be done before Wait closes the pipe.
	err = compressor.Run()
	if err != nil {
		cancel()
	}
	if err = errors.Join(err, archiver.Wait()); err != nil {
		return fmt.Errorf("pack %s: %w: %s", top, err, complaints.Bytes())
	}
	about, err := out.Stat()
	if err != nil {
		return err
	}
	r.log("packed %s: %d MiB from %d MiB in %s", top, about.Size()>>20, seen.bytes>>20, time.Since(start).Round(time.Second))
	return out.Close()
}

// progress tells how much has passed.
type progress struct {
	io.Reader
	bytes int64
	said  time.Time
	log   func(string, ...any)
}

func (p *progress) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b)
	p.bytes += int64(n)
	if now := time.Now(); now.Sub(p.said) > quiet {
		p.said = now
		p.log("packing: %d MiB so far", p.bytes>>20)
	}
	return n, err
}
