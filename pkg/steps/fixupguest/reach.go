package fixupguest

import (
	"context"
	"fmt"
	"net/netip"
	"regexp"
	"strings"

	"opdev.io/guestcluster/pkg/steps/guest"
)

func (f *fixup) waitForSSH(ctx context.Context) error {
	_, err := f.link.Run(ctx, guest.Command{Doing: "run a first command", Line: "exit 0"})
	return err
}

var (
	sourceAddress = regexp.MustCompile(`\bsrc (\S+)`)
	hostName      = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)
)

// findAddress asks the guest: behind masquerade it has another address than its
// pod, and cannot reach itself by that.
func (f *fixup) findAddress(ctx context.Context) error {
	out, err := f.link.Run(ctx, guest.Command{Doing: "find the guest's address", Line: "ip -4 route get 1.1.1.1"})
	if err != nil {
		return err
	}
	match := sourceAddress.FindSubmatch(out)
	if match == nil {
		return fmt.Errorf("the guest has no IPv4 route yet")
	}
	address, err := netip.ParseAddr(string(match[1]))
	if err != nil || !address.Is4() || address.IsLoopback() {
		return fmt.Errorf("the guest's source address is %q", match[1])
	}
	if out, err = f.link.Run(ctx, guest.Command{Doing: "read the guest's host name", Line: "hostname"}); err != nil {
		return err
	}
	host := strings.TrimSpace(string(out))
	if !hostName.MatchString(host) {
		return fmt.Errorf("the guest's host name is %q", host)
	}
	f.address, f.host = address.String(), host
	fmt.Fprintf(f.out, "the guest is %s at %s\n", f.host, f.address)
	return nil
}

func (f *fixup) lockPassword(ctx context.Context) error {
	_, err := f.link.Run(ctx, guest.Command{Doing: "lock the password of user core", Line: "sudo -n passwd --lock core"})
	return err
}
