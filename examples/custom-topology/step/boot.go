package main

import (
	"context"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"opdev.io/guestcluster/pkg/steps/kube"
	"opdev.io/guestcluster/pkg/steps/step"
)

const hint = "the Pipeline's annotation guestcluster.opdev.io/step-cluster-role must name a ClusterRole with these rights"

// store is what the step does with pods and with ConfigMaps.
type store[T metav1.Object] interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
	Create(ctx context.Context, object T, opts metav1.CreateOptions) (T, error)
}

// booter is the step.
type booter struct {
	options
	pods       store[*corev1.Pod]
	configMaps store[*corev1.ConfigMap]
	progress   io.Writer
	pause      wait.Backoff
}

// Run makes the guest's pod, or finds it made by an earlier try, and waits
// until its API is ready.
func (b *booter) Run(ctx context.Context) error {
	if err := b.validate(); err != nil {
		return err
	}
	probe, err := newProbe(b.identityDir, b.apiHost)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	if err := ensure(ctx, b, b.configMaps, newConfigMap(&b.options), "ConfigMap"); err != nil {
		return err
	}
	if err := ensure(ctx, b, b.pods, newPod(&b.options), "Pod"); err != nil {
		return err
	}
	return step.Retry(ctx, b.pause, b.progress, func(ctx context.Context) error {
		return b.ready(ctx, probe)
	})
}

// ensure creates an object or adopts the one that an earlier try made.
func ensure[T metav1.Object](ctx context.Context, b *booter, objects store[T], wanted T, kind string) error {
	return step.Retry(ctx, b.pause, b.progress, func(ctx context.Context) error {
		_, err := objects.Create(ctx, wanted, metav1.CreateOptions{})
		if err == nil {
			fmt.Fprintf(b.progress, "made %s %s/%s\n", kind, b.namespace, b.service)
			return nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return kube.Classify("create "+kind, err, hint)
		}
		found, err := objects.Get(ctx, b.service, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return step.ErrAgain
		case err != nil:
			return kube.Classify("read "+kind, err, hint)
		case !b.owns(found):
			return step.UserError("%s %s/%s exists and is not owned by ClusterInstance %s (%s)", kind, b.namespace, b.service, b.instance, b.instanceUID)
		}
		fmt.Fprintf(b.progress, "adopting %s %s/%s\n", kind, b.namespace, b.service)
		return nil
	})
}

// ready asks the guest once, and says what keeps it.
func (b *booter) ready(ctx context.Context, probe *probe) error {
	pod, err := b.pods.Get(ctx, b.service, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return step.InfraError("Pod %s/%s was deleted while it booted", b.namespace, b.service)
	case err != nil:
		return kube.Classify("read Pod", err, hint)
	}
	if err := broken(pod, time.Now()); err != nil {
		return err
	}
	if pod.Status.PodIP == "" {
		return fmt.Errorf("pod %s/%s has no address yet%s", b.namespace, b.service, holdup(pod))
	}
	if err := probe.ready(ctx, pod.Status.PodIP); err != nil {
		return fmt.Errorf("guest API is not ready%s: %w", holdup(pod), err)
	}
	fmt.Fprintf(b.progress, "guest API is ready at %s:%d\n", pod.Status.PodIP, apiPort)
	return nil
}
