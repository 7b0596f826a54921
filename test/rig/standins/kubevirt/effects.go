package kubevirt

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"opdev.io/guestcluster/test/rig/standins/loop"
	"opdev.io/guestcluster/test/rig/standins/objects"
)

func (c *Controller) stepInstance(ctx context.Context, object runtime.Object, i *instance) error {
	f := instanceFacts{instance: i, faults: c.faultsOf(i.Namespace, i.Name), refusal: c.refusals[i.UID]}
	var err error
	if f.volumes, f.missing, _, err = c.disksOf(i.Namespace, i.Spec); err != nil {
		return err
	}
	if f.launcher, f.temporary, err = c.podsOf(i); err != nil {
		return err
	}
	d := decideInstance(f, metav1.Now())
	if err := c.actOnInstance(ctx, f, d.do); err != nil {
		return fmt.Errorf("instance %s/%s: %w", i.Namespace, i.Name, err)
	}
	return c.writeInstance(ctx, object, i, d)
}

func (c *Controller) actOnInstance(ctx context.Context, f instanceFacts, do instanceAction) error {
	switch do {
	case createLauncher, createTemporary:
		return c.createPod(ctx, f, do == createTemporary)
	case deleteTemporary:
		return c.deletePod(ctx, f.temporary)
	case deletePods:
		for _, pod := range []*corev1.Pod{f.launcher, f.temporary} {
			if err := c.deletePod(ctx, pod); err != nil {
				return err
			}
		}
	case removeInstanceFinalizer:
		delete(c.refusals, f.instance.UID)
	}
	return nil
}

func (c *Controller) createPod(ctx context.Context, f instanceFacts, temporary bool) error {
	pod := buildPod(f.instance, c.images, f.faults, temporary)
	_, err := c.launchers.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	about := &metav1.PartialObjectMetadata{TypeMeta: f.instance.TypeMeta, ObjectMeta: f.instance.ObjectMeta}
	switch {
	case apierrors.IsForbidden(err) || apierrors.IsInvalid(err):
		c.refusals[f.instance.UID] = err.Error()
		c.recorder.Eventf(about, corev1.EventTypeWarning, "FailedCreate", "Error creating pod: %v", err)
		c.Changes.NotifyAfter(retryInterval)
		return nil
	case err != nil:
		return loop.Outdated(fmt.Errorf("create the pod: %w", err))
	}
	delete(c.refusals, f.instance.UID)
	c.recorder.Eventf(about, corev1.EventTypeNormal, "SuccessfulCreate", "Created virtual machine pod %s", pod.Name)
	return nil
}

func (c *Controller) deletePod(ctx context.Context, pod *corev1.Pod) error {
	if pod == nil || pod.DeletionTimestamp != nil {
		return nil
	}
	err := c.launchers.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &pod.UID},
	})
	return loop.Outdated(err)
}

// writeInstance updates the whole object: its status is no subresource.
func (c *Controller) writeInstance(ctx context.Context, object runtime.Object, i *instance, d instanceDecision) error {
	changed, err := objects.WithStatus(object, &d.status)
	if err != nil {
		return err
	}
	if changed == nil {
		changed = object.(*unstructured.Unstructured).DeepCopy()
	}
	changed.SetLabels(labelsOf(i, d.status.NodeName))
	if d.do == removeInstanceFinalizer {
		changed.SetFinalizers(without(i.Finalizers, instanceFinalizer))
	}
	if equality.Semantic.DeepEqual(changed.Object, object.(*unstructured.Unstructured).Object) {
		return nil
	}
	_, err = c.dynamic.Resource(Instances).Namespace(i.Namespace).Update(ctx, changed, metav1.UpdateOptions{})
	return loop.Outdated(err)
}

func (c *Controller) stepMachine(ctx context.Context, object runtime.Object, m *machine) error {
	f := machineFacts{machine: m}
	var err error
	if f.volumes, _, f.unbound, err = c.disksOf(m.Namespace, m.Spec.Template.Spec); err != nil {
		return err
	}
	if f.instance, err = c.instanceOf(m); err != nil {
		return err
	}
	d := decideMachine(f, metav1.Now())
	if d.after > 0 {
		c.Changes.NotifyAfter(d.after)
	}
	if changed, err := objects.WithStatus(object, &d.status); err != nil || changed != nil {
		if err == nil {
			_, err = c.dynamic.Resource(Machines).Namespace(m.Namespace).UpdateStatus(ctx, changed, metav1.UpdateOptions{})
		}
		// The action waits for the status: that counts failures of instances
		// that are about to go.
		if err != nil {
			return loop.Outdated(err)
		}
	}
	return c.actOnMachine(ctx, object.(*unstructured.Unstructured), f, d.do)
}

// instanceOf is the machine's instance, or nil. An older machine's instance of
// the same name is on its way out.
func (c *Controller) instanceOf(m *machine) (*instance, error) {
	object, err := c.instances.ByNamespace(m.Namespace).Get(m.Name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	found, err := objects.Read[instance](object)
	if err != nil || !metav1.IsControlledBy(found, m) {
		return nil, err
	}
	return found, nil
}

func (c *Controller) actOnMachine(ctx context.Context, object *unstructured.Unstructured, f machineFacts, do machineAction) error {
	instances := c.dynamic.Resource(Instances).Namespace(f.machine.Namespace)
	switch do {
	case createInstance:
		_, err := instances.Create(ctx, buildInstance(object, f.machine), metav1.CreateOptions{})
		return loop.Outdated(err)
	case deleteInstance:
		return loop.Outdated(instances.Delete(ctx, f.instance.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &f.instance.UID},
		}))
	case addMachineFinalizer:
		return c.setFinalizers(ctx, f.machine.Namespace, f.machine.Name, f.machine.UID,
			append(slices.Clone(f.machine.Finalizers), machineFinalizer))
	case removeMachineFinalizer:
		return c.setFinalizers(ctx, f.machine.Namespace, f.machine.Name, f.machine.UID, without(f.machine.Finalizers, machineFinalizer))
	}
	return nil
}

// setFinalizers reads the machine anew: its status has just been written.
func (c *Controller) setFinalizers(ctx context.Context, namespace, name string, uid types.UID, finalizers []string) error {
	machines := c.dynamic.Resource(Machines).Namespace(namespace)
	object, err := machines.Get(ctx, name, metav1.GetOptions{})
	if err != nil || object.GetUID() != uid || slices.Equal(object.GetFinalizers(), finalizers) {
		return loop.Gone(err)
	}
	object.SetFinalizers(finalizers)
	_, err = machines.Update(ctx, object, metav1.UpdateOptions{})
	return loop.Outdated(err)
}

// buildInstance copies the template as it is: the instance's schema knows more
// fields than the stand-in.
func buildInstance(object *unstructured.Unstructured, m *machine) *unstructured.Unstructured {
	template, _, _ := unstructured.NestedMap(object.Object, "spec", "template")
	made := &unstructured.Unstructured{Object: map[string]any{"spec": template["spec"]}}
	if metadata, ok := template["metadata"].(map[string]any); ok {
		made.Object["metadata"] = metadata
	}
	made.SetGroupVersionKind(instanceKind)
	made.SetName(m.Name)
	made.SetGenerateName("")
	made.SetNamespace(m.Namespace)
	made.SetFinalizers([]string{instanceFinalizer})
	made.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(m, machineKind)})
	return made
}

func without(all []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(found string) bool { return found == name })
}
