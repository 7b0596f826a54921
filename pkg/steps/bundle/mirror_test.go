package bundle

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"opdev.io/guestcluster/pkg/steps/bundle/bundletest"
	"opdev.io/guestcluster/pkg/steps/step"
)

// bench is a client before a mirror.
type bench struct {
	*testing.T
	mirror *bundletest.Mirror
	source Source
	out    bytes.Buffer
}

func newBench(t *testing.T) *bench {
	b := &bench{T: t, mirror: bundletest.Start(t)}
	b.source = Source{Version: bundletest.Version, Arch: bundletest.Arch, CABundle: b.mirror.CABundle, MaxBundleSize: "1Gi"}
	return b
}

func (b *bench) client() *Mirror {
	b.Helper()
	if err := b.source.Validate(); err != nil {
		b.Fatal(err)
	}
	m, err := NewMirror(b.source, &b.out, wait.Backoff{Duration: time.Millisecond, Steps: 1}, time.Now, b.mirror.Dial)
	if err != nil {
		b.Fatal(err)
	}
	return m
}

func (b *bench) download() ([]byte, *Download, error) {
	download := b.client().Open(context.Background())
	defer download.Close()
	got, err := io.ReadAll(download)
	return got, download, err
}

// wants checks an error's exit code and that its text has all parts.
func wants(t *testing.T, err error, code int, parts ...string) {
	t.Helper()
	if step.ExitCode(err) != code {
		t.Fatalf("exit code %d, want %d: %v", step.ExitCode(err), code, err)
	}
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not contain %q", err, part)
		}
	}
}

func TestURLsAreThoseOfThePublicMirror(t *testing.T) {
	s := Source{Version: "4.20.5", Arch: "arm64"}
	const dir = "https://mirror.openshift.com/pub/openshift-v4/clients/crc/bundles/openshift/4.20.5/"
	if s.URL() != dir+"crc_libvirt_4.20.5_arm64.crcbundle" || s.listURL() != dir+"sha256sum.txt" {
		t.Errorf("%s, %s", s.URL(), s.listURL())
	}
	s.BundleURL = "https://files.example.com/a/b.crcbundle?token=1"
	if s.listURL() != "https://files.example.com/a/sha256sum.txt" || s.fileName() != "b.crcbundle" {
		t.Errorf("%s, %s", s.listURL(), s.fileName())
	}
}

func TestSourcesThatAreRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*Source)
		text   string
	}{
		"no version":       {func(s *Source) { s.Version = "" }, "version"},
		"a path":           {func(s *Source) { s.Version = "4.19.3/../x" }, "version"},
		"another arch":     {func(s *Source) { s.Arch = "s390x" }, "arch"},
		"plain http":       {func(s *Source) { s.BundleURL = "http://mirror.openshift.com/x" }, "bundle-url"},
		"a password":       {func(s *Source) { s.SHA256URL = "https://me:secret@mirror.openshift.com/x" }, "sha256-url"},
		"half a checksum":  {func(s *Source) { s.SHA256 = "abc" }, "sha256"},
		"no upper bound":   {func(s *Source) { s.MaxBundleSize = "" }, "max-bundle-size"},
		"a negative bound": {func(s *Source) { s.MaxBundleSize = "-1" }, "max-bundle-size"},
	} {
		t.Run(name, func(t *testing.T) {
			s := Source{Version: "4.19.3", Arch: "amd64", MaxBundleSize: "20Gi"}
			tt.change(&s)
			wants(t, s.Validate(), step.ExitUser, tt.text)
		})
	}
}

func TestDownloadsTheBundleAndItsChecksum(t *testing.T) {
	b := newBench(t)
	got, download, err := b.download()
	if err != nil || !bytes.Equal(got, bundletest.Default()) {
		t.Fatalf("%d bytes: %v", len(got), err)
	}
	sum, err := download.Sum()
	listed, lerr := b.client().Checksum(context.Background())
	if err != nil || lerr != nil || sum != listed {
		t.Errorf("%s, listed %s: %v, %v", sum, listed, err, lerr)
	}
	if !strings.Contains(b.out.String(), "100 %") {
		t.Errorf("no progress in %q", b.out.String())
	}
}

func TestCutConnectionsAreResumed(t *testing.T) {
	for name, etag := range map[string]bool{"by a range": true, "from the start if the server knows no ranges": false} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			cuts := 0
			b.mirror.Before(func(w http.ResponseWriter, r *http.Request) bool {
				if !etag {
					r.Header.Del("Range")
				}
				if cuts++; cuts == 1 {
					b.mirror.Cut(w, r.URL.Path, 0, 2000)
				}
				if cuts == 2 && etag {
					b.mirror.Cut(w, r.URL.Path, 2000, 500)
				}
				return false
			})
			got, _, err := b.download()
			if err != nil || !bytes.Equal(got, bundletest.Default()) {
				t.Fatalf("%d bytes: %v", len(got), err)
			}
			if calls := b.mirror.Calls(); etag && !strings.Contains(calls[len(calls)-1], "bytes=2500-") {
				t.Errorf("%q", calls)
			}
		})
	}
}

func TestAServerThatKeepsCuttingIsGivenUp(t *testing.T) {
	b := newBench(t)
	b.mirror.Before(func(w http.ResponseWriter, r *http.Request) bool { b.mirror.Cut(w, r.URL.Path, 0, 0); return true })
	_, _, err := b.download()
	wants(t, err, step.ExitInfra, "gave up after 6 tries")
	if n := len(b.mirror.Calls()); n > 2*maxTries { // the transport repeats a request once by itself
		t.Errorf("%d requests", n)
	}
}

