package release

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/lessee"
	"opdev.io/guestcluster/pkg/steps/fakeapi"
	"opdev.io/guestcluster/pkg/steps/kube"
	"opdev.io/guestcluster/pkg/steps/step"
)

const leasePath = "/apis/guestcluster.opdev.io/v1alpha1/namespaces/ci/clusterleases/run-uid-a"

func TestRelease(t *testing.T) {
	holder := &lessee.Holder{Namespace: "ci", PipelineRun: "build-1", PipelineRunUID: "uid", Slot: "a"}
	lease := func(change func(*v1alpha1.ClusterLease)) *v1alpha1.ClusterLease {
		l := &v1alpha1.ClusterLease{ObjectMeta: metav1.ObjectMeta{Name: holder.LeaseName(), Namespace: "ci"}}
		l.Spec.HolderRef = holder.Ref()
		if change != nil {
			change(l)
		}
		return l
	}
	for name, tc := range map[string]struct {
		lease    *v1alpha1.ClusterLease
		fault    func(*http.Request) int
		bare     bool
		code     int
		text     string
		released bool
	}{
		"a waiting lease is released": {lease: lease(nil), text: "released lease ci/run-uid-a", released: true},
		"absent is success":           {text: "nothing to release"},
		"released before is success":  {lease: lease(func(l *v1alpha1.ClusterLease) { l.Status.Phase = v1alpha1.LeaseReleased }), text: "was released before"},
		"a repeated release is success": {
			lease: lease(func(l *v1alpha1.ClusterLease) { l.Spec.Release = true }), text: "was released before", released: true},
		"a foreign lease is refused": {
			lease: lease(func(l *v1alpha1.ClusterLease) { l.Spec.HolderRef.UID = "other" }), code: step.ExitUser, text: "another holder"},
		"a lease without holder is refused": {
			lease: lease(func(l *v1alpha1.ClusterLease) { l.Spec.HolderRef = nil }), code: step.ExitUser, text: "another holder"},
		"a bare TaskRun is told what to do": {bare: true, code: step.ExitUser, text: "kubectl delete clusterlease"},
		"an outage is waited out":           {lease: lease(nil), fault: times(3, http.MethodGet, http.StatusServiceUnavailable), text: "released lease", released: true},
		"a conflict is tried again":         {lease: lease(nil), fault: times(2, http.MethodPatch, http.StatusConflict), text: "released lease", released: true},
		"missing rights end at once":        {lease: lease(nil), fault: times(1, http.MethodPatch, http.StatusForbidden), code: step.ExitUser, text: "guestcluster-lessee"},
	} {
		t.Run(name, func(t *testing.T) {
			api, out := fakeapi.Start(t), &bytes.Buffer{}
			if tc.lease != nil {
				api.Put(leasePath, tc.lease)
			}
			api.Fault(tc.fault)
			leases, err := kube.Leases(api.Config(), "ci")
			if err != nil {
				t.Fatal(err)
			}
			r := &Releaser{Holder: *holder, Leases: leases, Progress: out, Pause: wait.Backoff{Duration: time.Millisecond, Steps: 1}}
			if tc.bare {
				r.Holder = lessee.Holder{Namespace: "ci", RunUID: "t"}
			}
			err = r.Run(context.Background())
			if step.ExitCode(err) != tc.code {
				t.Fatalf("exit code %d, want %d: %v", step.ExitCode(err), tc.code, err)
			}
			if err != nil {
				out.WriteString(err.Error())
			}
			if !strings.Contains(out.String(), tc.text) {
				t.Errorf("output %q does not contain %q", out, tc.text)
			}
			after := &v1alpha1.ClusterLease{}
			if api.Get(leasePath, after); after.Spec.Release != tc.released {
				t.Errorf("spec.release is %v", after.Spec.Release)
			}
		})
	}
}

// times makes the first n requests of a method fail.
func times(n int, method string, code int) func(*http.Request) int {
	return func(r *http.Request) int {
		if r.Method != method || n == 0 {
			return 0
		}
		n--
		return code
	}
}
