package server

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	tekton "github.com/tektoncd/pipeline/pkg/client/clientset/versioned"

	versioned "opdev.io/guestcluster/pkg/client/clientset/versioned"
	"opdev.io/guestcluster/test/rig/apiserver"
)

// Options is what a package's tests need.
type Options struct {
	// Tekton installs Tekton's CRDs.
	Tekton bool
	// ControllerManager adds garbage collection and namespace deletion.
	ControllerManager bool
	// Prepare runs before the tests.
	Prepare func(ctx context.Context, s *Server) error
}

// Server is the package's API server with an administrator's clients.
type Server struct {
	*apiserver.Server
	Kube    kubernetes.Interface
	Guest   versioned.Interface
	Tekton  tekton.Interface
	Dynamic dynamic.Interface

	names atomic.Int64
}

// Runner is a testing.M, or what wraps one.
type Runner interface{ Run() int }

// Main runs a package's tests on a new server; call it from TestMain. With
// -short nothing starts and every test that asks for the server is skipped.
func Main(m Runner, options Options, into **Server) {
	flag.Parse()
	os.Exit(run(m, options, into))
}

func run(m Runner, options Options, into **Server) int {
	if testing.Short() {
		fmt.Println("skipped: needs etcd and kube-apiserver")
		return 0
	}
	s, err := start(context.Background(), options)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	*into = s
	if options.Prepare != nil {
		if err := options.Prepare(context.Background(), s); err != nil {
			fmt.Fprintln(os.Stderr, errors.Join(err, s.Stop()))
			return 1
		}
	}
	code := m.Run()
	if err := s.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func start(ctx context.Context, options Options) (*Server, error) {
	log := func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
	control, err := apiserver.Start(ctx, apiserver.Options{ControllerManager: options.ControllerManager, Log: log})
	if err != nil {
		return nil, err
	}
	config := Fast(control.Config)
	s := &Server{
		Server:  control,
		Kube:    kubernetes.NewForConfigOrDie(config),
		Guest:   versioned.NewForConfigOrDie(config),
		Tekton:  tekton.NewForConfigOrDie(config),
		Dynamic: dynamic.NewForConfigOrDie(config),
	}
	if err := s.installCRDs(ctx, options.Tekton); err != nil {
		return nil, fmt.Errorf("install CRDs: %w; logs in %s", err, s.Dir)
	}
	return s, nil
}

// Fast is a copy of a configuration without client-side rate limits: they
// would make tests wait for nothing.
func Fast(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = -1, 0
	config.WarningHandler = rest.NoWarnings{}
	return config
}

// Name returns a name that no other test of the package has.
func (s *Server) Name(prefix string) string {
	return fmt.Sprintf("%s-%d", prefix, s.names.Add(1))
}

// Namespace makes a namespace named after the test.
func (s *Server) Namespace(t testing.TB, labels map[string]string) string {
	t.Helper()
	base := strings.ToLower(t.Name())
	base = strings.Map(func(r rune) rune {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') {
			return '-'
		}
		return r
	}, base)
	base = strings.Trim(base[:min(len(base), 40)], "-")
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Name(base), Labels: labels}}
	if _, err := s.Kube.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatalf("create namespace: %v", err)
	}
	return namespace.Name
}
