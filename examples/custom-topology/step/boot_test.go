package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	core "k8s.io/client-go/kubernetes/typed/core/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/steps/fakeapi"
	"opdev.io/guestcluster/pkg/steps/step"
)

const podPath = "/api/v1/namespaces/clusters/pods/gc-demo-0-abc"

func newBooter(t *testing.T) (*booter, *fakeapi.Server, *bytes.Buffer) {
	api, out := fakeapi.Start(t), &bytes.Buffer{}
	client, err := core.NewForConfig(api.Config())
	if err != nil {
		t.Fatal(err)
	}
	return &booter{
		options: options{
			instance: "demo-0", namespace: "clusters", instanceUID: "uid-of-demo-0", service: "gc-demo-0-abc",
			apiHost: "gc-demo-0-abc.apps.example.com", image: "example.com/guest", identitySecret: "demo-0-identity",
			identityDir: "/identity", timeout: time.Second,
		},
		pods: client.Pods("clusters"), configMaps: client.ConfigMaps("clusters"),
		progress: out, pause: wait.Backoff{Duration: time.Millisecond},
	}, api, out
}

func TestMakesAndAdoptsItsPod(t *testing.T) {
	b, api, out := newBooter(t)
	for range 2 {
		if err := ensure(context.Background(), b, b.pods, newPod(&b.options), "Pod"); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(out.String(), "made Pod") || !strings.Contains(out.String(), "adopting Pod") {
		t.Errorf("output %q", out)
	}
	pod := &corev1.Pod{}
	api.Get(podPath, pod)
	if pod.Labels[guestcluster.EndpointLabel] != "uid-of-demo-0" || len(pod.OwnerReferences) != 1 || pod.OwnerReferences[0].BlockOwnerDeletion != nil {
		t.Errorf("pod %+v", pod.ObjectMeta)
	}
}

func TestRefusesAPodOfAnother(t *testing.T) {
	b, api, _ := newBooter(t)
	api.Put(podPath, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "gc-demo-0-abc", OwnerReferences: []metav1.OwnerReference{{Name: "demo-0", UID: "older"}}}})
	err := ensure(context.Background(), b, b.pods, newPod(&b.options), "Pod")
	if step.ExitCode(err) != step.ExitUser {
		t.Errorf("error %v", err)
	}
}

func TestThePodIsRestricted(t *testing.T) {
	b, _, _ := newBooter(t)
	pod := newPod(&b.options)
	if s := pod.Spec.SecurityContext; !*s.RunAsNonRoot || s.RunAsUser != nil || s.FSGroup != nil {
		t.Errorf("pod security context %+v", s)
	}
	for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
		if s := c.SecurityContext; *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || s.Capabilities.Drop[0] != "ALL" {
			t.Errorf("%s: security context %+v", c.Name, s)
		}
	}
}

func TestBroken(t *testing.T) {
	crashed := func(restarts int32) *corev1.Pod {
		return &corev1.Pod{Status: corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{{
			Name: "etcd", RestartCount: restarts,
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: "no space"}},
		}}}}
	}
	if err := broken(crashed(1), time.Now()); err != nil {
		t.Errorf("one restart is no failure: %v", err)
	}
	if err := broken(crashed(maxRestarts), time.Now()); step.ExitCode(err) != step.ExitInfra || !strings.Contains(err.Error(), "no space") {
		t.Errorf("error %v", err)
	}
	if err := broken(&corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed}}, time.Now()); step.ExitCode(err) != step.ExitInfra {
		t.Errorf("error %v", err)
	}
}

func TestAnImageThatCannotBePulledIsNamed(t *testing.T) {
	made := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(made)}}
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{
		Name: "etcd", Image: "nowhere/guest:1", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "not found"}},
	}}
	if err := broken(pod, made.Add(pullPatience)); err != nil {
		t.Errorf("a registry has no time to come back: %v", err)
	}
	err := broken(pod, made.Add(pullPatience+time.Second))
	if step.ExitCode(err) != step.ExitUser || !strings.Contains(err.Error(), "nowhere/guest:1") {
		t.Errorf("got %v", err)
	}
}
