package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/steps/step"
)

// maxRestarts: the control plane may trip over its own start, but not often.
const maxRestarts = 5

// pullPatience: a registry may be away for a moment, a wrong image stays wrong.
const pullPatience = 90 * time.Second

// broken says why a pod will never serve.
func broken(pod *corev1.Pod, now time.Time) error {
	if pod.DeletionTimestamp != nil {
		return step.InfraError("Pod %s/%s is being deleted while it boots", pod.Namespace, pod.Name)
	}
	if phase := pod.Status.Phase; phase == corev1.PodFailed || phase == corev1.PodSucceeded {
		return step.InfraError("Pod %s/%s is %s: %s %s", pod.Namespace, pod.Name, phase, pod.Status.Reason, pod.Status.Message)
	}
	for _, c := range containers(pod) {
		if w := c.State.Waiting; w != nil && w.Reason == "InvalidImageName" {
			return step.UserError("container %s: %s: %s", c.Name, w.Reason, w.Message)
		}
		if w := c.State.Waiting; w != nil && strings.Contains(w.Reason, "ImagePull") && now.Sub(pod.CreationTimestamp.Time) > pullPatience {
			return step.UserError("container %s: image %s cannot be pulled: %s: %s; correct template.params.image of the pool",
				c.Name, c.Image, w.Reason, v1alpha1.Truncate(w.Message, 400))
		}
		if last := c.LastTerminationState.Terminated; last != nil && c.RestartCount >= maxRestarts {
			return step.InfraError("container %s ended %d times, last with exit code %d: %s",
				c.Name, c.RestartCount, last.ExitCode, v1alpha1.Truncate(last.Message, 400))
		}
	}
	return nil
}

// holdup names the first container that waits, and for what.
func holdup(pod *corev1.Pod) string {
	for _, c := range containers(pod) {
		if w := c.State.Waiting; w != nil && w.Reason != "" && w.Reason != "PodInitializing" {
			return fmt.Sprintf(" (container %s: %s)", c.Name, w.Reason)
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return " (" + c.Message + ")"
		}
	}
	return ""
}

func containers(pod *corev1.Pod) []corev1.ContainerStatus {
	return slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
}
