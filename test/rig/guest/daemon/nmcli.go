package daemon

import (
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	persistentDir = "/etc/NetworkManager/system-connections"
	temporaryDir  = "/run/NetworkManager/system-connections"

	noConnection = 10
	badUsage     = 2
)

// nmcli understands connection show, modify, up, reload and device status.
func (m *manager) nmcli(args []string) reply {
	m.mu.Lock()
	defer m.mu.Unlock()
	flags, rest := options(args)
	if len(rest) == 0 {
		return reply{Stdout: nic + ": connected to " + m.active() + "\n"}
	}
	switch {
	case strings.HasPrefix("device", rest[0]):
		return reply{Stdout: fmt.Sprintf("DEVICE  TYPE      STATE      CONNECTION\n%s  ethernet  connected  %s\n", nic, m.active())}
	case !strings.HasPrefix("connection", rest[0]):
		return failed(badUsage, "Error: argument '%s' not understood.", rest[0])
	case len(rest) == 1 || strings.HasPrefix("show", rest[1]):
		return m.show(flags, rest[min(2, len(rest)):])
	case strings.HasPrefix("modify", rest[1]):
		return m.modify(flags["temporary"] != "", rest[2:])
	case strings.HasPrefix("reload", rest[1]):
		return reply{}
	case rest[1] == "up":
		if len(rest) < 3 || !m.known(rest[len(rest)-1]) {
			return failed(noConnection, "Error: unknown connection '%s'.", rest[len(rest)-1])
		}
		if err := m.writeResolvConf(); err != nil {
			return failed(1, "Error: %v", err)
		}
		return reply{Stdout: "Connection successfully activated\n"}
	}
	return failed(badUsage, "Error: argument '%s' not understood.", rest[1])
}

// options takes flags out, wherever they stand.
func options(args []string) (flags map[string]string, rest []string) {
	flags = map[string]string{}
	for i := 0; i < len(args); i++ {
		name := strings.TrimLeft(args[i], "-")
		switch {
		case args[i] == name:
			rest = append(rest, args[i])
		case slices.Contains([]string{"f", "fields", "g", "get-values", "w", "wait", "m", "mode"}, name) && i+1 < len(args):
			flags[name[:1]] = args[i+1]
			i++
		default:
			flags[name] = "yes"
		}
	}
	return flags, rest
}

func (m *manager) connections() []string {
	if m.ovs {
		return []string{ovsBridge, "ovs-if-phys0", "br-ex", "ovs-port-phys0", wired}
	}
	return []string{wired}
}

func (m *manager) known(name string) bool { return slices.Contains(m.connections(), name) }

func (m *manager) show(flags map[string]string, names []string) reply {
	if len(names) == 0 {
		shown := m.connections()
		if flags["active"] != "" && m.ovs {
			shown = shown[:len(shown)-1]
		}
		return reply{Stdout: strings.Join(shown, "\n") + "\n"}
	}
	name := names[len(names)-1]
	if !m.known(name) {
		return failed(noConnection, "Error: %s - no such connection profile.", name)
	}
	settings := readConnection(name)
	settings["connection.id"] = name
	if wanted := flags["g"]; wanted != "" {
		return reply{Stdout: settings[wanted] + "\n"}
	}
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&text, "%-40s%s\n", key+":", settings[key])
	}
	return reply{Stdout: text.String()}
}

func (m *manager) modify(temporary bool, args []string) reply {
	if len(args) > 0 && args[0] == "id" {
		args = args[1:]
	}
	if len(args) == 0 || len(args)%2 == 0 {
		return failed(badUsage, "Error: value for '%s' is missing.", strings.Join(args, " "))
	}
	name := args[0]
	if !m.known(name) {
		return failed(noConnection, "Error: unknown connection '%s'.", name)
	}
	settings := readConnection(name)
	for i := 1; i < len(args); i += 2 {
		key := strings.TrimPrefix(args[i], "+")
		if key != args[i] && settings[key] != "" {
			settings[key] += "," + args[i+1]
			continue
		}
		settings[key] = args[i+1]
	}
	for _, key := range []string{"ipv4.dns", "ipv6.dns"} {
		for _, server := range words(settings[key]) {
			if a, err := netip.ParseAddr(server); err != nil || a.Is4() != (key == "ipv4.dns") {
				return failed(badUsage, "Error: failed to modify %s: invalid IP address: Invalid address '%s'.", key, server)
			}
		}
	}
	if err := writeConnection(name, settings, temporary); err != nil {
		return failed(1, "Error: Failed to modify connection '%s': %v", name, err)
	}
	return reply{}
}

// readConnection prefers what was changed only until the next boot.
func readConnection(name string) map[string]string {
	settings := map[string]string{}
	for _, dir := range []string{temporaryDir, persistentDir} {
		data, err := os.ReadFile(filepath.Join(dir, name+".nmconnection"))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(data)) {
			if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
				settings[key] = value
			}
		}
		return settings
	}
	return settings
}

func writeConnection(name string, settings map[string]string, temporary bool) error {
	dir := persistentDir
	if temporary {
		dir = temporaryDir
	} else if err := os.RemoveAll(filepath.Join(temporaryDir, name+".nmconnection")); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&text, "%s=%s\n", key, settings[key])
	}
	return os.WriteFile(filepath.Join(dir, name+".nmconnection"), []byte(text.String()), 0o600)
}
