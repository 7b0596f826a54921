package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"opdev.io/guestcluster/test/rig/confine"
	"opdev.io/guestcluster/test/rig/images"
	"opdev.io/guestcluster/test/rig/standins"
	"opdev.io/guestcluster/test/rig/standins/kubevirt"
	"opdev.io/guestcluster/test/rig/standins/volumes"
)

const usage = `usage: rig COMMAND

  up                          build what is missing, start what does not run
  down [--keep-state]         stop everything; remove the state unless kept
  status                      show what runs, and the names to use
  exec -- COMMAND...          run a command inside the rig
  build                       build the third-party programs only
  bundle VERSION...           make further CRC bundles and put them on the mirror
  controlplane up|down --dir D  an API server alone, on loopback`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "rig:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	switch command, rest := args[0], args[1:]; command {
	case "init":
		return confine.State(rest[0]).Init(apiAddress)
	case "serve-registry":
		return serveRegistry(ctx, rest[0])
	case "serve-standins":
		return serveStandins(ctx, confine.State(rest[0]))
	case "serve-mirror":
		return serveMirror(ctx, confine.State(rest[0]))
	case "controlplane":
		return controlPlaneAlone(ctx, rest)
	default:
		return runOnRig(ctx, command, rest)
	}
}

func runOnRig(ctx context.Context, command string, args []string) error {
	r, err := newRig()
	if err != nil {
		return err
	}
	switch command {
	case "up":
		return r.up(ctx)
	case "build":
		return r.startBuilds(ctx, nil).wait(ctx)
	case "bundle":
		return r.bundles(ctx, args)
	case "status":
		return r.status(ctx)
	case "down":
		flags := flag.NewFlagSet("down", flag.ContinueOnError)
		keep := flags.Bool("keep-state", false, "keep etcd, images and volumes for the next up")
		if err := flags.Parse(args); err != nil {
			return err
		}
		return r.down(*keep)
	case "exec":
		if i := slices.Index(args, "--"); i >= 0 {
			args = args[i+1:]
		}
		if len(args) == 0 {
			return errors.New("exec needs a command: rig exec -- kubectl get nodes")
		}
		return r.exec(args)
	}
	return fmt.Errorf("unknown command %q\n%s", command, usage)
}

func serveStandins(ctx context.Context, state confine.State) error {
	return standins.Run(ctx, standins.Options{
		Kubeconfig: state.Path("kubeconfig-inside"), Identities: state.Path("pki"),
		Volumes: volumes.Place{Dir: state.Path("volumes"), Node: confine.NodeName},
		Images:  kubevirt.Images{Launcher: launcherImage, Pause: pauseImage},
		Domain:  ingressDomain, Listen: confine.NodeIP + ":443", Admission: admissionAddress,
	})
}

func serveRegistry(ctx context.Context, dir string) error {
	handler, err := images.NewRegistry(dir)
	if err != nil {
		return err
	}
	server := &http.Server{Addr: registryAddress, Handler: handler}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	return server.ListenAndServe()
}
