package v1alpha1

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// IsReady says whether condition Ready is True and the instance is not being destroyed.
func (i *ClusterInstance) IsReady() bool {
	return i.DeletionTimestamp == nil && isTrue(i.Status.Conditions, ConditionReady)
}

// IsFailed says whether the instance will never be Ready again.
func (i *ClusterInstance) IsFailed() bool {
	return i.Status.Failure != nil
}

// IsProvisioned says whether the provisioning run ended well.
func (i *ClusterInstance) IsProvisioned() bool {
	return isTrue(i.Status.Conditions, ConditionProvisioned)
}

// ClaimedBy says whether the instance serves exactly this lease.
func (i *ClusterInstance) ClaimedBy(lease *ClusterLease) bool {
	return i.Spec.ClaimRef != nil && *i.Spec.ClaimRef == lease.Claim()
}

// Reference names the instance by identity.
func (i *ClusterInstance) Reference() ObjectReference {
	return ObjectReference{Namespace: i.Namespace, Name: i.Name, UID: i.UID}
}

// ReadyReason is the reason of condition Ready.
func (s *ClusterInstanceStatus) ReadyReason() Reason {
	return reasonOf(s.Conditions, ConditionReady)
}

// MarkAssigned fixes the external endpoint before anything is made.
func (i *ClusterInstance) MarkAssigned(endpoint, kubeconfigSecret string) {
	i.Status.Topology = string(i.Spec.Type)
	i.Status.APIEndpoint = endpoint
	i.Status.KubeconfigSecretRef = &LocalReference{Name: kubeconfigSecret}
}

// MarkAllowed says that the namespace opted in and the controller has its rights.
func (i *ClusterInstance) MarkAllowed() {
	i.set(ConditionProvisioningAllowed, metav1.ConditionTrue, ReasonNamespaceEnabled, "")
}

// MarkNotAllowed says what a person must do before the instance can be made.
// An instance that was made already stays as it is.
func (i *ClusterInstance) MarkNotAllowed(reason Reason, message string) {
	i.set(ConditionProvisioningAllowed, metav1.ConditionFalse, reason, message)
	if !i.IsProvisioned() && !i.IsFailed() {
		i.MarkProvisioning(reason, message)
	}
}

// MarkRun records the run of the current attempt.
func (i *ClusterInstance) MarkRun(run RunStatus) {
	i.Status.Run = &run
}

// MarkProvisioning says what the provisioning is doing or waits for.
func (i *ClusterInstance) MarkProvisioning(reason Reason, message string) {
	i.set(ConditionProvisioned, metav1.ConditionUnknown, reason, message)
	i.set(ConditionReady, metav1.ConditionUnknown, reason, message)
}

// MarkProvisioned says that the run's kubeconfig was accepted; the API is probed next.
func (i *ClusterInstance) MarkProvisioned(version string) {
	i.Status.OCPVersion = version
	i.set(ConditionProvisioned, metav1.ConditionTrue, ReasonProvisioned, "")
	i.markVersion(version)
	if !isTrue(i.Status.Conditions, ConditionReady) {
		i.set(ConditionReady, metav1.ConditionUnknown, ReasonProbing, "waiting for the first answer of the guest API at "+i.Status.APIEndpoint)
	}
}

func (i *ClusterInstance) markVersion(version string) {
	want := i.Spec.Template.OCPVersion
	switch {
	case want == "":
	case want == version:
		i.set(ConditionVersionMismatch, metav1.ConditionFalse, ReasonVersionMatches, "")
	default:
		i.set(ConditionVersionMismatch, metav1.ConditionTrue, ReasonVersionDiffers,
			fmt.Sprintf("the guest reports version %q, the template asks for %q", version, want))
	}
}

// MarkReachable says that the guest API answered; a provisioned instance becomes Ready.
func (i *ClusterInstance) MarkReachable(now metav1.Time) {
	i.set(ConditionGuestAPIReachable, metav1.ConditionTrue, ReasonGuestAPIReachable, "")
	if !i.IsProvisioned() || i.IsFailed() {
		return
	}
	if i.Status.ReadyTime == nil {
		i.Status.ReadyTime = &now
	}
	i.set(ConditionReady, metav1.ConditionTrue, ReasonInstanceReady, "")
}

// MarkUnreachable says that the guest API did not answer; the instance is not handed out.
func (i *ClusterInstance) MarkUnreachable(reason Reason, message string) {
	i.set(ConditionGuestAPIReachable, metav1.ConditionFalse, reason, message)
	if !i.IsFailed() {
		i.set(ConditionReady, metav1.ConditionFalse, reason, message)
	}
}

// MarkFailed ends the instance. The first failure stays.
func (i *ClusterInstance) MarkFailed(failure FailureStatus) {
	if i.IsFailed() {
		return
	}
	failure.Instance, failure.InstanceUID = i.Name, i.UID
	failure.Message = Truncate(failure.Message, maxConditionMessage)
	i.Status.Failure = &failure
	if !i.IsProvisioned() {
		i.set(ConditionProvisioned, metav1.ConditionFalse, Reason(failure.Reason), failure.Message)
	}
	i.set(ConditionReady, metav1.ConditionFalse, Reason(failure.Reason), failure.Message)
}

// MarkDeleting names what the destruction waits for; empty means nothing is left.
func (i *ClusterInstance) MarkDeleting(waitsFor string) {
	status, reason := metav1.ConditionTrue, ReasonDestroyWaiting
	if waitsFor == "" {
		status, reason, waitsFor = metav1.ConditionFalse, ReasonDestroyed, "everything of this instance is gone"
	}
	i.set(ConditionDeleting, status, reason, waitsFor)
	if i.DeletionTimestamp != nil {
		i.set(ConditionReady, metav1.ConditionFalse, ReasonDestroying, waitsFor)
	}
}

// MarkDerived repeats facts of spec and conditions for people: phase and leaseRef.
func (i *ClusterInstance) MarkDerived() {
	i.Status.ObservedGeneration = i.Generation
	i.Status.Phase = i.phase()
	i.Status.LeaseRef = nil
	if c := i.Spec.ClaimRef; c != nil {
		i.Status.LeaseRef = &ObjectReference{Namespace: c.LeaseNamespace, Name: c.LeaseName, UID: c.LeaseUID}
	}
}

func (i *ClusterInstance) phase() InstancePhase {
	switch {
	case i.DeletionTimestamp != nil:
		return InstanceTerminating
	case i.IsFailed():
		return InstanceFailed
	case i.Status.ReadyTime != nil:
		return InstanceReady
	default:
		return InstanceProvisioning
	}
}

func (i *ClusterInstance) set(kind string, status metav1.ConditionStatus, reason Reason, message string) {
	setCondition(&i.Status.Conditions, i.Generation, kind, status, reason, message)
}
