package faults

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Names of faults. Those with a value are written NAME=VALUE.
const (
	SSHRefuse      = "ssh-refuse"       // nothing listens on port 22
	SSHHang        = "ssh-hang"         // port 22 accepts and stays silent
	SSHDrop        = "ssh-drop"         // cuts each session after its first command; =SECONDS after boot, default 30
	SSHNewHostKey  = "ssh-new-host-key" // new host keys at every boot but the first
	SSHOtherKey    = "ssh-other-key"    // the bundle's key is not authorized
	SudoDenied     = "sudo-denied"      // core may not use sudo
	NoOVS          = "no-ovs"           // ovs-configuration.service does not exist
	TwoXFS         = "two-xfs"          // blkid shows a second xfs file system
	KubeletFails   = "kubelet-fails"    // systemctl start kubelet fails
	APINever       = "api-never"        // the API server never starts
	CSRNever       = "csr-never"        // the kubelet asks for no certificate
	CSRForeign     = "csr-foreign"      // strangers ask for certificates too
	OperatorsNever = "operators-never"  // operator authentication stays degraded
	MCONever       = "mco-never"        // config.json and the core keys are never written
	Certs          = "certs"            // =valid, near or expired: set at the first boot
	Version        = "version"          // =4.20.5: the version that the cluster reports
	Slow           = "slow"             // =N: every delay N times longer
)

var all = []string{
	SSHRefuse, SSHHang, SSHDrop, SSHNewHostKey, SSHOtherKey, SudoDenied, NoOVS, TwoXFS, KubeletFails, APINever, CSRNever,
	CSRForeign, OperatorsNever, MCONever, Certs, Version, Slow,
}

// Set is what a guest was told, by name.
type Set map[string]string

// Parse refuses unknown names: a misspelt fault would make a test pass.
func Parse(words []string) (Set, error) {
	set := Set{}
	for _, word := range words {
		name, value, _ := strings.Cut(strings.TrimSpace(word), "=")
		if name == "" {
			continue
		}
		if !slices.Contains(all, name) {
			return nil, fmt.Errorf("fault %q is unknown: choose from %s", name, strings.Join(all, ", "))
		}
		set[name] = value
	}
	return set, nil
}

// Read joins the files that exist; later ones win.
func Read(files ...string) (Set, error) {
	var words []string
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil && !os.IsNotExist(err) {
			return nil, fmt.Errorf("read faults: %w", err)
		}
		for line := range strings.Lines(string(data)) {
			if !strings.HasPrefix(line, "#") {
				words = append(words, strings.FieldsFunc(line, func(r rune) bool { return r == '\n' || r == ',' || r == ' ' })...)
			}
		}
	}
	return Parse(words)
}

// Has tells whether the fault is set.
func (s Set) Has(name string) bool {
	_, ok := s[name]
	return ok
}

// Number is the value of a fault, or the default.
func (s Set) Number(name string, otherwise int) int {
	if n, err := strconv.Atoi(s[name]); err == nil && n > 0 {
		return n
	}
	return otherwise
}

// Delay is d, longer on a slow guest.
func (s Set) Delay(d time.Duration) time.Duration {
	return d * time.Duration(s.Number(Slow, 1))
}
