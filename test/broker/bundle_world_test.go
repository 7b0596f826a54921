package broker_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	typed "opdev.io/guestcluster/pkg/client/clientset/versioned/typed/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/runs"
	"opdev.io/guestcluster/test/internal/broker"
	"opdev.io/guestcluster/test/internal/server"
	"opdev.io/guestcluster/test/rig/standins/crds"
)

const preparePipeline = `
apiVersion: tekton.dev/v1
kind: Pipeline
metadata: {name: prepare-bundle, namespace: guestcluster-bundles}
spec:
  params:
  - {name: version, type: string}
  - {name: arch, type: string, default: amd64}
  - {name: sha256, type: string, default: ""}
  - {name: storage-class, type: string, default: ""}
  - {name: bundle-uid, type: string, default: ""}
  results:
  - {name: golden-volume, value: $(tasks.fetch.results.golden-volume)}
  - {name: golden-volume-uid, value: $(tasks.fetch.results.golden-volume-uid)}
  - {name: ssh-key-secret, value: $(tasks.fetch.results.ssh-key-secret)}
  - {name: ocp-version, value: $(tasks.fetch.results.ocp-version)}
  - {name: sha256, value: $(tasks.fetch.results.sha256)}
  - {name: build-time, value: $(tasks.fetch.results.build-time)}
  tasks:
  - name: fetch
    taskSpec:
      results:
      - {name: golden-volume, type: string}
      - {name: golden-volume-uid, type: string}
      - {name: ssh-key-secret, type: string}
      - {name: ocp-version, type: string}
      - {name: sha256, type: string}
      - {name: build-time, type: string}
      steps: [{name: fetch, image: example.org/fetch, command: [fetch]}]`

var installed sync.Once

// installBundles gives the server the Pipeline and the kinds of KubeVirt and CDI.
func installBundles(t testing.TB) {
	t.Helper()
	installed.Do(func() {
		texts := []string{"apiVersion: v1\nkind: Namespace\nmetadata: {name: " + guestcluster.BundleNamespace + "}", preparePipeline}
		kinds, err := crds.Manifests()
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range kinds {
			texts = append(texts, string(kind))
		}
		for _, text := range texts {
			object, err := server.Parse(text)
			if err == nil {
				err = shared.Apply(t.Context(), object)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	})
}

// bundleWorld is one bundle, a version that no other test has, and the
// stand-in for its runs.
type bundleWorld struct {
	t       testing.TB
	version string
	name    string
	bundles typed.CRCBundleInterface
	clock   clock.Clock
	given   bool
}

type prepareScript func(attempt string) prepareAct

func newBundleWorld(t testing.TB, acts prepareScript) *bundleWorld {
	t.Helper()
	installBundles(t)
	w := &bundleWorld{t: t, version: "4." + strings.TrimPrefix(shared.Name("v"), "v-") + ".1", bundles: shared.Guest.GuestclusterV1alpha1().CRCBundles()}
	w.name = v1alpha1.BundleName(w.version, "")
	startPreparer(t, w.name, w.version, acts)
	return w
}

// start runs the bundle controllers for this bundle only. When the test ends,
// the last of them give everything back.
func (w *bundleWorld) start(wrap func(http.RoundTripper) http.RoundTripper) *broker.Set {
	w.t.Helper()
	only := func(next http.RoundTripper) http.RoundTripper {
		if wrap != nil {
			next = wrap(next)
		}
		return onlyBundle{name: w.name, next: next}
	}
	set := broker.StartSet(w.t, shared.Config, broker.SetOptions{
		Namespace: guestcluster.BundleNamespace, Controllers: broker.Bundles(), Wrap: only, Clock: w.clock})
	w.t.Cleanup(w.giveBack)
	return set
}

// onlyBundle hides all bundles but one from lists and watches: bundles have no
// namespace that would keep tests apart.
type onlyBundle struct {
	name string
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (o onlyBundle) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/crcbundles") {
		r = r.Clone(r.Context())
		query := r.URL.Query()
		query.Set("fieldSelector", "metadata.name="+o.name)
		r.URL.RawQuery = query.Encode()
	}
	return o.next.RoundTrip(r)
}

// pool is a crc pool of one instance that clones the bundle.
func (w *bundleWorld) pool(s *v1alpha1.ClusterPoolSpec) {
	s.Type, s.MaxSize, s.WarmSpares = v1alpha1.TypeCRC, 1, 1
	s.Template.CRCVersion = w.version
}

func (w *bundleWorld) create(change func(*v1alpha1.CRCBundleSpec)) *v1alpha1.CRCBundle {
	w.t.Helper()
	b := &v1alpha1.CRCBundle{ObjectMeta: metav1.ObjectMeta{Name: w.name}, Spec: v1alpha1.CRCBundleSpec{Version: w.version, Arch: "amd64"}}
	if change != nil {
		change(&b.Spec)
	}
	b, err := w.bundles.Create(w.t.Context(), b, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatalf("create bundle: %v", err)
	}
	return b
}

func (w *bundleWorld) phase(phase v1alpha1.BundlePhase, reason v1alpha1.Reason, texts ...string) *v1alpha1.CRCBundle {
	w.t.Helper()
	return broker.Await(w.t, w.bundles, w.name, func(b *v1alpha1.CRCBundle, found bool) string {
		if !found || b.Status.Phase != phase {
			return fmt.Sprintf("exists %t, phase %q", found, b.Status.Phase)
		}
		return conditionLacks(b.Status.Conditions, v1alpha1.ConditionReady, reason, texts)
	})
}

func (w *bundleWorld) ready() *v1alpha1.CRCBundle {
	w.t.Helper()
	return w.phase(v1alpha1.BundleReady, v1alpha1.ReasonBundleReady)
}

func (w *bundleWorld) delete() {
	w.t.Helper()
	if err := w.bundles.Delete(context.Background(), w.name, metav1.DeleteOptions{}); err != nil {
		w.t.Fatalf("delete bundle: %v", err)
	}
}

// owned lists what the bundle, of any UID, has: runs, Secrets, volumes.
func (w *bundleWorld) owned(ctx context.Context) ([]string, error) {
	var found []string
	for _, kind := range []string{"pipelineruns.v1.tekton.dev", "secrets.v1.", "persistentvolumeclaims.v1."} {
		gvr, _ := schemaParse(kind)
		list, err := shared.Dynamic.Resource(gvr).Namespace(guestcluster.BundleNamespace).List(ctx, metav1.ListOptions{LabelSelector: guestcluster.BundleLabel + "=" + w.name})
		if err != nil {
			return nil, err
		}
		for _, object := range list.Items {
			found = append(found, gvr.Resource+" "+object.GetName())
		}
	}
	return found, nil
}

// gone says what is left of the bundle and its children.
func (w *bundleWorld) gone(ctx context.Context) string {
	list, err := w.bundles.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + w.name})
	if err != nil {
		return err.Error()
	}
	for _, b := range list.Items {
		c := meta.FindStatusCondition(b.Status.Conditions, v1alpha1.ConditionReady)
		return fmt.Sprintf("the bundle is left: %+v", c)
	}
	left, err := w.owned(ctx)
	if err != nil {
		return err.Error()
	}
	return strings.Join(left, ", ")
}

