package broker

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/test/internal/server"
)

// Resources of KubeVirt and CDI.
var (
	MachineGVR    = schema.GroupVersionResource{Group: "kubevirt.io", Version: "v1", Resource: "virtualmachines"}
	RunningGVR    = schema.GroupVersionResource{Group: "kubevirt.io", Version: "v1", Resource: "virtualmachineinstances"}
	DataVolumeGVR = schema.GroupVersionResource{Group: "cdi.kubevirt.io", Version: "v1beta1", Resource: "datavolumes"}
)

// StartMachines plays KubeVirt in one namespace: a VirtualMachine whose run
// strategy is Always gets a running machine whenever it has none; another loses
// it. It stops with the test.
func StartMachines(t testing.TB, s *server.Server, namespace string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	for _, gvr := range []schema.GroupVersionResource{MachineGVR, RunningGVR} {
		client := s.Dynamic.Resource(gvr).Namespace(namespace)
		go Follow(ctx, client.List, client.Watch, func(object runtime.Object, _ bool) {
			if o, ok := object.(*unstructured.Unstructured); ok {
				if err := settleMachine(ctx, s, namespace, o.GetName()); err != nil && ctx.Err() == nil {
					t.Logf("stand-in for KubeVirt, machine %s: %v", o.GetName(), err)
				}
			}
		})
	}
}

func settleMachine(ctx context.Context, s *server.Server, namespace, name string) error {
	machine, err := s.Dynamic.Resource(MachineGVR).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || (err == nil && machine.GetDeletionTimestamp() != nil) {
		return nil // garbage collection takes the running one
	}
	if err != nil {
		return err
	}
	client := s.Dynamic.Resource(RunningGVR).Namespace(namespace)
	strategy, _, _ := unstructured.NestedString(machine.Object, "spec", "runStrategy")
	if strategy != "Always" {
		err = client.Delete(ctx, name, metav1.DeleteOptions{})
	} else {
		_, err = client.Create(ctx, runningOf(machine), metav1.CreateOptions{})
	}
	if apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func runningOf(machine *unstructured.Unstructured) *unstructured.Unstructured {
	spec, _, _ := unstructured.NestedMap(machine.Object, "spec", "template", "spec")
	labels, _, _ := unstructured.NestedStringMap(machine.Object, "spec", "template", "metadata", "labels")
	running := &unstructured.Unstructured{Object: map[string]any{"spec": spec, "status": map[string]any{"phase": "Running"}}}
	running.SetAPIVersion("kubevirt.io/v1")
	running.SetKind("VirtualMachineInstance")
	running.SetName(machine.GetName())
	running.SetNamespace(machine.GetNamespace())
	running.SetLabels(labels)
	running.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(machine, machine.GroupVersionKind())})
	return running
}

// makeMachine makes what the steps of provision-crc make, as they do: what
// exists already is adopted. It returns the UID of the machine that runs.
func (p *Provisioner) makeMachine(ctx context.Context, namespace, name string) (string, error) {
	owner, err := p.ownerOf(ctx, namespace, name)
	if err != nil {
		return "", err
	}
	volume := dataVolume(owner, name)
	volume, err = adopt(ctx, p.server, DataVolumeGVR, volume)
	if err != nil {
		return "", fmt.Errorf("make DataVolume: %w", err)
	}
	if _, err := p.server.Kube.CoreV1().PersistentVolumeClaims(namespace).Create(ctx, claimOf(volume), metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return "", fmt.Errorf("make PersistentVolumeClaim: %w", err)
	}
	if _, err := adopt(ctx, p.server, MachineGVR, machine(owner, name)); err != nil {
		return "", fmt.Errorf("make VirtualMachine: %w", err)
	}
	return p.running(ctx, namespace, name)
}

// running waits for the machine that the stand-in for KubeVirt starts.
func (p *Provisioner) running(ctx context.Context, namespace, name string) (uid string, err error) {
	err = wait.PollUntilContextTimeout(ctx, reconnect, Patience, true, func(ctx context.Context) (bool, error) {
		running, err := p.server.Dynamic.Resource(RunningGVR).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			uid = string(running.GetUID())
		}
		return err == nil, nil
	})
	return uid, err
}

func (p *Provisioner) ownerOf(ctx context.Context, namespace, name string) (*v1alpha1.ClusterInstance, error) {
	list, err := p.server.Guest.GuestclusterV1alpha1().ClusterInstances(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for n := range list.Items {
		if list.Items[n].DerivedName() == name {
			return &list.Items[n], nil
		}
	}
	return nil, apierrors.NewNotFound(v1alpha1.Resource("clusterinstances"), name)
}

func adopt(ctx context.Context, s *server.Server, gvr schema.GroupVersionResource, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	client := s.Dynamic.Resource(gvr).Namespace(object.GetNamespace())
	made, err := client.Create(ctx, object, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return client.Get(ctx, object.GetName(), metav1.GetOptions{})
	}
	return made, err
}

func child(owner *v1alpha1.ClusterInstance, apiVersion, kind, name string, spec map[string]any) *unstructured.Unstructured {
	meta := owner.ChildMeta(name)
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetAPIVersion(apiVersion)
	object.SetKind(kind)
	object.SetName(name)
	object.SetNamespace(owner.Namespace)
	object.SetLabels(meta.Labels)
	object.SetOwnerReferences(meta.OwnerReferences)
	return object
}

func dataVolume(owner *v1alpha1.ClusterInstance, name string) *unstructured.Unstructured {
	return child(owner, "cdi.kubevirt.io/v1beta1", "DataVolume", name, map[string]any{
		"source":  map[string]any{"blank": map[string]any{}},
		"storage": map[string]any{"resources": map[string]any{"requests": map[string]any{"storage": "1Gi"}}},
	})
}

func machine(owner *v1alpha1.ClusterInstance, name string) *unstructured.Unstructured {
	return child(owner, "kubevirt.io/v1", "VirtualMachine", name, map[string]any{
		"runStrategy": "Always",
		"template": map[string]any{
			"metadata": map[string]any{"labels": map[string]any{guestcluster.EndpointLabel: string(owner.UID)}},
			"spec":     map[string]any{"domain": map[string]any{"devices": map[string]any{}}},
		},
	})
}

func claimOf(volume *unstructured.Unstructured) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: volume.GetName(), Namespace: volume.GetNamespace(),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(volume, volume.GroupVersionKind())},
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
}
