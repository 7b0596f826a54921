package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Exit statuses of systemctl.
const (
	notActive   = 3
	noSuchUnit  = 4
	notFound    = 5
	rebootDelay = 300 * time.Millisecond
)

// reading verbs need no rights.
var reading = []string{"status", "show", "cat", "is-active", "is-enabled", "is-failed", "is-system-running", "list-units", "list-unit-files"}

func (d *daemon) systemctl(root bool, args []string) reply {
	now := slices.Contains(args, "--now")
	args = slices.DeleteFunc(slices.Clone(args), func(a string) bool { return strings.HasPrefix(a, "-") })
	if len(args) == 0 {
		args = []string{"list-units"}
	}
	verb := args[0]
	if !root && !slices.Contains(reading, verb) {
		return failed(1, "Failed to %s %s: Access denied", verb, strings.Join(args[1:], " "))
	}
	switch verb {
	case "daemon-reload", "reset-failed", "mask", "unmask":
		return reply{}
	case "reboot", "poweroff", "halt":
		return d.goDown(verb)
	case "is-system-running":
		return reply{Stdout: "running\n"}
	case "list-units", "list-unit-files":
		return d.list()
	}
	var all reply
	for _, name := range args[1:] {
		one := d.one(verb, name, now)
		all.Stdout += one.Stdout
		all.Stderr += one.Stderr
		all.Status = max(all.Status, one.Status)
	}
	return all
}

func (d *daemon) goDown(verb string) reply {
	status := 0
	if verb == "reboot" {
		status = rebootStatus
	}
	d.printf("%s", verb)
	time.AfterFunc(rebootDelay, func() { d.end(status) })
	return reply{}
}

func (d *daemon) list() reply {
	var text strings.Builder
	for _, u := range d.units.all {
		fmt.Fprintf(&text, "%-30s loaded %-8s %s\n", u.name, u.state(), u.description)
	}
	return reply{Stdout: text.String()}
}

// one does the verb to one unit.
func (d *daemon) one(verb, name string, now bool) reply {
	u := d.units.find(name)
	if u == nil {
		return missing(verb, name)
	}
	switch verb {
	case "start":
		return d.started(u)
	case "stop":
		d.units.stop(u)
	case "restart", "reload-or-restart", "try-restart":
		d.units.stop(u)
		return d.started(u)
	case "reload":
	case "enable", "disable":
		return d.enable(u, verb == "enable", now)
	case "is-active":
		return stateReply(u.state(), u.state() == "active", notActive)
	case "is-failed":
		return stateReply(u.state(), u.state() == "failed", 1)
	case "is-enabled":
		return stateReply(enablement(u), u.enabled(), 1)
	case "status":
		return d.status(u)
	case "show":
		return reply{Stdout: fmt.Sprintf("Id=%s\nLoadState=loaded\nActiveState=%s\nUnitFileState=%s\n", u.name, u.state(), enablement(u))}
	case "cat":
		text, err := os.ReadFile(filepath.Join(unitDir, u.name))
		if err != nil {
			return failed(1, "No files found for %s.", u.name)
		}
		return reply{Stdout: string(text)}
	default:
		return failed(1, "Unknown command verb %s.", verb)
	}
	return reply{}
}

func (d *daemon) started(u *unit) reply {
	if err := d.units.start(u); err != nil {
		d.printf("start %s: %v", u.name, err)
		return failed(1, "Job for %s failed because the control process exited with error code.\n"+
			"See \"systemctl status %s\" and \"journalctl -xeu %s\" for details.", u.name, u.name, u.name)
	}
	return reply{}
}

// enable keeps the decision where systemd keeps it: a link on the disk.
func (d *daemon) enable(u *unit, on, now bool) reply {
	link := filepath.Join(wantsDir, u.name)
	target := filepath.Join(unitDir, u.name)
	var text string
	var err error
	switch {
	case on && !u.enabled():
		err = errors.Join(os.MkdirAll(wantsDir, 0o755), os.Symlink(target, link))
		text = fmt.Sprintf("Created symlink %s → %s.\n", link, target)
	case !on && u.enabled():
		err = os.Remove(link)
		text = fmt.Sprintf("Removed %q.\n", link)
	}
	if err != nil {
		return failed(1, "Failed to change the unit: %v", err)
	}
	if !now {
		return reply{Stderr: text}
	}
	answer := reply{}
	if on {
		answer = d.started(u)
	} else {
		d.units.stop(u)
	}
	answer.Stderr = text + answer.Stderr
	return answer
}

func (d *daemon) status(u *unit) reply {
	status := 0
	if u.state() != "active" {
		status = notActive
	}
	log, _ := tail(u.log(), 10)
	text := fmt.Sprintf("%s - %s\n     Loaded: loaded (%s/%s; %s)\n     Active: %s\n\n%s",
		u.name, u.description, unitDir, u.name, enablement(u), u.state(), log)
	return reply{Stdout: text, Status: status}
}

func enablement(u *unit) string {
	if u.enabled() {
		return "enabled"
	}
	return "disabled"
}

func stateReply(word string, yes bool, status int) reply {
	if yes {
		return reply{Stdout: word + "\n"}
	}
	return reply{Stdout: word + "\n", Status: status}
}

// missing speaks as systemctl does of a unit that does not exist.
func missing(verb, name string) reply {
	if filepath.Ext(name) == "" {
		name += ".service"
	}
	switch verb {
	case "status", "cat":
		return failed(noSuchUnit, "Unit %s could not be found.", name)
	case "is-active", "is-failed":
		return reply{Stdout: "inactive\n", Status: noSuchUnit}
	case "is-enabled", "enable", "disable":
		return failed(1, "Failed to %s unit: Unit file %s does not exist.", verb, name)
	case "show":
		return reply{Stdout: fmt.Sprintf("Id=%s\nLoadState=not-found\nActiveState=inactive\n", name)}
	}
	return failed(notFound, "Failed to %s %s: Unit %s not found.", verb, name, name)
}
