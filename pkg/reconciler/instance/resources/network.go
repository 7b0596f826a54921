package resources

import (
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

const (
	portName = "api"
	apiPort  = 6443
)

// RouteGVK is OpenShift's Route, built unstructured: its Go module is not worth three fields.
var RouteGVK = schema.GroupVersionKind{Group: "route.openshift.io", Version: "v1", Kind: "Route"}

// Service leads to the one pod that serves the guest API.
func Service(i *v1alpha1.ClusterInstance) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: i.ChildMeta(i.DerivedName()),
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{guestcluster.EndpointLabel: string(i.UID)},
			Ports: []corev1.ServicePort{{
				Name: portName, Protocol: corev1.ProtocolTCP, Port: apiPort, TargetPort: intstr.FromInt32(apiPort),
			}},
		},
	}
}

// RepairService returns the Service as it should be, or nil when nothing differs.
func RepairService(live, want *corev1.Service) *corev1.Service {
	if reflect.DeepEqual(live.Spec.Selector, want.Spec.Selector) && len(live.Spec.Ports) == 1 &&
		live.Spec.Ports[0].Name == portName && live.Spec.Ports[0].Port == apiPort &&
		live.Spec.Ports[0].TargetPort == want.Spec.Ports[0].TargetPort {
		return nil
	}
	fixed := live.DeepCopy()
	fixed.Spec.Selector, fixed.Spec.Ports = want.Spec.Selector, want.Spec.Ports
	return fixed
}

// Route passes TLS for host through to the Service.
func Route(i *v1alpha1.ClusterInstance, host string) (*unstructured.Unstructured, error) {
	meta := i.ChildMeta(i.DerivedName())
	rawMeta, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&meta)
	if err != nil {
		return nil, err
	}
	route := &unstructured.Unstructured{Object: map[string]any{
		"metadata": rawMeta,
		"spec": map[string]any{
			"host": host,
			"port": map[string]any{"targetPort": portName},
			"tls":  map[string]any{"termination": "passthrough"},
			"to":   map[string]any{"kind": "Service", "name": i.DerivedName()},
		},
	}}
	route.SetGroupVersionKind(RouteGVK)
	return route, nil
}

// RouteDiffers says whether a live Route leads elsewhere than the wanted one.
func RouteDiffers(live, want *unstructured.Unstructured) bool {
	for _, path := range [][]string{
		{"spec", "host"}, {"spec", "port", "targetPort"}, {"spec", "tls", "termination"},
		{"spec", "to", "kind"}, {"spec", "to", "name"},
	} {
		got, _, _ := unstructured.NestedString(live.Object, path...)
		need, _, _ := unstructured.NestedString(want.Object, path...)
		if got != need {
			return true
		}
	}
	return false
}
