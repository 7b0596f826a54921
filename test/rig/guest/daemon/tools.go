package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"opdev.io/guestcluster/test/rig/guest/faults"
)

const (
	lookupTimeout = 5 * time.Second
	journalLines  = 10000
)

// blkid finds the xfs file systems among the disk's partitions.
func blkid(args []string) int {
	want := ""
	for i, arg := range args {
		if arg == "-t" && i+1 < len(args) {
			_, want, _ = strings.Cut(args[i+1], "=")
		}
	}
	set, _ := faults.Read("/etc/rig/faults", "/run/rig/faults")
	devices := []string{"/dev/vda4"}
	if set.Has(faults.TwoXFS) {
		devices = append(devices, "/dev/vdb1")
	}
	if want != "" && want != "xfs" {
		return 2
	}
	for _, device := range devices {
		if slices.Contains(args, "device") {
			fmt.Println(device)
			continue
		}
		fmt.Printf("%s: LABEL=\"root\" TYPE=\"xfs\" PARTLABEL=\"root\"\n", device)
	}
	return 0
}

// lookUp is host: addresses of a name, by resolv.conf only.
func lookUp(args []string) int {
	name := ""
	for i := 0; i < len(args); i++ {
		if slices.Contains([]string{"-R", "-W", "-t", "-N"}, args[i]) {
			i++
		} else if !strings.HasPrefix(args[i], "-") && name == "" {
			name = args[i]
		}
	}
	if name == "" {
		fmt.Fprintln(os.Stderr, "Usage: host name")
		return 1
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
	defer cancel()
	addresses, err := (&net.Resolver{PreferGo: true}).LookupIP(ctx, "ip4", name)
	if err != nil {
		var failure *net.DNSError
		if errors.As(err, &failure) && failure.IsNotFound {
			fmt.Printf("Host %s not found: 3(NXDOMAIN)\n", name)
			return 1
		}
		fmt.Println(";; connection timed out; no servers could be reached")
		return 1
	}
	for _, address := range addresses {
		fmt.Printf("%s has address %s\n", name, address)
	}
	return 0
}

// journal prints the end of the logs of units, and of static pods by name.
func journal(args []string) int {
	lines := journalLines
	var names []string
	for i := 0; i < len(args); i++ {
		value := func() string {
			if i+1 < len(args) {
				i++
				return args[i]
			}
			return ""
		}
		switch arg := args[i]; {
		case arg == "-n" || arg == "--lines":
			lines, _ = strconv.Atoi(value())
		case arg == "-u" || arg == "--unit":
			names = append(names, value())
		case strings.HasPrefix(arg, "-n"):
			lines, _ = strconv.Atoi(arg[2:])
		case strings.HasPrefix(arg, "--unit="):
			names = append(names, strings.TrimPrefix(arg, "--unit="))
		case strings.HasPrefix(arg, "--lines="):
			lines, _ = strconv.Atoi(strings.TrimPrefix(arg, "--lines="))
		}
	}
	if len(names) == 0 {
		files, _ := filepath.Glob("/var/log/units/*.log")
		for _, file := range files {
			names = append(names, strings.TrimSuffix(filepath.Base(file), ".log"))
		}
	}
	for _, name := range names {
		if filepath.Ext(name) == "" {
			name += ".service"
		}
		text, err := tail("/var/log/units/"+name+".log", lines)
		if err != nil || text == "" {
			text = "-- No entries --\n"
		}
		fmt.Print(text)
	}
	return 0
}

// tail returns the last lines of a file.
func tail(file string, lines int) (string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	all := bytes.SplitAfter(data, []byte("\n"))
	return string(bytes.Join(all[max(0, len(all)-1-lines):], nil)), nil
}
