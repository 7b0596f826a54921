package bundle

import (
	"context"
	"fmt"

	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	tekton "github.com/tektoncd/pipeline/pkg/client/clientset/versioned"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/plan"
	"opdev.io/guestcluster/pkg/runs"
)

// reader reads live what no informer holds.
type reader struct {
	kube   kubernetes.Interface
	tekton tekton.Interface
}

// volume is the bundle's golden volume; nil when there is none.
func (r *reader) volume(ctx context.Context, b *v1alpha1.CRCBundle) (*plan.BundleVolume, *metav1.ObjectMeta, error) {
	pvc, err := r.kube.CoreV1().PersistentVolumeClaims(guestcluster.BundleNamespace).Get(ctx, b.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read PersistentVolumeClaim %s: %w", b.Name, err)
	}
	return &plan.BundleVolume{
		UID: pvc.UID, Deleting: pvc.DeletionTimestamp != nil, Foreign: plan.ForeignToBundle(b, pvc.OwnerReferences),
		Run:        types.UID(pvc.Annotations[guestcluster.PrepareRunAnnotation]),
		SHA256:     pvc.Annotations[guestcluster.BundleSHA256Annotation],
		OCPVersion: pvc.Annotations[guestcluster.OCPVersionAnnotation],
		BuildTime:  pvc.Annotations[guestcluster.BuildTimeAnnotation],
	}, &pvc.ObjectMeta, nil
}

// key is the bundle's boot key Secret; nil when there is none.
func (r *reader) key(ctx context.Context, b *v1alpha1.CRCBundle) (*plan.BundleKey, *metav1.ObjectMeta, error) {
	name := v1alpha1.BootKeySecretName(b.Name)
	secret, err := r.kube.CoreV1().Secrets(guestcluster.BundleNamespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read Secret %s: %w", name, err)
	}
	return &plan.BundleKey{
		Deleting: secret.DeletionTimestamp != nil, Foreign: plan.ForeignToBundle(b, secret.OwnerReferences),
		Filled: len(secret.Data[guestcluster.BootKeyKey]) > 0,
	}, &secret.ObjectMeta, nil
}

// podsThatMount are the pods that have not ended and mount a volume.
func (r *reader) podsThatMount(ctx context.Context, volume string) ([]string, error) {
	pods, err := r.kube.CoreV1().Pods(guestcluster.BundleNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	var names []string
	for _, pod := range pods.Items {
		if pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed && mounts(&pod, volume) {
			names = append(names, pod.Name)
		}
	}
	return names, nil
}

func mounts(pod *corev1.Pod, volume string) bool {
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == volume {
			return true
		}
	}
	return false
}

// personsRun is the run that the bundle follows instead of its own, if any.
func (r *reader) personsRun(ctx context.Context, b *v1alpha1.CRCBundle) (*plan.PreparingRun, error) {
	list, err := r.tekton.TektonV1().PipelineRuns(guestcluster.BundleNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list PipelineRuns: %w", err)
	}
	var persons []plan.PreparingRun
	for i := range list.Items {
		run := &list.Items[i]
		if runs.PreparesBundle(run) && !ownedByABundle(metav1.GetControllerOf(run)) {
			persons = append(persons, preparingRun(run))
		}
	}
	if len(persons) == 0 {
		return nil, nil
	}
	volume, _, err := r.volume(ctx, b)
	if err != nil {
		return nil, err
	}
	return plan.PersonsRun(b.Name, persons, volume), nil
}

func preparingRun(run *pipelinev1.PipelineRun) plan.PreparingRun {
	outcome := runs.Outcome(run)
	p := plan.PreparingRun{
		Name: run.Name, UID: run.UID, Created: run.CreationTimestamp.Time, Deleting: run.DeletionTimestamp != nil,
		Done: outcome.Done(), Succeeded: outcome.Phase == runs.Succeeded,
	}
	if spec, ok := runs.BundleSpec(run); ok {
		p.Bundle = v1alpha1.BundleName(spec.Version, spec.Arch)
	}
	return p
}

// ofBundle selects the runs that carry the bundle's label.
func ofBundle(b *v1alpha1.CRCBundle) labels.Selector {
	return labels.SelectorFromSet(labels.Set{guestcluster.BundleLabel: b.Name})
}

func onlyThis(uid types.UID) metav1.DeleteOptions {
	background := metav1.DeletePropagationBackground
	return metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}, PropagationPolicy: &background}
}
