package fakeguest

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

const (
	authorizedKeys = "/home/core/.ssh/authorized_keys"
	ignitionKeys   = "/home/core/.ssh/authorized_keys.d/ignition"
	resolvConf     = "/etc/resolv.conf"
)

// call is a command that a pattern matched.
type call struct {
	match   []string
	stdin   []byte
	account string
}

type command struct {
	pattern *regexp.Regexp
	run     func(*Guest, call) (stdout, stderr string, code int)
}

func does(pattern string, run func(*Guest, call) (string, string, int)) command {
	return command{regexp.MustCompile(`^(?:` + pattern + `)$`), run}
}

// says answers with a text.
func says(text string) func(*Guest, call) (string, string, int) {
	return func(*Guest, call) (string, string, int) { return text, "", 0 }
}

var commands = []command{
	does(`exit 0|passwd --lock core|mount -o remount,rw /sysroot|xfs_growfs /sysroot|mkdir -p /etc/NetworkManager/conf.d`, says("")),
	does(`hostname`, says("crc\n")),
	does(`ip -4 route get 1.1.1.1`, says("1.1.1.1 via 10.0.2.1 dev enp1s0 src "+Address+" uid 1000\n    cache\n")),
	does(`sh -c 'test -e .*cat "\$1"' read (\S+)`, (*Guest).read),
	does(`sh -c 'test -e .*sed -n .*' certificates (\S+)`, (*Guest).read),
	does(`sh -c 'umask 077 .*' write (\S+) (\S+) (\d+) (\d+)`, (*Guest).write),
	does(`tee (\S+) >/dev/null`, (*Guest).tee),
	does(`rm -f (\S+)`, func(g *Guest, c call) (string, string, int) { delete(g.Files, c.match[1]); return "", "", 0 }),
	does(`test -d /etc/sysconfig && .*`, says("")),
	does(`/usr/sbin/blkid -t TYPE=xfs -o device`, (*Guest).blkid),
	does(`/usr/bin/growpart /dev/vda 4`, (*Guest).growpart),
	does(`systemctl status --no-pager ovs-configuration.service`, (*Guest).ovs),
	does(`systemctl (is-active|is-enabled) (\S+?)(?:\.service)?`, (*Guest).unitState),
	does(`systemctl is-active dnsmasq.service && systemctl is-enabled dnsmasq.service`, func(g *Guest, _ call) (string, string, int) {
		if g.units["dnsmasq"] == "enabled active" {
			return "active\nenabled\n", "", 0
		}
		return "inactive\n", "", 3
	}),
	does(`systemctl (start|restart|enable|reload) (\S+?)(?:\.service)?`, (*Guest).unit),
	does(`systemctl daemon-reload`, says("")),
	does(`nmcli con modify --temporary ovs-if-br-ex (ipv4).dns (\S+) ipv4.dns-search crc.testing`, (*Guest).nmcli),
	does(`nmcli con modify --temporary ovs-if-br-ex (ipv6).dns (\S+)`, (*Guest).nmcli),
	does(`host -R 3 (\S+)`, (*Guest).host),
	does(`journalctl .*|.*systemctl .*list-units.*`, says("kubelet: token=Q2FuYXJ5VG9rZW4\nsshd: Accepted publickey for core\n")),
}

func (g *Guest) read(c call) (string, string, int) {
	file, ok := g.Files[c.match[1]]
	if !ok {
		return "", "", 44
	}
	if file.Owner == "root" && c.account != "root" && file.Mode == "0600" {
		return "", "cat: Permission denied\n", 1
	}
	return string(file.Content), "", 0
}

func (g *Guest) write(c call) (string, string, int) {
	if size, _ := strconv.Atoi(c.match[4]); size != len(c.stdin) {
		return "", "", 1
	}
	g.Files[c.match[1]] = File{c.stdin, c.match[3], c.account}
	return "", "", 0
}

