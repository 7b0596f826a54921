package catalog

import (
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

// VirtualizationPause is how old an answer about KubeVirt and CDI may be, and
// how often one that waits for them should ask.
const VirtualizationPause = time.Minute

// virtualizationAPIs are the kinds that crc instances are made of.
var virtualizationAPIs = map[string][]string{
	"kubevirt.io/v1":          {"virtualmachines", "virtualmachineinstances"},
	"cdi.kubevirt.io/v1beta1": {"datavolumes"},
}

// VirtualizationError says which API of OpenShift Virtualization is missing.
type VirtualizationError struct {
	// API is group and version, and what is missing of it.
	API string
}

func (e *VirtualizationError) Error() string {
	return fmt.Sprintf("the cluster does not serve %s: install OpenShift Virtualization (KubeVirt and CDI)", e.API)
}

// virtualization remembers for a while whether the APIs are served. A cached
// answer decides nothing that must be right: a create tells.
type virtualization struct {
	discovery Discovery

	mu    sync.Mutex
	asked time.Time
	last  error
}

// CheckVirtualization says whether the cluster serves what instances of a type
// are made of. The error is a *VirtualizationError when it does not.
func (v *virtualization) CheckVirtualization(kind v1alpha1.ClusterType, now time.Time) error {
	if kind != v1alpha1.TypeCRC {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.asked.IsZero() || now.Sub(v.asked) >= VirtualizationPause {
		err := v.ask()
		if Reason(err) == "" && err != nil {
			return err // it is not known: ask again the next time
		}
		v.asked, v.last = now, err
	}
	return v.last
}

func (v *virtualization) ask() error {
	for api, resources := range virtualizationAPIs {
		served, err := served(v.discovery, api)
		if apierrors.IsNotFound(err) {
			return &VirtualizationError{API: api}
		}
		if err != nil {
			return fmt.Errorf("ask for API %s: %w", api, err)
		}
		if !served.HasAll(resources...) {
			return &VirtualizationError{API: api + " with " + fmt.Sprint(resources)}
		}
	}
	return nil
}
