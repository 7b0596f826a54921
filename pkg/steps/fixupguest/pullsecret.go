package fixupguest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"opdev.io/guestcluster/pkg/steps/guest"
)

const (
	clusterPullSecret = "/api/v1/namespaces/openshift-config/secrets/pull-secret"
	nodePullSecret    = "/var/lib/kubelet/config.json"
)

// parseAuths reads the registries of a pull secret. Its errors hold no content.
func parseAuths(raw []byte) (map[string]json.RawMessage, error) {
	var file struct {
		Auths map[string]json.RawMessage `json:"auths"`
	}
	if json.Unmarshal(raw, &file) != nil {
		return nil, errors.New("it is not JSON")
	}
	if len(file.Auths) == 0 {
		return nil, errors.New("it has no auths")
	}
	for registry, entry := range file.Auths {
		var login struct {
			Auth  string `json:"auth"`
			Store string `json:"credsStore"`
		}
		if json.Unmarshal(entry, &login) != nil || login.Auth == "" && login.Store == "" {
			return nil, fmt.Errorf("it has no login for registry %.100q", registry)
		}
	}
	return file.Auths, nil
}

// lacks names a registry of want whose login is not the same in have.
func lacks(have, want map[string]json.RawMessage) string {
	for _, registry := range slices.Sorted(maps.Keys(want)) {
		if login(have[registry]) != login(want[registry]) {
			return registry
		}
	}
	return ""
}

func login(entry json.RawMessage) string {
	var l struct {
		Auth  string `json:"auth"`
		Store string `json:"credsStore"`
	}
	_ = json.Unmarshal(entry, &l) // an unreadable entry is no login
	return l.Auth + " " + l.Store
}

func (f *fixup) setPullSecret(ctx context.Context) error {
	return f.within(ctx, func(api *guest.API) error {
		var seen corev1.Secret
		if err := api.Get(ctx, clusterPullSecret, &seen); err != nil {
			return err
		}
		auths, err := parseAuths(seen.Data[corev1.DockerConfigJsonKey])
		if err == nil && len(auths) == len(f.id.auths) && lacks(auths, f.id.auths) == "" {
			return nil
		}
		return api.Patch(ctx, clusterPullSecret, seen.ObjectMeta, map[string]any{"data": map[string][]byte{corev1.DockerConfigJsonKey: f.id.pullSecret}})
	})
}

// waitForNodePullSecret waits until images can be pulled: the operator has to
// carry the Secret over to the node.
func (f *fixup) waitForNodePullSecret(ctx context.Context) error {
	raw, err := f.link.Read(ctx, guest.Root, nodePullSecret)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s does not exist yet", nodePullSecret)
	}
	if err != nil {
		return err
	}
	auths, err := parseAuths(raw)
	if err != nil {
		return fmt.Errorf("%s is not the pull secret yet: %w", nodePullSecret, err)
	}
	if registry := lacks(auths, f.id.auths); registry != "" {
		return fmt.Errorf("%s lacks the login for registry %.100q", nodePullSecret, registry)
	}
	return nil
}
