package fixupguest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strings"
	"time"

	"opdev.io/guestcluster/pkg/steps/guest"
)

const (
	resolvConf = "/etc/resolv.conf"
	// managerConf outlives restarts of NetworkManager and of the guest.
	managerConf = "/etc/NetworkManager/conf.d/99-guestcluster.conf"
	// noSuchUnit is what systemctl status ends with for a unit it does not know.
	noSuchUnit = 4
	// ovsTimeout covers one retry of the unit, which is 15 minutes in old bundles.
	ovsTimeout     = 16 * time.Minute
	managerTimeout = 2 * time.Minute
)

// configureResolver puts dnsmasq before the name servers that the guest has:
// dnsmasq itself asks those for public names.
func (f *fixup) configureResolver(ctx context.Context) error {
	ovs, err := f.startOVS(ctx)
	if err != nil {
		return err
	}
	present, err := f.nameServers(ctx)
	if err != nil {
		return err
	}
	wanted := append([]string{f.address}, without(present, f.address)...)
	if len(wanted) == 1 {
		fmt.Fprintln(f.out, "the guest has no name server of its own: it resolves nothing but its own names")
	}
	kept, err := f.keepServers(ctx, wanted)
	if err != nil || kept && slices.Equal(present, wanted) {
		return err
	}
	if ovs {
		if ovs, err = f.tellManager(ctx, wanted); err != nil || ovs {
			return err
		}
	}
	return f.writeResolvConf(ctx, wanted)
}

// startOVS starts the unit that makes the bridge of OVN bundles; false when
// the bundle has none.
func (f *fixup) startOVS(ctx context.Context) (bool, error) {
	out, err := f.link.Try(ctx, guest.Command{Doing: "look for OVN's bridge", Line: "systemctl status --no-pager ovs-configuration.service"})
	if err != nil || out.Code == noSuchUnit || strings.Contains(out.Stderr, "could not be found") {
		return false, err
	}
	_, err = f.link.Run(ctx, guest.Command{Doing: "make OVN's bridge", Line: "sudo -n systemctl start ovs-configuration.service", Timeout: ovsTimeout})
	return true, err
}

// nameServers are those that the guest asks now.
func (f *fixup) nameServers(ctx context.Context) ([]string, error) {
	file, err := f.link.Read(ctx, guest.Root, resolvConf)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return parseServers(string(file)), err
}

func parseServers(file string) []string {
	var servers []string
	for _, line := range strings.Split(file, "\n") {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != "nameserver" {
			continue
		}
		if address, err := netip.ParseAddr(words[1]); err == nil && !address.IsLoopback() && !slices.Contains(servers, address.String()) {
			servers = append(servers, address.String())
		}
	}
	return servers
}

// keepServers writes the order down for the next start and says whether it
// stood there already.
func (f *fixup) keepServers(ctx context.Context, servers []string) (bool, error) {
	wanted := "[global-dns]\nsearches=" + searchName + "\n\n[global-dns-domain-*]\nservers=" + strings.Join(servers, ",") + "\n"
	present, err := f.link.Read(ctx, guest.Root, managerConf)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if string(present) == wanted {
		return true, nil
	}
	_, err = f.link.Run(ctx, guest.Command{Doing: "make NetworkManager's folder", Line: "sudo -n mkdir -p /etc/NetworkManager/conf.d"})
	if err != nil {
		return false, err
	}
	return false, f.link.Write(ctx, guest.Root, managerConf, 0o644, []byte(wanted))
}

// tellManager is false when NetworkManager does not know OVN's bridge. A
// setting takes servers of its own family only; those of IPv6 may be refused
// where the bridge has no IPv6, and stand in managerConf anyway.
func (f *fixup) tellManager(ctx context.Context, servers []string) (bool, error) {
	four, six := families(servers)
	modify := "sudo -n nmcli con modify --temporary ovs-if-br-ex "
	out, err := f.link.Try(ctx, guest.Command{
		Doing: "tell NetworkManager the name servers", Line: modify + "ipv4.dns " + strings.Join(four, ",") + " ipv4.dns-search " + searchName,
	})
	if err != nil {
		return false, err
	}
	if out.Code != 0 {
		fmt.Fprintln(f.out, "NetworkManager does not know ovs-if-br-ex: writing "+resolvConf)
		return false, nil
	}
	if len(six) > 0 {
		out, err := f.link.Try(ctx, guest.Command{Doing: "tell NetworkManager the name servers of IPv6", Line: modify + "ipv6.dns " + strings.Join(six, ",")})
		if err != nil {
			return false, err
		}
		if out.Code != 0 {
			fmt.Fprintln(f.out, "NetworkManager takes no IPv6 name servers for ovs-if-br-ex: they stand in "+managerConf)
		}
	}
	_, err = f.link.Run(ctx, guest.Command{
		Doing: "restart NetworkManager", Line: "sudo -n systemctl restart NetworkManager.service", Timeout: managerTimeout,
	})
	return true, err
}

func (f *fixup) writeResolvConf(ctx context.Context, servers []string) error {
	file := "# written by guestcluster\nsearch " + searchName + "\n"
	for _, server := range servers {
		file += "nameserver " + server + "\n"
	}
	// In place: the file keeps its SELinux label and may be a mount.
	_, err := f.link.Run(ctx, guest.Command{
		Doing: "write " + resolvConf, Line: "sudo -n tee " + resolvConf + " >/dev/null", Stdin: []byte(file),
	})
	if err != nil {
		return err
	}
	_, err = f.link.Try(ctx, guest.Command{Doing: "reload NetworkManager", Line: "sudo -n systemctl reload NetworkManager.service"})
	return err
}

// families splits name servers by what they are reached with.
func families(servers []string) (four, six []string) {
	for _, server := range servers {
		if address, err := netip.ParseAddr(server); err == nil && address.Is6() {
			six = append(six, server)
		} else {
			four = append(four, server)
		}
	}
	return four, six
}

func without(list []string, item string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == item })
}
