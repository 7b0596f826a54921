package fixupguest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/yaml"

	"opdev.io/guestcluster/pkg/steps/guest"
)

const guestKubeconfig = "/opt/kubeconfig"

// door is the way into the guest's API: by the instance's certificate once the
// guest trusts it, before that by the bundle's.
type door struct {
	link  *guest.Link
	admin tls.Certificate

	mu     sync.Mutex
	config *v1.Config
	own    *guest.API // with the instance's certificate
	bundle *guest.API // with the one in the guest's kubeconfig
	open   *guest.API // the one that works
}

// api returns a client that the guest admits.
func (d *door) api(ctx context.Context) (*guest.API, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open != nil {
		return d.open, nil
	}
	if err := d.prepare(ctx); err != nil {
		return nil, err
	}
	for _, candidate := range []*guest.API{d.own, d.bundle} {
		ok, err := admits(ctx, candidate)
		if err != nil {
			return nil, err
		}
		if ok {
			d.open = candidate
			return candidate, nil
		}
	}
	return nil, errors.New("the guest API admits neither the instance's certificate nor that of " + guestKubeconfig)
}

// prepare reads the guest's kubeconfig once.
func (d *door) prepare(ctx context.Context) error {
	if d.bundle != nil {
		return nil
	}
	raw, err := d.link.Read(ctx, guest.Root, guestKubeconfig)
	if err != nil {
		return err
	}
	config, err := parseKubeconfig(raw)
	if err != nil {
		return err
	}
	cluster, user := current(config)
	pair, err := tls.X509KeyPair(user.ClientCertificateData, user.ClientKeyData)
	if err != nil {
		return fmt.Errorf("%s of the guest has no client certificate for its current user", guestKubeconfig)
	}
	if d.own, err = guest.NewAPI(d.link.Dial, cluster.CertificateAuthorityData, d.admin); err != nil {
		return err
	}
	d.bundle, err = guest.NewAPI(d.link.Dial, cluster.CertificateAuthorityData, pair)
	d.config = config
	return err
}

// forget makes the next call look for the certificate that works.
func (d *door) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open = nil
	d.own.Close()
	d.bundle.Close()
}

func (d *door) close() { d.forget() }

// admits says whether the API knows the client's certificate. Silence is an
// error, and so is a refusal to one it knows: an API that starts has no roles yet.
func admits(ctx context.Context, api *guest.API) (bool, error) {
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

func parseKubeconfig(raw []byte) (*v1.Config, error) {
	config := &v1.Config{}
	if err := yaml.Unmarshal(raw, config); err != nil {
		return nil, fmt.Errorf("%s of the guest is no kubeconfig", guestKubeconfig)
	}
	if cluster, user := current(config); cluster == nil || user == nil {
		return nil, fmt.Errorf("%s of the guest has no current context", guestKubeconfig)
	}
	return config, nil
}

// current is the cluster and the user of the current context, nil if missing.
func current(config *v1.Config) (cluster *v1.Cluster, user *v1.AuthInfo) {
	for _, c := range config.Contexts {
		if c.Name != config.CurrentContext {
			continue
		}
		for i := range config.Clusters {
			if config.Clusters[i].Name == c.Context.Cluster {
				cluster = &config.Clusters[i].Cluster
			}
		}
		for i := range config.AuthInfos {
			if config.AuthInfos[i].Name == c.Context.AuthInfo {
				user = &config.AuthInfos[i].AuthInfo
			}
		}
	}
	return cluster, user
}
