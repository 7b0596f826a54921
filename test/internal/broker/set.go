package broker

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	tekton "github.com/tektoncd/pipeline/pkg/client/clientset/versioned"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"knative.dev/pkg/configmap"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/injection"
	"knative.dev/pkg/logging"

	"opdev.io/guestcluster/pkg/client/clientset/versioned/scheme"
	"opdev.io/guestcluster/pkg/reconciler/access"
	"opdev.io/guestcluster/pkg/reconciler/binding"
	"opdev.io/guestcluster/pkg/reconciler/bundle"
	"opdev.io/guestcluster/pkg/reconciler/catalog"
	"opdev.io/guestcluster/pkg/reconciler/clocks"
	"opdev.io/guestcluster/pkg/reconciler/customrun"
	"opdev.io/guestcluster/pkg/reconciler/holder"
	"opdev.io/guestcluster/pkg/reconciler/instance"
	"opdev.io/guestcluster/pkg/reconciler/lease"
	"opdev.io/guestcluster/pkg/reconciler/metrics"
	"opdev.io/guestcluster/pkg/reconciler/pool"
	"opdev.io/guestcluster/pkg/reconciler/sweep"
	"opdev.io/guestcluster/test/internal/server"
)

// Domain is the ingress domain of all guests.
const Domain = "apps.test"

// SetOptions is how a Set differs from the product.
type SetOptions struct {
	// Namespace is the only one the set sees; empty is all of them.
	Namespace string
	// Wrap changes the transport of every request of the set.
	Wrap func(http.RoundTripper) http.RoundTripper
	// Guests answer probes; nil means that nobody does.
	Guests *Guests
	// Clock that all reconcilers decide by; nil is the real one.
	Clock clock.Clock
	// LookForKinds is how often kinds that are not served are looked for; zero is the product's pause.
	LookForKinds time.Duration
	// SweepDryRun makes the sweep only report.
	SweepDryRun bool
	// Controllers of the set; nil is all that work in Namespace.
	Controllers []injection.ControllerConstructor
}

// Bundles are the controllers that work in namespace guestcluster-bundles.
func Bundles() []injection.ControllerConstructor {
	return []injection.ControllerConstructor{bundle.NewController, bundle.NewPersonsRunsController}
}

func (o SetOptions) controllers() []injection.ControllerConstructor {
	all := []injection.ControllerConstructor{pool.NewController, instance.NewController, lease.NewController, binding.NewController, customrun.NewController}
	switch {
	case o.Controllers != nil:
		return o.Controllers
	case o.Namespace == "":
		return append(append(all, Bundles()...), sweep.NewController)
	}
	return all
}

// Set is one running process of the controller, without leader election.
type Set struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// StartSet starts all controllers and returns when their caches are filled. It
// stops with the test.
func StartSet(t testing.TB, config *rest.Config, o SetOptions) *Set {
	t.Helper()
	set, err := startSet(t, config, o)
	if err != nil {
		t.Fatalf("start controllers: %v", err)
	}
	return set
}

func startSet(t testing.TB, config *rest.Config, o SetOptions) (*Set, error) {
	config = server.Fast(config)
	config.ContentType = runtime.ContentTypeJSON // so that transports of tests can read it
	if o.Wrap != nil {
		config.Wrap(o.Wrap)
	}
	ctx, cancel := context.WithCancel(context.Background())
	set := &Set{cancel: cancel, done: make(chan struct{})}
	t.Cleanup(set.Stop)
	ctx = logging.WithLogger(ctx, newLog(t))
	if o.Namespace != "" {
		ctx = injection.WithNamespaceScope(ctx, o.Namespace)
	}
	shelf := catalog.New(ctx, tekton.NewForConfigOrDie(config))
	if err := shelf.Start(ctx.Done()); err != nil {
		close(set.done)
		return nil, err
	}
	ctx = catalog.WithCatalog(ctx, shelf)
	ctx = access.WithChecker(ctx, access.New(kubernetes.NewForConfigOrDie(config).AuthorizationV1().SelfSubjectAccessReviews(), clock.RealClock{}))
	guests := instance.Config{IngressDomain: Domain, LookForKinds: o.LookForKinds}
	if o.Guests != nil {
		guests.Dial = o.Guests.Dial
	}
	ctx = sweep.WithDryRun(ctx, o.SweepDryRun)
	ctx = instance.WithConfig(clocks.With(ctx, o.Clock), guests)
	ctx = controller.WithEventRecorder(ctx, newRecorder(ctx, config))
	return set, set.run(ctx, config, o.controllers())
}

func (s *Set) run(ctx context.Context, config *rest.Config, constructors []injection.ControllerConstructor) error {
	ctx, informers := injection.Default.SetupInformers(injection.WithConfig(ctx, config), config)
	if err := errors.Join(holder.TrimInformer(ctx), metrics.Observe(ctx)); err != nil {
		close(s.done)
		return err
	}
	var all []*controller.Impl
	for _, constructor := range constructors {
		all = append(all, constructor(ctx, configmap.NewStaticWatcher()))
	}
	if err := controller.StartInformers(ctx.Done(), informers...); err != nil {
		close(s.done)
		return err
	}
	go func() {
		defer close(s.done)
		_ = controller.StartAll(ctx, all...)
	}()
	return nil
}

// newRecorder replaces the one that every reconciler would make: knative stops
// its watches without ending the goroutines behind them, which then spin.
func newRecorder(ctx context.Context, config *rest.Config) record.EventRecorder {
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: kubernetes.NewForConfigOrDie(config).CoreV1().Events("")})
	return broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "guestcluster"})
}

// Stop ends the set and waits for it.
func (s *Set) Stop() {
	s.cancel()
	<-s.done
}

// tail keeps the newest lines of a set and shows them when its test fails.
type tail struct {
	mu    sync.Mutex
	lines []string
}

const logLines = 150

func newLog(t testing.TB) *zap.SugaredLogger {
	l := &tail{}
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, line := range l.lines {
			t.Log(line)
		}
	})
	encoder := zapcore.NewConsoleEncoder(zapcore.EncoderConfig{MessageKey: "m", TimeKey: "t", EncodeTime: zapcore.TimeEncoderOfLayout("05.000"), LineEnding: " "})
	return zap.New(zapcore.NewCore(encoder, zapcore.AddSync(l), zapcore.InfoLevel)).Sugar()
}

// Write implements io.Writer.
func (l *tail) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, string(line))
	l.lines = l.lines[max(0, len(l.lines)-logLines):]
	return len(line), nil
}
