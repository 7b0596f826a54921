package machine

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"opdev.io/guestcluster/test/rig/guest/disk"
)

const (
	stageVariable = "GUEST_STAGE"
	readyFD       = 3
	goFD          = 4
	loopMajor     = 7
)

// IsStage tells that this process is to become a guest: call Stage first.
func IsStage() bool { return os.Getenv(stageVariable) != "" }

// Stage is what firmware and kernel do: it mounts the disk's root, makes the
// devices, and becomes the init program. It returns only an error.
func Stage() error {
	root := filepath.Join(os.TempDir(), "guest-root")
	steps := []func(string) error{private, mountRoot, mountKernel, makeDevices, tell, pivot}
	for _, step := range steps {
		if err := step(root); err != nil {
			return err
		}
	}
	// The parent-death signal belongs to a thread, and only the executing one
	// survives as the guest.
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("tie the guest to the machine: %w", err)
	}
	if err := waitForGo(); err != nil {
		return err
	}
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "container=none", "TERM=dumb"}
	if err := unix.Exec("/sbin/init", []string{"/sbin/init"}, env); err != nil {
		return fmt.Errorf("run /sbin/init of the disk: %w", err)
	}
	return nil
}

func private(root string) error {
	unix.Umask(0)
	if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	return os.MkdirAll(root, 0o755)
}

func mountRoot(root string) error {
	return disk.MountRoot("/dev/loop"+os.Getenv("GUEST_ROOT"), root)
}

func mountKernel(root string) error {
	for _, m := range []struct {
		source, target, kind string
		flags                uintptr
		data                 string
	}{
		{"proc", "proc", "proc", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
		{"sysfs", "sys", "sysfs", unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
		{"tmpfs", "dev", "tmpfs", unix.MS_NOSUID, "mode=755,size=1m"},
		{"tmpfs", "run", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=755"},
		{"tmpfs", "tmp", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777"},
		{root, "sysroot", "", unix.MS_BIND, ""},
		{"", "sysroot", "", unix.MS_REMOUNT | unix.MS_BIND | unix.MS_RDONLY, ""},
	} {
		if err := unix.Mount(m.source, filepath.Join(root, m.target), m.kind, m.flags, m.data); err != nil {
			return fmt.Errorf("mount %s of the guest: %w", m.target, err)
		}
	}
	return nil
}

func makeDevices(root string) error {
	number := func(variable string) uint32 {
		n, _ := strconv.Atoi(os.Getenv(variable))
		return uint32(n)
	}
	var err error
	for _, d := range []struct {
		name         string
		kind         uint32
		major, minor uint32
	}{
		{"null", unix.S_IFCHR | 0o666, 1, 3}, {"zero", unix.S_IFCHR | 0o666, 1, 5}, {"full", unix.S_IFCHR | 0o666, 1, 7},
		{"random", unix.S_IFCHR | 0o666, 1, 8}, {"urandom", unix.S_IFCHR | 0o666, 1, 9}, {"tty", unix.S_IFCHR | 0o666, 5, 0},
		{"vda", unix.S_IFBLK | 0o660, loopMajor, number("GUEST_DISK")},
		{"vda4", unix.S_IFBLK | 0o660, loopMajor, number("GUEST_ROOT")},
	} {
		err = errors.Join(err, unix.Mknod(filepath.Join(root, "dev", d.name), d.kind, int(unix.Mkdev(d.major, d.minor))))
	}
	for name, target := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx",
	} {
		err = errors.Join(err, os.Symlink(target, filepath.Join(root, "dev", name)))
	}
	for _, name := range []string{"pts", "shm"} {
		err = errors.Join(err, os.Mkdir(filepath.Join(root, "dev", name), 0o755))
	}
	err = errors.Join(err,
		unix.Mount("devpts", filepath.Join(root, "dev/pts"), "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620,gid=5"),
		unix.Mount("tmpfs", filepath.Join(root, "dev/shm"), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777"))
	if err != nil {
		return fmt.Errorf("make the guest's devices: %w", err)
	}
	return nil
}

// tell leaves what a kernel command line would say.
func tell(root string) error {
	dir := filepath.Join(root, "run/rig")
	faults := strings.ReplaceAll(os.Getenv("GUEST_FAULTS"), ",", "\n")
	return errors.Join(os.Mkdir(dir, 0o755),
		os.WriteFile(filepath.Join(dir, "name"), []byte(os.Getenv("GUEST_NAME")+"\n"), 0o644),
		os.WriteFile(filepath.Join(dir, "faults"), []byte(faults+"\n"), 0o644))
}

// pivot leaves nothing of the machine's mounts behind.
func pivot(root string) error {
	if err := unix.Chdir(root); err != nil {
		return fmt.Errorf("enter the guest's root: %w", err)
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("change to the guest's root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the machine's root: %w", err)
	}
	unix.Umask(0o022)
	return unix.Chdir("/")
}

func waitForGo() error {
	ready, goOn := os.NewFile(readyFD, "ready"), os.NewFile(goFD, "go")
	if _, err := ready.Write([]byte("ready")); err != nil {
		return fmt.Errorf("report the mounted disk: %w", err)
	}
	if err := ready.Close(); err != nil {
		return err
	}
	word, err := io.ReadAll(goOn)
	if err != nil || string(word) != "go" {
		return errors.New("the machine went away")
	}
	return goOn.Close()
}
