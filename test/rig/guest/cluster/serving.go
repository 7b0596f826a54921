package cluster

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"opdev.io/guestcluster/test/rig/guest/certs"
)

const rollDelay = time.Second

// NamedCertificate is one entry of apiserver/cluster's servingCerts.
type NamedCertificate struct {
	Names  []string `json:"names,omitempty"`
	Secret string   `json:"secret"`
}

func (n NamedCertificate) equal(o NamedCertificate) bool {
	return n.Secret == o.Secret && slices.Equal(n.Names, o.Names)
}

// syncNamedCertificates rolls the API server when the list changes. A changed
// Secret only changes files, which the API server reloads.
func (c *Cluster) syncNamedCertificates(ctx context.Context) error {
	server, err := c.api.get(ctx, apiServers, "", "cluster")
	if err != nil || server == nil {
		return err
	}
	wanted := wantedCertificates(server)
	for i, named := range wanted {
		if err := c.copySecret(ctx, named.Secret, userServing(i)); err != nil {
			return err
		}
	}
	if slices.EqualFunc(wanted, c.installed(), NamedCertificate.equal) {
		return nil
	}
	return c.roll(ctx, wanted)
}

func wantedCertificates(server *unstructured.Unstructured) []NamedCertificate {
	list, _, _ := unstructured.NestedSlice(server.Object, "spec", "servingCerts", "namedCertificates")
	var wanted []NamedCertificate
	for _, item := range list {
		entry, _ := item.(map[string]any)
		names, _, _ := unstructured.NestedStringSlice(entry, "names")
		secret, _, _ := unstructured.NestedString(entry, "servingCertificate", "name")
		wanted = append(wanted, NamedCertificate{Names: names, Secret: secret})
	}
	return wanted
}

// roll is what a new revision of the static pod looks like.
func (c *Cluster) roll(ctx context.Context, wanted []NamedCertificate) error {
	c.set(func(s *state) { s.rolling = true })
	defer c.set(func(s *state) { s.rolling, s.rolledAt = false, time.Now() })
	pause(ctx, c.faults.Delay(rollDelay))
	data, err := json.Marshal(wanted)
	if err != nil {
		return err
	}
	if err := certs.Replace(c.revisionFile(), data, 0o644); err != nil {
		return fmt.Errorf("write the new revision: %w", err)
	}
	c.set(func(s *state) { s.apiServes = false })
	c.kas.restart()
	pause(ctx, restartDelay)
	if !c.waitServing(ctx) {
		return ctx.Err()
	}
	return nil
}

// copySecret keeps a Secret of type kubernetes.io/tls as files.
func (c *Cluster) copySecret(ctx context.Context, name, directory string) error {
	secret, err := c.api.get(ctx, secrets, configNamespace, name)
	if err != nil {
		return err
	}
	if secret == nil {
		return fmt.Errorf("named certificate: secret %s/%s does not exist", configNamespace, name)
	}
	if kind, _, _ := unstructured.NestedString(secret.Object, "type"); kind != "kubernetes.io/tls" {
		return fmt.Errorf("named certificate: secret %s has type %q, not kubernetes.io/tls", name, kind)
	}
	var pair certs.Pair
	for key, target := range map[string]*[]byte{"tls.crt": &pair.Cert, "tls.key": &pair.Key} {
		text, _, _ := unstructured.NestedString(secret.Object, "data", key)
		if *target, err = base64.StdEncoding.DecodeString(text); err != nil || len(*target) == 0 {
			return fmt.Errorf("named certificate: secret %s has no %s", name, key)
		}
	}
	old, err := certs.Read(c.root.Secret(directory))
	if err == nil && bytes.Equal(old.Cert, pair.Cert) && bytes.Equal(old.Key, pair.Key) {
		return nil
	}
	return pair.Write(c.root.Secret(directory))
}

func (c *Cluster) installed() []NamedCertificate {
	var installed []NamedCertificate
	data, err := os.ReadFile(c.revisionFile())
	if err == nil {
		err = json.Unmarshal(data, &installed)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		c.logf("operators: read the installed revision: %v", err)
	}
	return installed
}

func (c *Cluster) apiServerArgs() []string {
	return c.root.APIServerArgs(DefaultPorts, "0.0.0.0", c.installed())
}

func (c *Cluster) revisionFile() string {
	return c.root.Path("etc/kubernetes/static-pod-resources/kube-apiserver-named-certificates.json")
}
