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

const (
	dnsmasqConf = "/etc/dnsmasq.d/crc-dnsmasq.conf"
	nodeIPConf  = "/etc/systemd/system/kubelet.service.d/80-nodeip.conf"
	// internalIP is the node's address in every bundle, whatever the VM's network.
	internalIP = "192.168.126.11"
	searchName = "crc.testing"
)

// configureDNSMasq makes the guest resolve its own names to itself: it cannot
// reach itself by the address that others use.
func (f *fixup) configureDNSMasq(ctx context.Context) error {
	nodeIP, err := f.nodeIP(ctx)
	if err != nil {
		return err
	}
	wanted := dnsmasqConfig(f.address, f.host, nodeIP)
	present, err := f.link.Read(ctx, guest.Root, dnsmasqConf)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	running, err := f.link.Try(ctx, guest.Command{Doing: "look at dnsmasq", Line: "systemctl is-active dnsmasq.service && systemctl is-enabled dnsmasq.service"})
	if err != nil || bytes.Equal(present, wanted) && running.Code == 0 {
		return err
	}
	if err := f.link.Write(ctx, guest.Root, dnsmasqConf, 0o644, wanted); err != nil {
		return err
	}
	return f.restartDNSMasq(ctx)
}

func (f *fixup) restartDNSMasq(ctx context.Context) error {
	enabled, err := f.link.Try(ctx, guest.Command{Doing: "enable dnsmasq", Line: "sudo -n systemctl enable dnsmasq.service"})
	if err != nil {
		return err
	}
	if enabled.Code != 0 {
		if strings.Contains(enabled.Stderr, "not exist") || strings.Contains(enabled.Stderr, "not found") {
			return step.UserError("the guest has no dnsmasq.service: bundles before 4.14.4 are not supported; take a newer crcVersion")
		}
		return fmt.Errorf("enable dnsmasq: exit code %d in the guest: %.200s", enabled.Code, enabled.Stderr)
	}
	for _, line := range []string{"sudo -n systemctl daemon-reload", "sudo -n systemctl restart dnsmasq.service"} {
		if _, err := f.link.Run(ctx, guest.Command{Doing: "restart dnsmasq", Line: line, Timeout: time.Minute}); err != nil {
			return err
		}
	}
	return nil
}

func dnsmasqConfig(address, host, nodeIP string) []byte {
	host, _, _ = strings.Cut(host, ".")
	return []byte(strings.Join([]string{
		"listen-address=" + address,
		"expand-hosts",
		"log-queries",
		"local=/crc.testing/",
		"domain=crc.testing",
		"address=/apps-crc.testing/" + address,
		"address=/api.crc.testing/" + address,
		"address=/api-int.crc.testing/" + address,
		"address=/" + host + ".crc.testing/" + nodeIP,
	}, "\n") + "\n")
}

var nodeIPSetting = regexp.MustCompile(`KUBELET_NODE_IP=([0-9.]+)`)

// nodeIP reads what the bundle gave the kubelet; it is never rewritten.
func (f *fixup) nodeIP(ctx context.Context) (string, error) {
	conf, err := f.link.Read(ctx, guest.Root, nodeIPConf)
	if errors.Is(err, fs.ErrNotExist) {
		return internalIP, nil
	}
	if match := nodeIPSetting.FindSubmatch(conf); match != nil {
		return string(match[1]), err
	}
	return internalIP, err
}

// checkNames asks the guest's resolver for a name that only dnsmasq knows.
func (f *fixup) checkNames(ctx context.Context) error {
	out, err := f.link.Try(ctx, guest.Command{Doing: "resolve a name", Line: "host -R 3 foo.apps-crc.testing"})
	if err != nil {
		return err
	}
	if out.Code != 0 || !strings.Contains(string(out.Stdout), "has address "+f.address+"\n") {
		return fmt.Errorf("foo.apps-crc.testing does not resolve to %s in the guest: %.200q", f.address, out.Stdout)
	}
	return nil
}