func (g *Guest) tee(c call) (string, string, int) {
	g.Files[c.match[1]] = File{c.stdin, "0644", c.account}
	return "", "", 0
}

func (g *Guest) blkid(call) (string, string, int) {
	if g.TwoXFS {
		return "/dev/vda4\n/dev/vdb1\n", "", 0
	}
	return "/dev/vda4\n", "", 0
}

func (g *Guest) growpart(call) (string, string, int) {
	if g.state.grown {
		return "NOCHANGE: partition 4 is size 64. it cannot be grown\n", "", 1
	}
	g.state.grown = true
	return "CHANGED: partition=4\n", "", 0
}

func (g *Guest) ovs(call) (string, string, int) {
	if g.NoOVS {
		return "", "Unit ovs-configuration.service could not be found.\n", 4
	}
	return "ovs-configuration.service\n", "", 3
}

func (g *Guest) unitState(c call) (string, string, int) {
	word := strings.TrimPrefix(c.match[1], "is-")
	if strings.Contains(g.units[c.match[2]], word) {
		return word + "\n", "", 0
	}
	return map[string]string{"active": "inactive\n", "enabled": "disabled\n"}[word], "", 1
}

func (g *Guest) unit(c call) (string, string, int) {
	word := map[string]string{"start": "active", "restart": "active", "enable": "enabled", "reload": ""}[c.match[1]]
	if !strings.Contains(g.units[c.match[2]], word) {
		g.units[c.match[2]] = strings.TrimSpace(g.units[c.match[2]] + " " + word)
	}
	if c.match[2] == "NetworkManager" && c.match[1] == "restart" {
		g.manage()
	}
	return "", "", 0
}

func (g *Guest) nmcli(c call) (string, string, int) {
	if g.NoOVS || !strings.Contains(g.units["ovs-configuration"], "active") {
		return "", "Error: unknown connection 'ovs-if-br-ex'.\n", 10
	}
	servers := strings.Split(c.match[2], ",")
	for _, server := range servers {
		if six := strings.Contains(server, ":"); six != (c.match[1] == "ipv6") || six && g.NoIPv6 {
			return "", "Error: failed to modify " + c.match[1] + ".dns: invalid address '" + server + "'.\n", 2
		}
	}
	if c.match[1] == "ipv4" {
		g.con = nil
	}
	g.con = append(g.con, servers...)
	return "", "", 0
}

var globalServers = regexp.MustCompile(`(?m)^servers=(.*)$`)

// manage writes resolv.conf as NetworkManager does when it starts.
func (g *Guest) manage() {
	servers := append(append([]string{}, g.con...), Upstream)
	if match := globalServers.FindStringSubmatch(string(g.Files["/etc/NetworkManager/conf.d/99-guestcluster.conf"].Content)); match != nil {
		servers = strings.Split(match[1], ",")
	}
	text, seen := "# Generated by NetworkManager\nsearch crc.testing\n", map[string]bool{}
	for _, server := range servers {
		if !seen[server] {
			text += "nameserver " + server + "\n"
		}
		seen[server] = true
	}
	g.Files[resolvConf] = File{Content: []byte(text), Mode: "0644", Owner: "root"}
}

// RestartNetworkManager is what an operator of the guest may do at any time.
func (g *Guest) RestartNetworkManager() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.manage()
}

func (g *Guest) host(c call) (string, string, int) {
	asks := regexp.MustCompile(`nameserver (\S+)`).FindStringSubmatch(string(g.Files[resolvConf].Content))
	conf := string(g.Files["/etc/dnsmasq.d/crc-dnsmasq.conf"].Content)
	if asks == nil || asks[1] != Address || !strings.Contains(g.units["dnsmasq"], "active") || !strings.Contains(conf, "address=/apps-crc.testing/"+Address+"\n") {
		return "Host " + c.match[1] + " not found: 3(NXDOMAIN)\n", "", 1
	}
	return fmt.Sprintf("%s has address %s\n", c.match[1], Address), "", 0
}
