// Command controller reconciles pools, instances, leases, bundles and our CustomRuns.
package main

import (
	"context"
	"errors"
	"flag"
	"log"

	tekton "github.com/tektoncd/pipeline/pkg/client/clientset/versioned"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"knative.dev/pkg/configmap"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/injection"
	"knative.dev/pkg/injection/sharedmain"
	"knative.dev/pkg/signals"

	"opdev.io/guestcluster/pkg/reconciler/access"
	"opdev.io/guestcluster/pkg/reconciler/binding"
	"opdev.io/guestcluster/pkg/reconciler/bundle"
	"opdev.io/guestcluster/pkg/reconciler/catalog"
	"opdev.io/guestcluster/pkg/reconciler/customrun"
	"opdev.io/guestcluster/pkg/reconciler/holder"
	"opdev.io/guestcluster/pkg/reconciler/instance"
	"opdev.io/guestcluster/pkg/reconciler/lease"
	"opdev.io/guestcluster/pkg/reconciler/metrics"
	"opdev.io/guestcluster/pkg/reconciler/pool"
	"opdev.io/guestcluster/pkg/reconciler/sweep"
)

// component names the election Leases and the metrics.
const component = "guestcluster-controller"

func main() {
	domain := flag.String("ingress-domain", "", "domain of the guests' hostnames; default is that of ingresses.config.openshift.io/cluster")
	threads := flag.Int("threads-per-controller", 8, "reconciles at one time in each controller")
	dryRun := flag.Bool("sweep-dry-run", false, "report objects of instances that are gone, delete none")
	cfg := injection.ParseAndGetRESTConfigOrDie()
	cfg.QPS, cfg.Burst = max(cfg.QPS, 200), max(cfg.Burst, 400)
	controller.DefaultThreadsPerController = *threads

	ctx := signals.NewContext()
	kube := kubernetes.NewForConfigOrDie(cfg)
	if err := catalog.WaitServed(ctx, kube.Discovery(), func(text string) { log.Print(text) }); err != nil {
		log.Fatalf("wait for Tekton: %v", err)
	}
	shelf := catalog.New(ctx, tekton.NewForConfigOrDie(cfg))
	if err := shelf.Start(ctx.Done()); err != nil {
		log.Fatalf("read Pipelines and Tasks: %v", err)
	}
	ctx = catalog.WithCatalog(ctx, shelf)
	ctx = access.WithChecker(ctx, access.New(kube.AuthorizationV1().SelfSubjectAccessReviews(), clock.RealClock{}))
	ctx = instance.WithConfig(ctx, instance.Config{IngressDomain: *domain})
	ctx = sweep.WithDryRun(ctx, *dryRun)
	sharedmain.MainWithConfig(ctx, component, cfg, prepared(pool.NewController), instance.NewController, lease.NewController,
		binding.NewController, customrun.NewController, bundle.NewController, bundle.NewPersonsRunsController, sweep.NewController)
}

// prepared trims the shared PipelineRun informer before anything starts it, and
// registers what is observed of all kinds.
func prepared(next injection.ControllerConstructor) injection.ControllerConstructor {
	return func(ctx context.Context, cmw configmap.Watcher) *controller.Impl {
		if err := errors.Join(holder.TrimInformer(ctx), metrics.Observe(ctx)); err != nil {
			log.Fatalf("start: %v", err)
		}
		return next(ctx, cmw)
	}
}
