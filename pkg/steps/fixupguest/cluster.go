package fixupguest

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"opdev.io/guestcluster/pkg/steps/guest"
	"opdev.io/guestcluster/pkg/steps/step"
)

const (
	leaderMap     = "/api/v1/namespaces/openshift-machine-config-operator/configmaps/machine-config-controller"
	allLeases     = "/apis/coordination.k8s.io/v1/leases"
	machineSSH    = "/apis/machineconfiguration.openshift.io/v1/machineconfigs/99-master-ssh"
	clusterObject = "/apis/config.openshift.io/v1/clusterversions/version"
)

// within calls do with a client that the guest admits. What the guest calls an
// invalid request stays one: all else may pass, for operators start meanwhile.
func (f *fixup) within(ctx context.Context, do func(*guest.API) error) error {
	api, err := f.door.API(ctx)
	if err != nil {
		return err
	}
	err = do(api)
	f.door.Refused(err)
	if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		return step.InfraError("%w; %s", err, hintBundle)
	}
	return err
}

func (f *fixup) waitForAPI(ctx context.Context) error {
	return f.within(ctx, func(api *guest.API) error { return api.Get(ctx, "/api/v1/nodes?limit=1", &struct{}{}) })
}

// named is what is common to all objects.
type named struct {
	metav1.ObjectMeta `json:"metadata"`
}

// deleteLeases removes what leaders of weeks ago left: as long as it is there
// the machine config operator's controller may wait for them.
func (f *fixup) deleteLeases(ctx context.Context) error {
	return f.within(ctx, func(api *guest.API) error {
		if err := api.Delete(ctx, leaderMap); err != nil {
			return err
		}
		var list struct{ Items []named }
		if err := api.Get(ctx, allLeases, &list); err != nil {
			return err
		}
		for _, lease := range list.Items {
			path := fmt.Sprintf("/apis/coordination.k8s.io/v1/namespaces/%s/leases/%s", lease.Namespace, lease.Name)
			if err := api.Delete(ctx, path); err != nil {
				return err
			}
		}
		fmt.Fprintf(f.out, "deleted %d leases\n", len(list.Items))
		return nil
	})
}

// keyUser is a user of a MachineConfig.
type keyUser struct {
	Name string   `json:"name"`
	Keys []string `json:"sshAuthorizedKeys"`
}

// setMachineKey keeps the machine config operator from bringing the bundle's
// key back.
func (f *fixup) setMachineKey(ctx context.Context) error {
	wanted := keyUser{"core", []string{string(f.id.authorized[:len(f.id.authorized)-1])}}
	return f.within(ctx, func(api *guest.API) error {
		var seen struct {
			named
			Spec struct {
				Config struct {
					Passwd struct {
						Users []keyUser `json:"users"`
					} `json:"passwd"`
				} `json:"config"`
			} `json:"spec"`
		}
		if err := api.Get(ctx, machineSSH, &seen); err != nil {
			return err
		}
		users := seen.Spec.Config.Passwd.Users
		if len(users) == 1 && users[0].Name == wanted.Name && slices.Equal(users[0].Keys, wanted.Keys) {
			return nil
		}
		change := map[string]any{"passwd": map[string]any{"users": []keyUser{wanted}}}
		return api.Patch(ctx, machineSSH, seen.ObjectMeta, map[string]any{"spec": map[string]any{"config": change}})
	})
}

// setClusterID gives the cluster an identity of its own.
func (f *fixup) setClusterID(ctx context.Context) error {
	return f.within(ctx, func(api *guest.API) error {
		var seen struct {
			named
			Spec struct {
				ClusterID string `json:"clusterID"`
			} `json:"spec"`
		}
		if err := api.Get(ctx, clusterObject, &seen); err != nil || seen.Spec.ClusterID != "" {
			return err
		}
		return api.Patch(ctx, clusterObject, seen.ObjectMeta, map[string]any{"spec": map[string]any{"clusterID": uuid.NewUUID()}})
	})
}
