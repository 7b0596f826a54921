package mirror

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Hosts are the names that the mirror answers to, as the two public hosts of
// bundles do, and the rig's own name for disks of the manual path.
var Hosts = []string{publicHost, otherHost, rigHost}

const (
	publicHost = "mirror.openshift.com"
	otherHost  = "developers.redhat.com"
	rigHost    = "mirror.rig.test"

	tree      = "/pub/openshift-v4/clients/crc/bundles/openshift/"
	otherTree = "/content-gateway/file"
	makeLimit = 2 * time.Minute
)

// URL is where the public mirror has a bundle's file.
func URL(o Options) string {
	o = o.withDefaults()
	return "https://" + publicHost + tree + o.Version + "/" + o.File()
}

// DiskURL is where the mirror has a version's disk by itself.
func DiskURL(version string) string { return "http://" + rigHost + "/crc-" + version + ".qcow2" }

// Server serves bundles as the public mirror does.
type Server struct {
	// Published holds a folder or link for each version.
	Published string
	// Made is for the odd bundles, which are made when first asked for.
	Made string

	mu    sync.Mutex
	asked map[string]int
}

var _ http.Handler = (*Server)(nil)

// ServeHTTP finds the version's folder and the file in it.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, otherTree)
	if disk, found := strings.CutPrefix(path, "/crc-"); found {
		version, _ := strings.CutSuffix(disk, ".qcow2")
		s.serve(w, r, version, DiskName)
		return
	}
	rest, found := strings.CutPrefix(path, tree)
	version, file, deep := strings.Cut(rest, "/")
	switch {
	case !found:
		http.NotFound(w, r)
	case !deep || file == "":
		s.index(w, version)
	case strings.HasSuffix(file, ending) || file == listName || file == signatureName:
		s.serve(w, r, version, file)
	default:
		http.NotFound(w, r)
	}
}

// serve sends a file of a version, with the fault that the query or the
// version asks for.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, version, file string) {
	dir, err := s.folder(r.Context(), version)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	f, err := os.Open(filepath.Join(dir, filepath.Base(file)))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	defer f.Close()
	about, err := f.Stat()
	if err != nil {
		s.fail(w, r, err)
		return
	}
	w.Header().Set("ETag", fmt.Sprintf(`"%x-%x"`, about.Size(), about.ModTime().UnixNano()))
	w.Header().Set("Content-Type", "application/octet-stream")
	w, r, answered := s.faulty(w, r, s.fault(r, version, file), about.Size())
	if !answered {
		http.ServeContent(w, r, "", about.ModTime(), f)
	}
}

func (s *Server) fault(r *http.Request, version, file string) string {
	if asked := r.URL.Query().Get("fault"); asked != "" {
		return asked
	}
	if odd, found := OddOf(version); found && strings.HasSuffix(file, ending) {
		return odd.Fault
	}
	return ""
}

// folder is where a version's files are. An odd one is made for all who ask,
// so it does not depend on the first one's patience.
func (s *Server) folder(ctx context.Context, version string) (string, error) {
	if !filepath.IsLocal(version) || filepath.Base(version) != version {
		return "", fs.ErrNotExist
	}
	dir := filepath.Join(s.Published, version)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	odd, found := OddOf(version)
	if !found {
		return "", fs.ErrNotExist
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), makeLimit)
	defer cancel()
	return odd.Make(ctx, s.Made)
}

func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, fs.ErrNotExist) {
		http.NotFound(w, r)
		return
	}
	http.Error(w, err.Error(), http.StatusInternalServerError)
}

// index lists versions, or the files of one, for people.
func (s *Server) index(w http.ResponseWriter, version string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if odd, found := OddOf(version); found {
		fmt.Fprintf(w, "%s\n%s\n%s\n", odd.What, odd.options().File(), listName)
		return
	}
	entries, err := os.ReadDir(filepath.Join(s.Published, filepath.Base("/"+version)))
	if err != nil {
		http.Error(w, "404 page not found", http.StatusNotFound)
		return
	}
	for _, entry := range entries {
		if name := entry.Name(); version == "" || strings.HasSuffix(name, ending) || slices.Contains([]string{listName, signatureName}, name) {
			fmt.Fprintln(w, name)
		}
	}
	if version == "" {
		for _, odd := range Odds {
			fmt.Fprintf(w, "%s\t%s\n", odd.Version, odd.What)
		}
	}
}

// Publish makes a version's folder the one that a server shows.
func Publish(published, version, dir string) error {
	link := filepath.Join(published, version)
	if err := errors.Join(os.MkdirAll(published, 0o755), os.RemoveAll(link+".new"), os.Symlink(dir, link+".new")); err != nil {
		return fmt.Errorf("publish bundle %s: %w", version, err)
	}
	return os.Rename(link+".new", link)
}