func (w *bundleWorld) giveBack() {
	if w.t.Failed() || w.given {
		return
	}
	w.given = true
	_ = w.bundles.Delete(context.Background(), w.name, metav1.DeleteOptions{})
	eventually(w.t, "the bundle to go", w.gone)
}

// eventually is world's, for tests without a namespace of their own.
func eventually(t testing.TB, what string, missing func(ctx context.Context) string) {
	t.Helper()
	(&world{t: t}).eventually(what, missing)
}

// personsRun is what plain kubectl create or tkn pipeline start make.
func (w *bundleWorld) personsRun(params map[string]string) *pipelinev1.PipelineRun {
	w.t.Helper()
	run := &pipelinev1.PipelineRun{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "by-hand-", Namespace: guestcluster.BundleNamespace, Labels: map[string]string{"tekton.dev/pipeline": runs.PrepareBundle}},
		Spec:       pipelinev1.PipelineRunSpec{PipelineRef: &pipelinev1.PipelineRef{Name: runs.PrepareBundle}},
	}
	params[runs.ParamVersion] = w.version
	for name, value := range params {
		run.Spec.Params = append(run.Spec.Params, pipelinev1.Param{Name: name, Value: *pipelinev1.NewStructuredValues(value)})
	}
	run, err := shared.Tekton.TektonV1().PipelineRuns(run.Namespace).Create(w.t.Context(), run, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatalf("start a run: %v", err)
	}
	return run
}

func (w *bundleWorld) runs() []pipelinev1.PipelineRun {
	w.t.Helper()
	list, err := shared.Tekton.TektonV1().PipelineRuns(guestcluster.BundleNamespace).List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	var found []pipelinev1.PipelineRun
	for _, run := range list.Items {
		if versionOf(&run) == w.version {
			found = append(found, run)
		}
	}
	return found
}

// podThatMounts is on a node: only such pods protect a volume.
func podThatMounts(name, volume string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{NodeName: "node",
		Containers: []corev1.Container{{Name: "c", Image: "example.org/c"}},
		Volumes: []corev1.Volume{{Name: "disk", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: volume}}}},
	}}
}
