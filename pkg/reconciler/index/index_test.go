package index

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

func instance(namespace, name, pool string) *v1alpha1.ClusterInstance {
	i := &v1alpha1.ClusterInstance{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if pool != "" {
		i.Spec.PoolRef = &v1alpha1.OwnerPool{Name: pool}
	}
	return i
}

func TestInstancesInSlots(t *testing.T) {
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{}, &v1alpha1.ClusterInstance{}, 0, cache.Indexers{})
	if err := Instances(informer); err != nil {
		t.Fatal(err)
	}
	for _, i := range []*v1alpha1.ClusterInstance{
		instance("here", "ci-0", "ci"), instance("here", "ci-1", ""), instance("here", "ci-2", "other"),
		instance("here", "ci-large-0", "ci-large"), instance("there", "ci-3", "ci"), instance("here", "ci", ""), instance("here", "own", "ci"),
	} {
		if err := informer.GetIndexer().Add(i); err != nil {
			t.Fatal(err)
		}
	}
	found, err := InstancesInSlots(informer.GetIndexer(), "here/ci")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, i := range found {
		names = append(names, i.Name)
	}
	slices.Sort(names)
	if want := []string{"ci-0", "ci-1", "ci-2"}; !slices.Equal(names, want) {
		t.Errorf("found %v, want %v", names, want)
	}
}

func TestPoolIsWokenByWhatTakesItsSlot(t *testing.T) {
	for name, tt := range map[string]struct {
		instance *v1alpha1.ClusterInstance
		want     []string
	}{
		"its own instance":                       {instance("here", "ci-0", "ci"), []string{"here/ci"}},
		"a standalone instance in a slot":        {instance("here", "ci-0", ""), []string{"here/ci"}},
		"another pool's instance in a slot":      {instance("here", "ci-0", "other"), []string{"here/other", "here/ci"}},
		"a standalone instance that has no slot": {instance("here", "mine", ""), nil},
	} {
		t.Run(name, func(t *testing.T) {
			var woken []string
			EnqueuePoolOfInstance(func(key types.NamespacedName) { woken = append(woken, key.String()) })(tt.instance)
			if !slices.Equal(woken, tt.want) {
				t.Errorf("woke %v, want %v", woken, tt.want)
			}
		})
	}
}
