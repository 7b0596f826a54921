package bundle

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/plan"
	"opdev.io/guestcluster/pkg/runs"
)

// accept takes over what the run left, once nothing writes to it.
func (r *Reconciler) accept(ctx context.Context, b *v1alpha1.CRCBundle) (time.Duration, error) {
	facts := plan.BundleFacts{Bundle: b}
	run, err := r.finder().Live(ctx, b.Status.Run)
	if err != nil {
		return 0, err
	}
	if run != nil {
		facts.Results = bundleResults(runs.Results(run))
	}
	volume, volumeMeta, err := r.volume(ctx, b)
	if err != nil {
		return 0, err
	}
	if run == nil && !volume.SealedBy(b.Status.Run.UID) {
		return time.Second, nil // deleted just now: the informer will say so
	}
	key, keyMeta, err := r.key(ctx, b)
	if err != nil {
		return 0, err
	}
	facts.Volume, facts.Key = volume, key
	if facts.Pods, err = r.podsThatMount(ctx, b.Name); err != nil {
		return 0, err
	}
	switch next := plan.AcceptBundle(facts); next.Step {
	case plan.BundleWait:
		b.MarkWaiting(next.Reason, next.Message)
		return lookAgain, nil
	case plan.BundleRefuse:
		r.fail(b, next.Reason, v1alpha1.FailureStatus{Run: b.Status.Run.Name, Message: next.Message})
	default:
		if err := r.own(ctx, b, volumeMeta, keyMeta); err != nil {
			return 0, err
		}
		b.MarkReady(next.Prepared)
	}
	return 0, nil
}

func bundleResults(said map[string]string) *plan.BundleResults {
	return &plan.BundleResults{
		GoldenVolume: said[runs.ResultGoldenVolume], VolumeUID: types.UID(said[runs.ResultGoldenVolumeUID]),
		SSHKeySecret: said[runs.ResultSSHKeySecret], OCPVersion: said[runs.ResultOCPVersion],
		SHA256: said[runs.ResultSHA256], BuildTime: said[runs.ResultBuildTime],
	}
}

// own gives volume and key our owner reference: a person's run could not.
func (r *Reconciler) own(ctx context.Context, b *v1alpha1.CRCBundle, volume, key *metav1.ObjectMeta) error {
	core := r.kube.CoreV1()
	if patch := ownerPatch(b, volume); patch != nil {
		_, err := core.PersistentVolumeClaims(guestcluster.BundleNamespace).Patch(ctx, volume.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			return fmt.Errorf("adopt PersistentVolumeClaim %s: %w", volume.Name, err)
		}
	}
	if patch := ownerPatch(b, key); patch != nil {
		_, err := core.Secrets(guestcluster.BundleNamespace).Patch(ctx, key.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			return fmt.Errorf("adopt Secret %s: %w", key.Name, err)
		}
	}
	return nil
}

// ownerPatch adds our owner reference to exactly the object that was read; nil
// when it is there.
func ownerPatch(b *v1alpha1.CRCBundle, object *metav1.ObjectMeta) []byte {
	if slices.ContainsFunc(object.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == b.UID }) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": object.UID, "resourceVersion": object.ResourceVersion,
		"ownerReferences": append(slices.Clone(object.OwnerReferences), b.Owner()),
	}})
	if err != nil {
		return nil // unreachable: strings and booleans encode
	}
	return patch
}
