package broker_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.opentelemetry.io/otel"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/injection"
	"knative.dev/pkg/observability/metrics"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/plan"
	"opdev.io/guestcluster/pkg/reconciler/sweep"
	"opdev.io/guestcluster/test/internal/broker"
)

var update = flag.Bool("update", false, "write testdata/metrics.txt anew")

// exporter serves what the controllers of this process count, as
// sharedmain does for `metrics-protocol: prometheus`.
var exporter = sync.OnceValues(func() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		return "", err
	}
	provider, err := metrics.NewMeterProvider(context.Background(), metrics.Config{Protocol: metrics.ProtocolPrometheus, Endpoint: address})
	if err != nil {
		return "", err
	}
	otel.SetMeterProvider(provider)
	return "http://" + address + "/metrics", nil
})

// scrape reads all metrics of ours.
func (w *world) scrape() map[string]*dto.MetricFamily {
	w.t.Helper()
	url, err := exporter()
	if err != nil {
		w.t.Fatal(err)
	}
	var families map[string]*dto.MetricFamily
	w.eventually("the metrics", func(ctx context.Context) string {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err.Error()
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return err.Error()
		}
		defer answer.Body.Close()
		parser := expfmt.NewTextParser(model.UTF8Validation)
		if families, err = parser.TextToMetricFamilies(answer.Body); err != nil {
			return err.Error()
		}
		return ""
	})
	maps.DeleteFunc(families, func(name string, _ *dto.MetricFamily) bool { return !strings.HasPrefix(name, "guestcluster_") })
	return families
}

// values of a metric in this namespace, by the labels besides the pool's
// namespace and the exporter's own; a histogram has its count.
func (w *world) values(name string) map[string]float64 {
	w.t.Helper()
	found := map[string]float64{}
	for _, m := range w.scrape()[name].GetMetric() {
		var labels []string
		ours := false
		for _, l := range m.GetLabel() {
			switch {
			case l.GetName() == "pool_namespace":
				ours = l.GetValue() == w.namespace
			case !strings.HasPrefix(l.GetName(), "otel_"):
				labels = append(labels, l.GetValue())
			}
		}
		if ours {
			found[strings.Join(labels, " ")] = m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return found
}

func (w *world) wantValues(name string, want map[string]float64) {
	w.t.Helper()
	w.eventually(name, func(context.Context) string { return cmp.Diff(want, w.values(name)) })
}

// TestMetricsCountTransitionsOnce scrapes the endpoint that Prometheus does.
func TestMetricsCountTransitionsOnce(t *testing.T) {
	if _, err := exporter(); err != nil {
		t.Fatal(err)
	}
	w := running(t, func(instance, _ string) broker.Act {
		// Times of objects have seconds: a cold lease must see one pass.
		return broker.Act{Delay: 1100 * time.Millisecond, Fail: strings.HasPrefix(instance, "bad-"), ExitCode: 11, Message: "no room"}
	})
	w.pool(size(2, 0))
	w.lease("cold", nil)
	w.bound("cold")
	w.wantValues("guestcluster_leases", map[string]float64{"Bound pool": 1, "Failed pool": 0, "Pending pool": 0, "Released pool": 0, "Releasing pool": 0})
	w.wantValues("guestcluster_instances", map[string]float64{"Failed pool": 0, "Provisioning pool": 0, "Ready pool": 1, "Terminating pool": 0})
	if _, err := w.pools.Patch(t.Context(), poolName, types.MergePatchType, []byte(`{"spec":{"warmSpares":1}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	w.available(1)
	w.lease("warm", nil)
	w.bound("warm")
	w.wantValues("guestcluster_lease_wait_seconds", map[string]float64{"pool cold": 1, "pool warm": 1})
	w.wantValues("guestcluster_pool_max_instances", map[string]float64{"pool": 2})
	w.wantValues("guestcluster_pool_available_instances", map[string]float64{"pool": 0})
	w.wantValues("guestcluster_runs_total", map[string]float64{"succeeded make-it pool": 2})
	w.wantValues("guestcluster_provisioning_duration_seconds", map[string]float64{"pool": 2})
	w.wantValues("guestcluster_pool_breaker", map[string]float64{"pool closed": 1, "pool open": 0, "pool half_open": 0})

	w.release("cold")
	w.phase("cold", v1alpha1.LeaseReleased)
	w.deleteLease("cold") // ended already: it does not count again
	w.deleteLease("warm")
	w.wantValues("guestcluster_releases_total", map[string]float64{"pool Released": 1, "pool Deleted": 1})

	bad := &v1alpha1.ClusterPool{ObjectMeta: metav1.ObjectMeta{Name: "bad"}, Spec: v1alpha1.ClusterPoolSpec{
		Type: v1alpha1.TypeCustom, MaxSize: 1, MaxConcurrent: 1, WarmSpares: 1,
		Provisioning: &v1alpha1.Provisioning{Pipeline: broker.Pipeline, RetryLimit: 1}}}
	if _, err := w.pools.Create(t.Context(), bad, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("the breaker to open", func(context.Context) string {
		if is := w.values("guestcluster_pool_breaker"); is["bad open"]+is["bad half_open"] != 1 || is["bad closed"] != 0 {
			return fmt.Sprint(is)
		}
		return ""
	})
	if failed := w.values("guestcluster_runs_total")["failed make-it bad"]; failed != 1 {
		t.Errorf("%v failed runs", failed)
	}
	t.Run("all have the labels that are written down", w.labelsAreWrittenDown)
}

// labelsAreWrittenDown: the checks of alerts and dashboard read the list.
func (w *world) labelsAreWrittenDown(t *testing.T) {
	sweeping := newSweepWorld(t)
	i := sweeping.born("slot")
	sweeping.clone(i)
	sweeping.force(i)
	s := sweeping.sweeper(sweeping.config, false, nil)
	sweeping.clock.SetTime(sweeping.clock.Now().Add(2 * plan.SweepAge))
	sweeping.sweep(s)
	broker.StartSet(t, w.config, broker.SetOptions{Namespace: sweeping.namespace, Controllers: []injection.ControllerConstructor{sweep.NewController}})
	sweeping.eventually("the orphans' gauge", func(context.Context) string {
		if sweeping.scrape()["guestcluster_orphans"] == nil {
			return "it is not served"
		}
		return ""
	})
	var lines []string
	for name, family := range w.scrape() {
		labels := map[string]bool{}
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				if !strings.HasPrefix(l.GetName(), "otel_") {
					labels[l.GetName()] = true
				}
			}
		}
		text := strings.Join(slices.Sorted(maps.Keys(labels)), " ")
		if family.GetType() != dto.MetricType_HISTOGRAM {
			lines = append(lines, name+" "+text)
			continue
		}
		lines = append(lines, name+"_bucket le "+text, name+"_count "+text, name+"_sum "+text)
	}
	slices.Sort(lines)
	got, file := strings.Join(lines, "\n")+"\n", filepath.Join("testdata", "metrics.txt")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("run the test with -update, and look at monitoring/ and docs/operations.md: %s", diff)
	}
}
