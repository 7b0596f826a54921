package mirror

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const testFile = "crc_libvirt_4.19.3_amd64.crcbundle"

// serve publishes some bytes as version 4.19.3.
func serve(t *testing.T) (*httptest.Server, []byte) {
	t.Helper()
	dir, published := t.TempDir(), t.TempDir()
	content := bytes.Repeat([]byte("0123456789abcdef"), 8<<10)
	for name, data := range map[string][]byte{testFile: content, listName: []byte("sums\n"), DiskName: []byte("disk"), KeyName: []byte("secret")} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := Publish(published, "4.19.3", dir); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(&Server{Published: published, Made: t.TempDir()})
	t.Cleanup(server.Close)
	return server, content
}

// get does not follow redirects.
func get(t *testing.T, url string, header ...string) (*http.Response, []byte, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response, body, err
}

func TestTheMirrorsLayout(t *testing.T) {
	server, content := serve(t)
	for path, want := range map[string]int{
		tree + "4.19.3/" + testFile:             200,
		otherTree + tree + "4.19.3/" + testFile: 200,
		tree + "4.19.3/sha256sum.txt":           200,
		tree + "4.19.3/":                        200,
		tree:                                    200,
		"/crc-4.19.3.qcow2":                     200,
		"/crc-4.19.4.qcow2":                     404,
		tree + "4.19.3/id_ecdsa_crc":            404,
		tree + "4.19.3/sha256sum.txt.sig":       404,
		tree + "4.19.4/" + testFile:             404,
		tree + "4.19.4/":                        404,
		tree + "../4.19.3/" + testFile:          404,
		"/":                                     404,
	} {
		if response, _, err := get(t, server.URL+path); response.StatusCode != want || err != nil {
			t.Errorf("%s: %d, %v", path, response.StatusCode, err)
		}
	}
	url := server.URL + tree + "4.19.3/" + testFile
	whole, body, err := get(t, url)
	if err != nil || !bytes.Equal(body, content) {
		t.Errorf("got %d bytes, %v", len(body), err)
	}
	part, body, err := get(t, url, "Range", "bytes=100-", "If-Range", whole.Header.Get("ETag"))
	if part.StatusCode != 206 || !bytes.Equal(body, content[100:]) || err != nil {
		t.Errorf("a range: %d with %d bytes, %v", part.StatusCode, len(body), err)
	}
	if other, _, _ := get(t, url, "Range", "bytes=100-", "If-Range", `"other"`); other.StatusCode != 200 {
		t.Errorf("a range of another content: %d", other.StatusCode)
	}
}

func TestFaults(t *testing.T) {
	server, content := serve(t)
	half := len(content) / 2
	rest := []string{"Range", fmt.Sprintf("bytes=%d-", half)}
	for _, test := range []struct {
		name   string
		fault  string
		header []string
		code   int
		bytes  int
		cut    bool
	}{
		{"not there", "404", nil, 404, len("Not Found\n"), false},
		{"cut in the middle", "cut", nil, 200, half, true},
		{"the rest after a cut", "cut", rest, 206, half, false},
		{"stuck in the middle", "stuck", nil, 200, half, true},
		{"nothing comes after the middle", "stuck", rest, 206, 0, true},
		{"slow but complete", "slow", nil, 200, len(content), false},
		{"changed meanwhile: all of it again", "changed", rest, 200, len(content), false},
		{"changed meanwhile: cut before", "changed", nil, 200, half, true},
		{"no fault that is known", "other", nil, 200, len(content), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			response, body, err := get(t, server.URL+tree+"4.19.3/"+testFile+"?fault="+test.fault, test.header...)
			if response.StatusCode != test.code || len(body) != test.bytes || (err != nil) != test.cut {
				t.Errorf("got %d with %d bytes, %v", response.StatusCode, len(body), err)
			}
		})
	}
}

func TestEveryOtherRequestFails(t *testing.T) {
	server, _ := serve(t)
	for i, want := range []int{503, 200, 503} {
		if response, _, _ := get(t, server.URL+tree+"4.19.3/"+testFile+"?fault=flaky"); response.StatusCode != want {
			t.Errorf("request %d: %d", i, response.StatusCode)
		}
	}
}

func TestRedirects(t *testing.T) {
	server, _ := serve(t)
	path := tree + "4.19.3/" + testFile
	for fault, want := range map[string]string{
		"redirect": "https://developers.redhat.com/content-gateway/file" + path, "elsewhere": "http://mirror.rig.test" + path, "loop": path,
	} {
		response, _, _ := get(t, server.URL+path+"?fault="+fault)
		if got := response.Header.Get("Location"); response.StatusCode != 302 || got != want {
			t.Errorf("%s: %d to %s", fault, response.StatusCode, got)
		}
	}
}

func TestAnOddBundleIsMadeWhenAskedFor(t *testing.T) {
	server, _ := serve(t)
	base := server.URL + tree + "4.97.4/"
	response, body, err := get(t, base+"crc_libvirt_4.97.4_amd64.crcbundle")
	if response.StatusCode != 200 || len(body) == 0 || err == nil {
		t.Errorf("4.97.4 is to be cut: %d with %d bytes, %v", response.StatusCode, len(body), err)
	}
	if response, body, err := get(t, base+listName); response.StatusCode != 200 || !strings.Contains(string(body), "crc_libvirt_4.97.4_amd64.crcbundle\n") || err != nil {
		t.Errorf("its list: %d %s, %v", response.StatusCode, body, err)
	}
	if response, _, _ := get(t, base+"crc_libvirt_4.97.4_arm64.crcbundle"); response.StatusCode != 404 {
		t.Errorf("another architecture: %d", response.StatusCode)
	}
}
