package fixupguest

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"opdev.io/guestcluster/pkg/steps/guest"
	"opdev.io/guestcluster/pkg/steps/step"
)

// prove looks at everything once more after the operators had their say: they
// may have brought something back.
func (f *fixup) prove(ctx context.Context) error {
	for _, check := range []func(context.Context) error{f.proveKeys, f.proveAdmin, f.proveKubelet, f.waitForDates} {
		if err := check(ctx); err != nil {
			return err
		}
	}
	fmt.Fprintln(f.out, "the bundle's SSH key and kubeconfig are dead, the kubelet is enabled")
	return nil
}

// proveKeys swaps once more when an operator brought the bundle's key back.
func (f *fixup) proveKeys(ctx context.Context) error {
	alive, err := f.dialer.Accepts(ctx, f.id.bootKey)
	if err == nil && alive {
		fmt.Fprintln(f.out, "the bundle's SSH key came back: swapping again")
		err = f.swapKeys(ctx)
	}
	if err != nil {
		return err
	}
	present, err := f.readKeys(ctx, authorizedKeys)
	if err == nil && string(present) != string(f.id.authorized) {
		err = fmt.Errorf("%s of the guest is not the instance's key alone", authorizedKeys)
	}
	return err
}

func (f *fixup) proveAdmin(ctx context.Context) error {
	var seen corev1.ConfigMap
	err := f.within(ctx, func(api *guest.API) error { return api.Get(ctx, configMaps+"/"+adminCAName, &seen) })
	if err != nil {
		return err
	}
	if seen.Data[adminCAKey] != string(f.id.adminCA) {
		return step.InfraError("ConfigMap %s of the guest was changed after it was set: something else sets the guest up too", adminCAName)
	}
	if f.door.HasOwn() {
		return nil // it was seen dead before the guest's kubeconfig was rewritten
	}
	return f.door.ProvesBundleDead(ctx)
}

func (f *fixup) proveKubelet(ctx context.Context) error {
	out, err := f.link.Try(ctx, guest.Command{Doing: "look whether the kubelet is enabled", Line: "systemctl is-enabled kubelet"})
	if err == nil && (out.Code != 0 || strings.TrimSpace(string(out.Stdout)) != "enabled") {
		err = fmt.Errorf("the kubelet is %.40q, not enabled: the cluster would not come back after a reboot", out.Stdout)
	}
	return err
}
