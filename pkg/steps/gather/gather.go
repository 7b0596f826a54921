package gather

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"time"

	"k8s.io/client-go/rest"

	"opdev.io/guestcluster/pkg/steps/guest"
	"opdev.io/guestcluster/pkg/steps/kube"
	"opdev.io/guestcluster/pkg/steps/step"
)

const (
	// partTimeout bounds one part, so that a dead guest leaves time for the rest.
	partTimeout = 15 * time.Second
	// writeTimeout is kept back for the ConfigMap.
	writeTimeout = 10 * time.Second
)

// Gatherer is the step.
type Gatherer struct {
	Options
	// Config is a client configuration for the cluster that the VM runs in.
	Config   *rest.Config
	Progress io.Writer
	// Dial is the network to the guest.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Part bounds one part; zero is 15 s.
	Part time.Duration
}

// Command is the step as a subcommand.
func Command() step.Command {
	return step.Command{
		Name:  "gather",
		Short: "keep what can be known of a guest whose run failed",
		New: func(flags *flag.FlagSet, progress io.Writer) step.Runner {
			g := &Gatherer{Progress: progress, Dial: (&net.Dialer{Timeout: 5 * time.Second}).DialContext, Part: partTimeout}
			g.Bind(flags)
			return kube.Connected(g, g.connect)
		},
	}
}

func (g *Gatherer) connect(config *rest.Config) error {
	g.Config = config
	return nil
}

// Run gathers all parts and writes them.
func (g *Gatherer) Run(ctx context.Context) error {
	if err := g.validate(); err != nil {
		return err
	}
	cluster, err := newCluster(g.Config, g.Namespace, g.Name)
	if err != nil {
		return err
	}
	store, err := newStore(g.Config, &g.Options)
	if err != nil {
		return err
	}
	parts, done := append(cluster.parts(), g.guestParts()...), g.link()
	defer done.close()
	for i := range parts {
		parts[i].inside = done
	}
	data := g.collect(ctx, parts)
	// A run that was cancelled in the middle keeps what there is.
	saving, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	if err := store.save(saving, data); err != nil {
		return err
	}
	fmt.Fprintf(g.Progress, "wrote ConfigMap %s/%s\n", g.Namespace, g.ConfigMap)
	return step.WriteResults(step.Result{Path: g.ConfigMapPath, Value: g.ConfigMap})
}

// collect runs the parts one after the other until the time is up.
func (g *Gatherer) collect(ctx context.Context, parts []part) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, max(g.Timeout-writeTimeout, g.Timeout/2))
	defer cancel()
	data, left := map[string]string{}, maxTotal
	for _, p := range parts {
		timed, cancel := context.WithTimeout(ctx, g.Part)
		text, err := p.read(timed)
		cancel()
		if err != nil {
			text += "not gathered: " + err.Error() + "\n"
			fmt.Fprintf(g.Progress, "%s: %s", p.key, clean(text, maxLine, false))
		}
		text = clean(text, min(p.limit, left), p.newest)
		data[p.key], left = text, left-len(text)-len(p.key)
	}
	return data
}

// link is the way into the guest; without keys every part of it says so.
func (g *Gatherer) link() *inside {
	keys, admin, err := readKeys(g.IdentityDir)
	if err != nil {
		return &inside{err: err}
	}
	secrets, err := kube.NewSecrets(g.Config, g.Namespace)
	if err != nil {
		return &inside{err: err}
	}
	locator, err := guest.NewVMI(g.Config, g.Namespace, g.Name)
	if err != nil {
		return &inside{err: err}
	}
	link := guest.NewLink(&guest.Dialer{
		Locator: locator, Dial: g.Dial, Keys: keys, Handshake: g.Part / 2,
		Pins: &guest.Pins{Secrets: secrets, Secret: g.KubeconfigSecret, Instance: g.Instance},
	})
	return &inside{link: link, door: guest.NewDoor(link, admin)}
}
