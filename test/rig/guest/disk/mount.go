package disk

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

const detachTimeout = 20 * time.Second

// WithRoot mounts the root partition at a directory that only do and the
// commands it starts can see, and returns when the image is free again. do
// must not start goroutines that look into it. A killed process leaves nothing.
func WithRoot(image string, do func(root string) error) error {
	part, err := Partition(image, Root)
	if err != nil {
		return err
	}
	loop, err := Attach(image, part)
	if err != nil {
		return err
	}
	err = privately(func() error {
		root, err := os.MkdirTemp("", "guest-root-")
		if err != nil {
			return fmt.Errorf("make a mount point: %w", err)
		}
		defer os.Remove(root)
		if err := MountRoot(loop.Path(), root); err != nil {
			return err
		}
		return errors.Join(do(root), unmount(root))
	})
	loop.Close()
	return errors.Join(err, loop.WaitDetached(detachTimeout))
}

// MountRoot mounts a root partition. Copies of one image share an identifier.
func MountRoot(device, target string) error {
	if err := unix.Mount(device, target, "xfs", 0, "nouuid"); err != nil {
		return fmt.Errorf("mount %s: %w", device, err)
	}
	return nil
}

func unmount(root string) error {
	if err := unix.Unmount(root, 0); err != nil {
		return fmt.Errorf("unmount the root partition: %w", err)
	}
	return nil
}

// privately runs do on a thread with its own mounts; the thread ends with it.
func privately(do func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
			result <- fmt.Errorf("make a mount namespace: %w (this needs root)", err)
			return
		}
		if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			result <- fmt.Errorf("make mounts private: %w", err)
			return
		}
		result <- do()
	}()
	return <-result
}
