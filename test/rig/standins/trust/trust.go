package trust

import (
	"bytes"
	"context"
	"fmt"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"

	"opdev.io/guestcluster/test/rig/standins/loop"
)

const (
	// Label asks for certificates, Key is where they go.
	Label = "config.openshift.io/inject-trusted-cabundle"
	Key   = "ca-bundle.crt"

	system = "/etc/ssl/certs/ca-certificates.crt"
)

// Injector fills labelled ConfigMaps in every namespace.
type Injector struct {
	Changes *loop.Changes

	client  kubernetes.Interface
	factory informers.SharedInformerFactory
	lister  corelisters.ConfigMapLister
	bundle  string
}

// New returns an injector of the machine's certificates and the authority's,
// as OpenShift injects the system's and those of the cluster's proxy.
func New(client kubernetes.Interface, authority []byte) (*Injector, error) {
	all, err := os.ReadFile(system)
	if err != nil {
		return nil, fmt.Errorf("read the machine's certificates: %w", err)
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = Label + "=true" }))
	maps := factory.Core().V1().ConfigMaps()
	i := &Injector{
		Changes: loop.NewChanges(), client: client, factory: factory, lister: maps.Lister(),
		bundle: string(bytes.Join([][]byte{all, authority}, []byte("\n"))),
	}
	_, err = maps.Informer().AddEventHandler(i.Changes)
	return i, err
}

// Run fills ConfigMaps until the context ends.
func (i *Injector) Run(ctx context.Context) {
	i.factory.Start(ctx.Done())
	i.factory.WaitForCacheSync(ctx.Done())
	loop.Run(ctx, i.Changes, i.reconcile)
}

func (i *Injector) reconcile(ctx context.Context) error {
	all, err := i.lister.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list ConfigMaps: %w", err)
	}
	for _, found := range all {
		if found.Data[Key] == i.bundle {
			continue
		}
		filled := found.DeepCopy()
		if filled.Data == nil {
			filled.Data = map[string]string{}
		}
		filled.Data[Key] = i.bundle
		_, err := i.client.CoreV1().ConfigMaps(filled.Namespace).Update(ctx, filled, metav1.UpdateOptions{FieldManager: "cluster-network-operator"})
		if err := loop.Outdated(err); err != nil {
			return fmt.Errorf("fill ConfigMap %s/%s: %w", filled.Namespace, filled.Name, err)
		}
	}
	return nil
}
