package plan

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
)

func TestSweep(t *testing.T) {
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	ours := func(uid types.UID) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: "guestcluster.opdev.io/v1alpha1", Kind: "ClusterInstance", Name: "i", UID: uid}
	}
	other := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "c", UID: "c1"}
	lease := metav1.OwnerReference{APIVersion: "guestcluster.opdev.io/v1alpha1", Kind: "ClusterLease", Name: "i", UID: "gone"}
	likewise := metav1.OwnerReference{APIVersion: "example.org/v1", Kind: "ClusterInstance", Name: "i", UID: "gone"}
	owned := func(refs ...metav1.OwnerReference) func(*metav1.ObjectMeta) {
		return func(o *metav1.ObjectMeta) { o.OwnerReferences = refs }
	}
	annotated := func(value string) func(*metav1.ObjectMeta) {
		return func(o *metav1.ObjectMeta) {
			o.Annotations = map[string]string{guestcluster.OwnerInstanceAnnotation: value}
		}
	}
	labelled := func(o *metav1.ObjectMeta) {
		o.Labels = map[string]string{guestcluster.InstanceLabel: "i", guestcluster.InstanceUIDLabel: "gone"}
	}
	young := func(o *metav1.ObjectMeta) { o.CreationTimestamp = metav1.NewTime(now.Add(-SweepAge)) }
	deleting := func(o *metav1.ObjectMeta) {
		o.DeletionTimestamp, o.Finalizers = &metav1.Time{Time: now}, []string{"keep"}
	}
	type changes []func(*metav1.ObjectMeta)
	rows := map[string]struct {
		object changes
		want   SweepStep
		says   string
	}{
		"a foreign object":                                {changes{}, SweepKeep, ""},
		"one of a lease":                                  {changes{owned(lease)}, SweepKeep, ""},
		"one of another group's ClusterInstance":          {changes{owned(likewise)}, SweepKeep, ""},
		"one whose instance is there":                     {changes{owned(ours("there"))}, SweepKeep, ""},
		"one whose instance cannot be read":               {changes{owned(ours("unknown"))}, SweepKeep, ""},
		"one of two instances, one is there":              {changes{owned(ours("gone"), ours("there"))}, SweepKeep, ""},
		"an owned one is deleted":                         {changes{owned(ours("gone"))}, SweepDelete, "will be deleted"},
		"an owned one of exactly an hour":                 {changes{owned(ours("gone")), young}, SweepReport, "will be deleted"},
		"one with another owner":                          {changes{owned(ours("gone"), other)}, SweepReport, "other owners"},
		"one that is being deleted":                       {changes{owned(ours("gone")), deleting}, SweepReport, "finalizers: keep"},
		"an annotated one is deleted":                     {changes{annotated("ns/i/gone")}, SweepDelete, "ns/i (UID gone)"},
		"an annotated one whose instance is there":        {changes{annotated("ns/i/there")}, SweepKeep, ""},
		"an annotated one with an owner":                  {changes{annotated("ns/i/gone"), owned(other)}, SweepReport, "other owners"},
		"an annotation without a UID":                     {changes{annotated("ns/i/")}, SweepKeep, ""},
		"an annotation of two parts":                      {changes{annotated("ns/i")}, SweepKeep, ""},
		"a label alone":                                   {changes{labelled}, SweepReport, "only its labels"},
		"labels and an owner that is there":               {changes{labelled, owned(ours("there"))}, SweepKeep, ""},
		"labels and a broken annotation":                  {changes{annotated("x"), labelled}, SweepReport, "only its labels"},
		"labels of a disk that another controller copied": {changes{labelled, owned(other)}, SweepReport, "only its labels"},
	}
	gone := func(id InstanceID) bool { return id.UID == "gone" && id.Name == "i" && id.Namespace == "ns" }
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			object := &metav1.ObjectMeta{Namespace: "ns", Name: "o", CreationTimestamp: metav1.NewTime(now.Add(-SweepAge - time.Second))}
			for _, change := range row.object {
				change(object)
			}
			n := Names(object)
			if got := Sweep(object, n, gone, now); got != row.want {
				t.Errorf("got step %d, want %d", got, row.want)
			}
			if row.says == "" {
				return
			}
			if text := SweepText(object, n, false); !strings.Contains(text, row.says) {
				t.Errorf("says %q, want %q", text, row.says)
			}
		})
	}
}

func TestSweepTellsOfADryRun(t *testing.T) {
	object := &metav1.ObjectMeta{Annotations: map[string]string{guestcluster.OwnerInstanceAnnotation: "a/b/c"}}
	if text := SweepText(object, Names(object), true); !strings.Contains(text, "dry run") {
		t.Error(text)
	}
}
