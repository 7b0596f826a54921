package lease

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"knative.dev/pkg/controller"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	clientfake "opdev.io/guestcluster/pkg/client/clientset/versioned/fake"
	listers "opdev.io/guestcluster/pkg/client/listers/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/reconciler/holder"
	"opdev.io/guestcluster/pkg/reconciler/metrics"
)

var restoreNow = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

const guestKubeconfig = `{apiVersion: v1, kind: Config, current-context: c,
  contexts: [{name: c, context: {cluster: c, user: u}}],
  clusters: [{name: c, cluster: {server: "https://gc.apps.example.org:443"}}],
  users: [{name: u, user: {token: t}}]}`

func boundPair() (*v1alpha1.ClusterLease, *v1alpha1.ClusterInstance) {
	lease := &v1alpha1.ClusterLease{ObjectMeta: metav1.ObjectMeta{Namespace: "ci", Name: "job", UID: "l1"}}
	i := &v1alpha1.ClusterInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "ci", Name: "p-0", UID: "i1"}}
	i.MarkAssigned("https://gc.apps.example.org", i.KubeconfigSecretName())
	i.MarkRun(v1alpha1.RunStatus{Name: "run", UID: "r1"})
	claim := lease.Claim()
	i.Spec.ClaimRef = &claim
	lease.MarkClaiming(i.Reference(), metav1.NewTime(restoreNow))
	lease.MarkBound(v1alpha1.BoundFacts{Secret: lease.AccessSecretName(), APIEndpoint: i.Status.APIEndpoint}, metav1.NewTime(restoreNow))
	return lease, i
}

func TestDeletedAccessSecretComesBackOrTheLeaseEnds(t *testing.T) {
	rows := map[string]struct {
		source bool
		phase  v1alpha1.LeasePhase
		reason v1alpha1.Reason
	}{
		"made again from the kubeconfig":       {true, v1alpha1.LeaseBound, v1alpha1.ReasonInstanceBound},
		"lost when the kubeconfig is gone too": {false, v1alpha1.LeaseFailed, v1alpha1.ReasonInstanceLost},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			lease, i := boundPair()
			var secrets []runtime.Object
			if row.source {
				secrets = append(secrets, &corev1.Secret{ObjectMeta: i.ChildMeta(i.KubeconfigSecretName()), Data: map[string][]byte{
					guestcluster.KubeconfigKey: []byte(guestKubeconfig), guestcluster.RunUIDKey: []byte("r1"), guestcluster.KubeadminPasswordKey: []byte("aaaaa-bbbbb"),
				}})
			}
			instances := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
			if err := instances.Add(i); err != nil {
				t.Fatal(err)
			}
			var again time.Duration
			r := &Reconciler{
				Client: clientfake.NewSimpleClientset(lease, i), Kube: kubefake.NewSimpleClientset(secrets...),
				Instances: listers.NewClusterInstanceLister(instances),
				Pools:     listers.NewClusterPoolLister(cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})),
				Holders:   &holder.Checker{}, Clock: clocktesting.NewFakePassiveClock(restoreNow), Metrics: metrics.New(t.Context()),
				EnqueueAfter: func(_ any, after time.Duration) { again = after },
			}
			ctx := controller.WithEventRecorder(t.Context(), record.NewFakeRecorder(10))
			if err := r.ReconcileKind(ctx, lease); err != nil {
				t.Fatal(err)
			}
			if again != restoreEvery {
				t.Errorf("looks again after %s", again)
			}
			live, err := r.Client.GuestclusterV1alpha1().ClusterLeases("ci").Get(ctx, "job", metav1.GetOptions{})
			if err != nil || live.Status.Phase != row.phase || live.Status.BoundReason() != row.reason {
				t.Fatalf("phase %s, reason %s, error %v", live.Status.Phase, live.Status.BoundReason(), err)
			}
			secret, err := r.Kube.CoreV1().Secrets("ci").Get(ctx, lease.AccessSecretName(), metav1.GetOptions{})
			if (err == nil) != row.source {
				t.Fatalf("get access Secret: %v", err)
			}
			if row.source && (!metav1.IsControlledBy(secret, lease) || string(secret.Data[guestcluster.KubeadminPasswordKey]) != "aaaaa-bbbbb") {
				t.Errorf("Secret of %v with %d keys", secret.OwnerReferences, len(secret.Data))
			}
		})
	}
}
