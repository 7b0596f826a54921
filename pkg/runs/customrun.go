package runs

import (
	"github.com/tektoncd/pipeline/pkg/apis/pipeline/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/lessee"
)

// Kinds of our custom tasks. ClusterRelease is no kind of the API.
const (
	KindAcquire = "ClusterLease"
	KindRelease = "ClusterRelease"
)

// Request is what a CustomRun of ours asks for.
type Request struct {
	// Order is what is asked for; a release has only the holder in it.
	Order lessee.Order
	// Release: a ClusterRelease.
	Release bool
	// Wrong is why it cannot be done; nil when it can.
	Wrong *lessee.Problem
}

// OurCustomRun says whether a CustomRun refers to one of our custom tasks.
func OurCustomRun(run *v1beta1.CustomRun) bool {
	kind, ok := customKind(run)
	return ok && (kind == KindAcquire || kind == KindRelease)
}

func customKind(run *v1beta1.CustomRun) (string, bool) {
	ours := v1alpha1.SchemeGroupVersion.String()
	switch ref, spec := run.Spec.CustomRef, run.Spec.CustomSpec; {
	case ref != nil:
		return string(ref.Kind), ref.APIVersion == ours
	case spec != nil:
		return spec.Kind, spec.APIVersion == ours
	}
	return "", false
}

// CustomRunRequest reads a CustomRun of ours. The holder is always known.
func CustomRunRequest(run *v1beta1.CustomRun) Request {
	kind, _ := customKind(run)
	r := Request{Release: kind == KindRelease, Order: lessee.Order{Holder: holderOf(run)}}
	params := lessee.AcquireParams()
	if r.Release {
		params = lessee.ReleaseParams()
	}
	r.Wrong = readParams(run, params)
	r.Order.Holder.Slot = params[lessee.ParamSlot]
	switch {
	case r.Wrong != nil:
	case r.Release:
		r.Wrong = r.Order.Holder.CanRelease()
	default:
		r.Order, r.Wrong = lessee.NewOrder(r.Order.Holder, params)
	}
	return r
}

// holderOf is the PipelineRun that controls the CustomRun.
func holderOf(run *v1beta1.CustomRun) lessee.Holder {
	h := lessee.Holder{Namespace: run.Namespace, RunUID: string(run.UID)}
	owner := metav1.GetControllerOf(run)
	if owner == nil || owner.Kind != "PipelineRun" {
		return h
	}
	if gv, err := schema.ParseGroupVersion(owner.APIVersion); err == nil && gv.Group == v1beta1.SchemeGroupVersion.Group {
		h.PipelineRun, h.PipelineRunUID = owner.Name, string(owner.UID)
	}
	return h
}

// readParams puts the CustomRun's params over the defaults and refuses what nothing
// would read.
func readParams(run *v1beta1.CustomRun, params map[string]string) *lessee.Problem {
	var wrong *lessee.Problem
	for _, p := range run.Spec.Params {
		_, ok := params[p.Name]
		switch {
		case wrong != nil:
		case !ok:
			wrong = lessee.UnknownParam(p.Name, params)
		case p.Value.Type != v1beta1.ParamTypeString && p.Value.Type != "":
			wrong = lessee.Invalid("param %s must be a string, not an %s", p.Name, p.Value.Type)
		default:
			params[p.Name] = p.Value.StringVal
		}
	}
	kind, _ := customKind(run)
	switch {
	case run.Spec.CustomSpec != nil:
		return lessee.Invalid("taskSpec is not read: write taskRef: {apiVersion: %s, kind: %s} and params", v1alpha1.SchemeGroupVersion, kind)
	case run.Spec.CustomRef.Name != "":
		return lessee.Invalid("taskRef.name %q is not read: leave it out, the lease is named by the run and param slot", run.Spec.CustomRef.Name)
	case len(run.Spec.Workspaces) > 0:
		return lessee.Invalid("workspace %s cannot be filled without a pod: mount the Secret of result kubeconfig-secret, or use Task acquire-cluster", run.Spec.Workspaces[0].Name)
	}
	return wrong
}
