package instance

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/reconciler/probe"
	"opdev.io/guestcluster/pkg/runs"
)

const maxVersion = 63

// accept takes the kubeconfig that the run left, or fails the instance. The
// steps' rights go first: what is read here must not change afterwards.
func (r *Reconciler) accept(ctx context.Context, i *v1alpha1.ClusterInstance) error {
	if err := r.revoke(ctx, i); err != nil {
		return err
	}
	secret, err := r.readHandoff(ctx, i)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	results, err := r.runResults(ctx, i)
	if err != nil {
		return err
	}
	problem := handoffProblem(i, secret)
	if problem == "" {
		problem = resultsProblem(i, secret, results)
	}
	if problem == "" && i.Spec.Type == v1alpha1.TypeCRC {
		if problem, err = r.acceptMachine(ctx, i, secret); err != nil {
			return err
		}
	}
	if problem != "" {
		r.markFailed(i, v1alpha1.ReasonHandoffInvalid, v1alpha1.FailureStatus{Run: i.Status.Run.Name, Message: problem})
		return nil
	}
	i.MarkProvisioned(version(secret, results))
	return nil
}

// acceptMachine records the machine behind a kubeconfig, or says why it is
// refused: a straggler must not hand over the guest of another start.
func (r *Reconciler) acceptMachine(ctx context.Context, i *v1alpha1.ClusterInstance, secret *corev1.Secret) (string, error) {
	wrote := types.UID(secret.Data[guestcluster.VMIUIDKey])
	for _, key := range []string{guestcluster.VMIUIDKey, guestcluster.SSHHostKeyKey} {
		if len(secret.Data[key]) == 0 {
			return fmt.Sprintf("Secret %s has no key %s", secret.Name, key), nil
		}
	}
	nothing := func(*unstructured.Unstructured) bool { return false } // of what is cached is believed
	machine, err := r.see(ctx, i, machineGVR, nothing)
	if err != nil {
		return "", err
	}
	running, err := r.see(ctx, i, runningGVR, nothing)
	switch {
	case err != nil:
		return "", err
	case machine == nil || !stands(i, machine):
		return fmt.Sprintf("VirtualMachine %s does not exist or is not this instance's", i.DerivedName()), nil
	case running == nil || !isRunning(machine, running):
		return fmt.Sprintf("VirtualMachine %s does not run", i.DerivedName()), nil
	case running.GetUID() != wrote:
		return fmt.Sprintf("Secret %s was written for another start of the machine: key %s is not the UID of VirtualMachineInstance %s",
			secret.Name, guestcluster.VMIUIDKey, i.DerivedName()), nil
	}
	i.MarkMachine(wrote)
	return "", nil
}

// revoke deletes the rights of the steps. A straggler, of a run that vanished
// say, could otherwise rewrite the kubeconfig that a lease already has.
func (r *Reconciler) revoke(ctx context.Context, i *v1alpha1.ClusterInstance) error {
	var errs []error
	for _, c := range rights(i) {
		_, err := r.remove(ctx, i, c)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// readHandoff reads the kubeconfig Secret; it is nil with a NotFound error.
func (r *Reconciler) readHandoff(ctx context.Context, i *v1alpha1.ClusterInstance) (*corev1.Secret, error) {
	secret, err := r.kube.CoreV1().Secrets(i.Namespace).Get(ctx, i.KubeconfigSecretName(), metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read Secret %s: %w", i.KubeconfigSecretName(), err)
	}
	return secret, nil
}

// runResults are read live: the informer's transform drops them. A pruned run has none.
func (r *Reconciler) runResults(ctx context.Context, i *v1alpha1.ClusterInstance) (map[string]string, error) {
	run, err := r.finder(i).Live(ctx, i.Status.Run)
	if run == nil {
		return nil, err
	}
	return runs.Results(run), nil
}

// handoffProblem says why a kubeconfig Secret is refused; nothing when it is good.
func handoffProblem(i *v1alpha1.ClusterInstance, secret *corev1.Secret) string {
	name := i.KubeconfigSecretName()
	if secret == nil {
		return fmt.Sprintf("Secret %s is gone", name)
	}
	if !metav1.IsControlledBy(secret, i) {
		return fmt.Sprintf("Secret %s does not belong to this instance", name)
	}
	wrote := string(secret.Data[guestcluster.RunUIDKey])
	if wrote == "" {
		return fmt.Sprintf("Secret %s was not filled by the run: key %s is empty", name, guestcluster.RunUIDKey)
	}
	if wrote != string(i.Status.Run.UID) {
		return fmt.Sprintf("Secret %s was written for another run: key %s is not the UID of %s", name, guestcluster.RunUIDKey, i.Status.Run.Name)
	}
	if _, err := probe.Parse(secret.Data[guestcluster.KubeconfigKey], i.Status.APIEndpoint); err != nil {
		return fmt.Sprintf("Secret %s: %s", name, runs.Redact(err.Error()))
	}
	return ""
}

// resultsProblem compares what the run says with what it wrote.
func resultsProblem(i *v1alpha1.ClusterInstance, secret *corev1.Secret, results map[string]string) string {
	endpoint, wrote, said := results[runs.ResultAPIEndpoint], string(secret.Data[guestcluster.OCPVersionKey]), results[runs.ResultOCPVersion]
	switch {
	case endpoint != "" && !probe.SameEndpoint(endpoint, i.Status.APIEndpoint):
		return fmt.Sprintf("result %s is %q, the assigned endpoint is %q", runs.ResultAPIEndpoint, v1alpha1.Truncate(endpoint, 256), i.Status.APIEndpoint)
	case wrote != "" && said != "" && wrote != said:
		return fmt.Sprintf("result %s is %q, key %s of the Secret is %q", runs.ResultOCPVersion, v1alpha1.Truncate(said, maxVersion), guestcluster.OCPVersionKey, v1alpha1.Truncate(wrote, maxVersion))
	case version(secret, results) == "":
		return fmt.Sprintf("Secret %s has no key %s", secret.Name, guestcluster.OCPVersionKey)
	}
	return ""
}

func version(secret *corev1.Secret, results map[string]string) string {
	return v1alpha1.Truncate(cmp.Or(string(secret.Data[guestcluster.OCPVersionKey]), results[runs.ResultOCPVersion]), maxVersion)
}
