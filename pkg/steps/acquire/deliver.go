package acquire

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/steps/kube"
	"opdev.io/guestcluster/pkg/steps/step"
)

// results are names and facts of a bound lease; the kubeconfig stays in its Secret.
func (a *Acquirer) results(lease *v1alpha1.ClusterLease) []step.Result {
	s, expires := lease.Status, ""
	if s.ExpiresAt != nil {
		expires = s.ExpiresAt.UTC().Format(time.RFC3339)
	}
	secret := ""
	if s.KubeconfigSecretRef != nil {
		secret = s.KubeconfigSecretRef.Name
	}
	return []step.Result{
		{Path: a.Paths.Lease, Value: lease.Name},
		{Path: a.Paths.KubeconfigSecret, Value: secret},
		{Path: a.Paths.APIEndpoint, Value: s.APIEndpoint},
		{Path: a.Paths.OCPVersion, Value: s.OCPVersion},
		{Path: a.Paths.Topology, Value: s.Topology},
		{Path: a.Paths.ExpiresAt, Value: expires},
	}
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
