package fixupguest

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/pkg/steps/guest"
)

const (
	servingSecret  = "guestcluster-serving"
	configSecrets  = "/api/v1/namespaces/openshift-config/secrets"
	apiServer      = "/apis/config.openshift.io/v1/apiservers/cluster"
	apiOperator    = "kube-apiserver"
	operatorObject = "/apis/config.openshift.io/v1/clusteroperators"
)

// serveExternalName makes the guest's API show the instance's certificate to
// those who ask for its external name, and waits until the API server that
// does has taken over: it is restarted for that.
func (f *fixup) serveExternalName(ctx context.Context) error {
	if err := f.within(ctx, func(api *guest.API) error { return f.writeServing(ctx, api) }); err != nil {
		return err
	}
	if err := f.within(ctx, func(api *guest.API) error { return f.addNamedCertificate(ctx, api) }); err != nil {
		return err
	}
	if err := f.showsBoth(ctx); err != nil {
		return err
	}
	return f.within(ctx, func(api *guest.API) error {
		var seen operator
		if err := api.Get(ctx, operatorObject+"/"+apiOperator, &seen); err != nil {
			return err
		}
		if seen.is("Progressing") == "True" {
			return fmt.Errorf("operator %s still rolls out: %s", apiOperator, seen.message("Progressing"))
		}
		return nil
	})
}

func (f *fixup) writeServing(ctx context.Context, api *guest.API) error {
	wanted := map[string][]byte{corev1.TLSCertKey: f.id.servingChain, corev1.TLSPrivateKeyKey: f.id.servingKey}
	var seen corev1.Secret
	err := api.Get(ctx, configSecrets+"/"+servingSecret, &seen)
	switch {
	case apierrors.IsNotFound(err):
		return api.Create(ctx, configSecrets, &corev1.Secret{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: metav1.ObjectMeta{Name: servingSecret, Namespace: "openshift-config"},
			Type:       corev1.SecretTypeTLS, Data: wanted,
		})
	case err != nil:
		return err
	case bytes.Equal(seen.Data[corev1.TLSCertKey], wanted[corev1.TLSCertKey]) && bytes.Equal(seen.Data[corev1.TLSPrivateKeyKey], wanted[corev1.TLSPrivateKeyKey]):
		return nil
	}
	return api.Patch(ctx, configSecrets+"/"+servingSecret, seen.ObjectMeta, map[string]any{"data": wanted})
}

// namedCertificate is an entry of the API server's list.
type namedCertificate struct {
	Names   []string `json:"names,omitempty"`
	Serving struct {
		Name string `json:"name"`
	} `json:"servingCertificate"`
}

// addNamedCertificate sends the whole list: a merge patch replaces it.
func (f *fixup) addNamedCertificate(ctx context.Context, api *guest.API) error {
	var seen struct {
		named
		Spec struct {
			Serving struct {
				Named []namedCertificate `json:"namedCertificates"`
			} `json:"servingCerts"`
		} `json:"spec"`
	}
	if err := api.Get(ctx, apiServer, &seen); err != nil {
		return err
	}
	ours := namedCertificate{Names: []string{f.APIHost}}
	ours.Serving.Name = servingSecret
	isOurs := func(c namedCertificate) bool { return c.Serving.Name == servingSecret }
	list := seen.Spec.Serving.Named
	if i := slices.IndexFunc(list, isOurs); i >= 0 && slices.Equal(list[i].Names, ours.Names) {
		return nil
	}
	list = append(slices.DeleteFunc(list, isOurs), ours)
	return api.Patch(ctx, apiServer, seen.ObjectMeta, map[string]any{
		"spec": map[string]any{"servingCerts": map[string]any{"namedCertificates": list}},
	})
}

// showsBoth asks for both names: the external one must have our certificate,
// the guest's own name must have kept its own.
func (f *fixup) showsBoth(ctx context.Context) error {
	leaf, err := f.handshake(ctx, f.APIHost, f.id.servingCA)
	if err != nil {
		return fmt.Errorf("the API does not serve %s yet: %w", f.APIHost, err)
	}
	if !bytes.Equal(leaf, f.id.servingLeaf) {
		return fmt.Errorf("the API shows another certificate for %s", f.APIHost)
	}
	authorities, err := f.door.Authorities(ctx)
	if err != nil {
		return err
	}
	if _, err = f.handshake(ctx, guest.APIName, authorities); err != nil {
		return fmt.Errorf("the API does not serve its own name %s: %w", guest.APIName, err)
	}
	return nil
}

// handshake returns the leaf that the API shows for a name.
func (f *fixup) handshake(ctx context.Context, name string, trust *x509.CertPool) ([]byte, error) {
	conn, err := f.link.Dial(ctx, "tcp", guest.APIAddress)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	client := tls.Client(conn, &tls.Config{MinVersion: tls.VersionTLS12, ServerName: name, RootCAs: trust})
	if err := client.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	return client.ConnectionState().PeerCertificates[0].Raw, nil
}
