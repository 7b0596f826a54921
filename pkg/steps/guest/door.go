package guest

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/clientcmd/api/v1"
)

// Door is the way into the guest's API: by the instance's certificate once the
// guest trusts it, before that by the bundle's.
type Door struct {
	link  *Link
	admin tls.Certificate

	mu     sync.Mutex
	config *v1.Config
	shown  []byte // the certificate in the guest's kubeconfig
	own    *API   // with the instance's certificate
	bundle *API   // with the one in the guest's kubeconfig
	open   *API   // the one that works
}

// NewDoor returns a door that tries the instance's certificate first.
func NewDoor(link *Link, admin tls.Certificate) *Door { return &Door{link: link, admin: admin} }

// API returns a client that the guest admits.
func (d *Door) API(ctx context.Context) (*API, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open != nil {
		return d.open, nil
	}
	if err := d.prepare(ctx); err != nil {
		return nil, err
	}
	for _, candidate := range []*API{d.own, d.bundle} {
		ok, err := admits(ctx, candidate)
		if err != nil {
			return nil, err
		}
		if ok {
			d.open = candidate
			return candidate, nil
		}
	}
	return nil, errors.New("the guest API admits neither the instance's certificate nor that of " + Kubeconfig)
}

// prepare reads the guest's kubeconfig once.
func (d *Door) prepare(ctx context.Context) error {
	if d.bundle != nil {
		return nil
	}
	raw, err := d.link.Read(ctx, Root, Kubeconfig)
	if err != nil {
		return err
	}
	config, err := ParseKubeconfig(raw)
	if err != nil {
		return err
	}
	cluster, user := Current(config)
	pair, err := tls.X509KeyPair(user.ClientCertificateData, user.ClientKeyData)
	if err != nil {
		return fmt.Errorf("%s of the guest has no client certificate for its current user", Kubeconfig)
	}
	if d.own, err = NewAPI(d.link.Dial, cluster.CertificateAuthorityData, d.admin); err != nil {
		return err
	}
	d.bundle, err = NewAPI(d.link.Dial, cluster.CertificateAuthorityData, pair)
	d.config, d.shown = config, pair.Certificate[0]
	return err
}

// HasOwn says whether the guest's kubeconfig was the instance's already when
// the door first read it.
func (d *Door) HasOwn() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return bytes.Equal(d.shown, d.admin.Certificate[0])
}

// Forget makes the next call look for the certificate that works.
func (d *Door) Forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open = nil
	d.own.Close()
	d.bundle.Close()
}

// admits says whether the API knows the client's certificate. Silence is an
// error, and so is a refusal to one it knows: an API that starts has no roles yet.
func admits(ctx context.Context, api *API) (bool, error) {
	api.Close() // a connection that is open keeps the trust it was made with
	err := api.Get(ctx, "/api/v1/nodes?limit=1", &struct{}{})
	if stranger(err) {
		return false, nil
	}
	return err == nil, err
}

// stranger says whether the API did not know the certificate. It names the
// authorities that it trusts, and a certificate of another is not even shown:
// then the request is anonymous and only forbidden.
func stranger(err error) bool {
	return apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err) && strings.Contains(err.Error(), "system:anonymous")
}

// ProvesOwn waits for the API server to trust the instance's certificate, and
// uses it from then on.
func (d *Door) ProvesOwn(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.prepare(ctx); err != nil {
		return err
	}
	ok, err := admits(ctx, d.own)
	if err != nil {
		return err
	}
	if !ok {
		return errors.New("the guest API does not trust the instance's certificate yet")
	}
	d.open = d.own
	return nil
}

// ProvesBundleDead shows that the certificate that came with the bundle, which
// anyone can have, opens the guest no more.
func (d *Door) ProvesBundleDead(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	ok, err := admits(ctx, d.bundle)
	if err != nil {
		return err
	}
	if ok {
		return errors.New("the guest API still trusts the bundle's kubeconfig")
	}
	return nil
}

// Authorities are those that sign the guest's own names.
func (d *Door) Authorities(ctx context.Context) (*x509.CertPool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.prepare(ctx); err != nil {
		return nil, err
	}
	cluster, _ := Current(d.config)
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(cluster.CertificateAuthorityData) {
		return nil, errors.New("the guest's kubeconfig holds no CA certificate")
	}
	return pool, nil
}

// Refused looks for another certificate when the guest no longer takes this one.
func (d *Door) Refused(err error) {
	if stranger(err) {
		d.Forget()
	}
}
