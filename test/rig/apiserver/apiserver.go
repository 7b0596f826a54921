package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"

	"opdev.io/guestcluster/test/rig/builds"
	"opdev.io/guestcluster/test/rig/child"
	"opdev.io/guestcluster/test/rig/controlplane"
	"opdev.io/guestcluster/test/rig/pki"
)

const (
	attempts     = 3
	readyTimeout = 2 * time.Minute
)

// Options is what a test may ask for.
type Options struct {
	// ControllerManager adds garbage collection, namespace deletion and tokens.
	ControllerManager bool
	// Dir keeps files and logs; empty is a new temporary directory.
	Dir string
	// Log tells about slow work such as a first compile; nil is silent.
	Log func(format string, args ...any)
}

// Server is a running control plane.
type Server struct {
	// Config is the administrator's (group system:masters).
	Config *rest.Config
	// Kubeconfig is a file with the same rights, for kubectl.
	Kubeconfig string
	// Dir holds the state and the logs.
	Dir string

	ids       controlplane.Identities
	processes []*child.Process
	temporary bool
}

// Start runs a control plane and returns when it answers. The programs come
// from the rig's cache; the first call ever compiles them.
func Start(ctx context.Context, options Options) (*Server, error) {
	kube, etcd, err := programs(ctx, options)
	if err != nil {
		return nil, err
	}
	var failures []error
	for range attempts {
		server, err := start(ctx, options, kube, etcd)
		if err == nil {
			return server, nil
		}
		failures = append(failures, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, fmt.Errorf("start an API server: %w", errors.Join(failures...))
}

// ConfigFor returns a client configuration of a user in groups. It has only
// the rights that RBAC objects of the test give.
func (s *Server) ConfigFor(user string, groups ...string) (*rest.Config, error) {
	cert, key, err := s.ids.Issue(pki.Subject{User: user, Groups: groups})
	if err != nil {
		return nil, fmt.Errorf("make a client certificate for %s: %w", user, err)
	}
	config := rest.AnonymousClientConfig(s.Config)
	config.CertData, config.KeyData = cert, key
	config.QPS, config.Burst = s.Config.QPS, s.Config.Burst
	return config, nil
}

// Stop ends the processes and removes a temporary directory.
func (s *Server) Stop() error {
	for i := len(s.processes) - 1; i >= 0; i-- {
		s.processes[i].Kill()
	}
	if !s.temporary {
		return nil
	}
	return os.RemoveAll(s.Dir)
}

func programs(ctx context.Context, options Options) (kube, etcd string, err error) {
	builder, err := builds.New()
	if err != nil {
		return "", "", err
	}
	builder.Log = options.Log
	etcd, err = builder.Ensure(ctx, builds.Etcd)
	if err != nil {
		return "", "", err
	}
	kube, err = builder.Ensure(ctx, builds.Kube)
	return kube, etcd, err
}

func start(ctx context.Context, options Options, kube, etcd string) (_ *Server, err error) {
	server := &Server{Dir: options.Dir, temporary: options.Dir == ""}
	if server.temporary {
		if server.Dir, err = os.MkdirTemp("", "rig-apiserver-"); err != nil {
			return nil, fmt.Errorf("make a state directory: %w", err)
		}
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, server.Stop())
		}
	}()
	ports, err := child.FreePorts(3)
	if err != nil {
		return nil, err
	}
	plan := controlplane.Plan{Dir: server.Dir, Address: "127.0.0.1", API: ports[0], Etcd: ports[1], EtcdPeer: ports[2]}
	if err := server.identify(plan); err != nil {
		return nil, err
	}
	if err := server.run(filepath.Join(etcd, "etcd"), plan.EtcdArgs()); err != nil {
		return nil, err
	}
	if err := server.run(filepath.Join(kube, "kube"), plan.APIServerArgs()); err != nil {
		return nil, err
	}
	if err := server.waitReady(ctx); err != nil {
		return nil, err
	}
	if !options.ControllerManager {
		return server, nil
	}
	return server, server.runControllerManager(kube, plan)
}

func (s *Server) identify(plan controlplane.Plan) (err error) {
	s.ids, err = controlplane.EnsureIdentities(plan.IdentityDir(), "none", net.ParseIP(plan.Address))
	if err != nil {
		return err
	}
	s.Kubeconfig = filepath.Join(s.Dir, "kubeconfig")
	if err := s.ids.WriteKubeconfig(s.Kubeconfig, "admin", plan.URL()); err != nil {
		return err
	}
	s.Config = &rest.Config{
		Host:  plan.URL(),
		QPS:   200,
		Burst: 400,
		TLSClientConfig: rest.TLSClientConfig{
			CAFile:   s.ids.CertFile(),
			CertFile: s.ids.File("admin.crt"),
			KeyFile:  s.ids.File("admin.key"),
		},
	}
	if err := rest.LoadTLSFiles(s.Config); err != nil {
		return fmt.Errorf("read the administrator's certificate: %w", err)
	}
	return nil
}

func (s *Server) runControllerManager(kube string, plan controlplane.Plan) error {
	file := filepath.Join(s.Dir, "controllers.kubeconfig")
	if err := s.ids.WriteKubeconfig(file, "controllers", plan.URL()); err != nil {
		return err
	}
	args := append(plan.ControllerManagerArgs(file), "--secure-port=0")
	return s.run(filepath.Join(kube, "kube"), args)
}
