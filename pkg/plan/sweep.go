package plan

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
)

// SweepAge is how old an object of an instance that is gone must be to be deleted.
const SweepAge = time.Hour

// Proof is how much it means that an object names an instance.
type Proof string

const (
	// ProofNone means that it names none.
	ProofNone Proof = ""
	// ProofLabel is a label alone: controllers and people copy labels.
	ProofLabel Proof = "label"
	// ProofOwner is an owner reference, or the annotation in its place.
	ProofOwner Proof = "owner"
)

// InstanceID is an instance by identity.
type InstanceID struct {
	Namespace, Name string
	UID             types.UID
}

// Naming is which instances an object names.
type Naming struct {
	Proof     Proof
	Instances []InstanceID
	// Shared: it has owners of other kinds, which may need it.
	Shared bool
}

// Names reads what an object says about whose it is: owner references, else
// the annotation, else labels.
func Names(object metav1.Object) Naming {
	n := Naming{Proof: ProofOwner}
	for _, ref := range object.GetOwnerReferences() {
		if ref.Kind == "ClusterInstance" && strings.HasPrefix(ref.APIVersion, guestcluster.GroupName+"/") {
			n.Instances = append(n.Instances, InstanceID{Namespace: object.GetNamespace(), Name: ref.Name, UID: ref.UID})
			continue
		}
		n.Shared = true
	}
	if len(n.Instances) > 0 {
		return n
	}
	if id, ok := annotated(object.GetAnnotations()[guestcluster.OwnerInstanceAnnotation]); ok {
		n.Instances = []InstanceID{id}
		return n
	}
	labels := object.GetLabels()
	id := InstanceID{Namespace: object.GetNamespace(), Name: labels[guestcluster.InstanceLabel], UID: types.UID(labels[guestcluster.InstanceUIDLabel])}
	if id.Name == "" || id.UID == "" {
		return Naming{Shared: n.Shared}
	}
	n.Proof, n.Instances = ProofLabel, []InstanceID{id}
	return n
}

// annotated reads namespace/name/UID.
func annotated(value string) (InstanceID, bool) {
	parts := strings.Split(value, "/")
	if len(parts) != 3 || parts[0] == "" || parts[1] == "" || parts[2] == "" {
		return InstanceID{}, false
	}
	return InstanceID{Namespace: parts[0], Name: parts[1], UID: types.UID(parts[2])}, true
}

// SweepStep is what to do about an object.
type SweepStep int

const (
	// SweepKeep says nothing: it is no orphan, or nobody knows.
	SweepKeep SweepStep = iota
	// SweepReport tells people.
	SweepReport
	// SweepDelete tells people and deletes it.
	SweepDelete
)

// Sweep decides about an object when gone says, from the live API, whether an
// instance is gone for certain.
//
//	an instance that it names is there, or nobody knows   keep
//	named by a label alone, or has other owners too       report
//	being deleted, or not older than an hour              report
//	otherwise                                             delete
func Sweep(object metav1.Object, n Naming, gone func(InstanceID) bool, now time.Time) SweepStep {
	if len(n.Instances) == 0 {
		return SweepKeep
	}
	for _, id := range n.Instances {
		if !gone(id) {
			return SweepKeep
		}
	}
	young := now.Sub(object.GetCreationTimestamp().Time) <= SweepAge
	if n.Proof != ProofOwner || n.Shared || young || object.GetDeletionTimestamp() != nil {
		return SweepReport
	}
	return SweepDelete
}

// SweepText tells a person about an object of an instance that is gone.
func SweepText(object metav1.Object, n Naming, dryRun bool) string {
	id := n.Instances[0]
	text := "ClusterInstance " + id.Namespace + "/" + id.Name + " (UID " + string(id.UID) + ") is gone and left this behind: "
	switch {
	case n.Proof == ProofLabel:
		return text + "only its labels say so: delete it if nobody needs it"
	case n.Shared:
		return text + "it has other owners too: delete it if they do not need it"
	case object.GetDeletionTimestamp() != nil:
		return text + "it is being deleted and waits for its finalizers: " + strings.Join(object.GetFinalizers(), ", ")
	case dryRun:
		return text + "dry run: it is not deleted"
	}
	return text + "it will be deleted when it is an hour old"
}

// Reasons of the sweep's Events.
const (
	OrphanFound   = "OrphanFound"
	OrphanDeleted = "OrphanDeleted"
)
