package cluster

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"opdev.io/guestcluster/test/rig/guest/certs"
	"opdev.io/guestcluster/test/rig/guest/faults"
)

const (
	mcoNamespace = "openshift-machine-config-operator"
	mcoName      = "machine-config-controller"
	renderDelay  = 2 * time.Second

	coreUID    = 1000
	configJSON = "/var/lib/kubelet/config.json"
	sshDir     = "/home/core/.ssh"
)

// syncMachineConfig is controller and daemon in one. Nothing moves before the
// lease of the parked leader, who is gone, is deleted.
func (c *Cluster) syncMachineConfig() func(context.Context) error {
	var rendered []byte
	return func(ctx context.Context) error {
		if c.faults.Has(faults.MCONever) {
			return nil
		}
		leading, err := c.leadMachineConfig(ctx)
		if err != nil || !leading {
			return err
		}
		pull, err := c.pullSecret(ctx)
		if err != nil {
			return err
		}
		keys, err := c.coreKeys(ctx)
		if err != nil {
			return err
		}
		wanted := append(append(bytes.Clone(pull), 0), keys...)
		if bytes.Equal(wanted, rendered) {
			return nil
		}
		if err := c.setPool(ctx, true); err != nil {
			return err
		}
		pause(ctx, c.faults.Delay(renderDelay))
		if err := errors.Join(writeConfigJSON(pull), writeCoreKeys(keys), c.setPool(ctx, false)); err != nil {
			return err
		}
		rendered = wanted
		return nil
	}
}

func (c *Cluster) leadMachineConfig(ctx context.Context) (bool, error) {
	lock, err := c.api.get(ctx, configMaps, mcoNamespace, mcoName)
	if err != nil || lock != nil {
		return false, err
	}
	lease, err := c.api.get(ctx, leases, mcoNamespace, mcoName)
	if err != nil {
		return false, err
	}
	if lease == nil {
		return true, c.api.create(ctx, leases, mcoNamespace, leaseObject(mcoName, "machine-config-controller-5c9d8f7b6d-live", time.Now()))
	}
	holder, _, _ := unstructured.NestedString(lease.Object, "spec", "holderIdentity")
	return holder != StaleOwner, nil
}

func leaseObject(name, holder string, at time.Time) map[string]any {
	stamp := at.UTC().Format("2006-01-02T15:04:05.000000Z")
	return map[string]any{
		"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"holderIdentity": holder, "leaseDurationSeconds": int64(137), "acquireTime": stamp, "renewTime": stamp},
	}
}

// pullSecret returns nothing for one that does not validate.
func (c *Cluster) pullSecret(ctx context.Context) ([]byte, error) {
	secret, err := c.api.get(ctx, secrets, configNamespace, "pull-secret")
	if err != nil || secret == nil {
		return nil, err
	}
	text, _, _ := unstructured.NestedString(secret.Object, "data", ".dockerconfigjson")
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("decode the pull secret: %w", err)
	}
	var content struct {
		Auths map[string]struct{ Auth, CredsStore string } `json:"auths"`
	}
	if json.Unmarshal(data, &content) != nil || len(content.Auths) == 0 {
		return nil, nil
	}
	for _, auth := range content.Auths {
		if auth.Auth == "" && auth.CredsStore == "" {
			return nil, nil
		}
	}
	return data, nil
}

// coreKeys are the keys of all users named core in 99-master-ssh.
func (c *Cluster) coreKeys(ctx context.Context) ([]byte, error) {
	config, err := c.api.get(ctx, machineConfigs, "", "99-master-ssh")
	if err != nil || config == nil {
		return nil, err
	}
	users, _, _ := unstructured.NestedSlice(config.Object, "spec", "config", "passwd", "users")
	var lines []string
	for _, item := range users {
		user, _ := item.(map[string]any)
		keys, _, _ := unstructured.NestedStringSlice(user, "sshAuthorizedKeys")
		lines = append(lines, keys...)
	}
	return []byte(strings.Join(lines, "\n") + "\n"), nil
}

func writeConfigJSON(pull []byte) error {
	old, err := os.ReadFile(configJSON)
	if pull == nil || err == nil && bytes.Equal(old, pull) {
		return nil
	}
	return certs.Replace(configJSON, pull, 0o600)
}

// writeCoreKeys is what the daemon does to core's keys: a directory that core
// does not own is removed with all that is in it.
func writeCoreKeys(keys []byte) error {
	file := sshDir + "/authorized_keys.d/ignition"
	owned, err := ownedByCore(sshDir)
	if err != nil {
		return err
	}
	if !owned {
		if err := os.RemoveAll(sshDir); err != nil {
			return fmt.Errorf("remove core's ssh directory: %w", err)
		}
	}
	for _, dir := range []string{sshDir, sshDir + "/authorized_keys.d"} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("make core's ssh directory: %w", err)
		}
		if err := os.Chown(dir, coreUID, coreUID); err != nil {
			return err
		}
	}
	return errors.Join(certs.Replace(file, keys, 0o600), os.Chown(file, coreUID, coreUID))
}

func ownedByCore(dir string) (bool, error) {
	var stat syscall.Stat_t
	err := syscall.Stat(dir, &stat)
	if errors.Is(err, syscall.ENOENT) {
		return true, nil
	}
	return stat.Uid == coreUID, err
}

func (c *Cluster) setPool(ctx context.Context, updating bool) error {
	status := map[string]any{"conditions": []any{
		condition("Updated", !updating, "", ""), condition("Updating", updating, "", ""), condition("Degraded", false, "", ""),
	}}
	return c.api.patch(ctx, pools, "", "master", map[string]any{"status": status}, "status")
}
