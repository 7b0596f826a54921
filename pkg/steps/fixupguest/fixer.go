package fixupguest

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/crypto/bcrypt"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"opdev.io/guestcluster/pkg/redact"
	"opdev.io/guestcluster/pkg/steps/guest"
	"opdev.io/guestcluster/pkg/steps/kube"
	"opdev.io/guestcluster/pkg/steps/step"
)

// Fixer is the step.
type Fixer struct {
	Options
	// Locator finds the guest, Secrets keep its pinned host key.
	Locator  guest.Locator
	Secrets  guest.Secrets
	Progress io.Writer
	// Dial is the network to the guest.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Handshake bounds one SSH handshake; zero is the package's own.
	Handshake time.Duration
	Now       func() time.Time
	// Pause lies between two tries of a phase, Poll between two looks at CSRs,
	// Settle between two looks at the operators.
	Pause        wait.Backoff
	Poll, Settle time.Duration
	// HashCost is bcrypt's for passwords.
	HashCost int
	// Limit shortens a phase; nil and zero leave it its own limit.
	Limit func(phase string) time.Duration
}

// Command is the step as a subcommand.
func Command() step.Command {
	return step.Command{
		Name:  "fix-up-guest",
		Short: "make a booted CRC disk a cluster of its own, over SSH",
		New: func(flags *flag.FlagSet, progress io.Writer) step.Runner {
			f := &Fixer{
				Progress: progress, Dial: (&net.Dialer{Timeout: 10 * time.Second}).DialContext, Now: time.Now,
				Pause: wait.Backoff{Duration: time.Second, Factor: 1.5, Jitter: 0.1, Steps: 6, Cap: 5 * time.Second},
				Poll:  5 * time.Second, Settle: 15 * time.Second, HashCost: bcrypt.DefaultCost,
			}
			f.Bind(flags)
			return kube.Connected(f, f.connect)
		},
	}
}

func (f *Fixer) connect(config *rest.Config) (err error) {
	if f.Secrets, err = kube.NewSecrets(config, f.Namespace); err != nil {
		return err
	}
	f.Locator, err = guest.NewVMI(config, f.Namespace, f.Name)
	return err
}

// Run goes through all phases.
func (f *Fixer) Run(ctx context.Context) error {
	if err := f.validate(); err != nil {
		return err
	}
	id, err := readIdentity(f.IdentityDir)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, f.Timeout)
	defer cancel()
	x := f.fixup(id)
	defer x.close()
	for _, p := range phases {
		if err := x.perform(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// fixup is one run of the step on one guest.
type fixup struct {
	*Fixer
	id       *identity
	out      io.Writer
	dialer   *guest.Dialer
	link     *guest.Link
	door     *guest.Door
	address  string // the guest's own
	host     string
	stop     func() // ends the approver
	approved approvals
	alive    int    // how often the bundle's key was found alive after a swap
	said     string // the last trouble of the operators
}

func (f *Fixer) fixup(id *identity) *fixup {
	dialer := &guest.Dialer{
		Locator: f.Locator, Dial: f.Dial, Handshake: f.Handshake, Keys: []guest.Key{id.instanceKey, id.bootKey},
		Pins: &guest.Pins{Secrets: f.Secrets, Secret: f.KubeconfigSecret, Instance: f.Instance},
	}
	link := guest.NewLink(dialer)
	return &fixup{
		Fixer: f, id: id, out: &lines{to: f.Progress}, dialer: dialer, link: link,
		door: guest.NewDoor(link, id.admin), stop: func() {},
	}
}

func (f *fixup) close() {
	f.stop()
	f.door.Forget()
	f.link.Close()
}

// perform repeats a phase until it succeeds, fails for good or its limit is reached.
func (f *fixup) perform(ctx context.Context, p phase) error {
	began, limit := f.Now(), p.limit
	if f.Limit != nil && f.Limit(p.name) > 0 {
		limit = min(limit, f.Limit(p.name))
	}
	fmt.Fprintf(f.out, "%s: begins\n", p.name)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := step.Retry(ctx, f.Pause, f.out, func(ctx context.Context) error { return p.run(f, ctx) })
	took := f.Now().Sub(began).Seconds()
	if err == nil {
		fmt.Fprintf(f.out, "%s: done in %.1f s\n", p.name, took)
		return nil
	}
	fmt.Fprintf(f.out, "%s: failed after %.1f s\n", p.name, took)
	hint := ""
	if step.ExitCode(err) == step.ExitTimeout {
		hint = "; " + p.hint
	}
	return &plain{fmt.Errorf("phase %q: %w%s", p.name, err, hint)}
}

// plain is an error without credentials: guests have a say in its text.
type plain struct{ err error }

func (p *plain) Error() string { return redact.Text(p.err.Error()) }

func (p *plain) Unwrap() error { return p.err }

// lines writes whole lines of several goroutines without credentials.
type lines struct {
	mu sync.Mutex
	to io.Writer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := io.WriteString(l.to, redact.Text(string(p)))
	return len(p), err
}
