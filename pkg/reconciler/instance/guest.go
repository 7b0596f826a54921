package instance

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/controller"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/plan"
	"opdev.io/guestcluster/pkg/reconciler/catalog"
	"opdev.io/guestcluster/pkg/reconciler/instance/resources"
)

// strategyAlways brings a machine back whatever ended it.
const strategyAlways = "Always"

// tend looks after the virtual machine of a provisioned instance: it starts one
// that was stopped, follows one that restarted and gives up on one that is gone.
func (r *Reconciler) tend(ctx context.Context, i *v1alpha1.ClusterInstance) (plan.GuestPlan, error) {
	if i.Spec.Type != v1alpha1.TypeCRC {
		return plan.GuestPlan{}, nil
	}
	facts, machine, err := r.guestFacts(ctx, i)
	if err != nil {
		return plan.GuestPlan{}, err
	}
	next := plan.Guest(facts)
	switch next.Step {
	case plan.GuestRuns:
		return next, nil
	case plan.GuestGiveUp:
		r.markFailed(i, next.Reason, v1alpha1.FailureStatus{Message: next.Message})
		return next, nil
	case plan.GuestStart:
		err = r.startMachine(ctx, i, machine)
	case plan.GuestAdopt:
		i.MarkMachine(facts.Running)
	}
	if next.Down() && facts.Reason != v1alpha1.ReasonGuestStopped {
		// What it answered before it went down says nothing of what comes up.
		r.prober.Forget(keyOf(i))
	}
	markUnreachable(i, next.Reason, next.Message)
	return next, err
}

func (r *Reconciler) guestFacts(ctx context.Context, i *v1alpha1.ClusterInstance) (plan.GuestFacts, *unstructured.Unstructured, error) {
	facts := plan.GuestFacts{Name: i.DerivedName(), Known: i.VMIUID(), Reason: i.Status.ReachableReason()}
	machine, err := r.see(ctx, i, machineGVR, func(o *unstructured.Unstructured) bool { return stands(i, o) && runsAlways(o) })
	if err != nil {
		return facts, nil, err
	}
	if machine == nil || !stands(i, machine) {
		facts.Gone = "VirtualMachine " + facts.Name
		return facts, nil, nil
	}
	facts.Halted = !runsAlways(machine)
	running, err := r.see(ctx, i, runningGVR, func(o *unstructured.Unstructured) bool { return isRunning(machine, o) && o.GetUID() == facts.Known })
	if err != nil {
		return facts, nil, err
	}
	if running != nil && isRunning(machine, running) {
		facts.Running = running.GetUID()
	}
	facts.Gone, err = r.lostDisk(ctx, i)
	return facts, machine, err
}

// see returns an object of the instance's name: what a watch saw if that is
// enough, else what a live GET shows; nil when there is none.
func (r *Reconciler) see(ctx context.Context, i *v1alpha1.ClusterInstance, gvr schema.GroupVersionResource, enough func(*unstructured.Unstructured) bool) (*unstructured.Unstructured, error) {
	if seen := r.kinds.get(gvr, i.Namespace, i.DerivedName()); seen != nil && enough(seen) {
		return seen, nil
	}
	live, err := r.dynamic.Resource(gvr).Namespace(i.Namespace).Get(ctx, i.DerivedName(), metav1.GetOptions{})
	switch {
	case notServed(err):
		return nil, &waitError{reason: v1alpha1.ReasonVirtualizationMissing, after: lookAgain,
			message: (&catalog.VirtualizationError{API: gvr.GroupVersion().String()}).Error()}
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read %s %s: %w", gvr.Resource, i.DerivedName(), err)
	}
	return live, nil
}

// lostDisk names the claim when it is gone or going; a machine that still runs
// on it cannot restart. Its DataVolume is watched, the claim itself is not.
func (r *Reconciler) lostDisk(ctx context.Context, i *v1alpha1.ClusterInstance) (string, error) {
	name := i.DerivedName()
	volume := r.kinds.get(dataVolumeGVR, i.Namespace, name)
	if !r.looked.due(i.UID, r.clock.Now(), repairEvery) && volume != nil && stands(i, volume) {
		return "", nil
	}
	claim, err := r.kube.CoreV1().PersistentVolumeClaims(i.Namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) || (err == nil && claim.DeletionTimestamp != nil):
		return "PersistentVolumeClaim " + name, nil
	case err != nil:
		r.looked.forget(i.UID)
		return "", fmt.Errorf("read PersistentVolumeClaim %s: %w", name, err)
	}
	return "", nil
}

// startMachine undoes what stopped the machine; spec.running excludes the run strategy.
func (r *Reconciler) startMachine(ctx context.Context, i *v1alpha1.ClusterInstance, machine *unstructured.Unstructured) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": machine.GetUID(), "resourceVersion": machine.GetResourceVersion()},
		"spec":     map[string]any{"runStrategy": strategyAlways, "running": nil},
	})
	if err != nil {
		return fmt.Errorf("encode start of VirtualMachine: %w", err)
	}
	_, err = r.dynamic.Resource(machineGVR).Namespace(i.Namespace).Patch(ctx, machine.GetName(), types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("start VirtualMachine %s: %w", machine.GetName(), err)
	}
	controller.GetEventRecorder(ctx).Eventf(i, corev1.EventTypeWarning, string(v1alpha1.ReasonGuestStopped),
		"VirtualMachine %s was stopped by somebody: its run strategy is %s again", machine.GetName(), strategyAlways)
	return nil
}

// stands says whether an object is the instance's and stays.
func stands(i *v1alpha1.ClusterInstance, object *unstructured.Unstructured) bool {
	return resources.Owns(i, object) && object.GetDeletionTimestamp() == nil
}

func runsAlways(machine *unstructured.Unstructured) bool {
	strategy, _, _ := unstructured.NestedString(machine.Object, "spec", "runStrategy")
	return strategy == strategyAlways
}

// isRunning says whether a running machine is of the VirtualMachine and does not end.
func isRunning(machine, running *unstructured.Unstructured) bool {
	phase, _, _ := unstructured.NestedString(running.Object, "status", "phase")
	return metav1.IsControlledBy(running, machine) && running.GetDeletionTimestamp() == nil && phase != "Succeeded" && phase != "Failed"
}
