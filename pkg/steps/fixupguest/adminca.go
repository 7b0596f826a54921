package fixupguest

import (
	"bytes"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/yaml"

	"opdev.io/guestcluster/pkg/steps/guest"
)

const (
	adminCAName = "admin-kubeconfig-client-ca"
	adminCAKey  = "ca-bundle.crt"
	configMaps  = "/api/v1/namespaces/openshift-config/configmaps"
)

// replaceAdminCA ends the life of the bundle's public kubeconfig. The guest's
// own copy is rewritten only when the old certificate was seen to be dead: a
// step that was killed before that finds it there and looks again.
func (f *fixup) replaceAdminCA(ctx context.Context) error {
	if err := f.within(ctx, func(api *guest.API) error { return f.writeAdminCA(ctx, api) }); err != nil {
		return err
	}
	if err := f.door.ProvesOwn(ctx); err != nil {
		return err
	}
	raw, err := f.link.Read(ctx, guest.Root, guest.Kubeconfig)
	if err != nil {
		return err
	}
	config, err := guest.ParseKubeconfig(raw)
	if err != nil {
		return err
	}
	_, user := guest.Current(config)
	if bytes.Equal(user.ClientCertificateData, f.id.adminCert) && bytes.Equal(user.ClientKeyData, f.id.adminKey) {
		return nil
	}
	if err := f.door.ProvesBundleDead(ctx); err != nil {
		return err
	}
	*user = v1.AuthInfo{ClientCertificateData: f.id.adminCert, ClientKeyData: f.id.adminKey}
	if raw, err = yaml.Marshal(config); err != nil {
		return fmt.Errorf("encode %s: %w", guest.Kubeconfig, err)
	}
	return f.link.Write(ctx, guest.Root, guest.Kubeconfig, 0o600, raw)
}

func (f *fixup) writeAdminCA(ctx context.Context, api *guest.API) error {
	wanted := map[string]string{adminCAKey: string(f.id.adminCA)}
	var seen corev1.ConfigMap
	err := api.Get(ctx, configMaps+"/"+adminCAName, &seen)
	if apierrors.IsNotFound(err) {
		return api.Create(ctx, configMaps, &corev1.ConfigMap{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{Name: adminCAName, Namespace: "openshift-config"}, Data: wanted,
		})
	}
	if err != nil || seen.Data[adminCAKey] == wanted[adminCAKey] {
		return err
	}
	return api.Patch(ctx, configMaps+"/"+adminCAName, seen.ObjectMeta, map[string]any{"data": wanted})
}
