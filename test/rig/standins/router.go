package standins

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/cache"

	"opdev.io/guestcluster/test/rig/confine"
	"opdev.io/guestcluster/test/rig/standins/loop"
)

const dialTimeout = 5 * time.Second

// router admits Routes and passes their TLS connections to a pod unopened.
type router struct {
	changes  *loop.Changes
	domain   string
	client   dynamic.Interface
	routes   cache.GenericLister
	services corelisters.ServiceLister
	slices   discoverylisters.EndpointSliceLister

	mu       sync.RWMutex
	admitted map[string]*unstructured.Unstructured
}

func newRouter(domain string, client dynamic.Interface, typed informers.SharedInformerFactory, untyped dynamicinformer.DynamicSharedInformerFactory) *router {
	informer := untyped.ForResource(routes)
	r := &router{
		changes: loop.NewChanges(), domain: domain, client: client,
		routes:   informer.Lister(),
		services: typed.Core().V1().Services().Lister(),
		slices:   typed.Discovery().V1().EndpointSlices().Lister(),
	}
	_, _ = informer.Informer().AddEventHandler(r.changes)
	return r
}

func (r *router) reconcile(ctx context.Context) error {
	objects, err := r.routes.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list routes: %w", err)
	}
	var all []*unstructured.Unstructured
	for _, object := range objects {
		all = append(all, object.(*unstructured.Unstructured))
	}
	admitted := map[string]*unstructured.Unstructured{}
	var failures []error
	for _, a := range decide(all, r.domain) {
		if a.admitted() {
			admitted[a.host] = a.route
		}
		failures = append(failures, r.record(ctx, a))
	}
	r.mu.Lock()
	r.admitted = admitted
	r.mu.Unlock()
	return errors.Join(failures...)
}

// record assigns the host, as OpenShift's API server does, and then the status.
func (r *router) record(ctx context.Context, a admission) error {
	client := r.client.Resource(routes).Namespace(a.route.GetNamespace())
	route := a.route.DeepCopy()
	if current, _, _ := unstructured.NestedString(route.Object, "spec", "host"); current == "" {
		if err := unstructured.SetNestedField(route.Object, a.host, "spec", "host"); err != nil {
			return fmt.Errorf("assign a host to route %s: %w", route.GetName(), err)
		}
		updated, err := client.Update(ctx, route, metav1.UpdateOptions{})
		if err != nil {
			return loop.Gone(fmt.Errorf("assign a host to route %s: %w", route.GetName(), err))
		}
		route = updated
	}
	if a.settled() {
		return nil
	}
	if err := unstructured.SetNestedSlice(route.Object, []any{a.ingress(r.domain, time.Now())}, "status", "ingress"); err != nil {
		return fmt.Errorf("describe route %s: %w", route.GetName(), err)
	}
	if _, err := client.UpdateStatus(ctx, route, metav1.UpdateOptions{}); err != nil {
		return loop.Gone(fmt.Errorf("admit route %s: %w", route.GetName(), err))
	}
	return nil
}

func (r *router) serve(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go r.pass(conn)
	}
}

func (r *router) pass(outside net.Conn) {
	defer outside.Close()
	name, hello, err := serverName(outside)
	if err != nil {
		return
	}
	r.mu.RLock()
	route := r.admitted[name]
	r.mu.RUnlock()
	if route == nil {
		return
	}
	address, err := r.backend(route)
	if err != nil {
		fmt.Println(time.Now().Format(time.TimeOnly), name, err)
		return
	}
	inside, err := net.DialTimeout("tcp", address, dialTimeout)
	if err != nil {
		fmt.Println(time.Now().Format(time.TimeOnly), name, err)
		return
	}
	if _, err := inside.Write(hello); err != nil {
		_ = inside.Close()
		return
	}
	confine.Splice(outside, inside)
}

// backend returns the address of a ready endpoint of the route's Service.
func (r *router) backend(route *unstructured.Unstructured) (string, error) {
	name, _, _ := unstructured.NestedString(route.Object, "spec", "to", "name")
	service, err := r.services.Services(route.GetNamespace()).Get(name)
	if err != nil {
		return "", fmt.Errorf("find the service: %w", err)
	}
	port, err := servicePort(service, route)
	if err != nil {
		return "", err
	}
	all, err := r.slices.EndpointSlices(route.GetNamespace()).List(labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: name}))
	if err != nil {
		return "", fmt.Errorf("list endpoints: %w", err)
	}
	for _, slice := range all {
		for _, p := range slice.Ports {
			if p.Name == nil || p.Port == nil || *p.Name != port.Name {
				continue
			}
			for _, endpoint := range slice.Endpoints {
				if endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready {
					return net.JoinHostPort(endpoint.Addresses[0], strconv.Itoa(int(*p.Port))), nil
				}
			}
		}
	}
	return "", fmt.Errorf("service %s has no ready endpoint", name)
}

// servicePort is the port of the Service whose name or target the route names,
// or the first.
func servicePort(service *corev1.Service, route *unstructured.Unstructured) (corev1.ServicePort, error) {
	target, named, _ := unstructured.NestedFieldNoCopy(route.Object, "spec", "port", "targetPort")
	for _, port := range service.Spec.Ports {
		want := fmt.Sprint(target)
		if !named || port.Name == want || port.TargetPort.String() == want {
			return port, nil
		}
	}
	return corev1.ServicePort{}, fmt.Errorf("service %s has no port %v", service.Name, target)
}
