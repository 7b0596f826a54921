package daemon

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"opdev.io/guestcluster/test/rig/guest/disk"
)

const (
	mebibyte = 1 << 20
	// backupTable is what a GPT needs at the end of the disk.
	backupTable = 33 * 512

	xfsGeometry = 0x80705864 // XFS_IOC_FSGEOMETRY_V1
	xfsGrowData = 0x4010586e // XFS_IOC_FSGROWFSDATA
)

// growpart makes a partition as large as the disk allows. Status 1 with
// NOCHANGE means that there was nothing to do.
func growpart(args []string) int {
	if len(args) != 2 || args[0] != "/dev/vda" || args[1] != "4" {
		fmt.Printf("FAILED: %s: not found\n", strings.Join(args, " "))
		return 2
	}
	if os.Geteuid() != 0 {
		fmt.Println("FAILED: must be root")
		return 2
	}
	part, err := disk.Partition("/dev/vda", disk.Root)
	if err != nil {
		fmt.Println("FAILED:", err)
		return 2
	}
	size, err := deviceSize("/dev/vda")
	if err != nil {
		fmt.Println("FAILED:", err)
		return 2
	}
	if size < part.Offset+part.Size+backupTable+mebibyte {
		fmt.Printf("NOCHANGE: partition 4 is size %d. it cannot be grown\n", part.Size/512)
		return 1
	}
	if err := repartition(); err != nil {
		fmt.Println("FAILED:", err)
		return 2
	}
	grown, err := disk.Partition("/dev/vda", disk.Root)
	if err == nil {
		err = disk.Resize("/dev/vda4", grown.Size)
	}
	if err != nil {
		fmt.Println("FAILED: failed to resize:", err)
		return 2
	}
	fmt.Printf("CHANGED: partition=4 start=%d old: size=%d new: size=%d\n", part.Offset/512, part.Size/512, grown.Size/512)
	return 0
}

func repartition() error {
	for _, step := range []struct{ input, args string }{
		{"", "--relocate gpt-bak-std /dev/vda"},
		{", +\n", "--quiet --no-reread --no-tell-kernel --force -N 4 /dev/vda"},
	} {
		cmd := exec.Command("/sbin/sfdisk", strings.Fields(step.args)...)
		cmd.Stdin = strings.NewReader(step.input)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("sfdisk: %w: %s", err, out)
		}
	}
	return nil
}

// xfsGrow grows a mounted xfs to the size of its device.
func xfsGrow(args []string) int {
	if len(args) == 0 {
		fmt.Fprintln(os.Stderr, "Usage: xfs_growfs mountpoint")
		return 2
	}
	from, to, err := growXFS(args[len(args)-1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "xfs_growfs:", err)
		return 1
	}
	if from != to {
		fmt.Printf("data blocks changed from %d to %d\n", from, to)
	}
	return 0
}

func growXFS(mountPoint string) (from, to uint64, err error) {
	dir, err := os.Open(mountPoint)
	if err != nil {
		return 0, 0, err
	}
	defer dir.Close()
	var geometry [112]byte
	if err := ioctl(dir, xfsGeometry, unsafe.Pointer(&geometry)); err != nil {
		return 0, 0, fmt.Errorf("%s is not a mounted XFS filesystem: %w", mountPoint, err)
	}
	blockSize := uint64(binary.NativeEndian.Uint32(geometry[0:]))
	from = binary.NativeEndian.Uint64(geometry[32:])
	size, err := deviceSize("/dev/vda4")
	if err != nil {
		return 0, 0, err
	}
	if to = size / blockSize; to <= from {
		return from, from, nil
	}
	request := struct {
		Blocks   uint64
		MaxInode uint32
		_        uint32
	}{Blocks: to, MaxInode: binary.NativeEndian.Uint32(geometry[28:])}
	if err := ioctl(dir, xfsGrowData, unsafe.Pointer(&request)); err != nil {
		return 0, 0, fmt.Errorf("grow the data section: %w", err)
	}
	return from, to, nil
}

func ioctl(f *os.File, request uintptr, argument unsafe.Pointer) error {
	if _, _, code := unix.Syscall(unix.SYS_IOCTL, f.Fd(), request, uintptr(argument)); code != 0 {
		return code
	}
	return nil
}

func deviceSize(device string) (uint64, error) {
	f, err := os.Open(device)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var size uint64
	if err := ioctl(f, unix.BLKGETSIZE64, unsafe.Pointer(&size)); err != nil {
		return 0, fmt.Errorf("read the size of %s: %w", device, err)
	}
	return size, nil
}
