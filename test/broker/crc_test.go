package broker_test

import (
	"context"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/runs"
	"opdev.io/guestcluster/test/internal/broker"
)

// TestInstanceOfABundle follows one from its bundle to nothing.
func TestInstanceOfABundle(t *testing.T) {
	t.Parallel()
	g := newBundle(t)
	g.ready()
	w := runningCRC(t, nil)
	w.instance(g.template())
	i := w.ready(alone)
	want := &v1alpha1.CRCStatus{
		VMName: i.DerivedName(), DataVolumeName: i.DerivedName(), VMIUID: w.get(broker.RunningGVR, i.DerivedName()).GetUID(),
		Bundle: &v1alpha1.BundleIdentity{Name: g.bundle.Name, UID: g.bundle.UID, VolumeUID: g.volume.UID, SHA256: checksum},
	}
	if diff := cmp.Diff(want, i.Status.CRC); diff != "" {
		t.Error(diff)
	}
	w.wantParams(i, map[string]string{
		runs.ParamSourceNamespace: guestcluster.BundleNamespace, runs.ParamSourceVolume: g.bundle.Name, runs.ParamSourceURL: "",
		runs.ParamMemory: "14Gi", runs.ParamCores: "4", runs.ParamRootVolumeSize: "80Gi", runs.ParamArch: "amd64",
	})
	w.wantIdentity(i, g.key)
	if _, err := shared.Kube.RbacV1().RoleBindings(guestcluster.BundleNamespace).Get(t.Context(), i.CloneBindingName(), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the right to clone outlived the provisioning: %v", err)
	}
	if err := w.instances.Delete(t.Context(), alone, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.destroyed(i)
	if left := w.guestsLeft(t.Context(), ""); left != "" {
		t.Error(left)
	}
	g.stands()
}

func (w crcWorld) wantParams(i *v1alpha1.ClusterInstance, want map[string]string) {
	w.t.Helper()
	run, err := shared.Tekton.TektonV1().PipelineRuns(w.namespace).Get(w.t.Context(), i.Status.Run.Name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	for name, value := range want {
		if got := paramOf(run, name); got != value {
			w.t.Errorf("param %s is %q, want %q", name, got, value)
		}
	}
}

func (w crcWorld) wantIdentity(i *v1alpha1.ClusterInstance, key string) {
	w.t.Helper()
	secret, err := shared.Kube.CoreV1().Secrets(w.namespace).Get(w.t.Context(), i.IdentitySecretName(), metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	if string(secret.Data[guestcluster.BootSSHPrivateKeyKey]) != key || string(secret.Data[guestcluster.PullSecretKey]) != goodPullSecret {
		w.t.Error("the identity has other inputs")
	}
	if !regexp.MustCompile(`^(\w{5}-){3}\w{5}$`).Match(secret.Data[guestcluster.KubeadminPasswordKey]) {
		w.t.Error("the password has another form")
	}
}

// TestRightToCloneGoesFirst takes it back while a run still hangs.
func TestRightToCloneGoesFirst(t *testing.T) {
	t.Parallel()
	g := newBundle(t)
	g.ready()
	w := runningCRC(t, always(broker.Act{Hang: true}))
	shippedRights(t, "207-provision-crc-rbac.yaml")
	w.instance(g.template())
	i := w.instanceCondition(alone, v1alpha1.ConditionReady, v1alpha1.ReasonRunRunning)
	for verb, want := range map[string]bool{"patch " + i.GatherName(): true, "get " + i.GatherName(): true, "patch another": false, "create ": false, "list ": false} {
		if got := w.stepsMay(i, "configmaps", verb); got != want {
			t.Errorf("the steps may %s: %t", verb, got)
		}
	}
	binding, err := shared.Kube.RbacV1().RoleBindings(guestcluster.BundleNamespace).Get(t.Context(), i.CloneBindingName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if s := binding.Subjects[0]; binding.RoleRef.Name != guestcluster.CloneRole || s.Name != i.DerivedName() || s.Namespace != w.namespace {
		t.Errorf("role %s for %+v", binding.RoleRef.Name, s)
	}
	if err := w.instances.Delete(t.Context(), alone, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.destroyed(i)
	if left := w.guestsLeft(t.Context(), ""); left != "" {
		t.Error(left)
	}
}

// stepsMay asks the API server about the instance's ServiceAccount.
func (w crcWorld) stepsMay(i *v1alpha1.ClusterInstance, resource, what string) bool {
	w.t.Helper()
	verb, name, _ := strings.Cut(what, " ")
	review, err := shared.Kube.AuthorizationV1().SubjectAccessReviews().Create(w.t.Context(), &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               "system:serviceaccount:" + w.namespace + ":" + i.DerivedName(),
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: w.namespace, Resource: resource, Verb: verb, Name: name},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return review.Status.Allowed
}

func TestLeaseOfAMachine(t *testing.T) {
	t.Parallel()
	w := runningCRC(t, nil)
	w.pool(crcPool(1))
	w.available(1)
	w.lease("job", nil)
	lease := w.phase("job", v1alpha1.LeaseBound)
	i := w.slot(0)
	secrets := shared.Kube.CoreV1().Secrets(w.namespace)
	access, err := secrets.Get(t.Context(), "job-access", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	identity, err := secrets.Get(t.Context(), i.IdentitySecretName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if password := string(access.Data[guestcluster.KubeadminPasswordKey]); password == "" || password != string(identity.Data[guestcluster.KubeadminPasswordKey]) {
		t.Error("the lease has another password of kubeadmin")
	}
	if len(access.Data) != 3 || lease.Status.Topology != "crc" {
		t.Errorf("%d keys, topology %s", len(access.Data), lease.Status.Topology)
	}
	w.wantParams(i, map[string]string{runs.ParamSourceNamespace: "", runs.ParamSourceVolume: "", runs.ParamSourceURL: "https://files.test/crc.qcow2"})
	w.release("job")
	w.destroyed(i)
	w.eventually("the machine to go", func(ctx context.Context) string { return w.guestsLeft(ctx, i.DerivedName()) })
	w.available(1)
}

func TestBadRunsOfMachines(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		act    broker.Act
		reason v1alpha1.Reason
		texts  []string
	}{
		{"another start of the machine", broker.Act{VMIUID: "another"}, v1alpha1.ReasonHandoffInvalid, []string{"written for another start of the machine", "key vmiUID"}},
		{"a guest that fails", broker.Act{Fail: true, ExitCode: 11, Message: "no CSR came", Gathered: "gc-x-gather"}, v1alpha1.ReasonRunFailed,
			[]string{"the infrastructure failed: no CSR came; gathered: ConfigMap gc-x-gather"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := runningCRC(t, always(row.act))
			w.pool(crcPool(1))
			i := w.instanceCondition("pool-0", v1alpha1.ConditionReady, row.reason, row.texts...)
			w.poolCondition(v1alpha1.ConditionProvisioningHealthy, v1alpha1.ReasonBreakerOpen, string(row.reason))
			w.eventually("the machine to go", func(ctx context.Context) string { return w.guestsLeft(ctx, i.DerivedName()) })
		})
	}
}

// without hides KubeVirt and CDI while it is set.
type without struct {
	hidden *atomic.Bool
	next   http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (o without) RoundTrip(r *http.Request) (*http.Response, error) {
	if o.hidden.Load() && strings.Contains(r.URL.Path, "kubevirt.io/") {
		return &http.Response{StatusCode: http.StatusNotFound, Body: http.NoBody, Request: r, Header: http.Header{}}, nil
	}
	return o.next.RoundTrip(r)
}

// TestClusterWithoutVirtualization starts without the kinds and sees them come.
func TestClusterWithoutVirtualization(t *testing.T) {
	t.Parallel()
	w := newCRCWorld(t, nil)
	hidden, clock := &atomic.Bool{}, clocktesting.NewFakeClock(time.Now())
	hidden.Store(true)
	broker.StartSet(t, w.config, broker.SetOptions{
		Namespace: w.namespace, Guests: w.guests, Clock: clock, LookForKinds: time.Second,
		Wrap: func(next http.RoundTripper) http.RoundTripper { return without{hidden, next} },
	})
	t.Cleanup(w.giveBack)
	i := w.instance(byHand())
	w.instanceCondition(alone, v1alpha1.ConditionReady, v1alpha1.ReasonVirtualizationMissing, "install OpenShift Virtualization")
	if left := w.children(t.Context(), i.UID); left != "" {
		t.Error(left)
	}
	hidden.Store(false)
	clock.Step(2 * time.Minute)
	w.wake(alone)
	i = w.ready(alone)
	// Only a watch sees this: the clock stands, and with it the timers.
	w.halt(i.DerivedName())
	w.alwaysRuns(i.DerivedName())
}
