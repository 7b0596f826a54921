package cluster

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"opdev.io/guestcluster/test/rig/guest/certs"
	"opdev.io/guestcluster/test/rig/guest/faults"
)

const (
	clientSigner  = "kubernetes.io/kube-apiserver-client-kubelet"
	servingSigner = "kubernetes.io/kubelet-serving"
	bootstrapper  = "system:serviceaccount:openshift-machine-config-operator:node-bootstrapper"

	internalURL = "https://" + APIIntName + ":6443"
	heartbeat   = 5 * time.Second
	// rotateBefore is how much life a certificate must have left.
	rotateBefore = 5 * day
	requestDelay = time.Second
)

// RunKubelet renews certificates and keeps the node Ready until the context
// ends. Unlike the static pods it depends on names: api-int must resolve.
func (c *Cluster) RunKubelet(ctx context.Context) {
	if !c.waitServing(ctx) {
		return
	}
	c.retry(ctx, "mark the node", func(ctx context.Context) error { return c.setNode(ctx, c.api, "Unknown", "NodeStatusUnknown") })
	if c.faults.Has(faults.CSRNever) && !fresh(c.root.KubeletClient(), 0) {
		<-ctx.Done()
		return
	}
	if c.faults.Has(faults.CSRForeign) {
		c.retry(ctx, "let strangers ask", c.askAsStranger)
	}
	c.retry(ctx, "renew the client certificate", c.renewClient)
	c.retry(ctx, "renew the serving certificate", c.renewServing)
	c.retry(ctx, "register the node", func(ctx context.Context) error {
		client, err := c.nodeClient()
		if err != nil {
			return err
		}
		return c.setNode(ctx, client, "True", "KubeletReady")
	})
	if ctx.Err() != nil {
		return
	}
	c.set(func(s *state) { s.readyAt = time.Now() })
	for pause(ctx, heartbeat) {
		if err := c.beat(ctx); err != nil {
			c.logf("kubelet: beat: %v", err)
		}
	}
}

// retry repeats one step of the kubelet until it works.
func (c *Cluster) retry(ctx context.Context, what string, do func(context.Context) error) {
	last := ""
	for ctx.Err() == nil {
		err := do(ctx)
		if err == nil {
			c.logf("kubelet: %s: done", what)
			return
		}
		if err.Error() != last {
			c.logf("kubelet: %s: %v", what, err)
		}
		last = err.Error()
		pause(ctx, requestDelay)
	}
}

// renewClient asks twice when it starts from nothing: the first certificate
// that the bootstrap identity gets is soon replaced by a second.
func (c *Cluster) renewClient(ctx context.Context) error {
	if fresh(c.root.KubeletClient(), rotateBefore) {
		return nil
	}
	subject := certs.Leaf{User: "system:node:" + NodeName, Groups: []string{"system:nodes"}}
	usages := []any{"digital signature", "client auth"}
	config, rounds := c.bootstrapConfig(), 2
	if fresh(c.root.KubeletClient(), 0) {
		config, rounds = c.nodeConfig(), 1
	}
	for range rounds {
		pause(ctx, c.faults.Delay(requestDelay))
		pair, err := c.request(ctx, config, clientSigner, subject, usages)
		if err != nil {
			return err
		}
		rounds--
		if rounds == 0 {
			return c.root.writeKubelet(c.root.KubeletClient(), pair, time.Now())
		}
	}
	return nil
}

func (c *Cluster) renewServing(ctx context.Context) error {
	if fresh(c.root.KubeletServer(), rotateBefore) {
		return nil
	}
	pause(ctx, c.faults.Delay(requestDelay))
	subject := certs.Leaf{
		User: "system:node:" + NodeName, Groups: []string{"system:nodes"},
		Names: []string{NodeName}, IPs: []net.IP{net.ParseIP(NodeIP)},
	}
	pair, err := c.request(ctx, c.nodeConfig(), servingSigner, subject, []any{"digital signature", "server auth"})
	if err != nil {
		return err
	}
	return c.root.writeKubelet(c.root.KubeletServer(), pair, time.Now())
}

