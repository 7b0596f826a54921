package runs

import (
	"strings"
	"testing"
	"time"

	"github.com/tektoncd/pipeline/pkg/apis/pipeline/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"opdev.io/guestcluster/pkg/lessee"
)

const ourVersion = "guestcluster.opdev.io/v1alpha1"

func customRun(kind string, params map[string]string, change func(*v1beta1.CustomRun)) *v1beta1.CustomRun {
	isController := true
	run := &v1beta1.CustomRun{ObjectMeta: metav1.ObjectMeta{Namespace: "ci", Name: "build-acquire", UID: "cr", OwnerReferences: []metav1.OwnerReference{{
		APIVersion: "tekton.dev/v1", Kind: "PipelineRun", Name: "build", UID: "pr", Controller: &isController,
	}}}}
	run.Spec.CustomRef = &v1beta1.TaskRef{APIVersion: ourVersion, Kind: v1beta1.TaskKind(kind)}
	for name, value := range params {
		run.Spec.Params = append(run.Spec.Params, v1beta1.Param{Name: name, Value: *v1beta1.NewStructuredValues(value)})
	}
	if change != nil {
		change(run)
	}
	return run
}

func bare(run *v1beta1.CustomRun) { run.OwnerReferences = nil }

func TestCustomRunRequest(t *testing.T) {
	held := lessee.Holder{Namespace: "ci", PipelineRun: "build", PipelineRunUID: "pr", RunUID: "cr"}
	all := customRun(KindAcquire, map[string]string{"pool": "p", "pool-namespace": "clusters", "ttl": "2h", "acquire-timeout": "20m",
		"priority": "5", "requested-by": "me", "slot": "hub"}, nil)
	want := lessee.Order{Holder: held, Pool: "p", PoolNamespace: "clusters", TTL: "2h", AcquireTimeout: 20 * time.Minute, Priority: 5, RequestedBy: "me"}
	want.Holder.Slot = "hub"
	if got := CustomRunRequest(all); got.Wrong != nil || got.Release || got.Order != want {
		t.Errorf("%+v", got)
	}
	if got := CustomRunRequest(customRun(KindRelease, map[string]string{"slot": "hub"}, nil)); got.Wrong != nil || !got.Release || got.Order.Holder != want.Holder {
		t.Errorf("%+v", got)
	}
	alone := CustomRunRequest(customRun(KindAcquire, map[string]string{"pool": "p", "ttl": "2h"}, bare))
	if h := alone.Order.Holder; alone.Wrong != nil || !h.Bare() || h.LeaseName() != "run-cr" || h.Ref() != nil {
		t.Errorf("%+v", alone)
	}
}

// TestCustomRunsThatCannotBeDone: the text names what to correct.
func TestCustomRunsThatCannotBeDone(t *testing.T) {
	pool := map[string]string{"pool": "p"}
	for text, run := range map[string]*v1beta1.CustomRun{
		"param pool is empty":                   customRun(KindAcquire, nil, nil),
		`ttl "soon" must be`:                    customRun(KindAcquire, map[string]string{"pool": "p", "ttl": "soon"}, nil),
		`acquire-timeout "" must be`:            customRun(KindAcquire, map[string]string{"pool": "p", "acquire-timeout": ""}, nil),
		"acquire-timeout must be a positive":    customRun(KindAcquire, map[string]string{"pool": "p", "acquire-timeout": "-1m"}, nil),
		`priority "high" must be`:               customRun(KindAcquire, map[string]string{"pool": "p", "priority": "high"}, nil),
		`slot "Hub"`:                            customRun(KindAcquire, map[string]string{"pool": "p", "slot": "Hub"}, nil),
		"param pools is unknown: there are acq": customRun(KindAcquire, map[string]string{"pools": "p"}, nil),
		"param pool is unknown: there are slot": customRun(KindRelease, pool, nil),
		"give a ttl such as 2h":                 customRun(KindAcquire, pool, bare),
		"kubectl delete clusterlease -n ci":     customRun(KindRelease, nil, bare),
		"param pool must be a string, not an arr": customRun(KindAcquire, nil, func(r *v1beta1.CustomRun) {
			r.Spec.Params = v1beta1.Params{{Name: "pool", Value: *v1beta1.NewStructuredValues("a", "b")}}
		}),
		"taskSpec is not read: write taskRef: {apiVersion: " + ourVersion + ", kind: ClusterLease}": customRun(KindAcquire, pool, func(r *v1beta1.CustomRun) {
			r.Spec.CustomRef = nil
			r.Spec.CustomSpec = &v1beta1.EmbeddedCustomRunSpec{TypeMeta: runtime.TypeMeta{APIVersion: ourVersion, Kind: KindAcquire}}
		}),
		`taskRef.name "mine" is not read`: customRun(KindAcquire, pool, func(r *v1beta1.CustomRun) { r.Spec.CustomRef.Name = "mine" }),
		"workspace kubeconfig cannot be filled": customRun(KindAcquire, pool, func(r *v1beta1.CustomRun) {
			r.Spec.Workspaces = []v1beta1.WorkspaceBinding{{Name: "kubeconfig"}}
		}),
	} {
		got := CustomRunRequest(run)
		if got.Wrong == nil || !strings.Contains(got.Wrong.Text, text) || got.Wrong.Class != lessee.User {
			t.Errorf("want %q: %+v", text, got.Wrong)
		}
	}
}

func TestOurCustomRun(t *testing.T) {
	embed := func(apiVersion, kind string) *v1beta1.CustomRun {
		return &v1beta1.CustomRun{Spec: v1beta1.CustomRunSpec{CustomSpec: &v1beta1.EmbeddedCustomRunSpec{TypeMeta: runtime.TypeMeta{APIVersion: apiVersion, Kind: kind}}}}
	}
	for _, run := range []*v1beta1.CustomRun{customRun(KindAcquire, nil, nil), customRun(KindRelease, nil, nil), embed(ourVersion, KindAcquire), embed(ourVersion, KindRelease)} {
		if !OurCustomRun(run) {
			t.Errorf("not ours: %+v", run.Spec)
		}
	}
	otherVersion := customRun(KindAcquire, nil, func(r *v1beta1.CustomRun) { r.Spec.CustomRef.APIVersion = "guestcluster.opdev.io/v1" })
	for _, run := range []*v1beta1.CustomRun{{}, customRun("ClusterPool", nil, nil), otherVersion, embed("example.dev/v0", KindAcquire)} {
		if OurCustomRun(run) {
			t.Errorf("ours: %+v", run.Spec)
		}
	}
	foreign := customRun(KindAcquire, nil, func(r *v1beta1.CustomRun) { r.OwnerReferences[0].APIVersion = "example.dev/v1" })
	if h := CustomRunRequest(foreign).Order.Holder; !h.Bare() {
		t.Errorf("a PipelineRun of another group holds: %+v", h)
	}
}
