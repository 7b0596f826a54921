package fixupguest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"time"

	"opdev.io/guestcluster/pkg/steps/guest"
	"opdev.io/guestcluster/pkg/steps/step"
)

const crcEnv = "/etc/sysconfig/crc-env"

// switchOff keeps newer bundles from setting themselves up, which would race
// with what is done here.
func (f *fixup) switchOff(ctx context.Context) error {
	out, err := f.link.Try(ctx, guest.Command{
		Doing: "look for the bundle's own set-up",
		Line: "test -d /etc/sysconfig && { test -e /etc/sysconfig/crc-env || test -e /usr/local/bin/crc-self-sufficient-env.sh ||" +
			" test -e /usr/local/bin/crc-check-cloud-env.sh || test -e /etc/systemd/system/crc-custom.target; }",
	})
	if err != nil || out.Code != 0 {
		return err
	}
	present, err := f.link.Read(ctx, guest.Root, crcEnv)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	wanted := setVariable(present, "CRC_SELF_SUFFICIENT", "0")
	if bytes.Equal(present, wanted) {
		return nil
	}
	return f.link.Write(ctx, guest.Root, crcEnv, 0o644, wanted)
}

// setVariable sets NAME=value in a file of such lines and keeps the others.
func setVariable(file []byte, name, value string) []byte {
	line, set := name+"="+value, false
	var kept []string
	for _, l := range strings.Split(strings.TrimRight(string(file), "\n"), "\n") {
		if strings.HasPrefix(strings.TrimSpace(l), name+"=") {
			if set {
				continue
			}
			l, set = line, true
		}
		kept = append(kept, l)
	}
	if !set {
		kept = append(kept, line)
	}
	return []byte(strings.TrimLeft(strings.Join(kept, "\n"), "\n") + "\n")
}

// partition is a disk and the number of a partition of it.
var partition = regexp.MustCompile(`^(/dev/[vs]da)([1-9][0-9]?)$`)

const growTimeout = 2 * time.Minute

// growRoot gives the root file system the whole disk.
func (f *fixup) growRoot(ctx context.Context) error {
	device, err := f.rootDevice(ctx)
	if err != nil {
		return err
	}
	grown, err := f.link.Try(ctx, guest.Command{
		Doing: "grow the root partition", Timeout: growTimeout,
		Line: fmt.Sprintf("sudo -n /usr/bin/growpart %s %s", device[1], device[2]),
	})
	if err != nil {
		return err
	}
	if grown.Code > 1 || grown.Code == 1 && !bytes.Contains(grown.Stdout, []byte("NOCHANGE")) && !strings.Contains(grown.Stderr, "NOCHANGE") {
		return fmt.Errorf("grow the root partition: growpart ended with %d in the guest: %.200s", grown.Code, grown.Stderr)
	}
	for _, line := range []string{"sudo -n mount -o remount,rw /sysroot", "sudo -n xfs_growfs /sysroot"} {
		if _, err := f.link.Run(ctx, guest.Command{Doing: "grow the root file system", Line: line, Timeout: growTimeout}); err != nil {
			return err
		}
	}
	return nil
}

// rootDevice is the one XFS partition, as path, disk and number.
func (f *fixup) rootDevice(ctx context.Context) ([]string, error) {
	out, err := f.link.Run(ctx, guest.Command{Doing: "find the root partition", Line: "sudo -n /usr/sbin/blkid -t TYPE=xfs -o device"})
	if err != nil {
		return nil, err
	}
	found := strings.Fields(string(out))
	if len(found) != 1 {
		return nil, step.UserError("the guest has %d XFS file systems (%.200s) and should have one: use an official bundle's disk", len(found), strings.Join(found, ", "))
	}
	device := partition.FindStringSubmatch(found[0])
	if device == nil {
		return nil, step.UserError("the guest's root file system is on %.100q, not on a partition of its first disk: use an official bundle's disk", found[0])
	}
	return device, nil
}
