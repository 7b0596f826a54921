package acquire

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/lessee"
	"opdev.io/guestcluster/pkg/steps/kube"
	"opdev.io/guestcluster/pkg/steps/step"
)

// results are names and facts of a bound lease; the kubeconfig stays in its Secret.
func (a *Acquirer) results(lease *v1alpha1.ClusterLease) []step.Result {
	var results []step.Result
	for _, r := range lessee.Results(lease) {
		results = append(results, step.Result{Path: a.Paths.path(r.Name), Value: r.Value})
	}
	return results
}

// writeKubeconfig copies the kubeconfig to the workspace, if there is one.
func (a *Acquirer) writeKubeconfig(ctx context.Context, lease *v1alpha1.ClusterLease) error {
	if !a.WriteKubeconfig {
		return nil
	}
	var secret *corev1.Secret
	err := step.Retry(ctx, a.Pause, a.Progress, func(ctx context.Context) (err error) {
		secret, err = a.Secrets.Get(ctx, lease.AccessSecretName())
		return kube.Classify("read the lease's Secret", err, "workspace kubeconfig needs ClusterRole guestcluster-lessee-kubeconfig bound to the ServiceAccount of this run")
	})
	if err != nil {
		return err
	}
	path := filepath.Join(a.KubeconfigDir, "kubeconfig")
	// A file that is there keeps its mode when it is written over.
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return step.InfraError("write kubeconfig: %w", err)
	}
	if err := os.WriteFile(path, secret.Data[guestcluster.KubeconfigKey], 0o600); err != nil {
		return step.InfraError("write kubeconfig: %w", err)
	}
	return nil
}
