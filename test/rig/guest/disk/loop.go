package disk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

const loopMajor = 7

// Loop is a loop device that detaches when nothing uses it any more: neither
// this handle nor a mount.
type Loop struct {
	Number int
	file   *os.File
}

// Attach makes a loop device of a part of the image; size 0 is all the rest.
func Attach(image string, part Extent) (*Loop, error) {
	backing, err := os.OpenFile(image, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("open the disk: %w", err)
	}
	defer backing.Close()
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("find a loop device: %w (this needs root and /dev/loop-control)", err)
	}
	defer control.Close()
	for range 50 {
		loop, err := attach(control, backing, part)
		if !errors.Is(err, unix.EBUSY) {
			return loop, err
		}
	}
	return nil, errors.New("attach a loop device: all are taken")
}

// attach may lose the free device to another process: EBUSY.
func attach(control, backing *os.File, part Extent) (*Loop, error) {
	number, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
	if err != nil {
		return nil, fmt.Errorf("find a free loop device: %w", err)
	}
	loop := &Loop{Number: number}
	if err := loop.open(); err != nil {
		return nil, err
	}
	config := unix.LoopConfig{Fd: uint32(backing.Fd())}
	config.Info.Offset, config.Info.Sizelimit = part.Offset, part.Size
	config.Info.Flags = unix.LO_FLAGS_AUTOCLEAR
	if err := unix.IoctlLoopConfigure(int(loop.file.Fd()), &config); err != nil {
		loop.Close()
		return nil, fmt.Errorf("attach %s: %w", loop.Path(), err)
	}
	return loop, nil
}

// open makes the device node where /dev is not the kernel's own, as in pods.
func (l *Loop) open() (err error) {
	if _, err := os.Stat(l.Path()); errors.Is(err, os.ErrNotExist) {
		err := unix.Mknod(l.Path(), unix.S_IFBLK|0o660, int(unix.Mkdev(loopMajor, uint32(l.Number))))
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("make %s: %w", l.Path(), err)
		}
	}
	l.file, err = os.OpenFile(l.Path(), os.O_RDWR, 0)
	return err
}

// Path is the device node.
func (l *Loop) Path() string { return fmt.Sprintf("/dev/loop%d", l.Number) }

// Device is the device number.
func (l *Loop) Device() int { return int(unix.Mkdev(loopMajor, uint32(l.Number))) }

// Close gives the handle up.
func (l *Loop) Close() { l.file.Close() }

// WaitDetached returns when the kernel has let go of the image.
func (l *Loop) WaitDetached(timeout time.Duration) error {
	backing := fmt.Sprintf("/sys/block/loop%d/loop/backing_file", l.Number)
	for deadline := time.Now().Add(timeout); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(backing); errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("detach %s: still in use after %s", l.Path(), timeout)
		}
	}
}

// WaitFree returns when no loop device uses the image, whoever attached it.
func WaitFree(image string, timeout time.Duration) error {
	var stat unix.Stat_t
	err := unix.Stat(image, &stat)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at the disk: %w", err)
	}
	for deadline := time.Now().Add(timeout); ; time.Sleep(10 * time.Millisecond) {
		user, err := userOf(stat)
		if err != nil || user == "" {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the disk %s is still in use by %s after %s", image, user, timeout)
		}
	}
}

// userOf names a loop device that has the file behind it.
func userOf(stat unix.Stat_t) (string, error) {
	names, err := filepath.Glob("/sys/block/loop*/loop")
	if err != nil {
		return "", err
	}
	for _, name := range names {
		var loop Loop
		if _, err := fmt.Sscanf(filepath.Base(filepath.Dir(name)), "loop%d", &loop.Number); err != nil {
			continue
		}
		if err := loop.open(); err != nil {
			continue
		}
		status, err := unix.IoctlLoopGetStatus64(int(loop.file.Fd()))
		loop.Close()
		if err == nil && status.Device == stat.Dev && status.Inode == stat.Ino {
			return loop.Path(), nil
		}
	}
	return "", nil
}

// Resize gives a device a new limit while it is mounted.
func Resize(device string, size uint64) error {
	f, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("resize %s: %w", device, err)
	}
	defer f.Close()
	status, err := unix.IoctlLoopGetStatus64(int(f.Fd()))
	if err != nil {
		return fmt.Errorf("resize %s: %w", device, err)
	}
	status.Sizelimit = size
	if err := unix.IoctlLoopSetStatus64(int(f.Fd()), status); err != nil {
		return fmt.Errorf("resize %s: %w", device, err)
	}
	return nil
}
