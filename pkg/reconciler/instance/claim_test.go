package instance

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

func TestStrayIsDeleted(t *testing.T) {
	pool := func(uid types.UID) *v1alpha1.ClusterPool {
		return &v1alpha1.ClusterPool{ObjectMeta: metav1.ObjectMeta{Namespace: "ci", Name: "p", UID: uid}}
	}
	rows := map[string]struct {
		assigned     bool
		cached, live *v1alpha1.ClusterPool
		want         bool
	}{
		"never while the pool is there":             {assigned: true, cached: pool("p1"), live: pool("p1")},
		"not when only the cache lost the pool":     {assigned: true, live: pool("p1")},
		"when both say that it is gone":             {assigned: true, want: true},
		"when another pool has its name":            {assigned: true, cached: pool("p2"), live: pool("p2"), want: true},
		"at first even if the cache has the pool":   {cached: pool("p1"), want: true},
		"later only when the cache lost it as well": {assigned: true, cached: pool("p1")},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			i := provisioning()
			i.ResourceVersion = "7"
			i.Spec.PoolRef = &v1alpha1.OwnerPool{Name: "p", UID: "p1"}
			if !row.assigned {
				i.Status.APIEndpoint = ""
			}
			objects := []runtime.Object{i}
			if row.live != nil {
				objects = append(objects, row.live)
			}
			w := newWorld(t, objects, nil)
			if row.cached != nil {
				if err := w.cached.Add(row.cached); err != nil {
					t.Fatal(err)
				}
			}
			got, err := w.deleteUnwanted(w.ctx, i)
			list := deletions(w.client.Actions(), "clusterinstances")
			if err != nil || got != row.want || (len(list) == 1) != row.want {
				t.Fatalf("deleted %t, %d times, error %v", got, len(list), err)
			}
			if !row.want {
				return
			}
			guard := list[0].DeleteOptions.Preconditions
			if guard == nil || *guard.UID != "i1" || *guard.ResourceVersion != "7" {
				t.Errorf("deleted with preconditions %+v", guard)
			}
		})
	}
}