// request asks for a certificate and waits until somebody approved it.
func (c *Cluster) request(ctx context.Context, config *rest.Config, signer string, subject certs.Leaf, usages []any) (certs.Pair, error) {
	client, err := newAPI(config)
	if err != nil {
		return certs.Pair{}, err
	}
	name, key, err := submit(ctx, client, signer, subject, usages)
	if err != nil {
		return certs.Pair{}, err
	}
	c.logf("kubelet: certificate signing request %s is waiting for approval (%s)", name, signer)
	for pause(ctx, 500*time.Millisecond) {
		o, err := client.get(ctx, requests, "", name)
		if err != nil {
			continue
		}
		if o == nil {
			return certs.Pair{}, fmt.Errorf("certificate signing request %s was deleted", name)
		}
		text, _, _ := unstructured.NestedString(o.Object, "status", "certificate")
		if cert, err := base64.StdEncoding.DecodeString(text); err == nil && len(cert) > 0 {
			return certs.Pair{Cert: cert, Key: key}, nil
		}
	}
	return certs.Pair{}, ctx.Err()
}

func submit(ctx context.Context, client api, signer string, subject certs.Leaf, usages []any) (name string, key []byte, err error) {
	request, key, err := certs.Request(subject)
	if err != nil {
		return "", nil, err
	}
	random := make([]byte, 3)
	_, _ = rand.Read(random)
	name = "csr-" + hex.EncodeToString(random)[:5]
	return name, key, client.create(ctx, requests, "", map[string]any{
		"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
		"metadata": map[string]any{"name": name},
		"spec":     map[string]any{"request": base64.StdEncoding.EncodeToString(request), "signerName": signer, "usages": usages},
	})
}

// askAsStranger leaves requests that nobody should approve.
func (c *Cluster) askAsStranger(ctx context.Context) error {
	config := c.bootstrapConfig()
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:default:stranger", Groups: []string{"system:masters"}}
	client, err := newAPI(config)
	if err != nil {
		return err
	}
	subject := certs.Leaf{User: "system:node:stranger", Groups: []string{"system:nodes"}}
	_, _, err = submit(ctx, client, clientSigner, subject, []any{"digital signature", "client auth"})
	return err
}

// beat renews the node's lease and, when it was lost, its readiness.
func (c *Cluster) beat(ctx context.Context) error {
	client, err := c.nodeClient()
	if err != nil {
		return err
	}
	lease := leaseObject(NodeName, NodeName, time.Now())
	if err := client.create(ctx, leases, "kube-node-lease", lease); err != nil {
		return err
	}
	if err := client.patch(ctx, leases, "kube-node-lease", NodeName, map[string]any{"spec": lease["spec"]}); err != nil {
		return err
	}
	return c.setNode(ctx, client, "True", "KubeletReady")
}

func (c *Cluster) setNode(ctx context.Context, client api, status, reason string) error {
	stamp := metav1.Now().UTC().Format(time.RFC3339)
	ready := map[string]any{"type": "Ready", "status": status, "reason": reason, "message": reason, "lastHeartbeatTime": stamp, "lastTransitionTime": stamp}
	return client.patch(ctx, nodes, "", NodeName, map[string]any{"status": map[string]any{"conditions": []any{ready}}}, "status")
}

// bootstrapConfig is the identity that machines join with.
func (c *Cluster) bootstrapConfig() *rest.Config {
	config := c.root.Config(internalURL)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: bootstrapper,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:openshift-machine-config-operator", "system:authenticated"},
	}
	return config
}

func (c *Cluster) nodeConfig() *rest.Config {
	config := c.root.Config(internalURL)
	config.CertFile, config.KeyFile = c.root.KubeletClient(), c.root.KubeletClient()
	return config
}

func (c *Cluster) nodeClient() (api, error) { return newAPI(c.nodeConfig()) }

// fresh tells whether a certificate lives longer than the margin.
func fresh(file string, margin time.Duration) bool {
	end, err := certs.Expiry(file)
	return err == nil && time.Until(end) > margin
}

// refreshAggregator makes a new certificate when the old one ends soon.
func (r Root) refreshAggregator() error {
	if fresh(r.Secret(aggregatorClient)+"/tls.crt", rotateBefore) {
		return nil
	}
	return r.renewAggregator(time.Now().Add(-time.Minute), time.Now().Add(30*day))
}