func TestWhatMirrorsAnswer(t *testing.T) {
	status := func(code int) func(*bench) {
		return func(b *bench) {
			b.mirror.Before(func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(code); return true })
		}
	}
	redirect := func(to string) func(*bench) {
		return func(b *bench) {
			b.mirror.Before(func(w http.ResponseWriter, r *http.Request) bool {
				if r.Host == "mirror.openshift.com" {
					http.Redirect(w, r, to, http.StatusFound)
				}
				return r.Host == "mirror.openshift.com"
			})
		}
	}
	const file = bundletest.Dir + bundletest.FileName
	for name, tt := range map[string]struct {
		arrange func(*bench)
		code    int
		parts   []string
	}{
		"a version that is not there": {func(b *bench) { b.source.Version = "4.16.0" }, step.ExitUser,
			[]string{"openshift/4.16.0/crc_libvirt_4.16.0_amd64.crcbundle: 404", "no such bundle", "seen at https://mirror.openshift.com/pub/openshift-v4/clients/crc/bundles/openshift/"}},
		"no right":                      {status(403), step.ExitUser, []string{"403"}},
		"an error that stays":           {status(503), step.ExitInfra, []string{"503", "gave up after 6 tries"}},
		"too much":                      {func(b *bench) { b.source.MaxBundleSize = "1Ki" }, step.ExitUser, []string{"larger than 1024 bytes"}},
		"a redirect to a host we know":  {redirect("https://developers.redhat.com" + file), 0, nil},
		"a redirect to another host":    {redirect("https://elsewhere.example.com" + file), step.ExitUser, []string{"elsewhere.example.com is not allowed"}},
		"a redirect to plain http":      {redirect("http://developers.redhat.com" + file), step.ExitUser, []string{"only https"}},
		"redirects without end":         {redirect("https://mirror.openshift.com" + file), step.ExitUser, []string{"more than 5 redirects"}},
		"a host that the author named":  {func(b *bench) { b.source.BundleURL = "https://mirror.example.com" + file }, 0, nil},
		"a certificate of somebody":     {func(b *bench) { b.source.CABundle = "" }, step.ExitUser, []string{"certificate", "trusted-ca"}},
		"a CA bundle that is not there": {func(b *bench) { b.source.CABundle += ".missing" }, step.ExitUser, []string{"trusted-ca"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			tt.arrange(b)
			_, _, err := b.download()
			wants(t, err, tt.code, tt.parts...)
		})
	}
}

func TestErrorsThatPassAreTriedAgain(t *testing.T) {
	b := newBench(t)
	n := 0
	b.mirror.Before(func(w http.ResponseWriter, _ *http.Request) bool {
		if n++; n < 4 {
			w.WriteHeader(http.StatusBadGateway)
		}
		return n < 4
	})
	if _, _, err := b.download(); err != nil {
		t.Error(err)
	}
}

func TestChecksumsComeFromTheExactLine(t *testing.T) {
	sum := bundletest.SHA256(nil)
	other := bundletest.SHA256([]byte("x"))
	for name, tt := range map[string]struct {
		list, text string
	}{
		"among neighbours": {other + "  x_" + bundletest.FileName + "\n" + sum + "  " + bundletest.FileName + "\n" + other + "  " + bundletest.FileName + ".sig\n", ""},
		"in binary mode":   {sum + " *" + bundletest.FileName + "\n", ""},
		"no line":          {other + "  x_" + bundletest.FileName + "\n", "no line for " + bundletest.FileName},
		"no checksum":      {"abc  " + bundletest.FileName + "\n", "malformed"},
		"two checksums":    {sum + "  " + bundletest.FileName + "\n" + other + "  " + bundletest.FileName + "\n", "ambiguous"},
		"a whole page":     {strings.Repeat("<html>\n", 200<<10), "not a list"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.mirror.Put(bundletest.Dir+"sha256sum.txt", []byte(tt.list))
			got, err := b.client().Checksum(context.Background())
			if tt.text == "" {
				if err != nil || got != sum {
					t.Errorf("%q: %v", got, err)
				}
				return
			}
			wants(t, err, step.ExitUser, tt.text)
		})
	}
}

func TestAGivenChecksumAsksNobody(t *testing.T) {
	b := newBench(t)
	b.source.SHA256 = bundletest.SHA256(nil)
	if got, err := b.client().Checksum(context.Background()); got != b.source.SHA256 || err != nil || len(b.mirror.Calls()) > 0 {
		t.Errorf("%q, %v, %q", got, err, b.mirror.Calls())
	}
}

func TestAFileThatChangesUnderwayIsNotJoined(t *testing.T) {
	b := newBench(t)
	n := 0
	b.mirror.Before(func(w http.ResponseWriter, r *http.Request) bool {
		if n++; n == 1 {
			b.mirror.Cut(w, r.URL.Path, 0, 2000)
		}
		b.mirror.Put(r.URL.Path, bytes.Repeat([]byte("new"), 5000))
		return false
	})
	_, _, err := b.download()
	wants(t, err, step.ExitInfra, "changed while it was read")
}

func TestADownloadEndsWithItsContext(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithCancel(context.Background())
	b.mirror.Before(func(_ http.ResponseWriter, r *http.Request) bool { cancel(); <-r.Context().Done(); return true })
	download := b.client().Open(ctx)
	defer download.Close()
	_, err := io.ReadAll(download)
	wants(t, err, step.ExitInterrupted, "interrupted")
	if fmt.Sprint(download.Err()) != err.Error() {
		t.Errorf("%v", download.Err())
	}
}
