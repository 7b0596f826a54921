package mirror

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// publishing changes the finished folder, given the name of the bundle in it.
func publishing(change func(dir, bundle string) error) func(*recipe) {
	return func(r *recipe) {
		r.published = func(dir string) error { return change(dir, r.File()) }
	}
}

func withoutList(dir, _ string) error {
	return errors.Join(os.Remove(filepath.Join(dir, listName)), os.Remove(filepath.Join(dir, signatureName)))
}

func withoutLine(dir, bundle string) error {
	return editLine(dir, bundle, func(string) string { return "" })
}

func otherSum(dir, bundle string) error {
	return editLine(dir, bundle, func(line string) string { return strings.Repeat("0", 64) + line[64:] })
}

// editLine changes the bundle's line in the list, which its signature then
// does not fit.
func editLine(dir, bundle string, edit func(string) string) error {
	name := filepath.Join(dir, listName)
	all, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("read the list: %w", err)
	}
	var edited strings.Builder
	for line := range strings.Lines(string(all)) {
		if strings.HasSuffix(line, "  "+bundle+"\n") {
			line = edit(line)
		}
		edited.WriteString(line)
	}
	return os.WriteFile(name, []byte(edited.String()), 0o644)
}

// flipByte changes a byte near the end, where a reader comes last.
func flipByte(dir, bundle string) error {
	f, err := os.OpenFile(filepath.Join(dir, bundle), os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("open the bundle: %w", err)
	}
	defer f.Close()
	end, err := f.Seek(0, 2)
	if err != nil {
		return err
	}
	at, b := end-end/8, make([]byte, 1)
	if _, err := f.ReadAt(b, at); err != nil {
		return err
	}
	b[0] ^= 0xff
	_, err = f.WriteAt(b, at)
	return err
}

func truncate(bundle string) error {
	about, err := os.Stat(bundle)
	if err != nil {
		return fmt.Errorf("look at the bundle: %w", err)
	}
	return os.Truncate(bundle, about.Size()*3/4)
}

func without(member string) func(*recipe) {
	return replacing(member, func(string) error { return nil })
}

// replacing lets another member take a member's place after its description.
func replacing(member string, with func(name string) error) func(*recipe) {
	return func(r *recipe) { r.unpacked = inPlaceOf(member, with) }
}

func inPlaceOf(member string, with func(name string) error) func(dir string) error {
	return func(dir string) error {
		name := filepath.Join(dir, member)
		if err := os.Remove(name); err != nil {
			return fmt.Errorf("remove a member: %w", err)
		}
		return with(name)
	}
}

func linkToPasswd(name string) error { return os.Symlink("/etc/passwd", name) }

func text(name string) error { return os.WriteFile(name, []byte("# not what you expect\n"), 0o644) }

func backed(name string) error {
	out, err := exec.Command("qemu-img", "create", "-q", "-u", "-f", "qcow2", "-F", "raw", "-b", "/etc/passwd", name, strconv.Itoa(Size31)).CombinedOutput()
	if err != nil {
		return fmt.Errorf("make a disk with a backing file: %w: %s", err, out)
	}
	return nil
}

// wideWindow packs a bundle whose reader must remember 256 MiB.
func wideWindow(r *recipe) {
	r.compress = []string{"zstd", "--quiet", "-" + strconv.Itoa(LevelQuick), "--long=" + strconv.Itoa(window+1)}
}

// escape packs one more member, two directories above.
func escape(r *recipe) {
	r.unpacked = func(dir string) error { return text(filepath.Join(dir, "zz-outside")) }
	r.tar = append(r.tar, "--absolute-names", `--transform=s,^.*/zz-outside$,../../outside,`)
}

func bomb(r *recipe) {
	r.tar = []string{"cf", "-"}
	r.unpacked = func(dir string) error { return os.Truncate(filepath.Join(dir, r.members.oc), 256<<20) }
}

func custom(r *recipe) {
	r.edit = func(info map[string]any) {
		info["type"] = "snc_custom"
		info["buildInfo"].(map[string]any)["buildTime"] = "2026-05-06 07:08:09.123456789 +0200 CEST m=+0.000012345"
		info["clusterInfo"].(map[string]any)["openshiftPullSecret"] = "default-pull-secret"
	}
	r.unpacked = func(dir string) error {
		return os.WriteFile(filepath.Join(dir, "default-pull-secret"), []byte(`{"auths":{}}`), 0o600)
	}
}

func set(field string, value any) func(map[string]any) {
	return func(info map[string]any) { info[field] = value }
}

// drop removes the field that a path leads to.
func drop(path ...string) func(map[string]any) {
	return func(info map[string]any) {
		last := len(path) - 1
		for _, name := range path[:last] {
			info = info[name].(map[string]any)
		}
		delete(info, path[last])
	}
}

func inCluster(field string, value any) func(map[string]any) {
	return func(info map[string]any) { info["clusterInfo"].(map[string]any)[field] = value }
}

func inDisk(field string, value any) func(map[string]any) {
	return func(info map[string]any) { entries(info, "diskImages")[0].(map[string]any)[field] = value }
}

func entries(info map[string]any, list string) []any {
	return info["storage"].(map[string]any)[list].([]any)
}

func sizesAsNumbers(info map[string]any) {
	for _, entry := range append(entries(info, "diskImages"), entries(info, "fileList")...) {
		fields := entry.(map[string]any)
		size, err := strconv.Atoi(fields["size"].(string))
		if err != nil {
			panic(err)
		}
		fields["size"] = size
	}
}
