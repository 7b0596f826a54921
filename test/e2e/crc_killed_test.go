//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

// kill deletes the pod of a task: when it is seen first, or after a line of its
// log that begins with a text.
type kill struct{ task, after string }

// TestKilledPods: whatever is killed goes on, and nothing is left. A pod that is
// gone at once is replaced by Tekton in the same run; one that is told to stop
// ends its run, and the next attempt goes on. test/crc kills after more phases.
func TestKilledPods(t *testing.T) {
	everyTask := []kill{
		{"create-datavolume", ""}, {"boot-vm", "made VirtualMachine"},
		{"fix-up-guest", "swap the SSH keys: done"}, {"fix-up-guest", "replace the admin CA: done"},
		{"publish-kubeconfig", ""},
	}
	t.Run("an instance, at each task", func(t *testing.T) { t.Parallel(); killedInstance(t, 0, 0, everyTask...) })
	t.Run("an instance, told to stop", func(t *testing.T) {
		t.Parallel()
		killedInstance(t, 30, 1, kill{"fix-up-guest", "swap the SSH keys: done"})
	})
	t.Run("a bundle, at each task", func(t *testing.T) {
		t.Parallel()
		killedBundle(t, "4.98.3", kill{"create-golden-volume", ""}, kill{"fetch-bundle", "downloading"}, kill{"publish-bundle", ""})
	})
}

func killedInstance(t *testing.T, grace int64, attempt int32, kills ...kill) {
	ns := machineNamespace(t, "none: \"true\"")
	standalone(t, ns, crcVersion, "")
	killPods(t, ns, guestcluster.InstanceLabel+"=alone", grace, kills)
	var i *v1alpha1.ClusterInstance
	waitFor(t, "a Ready instance", func(ctx context.Context) (bool, string) {
		var err error
		if i, err = rig.Guest.GuestclusterV1alpha1().ClusterInstances(ns).Get(ctx, "alone", metav1.GetOptions{}); err != nil {
			return false, err.Error()
		}
		if i.IsFailed() {
			t.Fatalf("it failed: %+v", i.Status.Failure)
		}
		return i.IsReady(), fmt.Sprintf("%+v", i.Status.Conditions)
	})
	if got := i.Status.Run.Attempt; got != attempt {
		t.Errorf("Ready after attempt %d, want %d", got, attempt)
	}
	remove(t, i)
	waitCRCDestroyed(t, v1alpha1.ObjectReference{Namespace: ns, Name: i.Name, UID: i.UID})
}

func killedBundle(t *testing.T, version string, kills ...kill) {
	makeBundle(t, version, "")
	killPods(t, guestcluster.BundleNamespace, guestcluster.BundleLabel+"="+v1alpha1.BundleName(version, ""), 0, kills)
	b := preparedBundle(t, version)
	if b.Status.Phase != v1alpha1.BundleReady || b.Status.Run.Attempt != 0 {
		t.Errorf("bundle is %s after attempt %d, want Ready after the first: %+v", b.Status.Phase, b.Status.Run.Attempt, b.Status.Failure)
	}
}

// killPods kills one pod after the other and waits until the last has a successor.
func killPods(t *testing.T, ns, selector string, grace int64, kills []kill) {
	t.Helper()
	dead := map[types.UID]bool{}
	for _, k := range kills {
		p := awaitPod(t, ns, selector, k.task, dead)
		if k.after != "" {
			awaitLine(t, p, k.after)
		}
		err := rig.Kube.CoreV1().Pods(ns).Delete(t.Context(), p.Name, metav1.DeleteOptions{
			GracePeriodSeconds: &grace, Preconditions: &metav1.Preconditions{UID: &p.UID}})
		if err != nil {
			t.Fatalf("kill pod %s: %v", p.Name, err)
		}
		dead[p.UID] = true
		awaitPod(t, ns, selector, k.task, dead)
	}
}

// awaitPod waits for a pod of the task that has neither ended nor was killed.
func awaitPod(t *testing.T, ns, selector, task string, dead map[types.UID]bool) *corev1.Pod {
	t.Helper()
	var found *corev1.Pod
	waitFor(t, "a pod of task "+task, func(ctx context.Context) (bool, string) {
		pods, err := rig.Kube.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{LabelSelector: selector + ",tekton.dev/pipelineTask=" + task})
		if err != nil {
			return false, err.Error()
		}
		for _, p := range pods.Items {
			if ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed; !ended && !dead[p.UID] && p.DeletionTimestamp == nil {
				found = &p
				return true, ""
			}
		}
		return false, fmt.Sprintf("%d pods, none of them to kill", len(pods.Items))
	})
	return found
}

// awaitLine follows the log of the pod's step until a line begins with text.
func awaitLine(t *testing.T, p *corev1.Pod, text string) {
	t.Helper()
	waitFor(t, fmt.Sprintf("line %q of pod %s", text, p.Name), func(ctx context.Context) (bool, string) {
		options := &corev1.PodLogOptions{Follow: true, Container: p.Spec.Containers[0].Name}
		stream, err := rig.Kube.CoreV1().Pods(p.Namespace).GetLogs(p.Name, options).Stream(ctx)
		if apierrors.IsNotFound(err) {
			t.Fatalf("pod %s is gone", p.Name)
		}
		if err != nil {
			return false, err.Error() // not started
		}
		defer stream.Close()
		lines := bufio.NewScanner(stream)
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), text) {
				return true, ""
			}
		}
		return false, "the log ended before"
	})
}
