package v1alpha1

import (
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Condition types.
const (
	// ConditionReady is on every kind; on a lease it mirrors Bound.
	ConditionReady = "Ready"
	// ConditionBound says whether a lease holds an instance.
	ConditionBound = "Bound"
	// ConditionCapacityAvailable says whether maxSize lets a pool do what is asked of it.
	ConditionCapacityAvailable = "CapacityAvailable"
	// ConditionProvisioningAllowed says whether namespace and installation let instances be made.
	ConditionProvisioningAllowed = "ProvisioningAllowed"
	// ConditionProvisioningHealthy says whether a pool's breaker is closed.
	ConditionProvisioningHealthy = "ProvisioningHealthy"
	// ConditionAllInstancesCurrent says whether all unclaimed instances have the pool's template.
	ConditionAllInstancesCurrent = "AllInstancesCurrent"
	// ConditionProvisioned says whether the provisioning run ended well and its kubeconfig was accepted.
	ConditionProvisioned = "Provisioned"
	// ConditionGuestAPIReachable says whether the guest API answered the last probes at its external address.
	ConditionGuestAPIReachable = "GuestAPIReachable"
	// ConditionVersionMismatch is True when the guest reports another version than the template asks for.
	ConditionVersionMismatch = "VersionMismatch"
	// ConditionDeleting names what a deletion waits for.
	ConditionDeleting = "Deleting"
)

// Reason is the machine-readable part of a condition. docs/troubleshooting.md
// has an entry for each.
type Reason string

// Reasons of a lease's Bound condition.
const (
	ReasonWaitingForCapacity   Reason = "WaitingForCapacity"
	ReasonAtCapacity           Reason = "AtCapacity"
	ReasonPoolNotFound         Reason = "PoolNotFound"
	ReasonPoolPaused           Reason = "PoolPaused"
	ReasonPoolNotProvisioning  Reason = "PoolNotProvisioning"
	ReasonNamespaceNotAllowed  Reason = "NamespaceNotAllowed"
	ReasonNamespaceAtLimit     Reason = "NamespaceAtLimit"
	ReasonAccessMissing        Reason = "AccessMissing"
	ReasonProvisioningFailing  Reason = "ProvisioningFailing"
	ReasonClaiming             Reason = "Claiming"
	ReasonInstanceBound        Reason = "InstanceBound"
	ReasonAccessSecretConflict Reason = "AccessSecretConflict"
	ReasonAcquireTimeout       Reason = "AcquireTimeout"
	ReasonReleased             Reason = "Released"
	ReasonExpired              Reason = "Expired"
	ReasonHolderDone           Reason = "HolderDone"
	ReasonHolderGone           Reason = "HolderGone"
	ReasonInstanceLost         Reason = "InstanceLost"
)

// Reasons of a pool's conditions.
const (
	ReasonCapacitySufficient   Reason = "CapacitySufficient"
	ReasonMaxSizeTooSmall      Reason = "MaxSizeTooSmall"
	ReasonNamespaceEnabled     Reason = "NamespaceEnabled"
	ReasonNamespaceDisabled    Reason = "NamespaceDisabled"
	ReasonPipelineNotFound     Reason = "PipelineNotFound"
	ReasonPipelineInvalid      Reason = "PipelineInvalid"
	ReasonProvisioningHealthy  Reason = "ProvisioningHealthy"
	ReasonBreakerOpen          Reason = "BreakerOpen"
	ReasonAllCurrent           Reason = "AllCurrent"
	ReasonStaleInstances       Reason = "StaleInstances"
	ReasonPoolReady            Reason = "PoolReady"
	ReasonPaused               Reason = "Paused"
	ReasonWaitingForLeases     Reason = "WaitingForLeases"
	ReasonIngressDomainMissing Reason = "IngressDomainMissing"
)

// Reasons of an instance's conditions.
const (
	ReasonPreparing            Reason = "Preparing"
	ReasonRunQueued            Reason = "RunQueued"
	ReasonRunRunning           Reason = "RunRunning"
	ReasonRunFailed            Reason = "RunFailed"
	ReasonRunLost              Reason = "RunLost"
	ReasonProvisioningTimeout  Reason = "ProvisioningTimeout"
	ReasonHandoffInvalid       Reason = "HandoffInvalid"
	ReasonForeignObject        Reason = "ForeignObject"
	ReasonRouteAPIMissing      Reason = "RouteAPIMissing"
	ReasonProvisioned          Reason = "Provisioned"
	ReasonProbing              Reason = "Probing"
	ReasonGuestAPIReachable    Reason = "GuestAPIReachable"
	ReasonGuestAPIUnreachable  Reason = "GuestAPIUnreachable"
	ReasonProbeHeld            Reason = "ProbeHeld"
	ReasonInstanceReady        Reason = "InstanceReady"
	ReasonVersionDiffers       Reason = "VersionDiffers"
	ReasonVersionMatches       Reason = "VersionMatches"
	ReasonDestroying           Reason = "Destroying"
	ReasonDestroyed            Reason = "Destroyed"
	ReasonDestroyWaiting       Reason = "DestroyWaiting"
	ReasonNamespaceTerminating Reason = "NamespaceTerminating"
)

// Reasons of crc instances and their pools.
const (
	ReasonInvalidPullSecret     Reason = "InvalidPullSecret"
	ReasonMissingBundleSSHKey   Reason = "MissingBundleSSHKey"
	ReasonBundleNotReady        Reason = "BundleNotReady"
	ReasonBundleFailed          Reason = "BundleFailed"
	ReasonBundleChanged         Reason = "BundleChanged"
	ReasonBundleStorageDiffers  Reason = "BundleStorageDiffers"
	ReasonVirtualizationMissing Reason = "VirtualizationMissing"
	ReasonGuestStopped          Reason = "GuestStopped"
	ReasonGuestRestarted        Reason = "GuestRestarted"
	ReasonGuestLost             Reason = "GuestLost"
)

// Reasons of a bundle's Ready condition, besides those of runs.
const (
	ReasonBundlePreparing Reason = "BundlePreparing"
	ReasonBundleReady     Reason = "BundleReady"
	ReasonBundleInUse     Reason = "BundleInUse"
	ReasonBundleLost      Reason = "BundleLost"
	ReasonBundleDeleting  Reason = "BundleDeleting"
)

// Reasons of a CustomRun's Succeeded condition, besides those of its lease. Those
// with CustomRun in their value and Started and Succeeded are Tekton's.
const (
	ReasonCustomRunStarted   Reason = "Started"
	ReasonCustomRunSucceeded Reason = "Succeeded"
	ReasonCustomRunCancelled Reason = "CustomRunCancelled"
	ReasonCustomRunTimedOut  Reason = "CustomRunTimedOut"
	ReasonInvalidRequest     Reason = "InvalidRequest"
	ReasonLeaseConflict      Reason = "LeaseConflict"
	ReasonLeaseDeleted       Reason = "LeaseDeleted"
	ReasonLeaseRefused       Reason = "LeaseRefused"
)

// maxConditionMessage is in bytes; metav1.Condition allows 32768.
const maxConditionMessage = 1024

func setCondition(list *[]metav1.Condition, generation int64, kind string, status metav1.ConditionStatus, reason Reason, message string) {
	meta.SetStatusCondition(list, metav1.Condition{
		Type: kind, Status: status, Reason: string(reason),
		Message: Truncate(message, maxConditionMessage), ObservedGeneration: generation,
	})
}

// Truncate cuts s to at most n bytes at a character's border.
func Truncate(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

func isTrue(list []metav1.Condition, kind string) bool {
	return meta.IsStatusConditionTrue(list, kind)
}

func reasonOf(list []metav1.Condition, kind string) Reason {
	if c := meta.FindStatusCondition(list, kind); c != nil {
		return Reason(c.Reason)
	}
	return ""
}
