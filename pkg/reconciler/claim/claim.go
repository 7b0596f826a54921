// Package claim writes the claim protocol's steps: the lease's status guarded
// by resourceVersion, the instance's claimRef, and the guarded deletion of an
// instance. Binding and lease reconcilers share it.
package claim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	versioned "opdev.io/guestcluster/pkg/client/clientset/versioned"
)

// ErrTaken means that another lease has claimed the instance.
var ErrTaken = errors.New("instance is claimed by another lease")

// WriteStatus writes a lease's status once, guarded by the resourceVersion that
// was read. A conflict is returned: whoever wrote before wakes us again.
func WriteStatus(ctx context.Context, client versioned.Interface, before, after *v1alpha1.ClusterLease) error {
	if equality.Semantic.DeepEqual(before.Status, after.Status) {
		return nil
	}
	written, err := client.GuestclusterV1alpha1().ClusterLeases(after.Namespace).UpdateStatus(ctx, after, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("write status of lease %s/%s: %w", after.Namespace, after.Name, err)
	}
	after.ResourceVersion = written.ResourceVersion
	return nil
}

// Write sets the instance's claimRef to the lease, guarded by the UID and
// resourceVersion that were read. On a conflict it reads again: our own claim
// is success, another's is ErrTaken, a changed but open instance is tried once more.
func Write(ctx context.Context, client versioned.Interface, lease *v1alpha1.ClusterLease, instance *v1alpha1.ClusterInstance) error {
	for range 3 {
		err := patchClaim(ctx, client, lease, instance)
		if err == nil {
			return nil
		}
		if !apierrors.IsConflict(err) && !apierrors.IsInvalid(err) {
			return err
		}
		live, getErr := client.GuestclusterV1alpha1().ClusterInstances(instance.Namespace).Get(ctx, instance.Name, metav1.GetOptions{})
		switch {
		case getErr != nil:
			return fmt.Errorf("read instance after a refused claim: %w", getErr)
		case live.ClaimedBy(lease) && live.UID == instance.UID:
			return nil
		case live.Spec.ClaimRef != nil:
			return ErrTaken
		case live.UID != instance.UID || !live.IsReady():
			return err
		}
		instance = live
	}
	return fmt.Errorf("claim instance %s/%s: it changed three times: try again", instance.Namespace, instance.Name)
}

func patchClaim(ctx context.Context, client versioned.Interface, lease *v1alpha1.ClusterLease, instance *v1alpha1.ClusterInstance) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": instance.UID, "resourceVersion": instance.ResourceVersion},
		"spec":     map[string]any{"claimRef": lease.Claim()},
	})
	if err != nil {
		return fmt.Errorf("encode claim: %w", err)
	}
	_, err = client.GuestclusterV1alpha1().ClusterInstances(instance.Namespace).Patch(ctx, instance.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("claim instance %s/%s: %w", instance.Namespace, instance.Name, err)
	}
	return nil
}

// DeleteOpen deletes an unclaimed instance, guarded by the UID and
// resourceVersion that were read: if anybody claimed it since, it stays.
func DeleteOpen(ctx context.Context, client versioned.Interface, namespace, name string, uid types.UID, resourceVersion string) error {
	return deleteInstance(ctx, client, namespace, name, metav1.Preconditions{UID: &uid, ResourceVersion: &resourceVersion})
}

// DeleteClaimed deletes an instance whose claim can no longer change, guarded by UID.
func DeleteClaimed(ctx context.Context, client versioned.Interface, namespace, name string, uid types.UID) error {
	return deleteInstance(ctx, client, namespace, name, metav1.Preconditions{UID: &uid})
}

func deleteInstance(ctx context.Context, client versioned.Interface, namespace, name string, guard metav1.Preconditions) error {
	background := metav1.DeletePropagationBackground
	err := client.GuestclusterV1alpha1().ClusterInstances(namespace).Delete(ctx, name,
		metav1.DeleteOptions{Preconditions: &guard, PropagationPolicy: &background})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete instance %s/%s: %w", namespace, name, err)
	}
	return nil
}
