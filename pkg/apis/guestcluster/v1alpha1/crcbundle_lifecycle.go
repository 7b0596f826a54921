package v1alpha1

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
)

// bundleLifetime is how long a bundle's own certificates are good for: its
// builders renew the kubelet's, which live 30 days, just before they pack it.
const bundleLifetime = 30 * 24 * time.Hour

// IsReady says whether the golden volume can be cloned.
func (b *CRCBundle) IsReady() bool {
	return b.DeletionTimestamp == nil && b.Status.Phase == BundleReady && isTrue(b.Status.Conditions, ConditionReady)
}

// IsFailed says whether only deleting the bundle helps.
func (b *CRCBundle) IsFailed() bool {
	return b.Status.Phase == BundleFailed
}

// ReadyReason is the reason of condition Ready.
func (b *CRCBundle) ReadyReason() Reason {
	return reasonOf(b.Status.Conditions, ConditionReady)
}

// ReadyMessage is the message of condition Ready.
func (b *CRCBundle) ReadyMessage() string {
	if c := meta.FindStatusCondition(b.Status.Conditions, ConditionReady); c != nil {
		return c.Message
	}
	return ""
}

// RunName is the deterministic name of the prepare-bundle run of an attempt.
// It hashes the UID: a bundle that is made anew never meets the old one's run.
func (b *CRCBundle) RunName(attempt int32) string {
	sum := sha256.Sum256([]byte(b.UID))
	part := strings.Map(func(r rune) rune {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') {
			return '-'
		}
		return r
	}, b.Spec.Version+"-"+cmp.Or(b.Spec.Arch, DefaultArch))
	part = strings.TrimRight(Truncate(part, readableNameLength), "-")
	return fmt.Sprintf("prepare-%s-%s-%d", part, hex.EncodeToString(sum[:5]), attempt)
}

// Owner refers to the bundle from what is prepared for it. It leaves
// blockOwnerDeletion unset: that would need update on our finalizers.
func (b *CRCBundle) Owner() metav1.OwnerReference {
	controller := true
	return metav1.OwnerReference{
		APIVersion: SchemeGroupVersion.String(), Kind: "CRCBundle", Name: b.Name, UID: b.UID, Controller: &controller,
	}
}

// ChildMeta is the metadata of a run that the controller makes for the bundle.
func (b *CRCBundle) ChildMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: name, Namespace: guestcluster.BundleNamespace,
		Labels: map[string]string{
			guestcluster.ManagedByLabel: guestcluster.ManagedBy,
			guestcluster.BundleLabel:    b.Name,
		},
		OwnerReferences: []metav1.OwnerReference{b.Owner()},
	}
}

// MarkWaiting says what the preparation does or waits for.
func (b *CRCBundle) MarkWaiting(reason Reason, message string) {
	if b.Status.Phase == "" {
		b.Status.Phase = BundlePending
	}
	b.set(metav1.ConditionUnknown, reason, message)
}

// MarkRun records the run of the current attempt. Without a UID it is still to
// be made, from a spec that can no longer change.
func (b *CRCBundle) MarkRun(run RunStatus) {
	b.Status.Phase, b.Status.Run = BundlePreparing, &run
}

// Prepared is what a prepare-bundle run has left behind.
//
// +k8s:deepcopy-gen=false
type Prepared struct {
	GoldenVolume ObjectReference
	SSHKeySecret string
	OCPVersion   string
	SHA256       string
	// BuildTime is zero when the bundle does not tell.
	BuildTime time.Time
}

// MarkReady says that the golden volume is whole, at rest and can be cloned.
func (b *CRCBundle) MarkReady(p Prepared) {
	s := &b.Status
	s.Phase, s.Failure = BundleReady, nil
	s.GoldenVolume = &p.GoldenVolume
	s.SSHKeySecretRef = &LocalReference{Name: p.SSHKeySecret}
	s.OCPVersion, s.SHA256 = p.OCPVersion, p.SHA256
	s.BuildTime, s.NotAfter = nil, nil
	if !p.BuildTime.IsZero() {
		s.BuildTime = &metav1.Time{Time: p.BuildTime}
		s.NotAfter = &metav1.Time{Time: p.BuildTime.Add(bundleLifetime)}
	}
	b.set(metav1.ConditionTrue, ReasonBundleReady, "")
}

// MarkFailed ends the preparation; text is the failure in one line.
func (b *CRCBundle) MarkFailed(failure FailureStatus, text string) {
	b.fail(ReasonBundleFailed, failure, text)
}

// MarkLost ends a bundle that was Ready: something of it was deleted.
func (b *CRCBundle) MarkLost(message string, now metav1.Time) {
	b.fail(ReasonBundleLost, FailureStatus{Reason: string(ReasonBundleLost), Message: message, Time: now}, message)
}

func (b *CRCBundle) fail(reason Reason, failure FailureStatus, text string) {
	failure.Message = Truncate(failure.Message, maxConditionMessage)
	b.Status.Phase, b.Status.Failure = BundleFailed, &failure
	b.set(metav1.ConditionFalse, reason, text)
}

// MarkDeleting names what the deletion waits for.
func (b *CRCBundle) MarkDeleting(waitsFor string) {
	b.set(metav1.ConditionFalse, ReasonBundleDeleting, waitsFor)
}

func (b *CRCBundle) set(status metav1.ConditionStatus, reason Reason, message string) {
	b.Status.ObservedGeneration = b.Generation
	setCondition(&b.Status.Conditions, b.Generation, ConditionReady, status, reason, message)
}
