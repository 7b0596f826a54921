package main

import (
	"context"
	"flag"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	core "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"opdev.io/guestcluster/pkg/steps/kube"
	"opdev.io/guestcluster/pkg/steps/step"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := command().Main(ctx, os.Args[1:], os.Stderr)
	stop()
	os.Exit(code)
}

func command() step.Command {
	return step.Command{
		Name:  "boot-kubernetes",
		Short: "boot a Kubernetes control plane in one pod",
		New: func(flags *flag.FlagSet, progress io.Writer) step.Runner {
			// A steady pace: the guest is up within seconds and has no load to spare.
			b := &booter{progress: progress, pause: wait.Backoff{Duration: time.Second}}
			b.bind(flags)
			return kube.Connected(b, b.connect)
		},
	}
}

func (b *booter) connect(config *rest.Config) error {
	client, err := core.NewForConfig(config)
	if err != nil {
		return step.InfraError("make a client: %w", err)
	}
	b.pods, b.configMaps = client.Pods(b.namespace), client.ConfigMaps(b.namespace)
	return nil
}
