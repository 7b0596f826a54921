package virt

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"opdev.io/guestcluster/pkg/steps/step"
)

// maxRestarts: CDI restarts a failing importer for ever, so it is counted here.
const maxRestarts = 3

const (
	// moment is for what CDI cannot take back.
	moment = 20 * time.Second
	// flap is for states that are known to come and go.
	flap = time.Minute
)

// known are the reasons of CDI's conditions and warnings that a disk waits for.
var known = map[string]Trouble{
	"ErrIncompatiblePVC":    {Code: step.ExitUser, Grace: moment, Text: "raise template.rootVolumeSize: the disk cannot be smaller than its source"},
	"CloneValidationFailed": {Code: step.ExitUser, Grace: moment, Text: "raise template.rootVolumeSize: the disk cannot be smaller than its source"},
	"ErrClaimNotValid":      {Code: step.ExitUser, Grace: flap, Text: "set template.storageClassName to a class whose StorageProfile has claimPropertySets"},
	"ErrResourceExists":     {Code: step.ExitUser, Grace: flap, Text: "a PersistentVolumeClaim of that name is in the way: delete it"},
	"CloneWithoutSource":    {Code: step.ExitInfra, Grace: flap, Text: "the golden volume is gone: delete its CRCBundle to have it prepared anew"},
	"ErrClaimLost":          {Code: step.ExitInfra, Grace: flap, Text: "the storage lost the volume"},
	"ErrExceededQuota":      {Code: step.ExitInfra, Grace: Forever, Text: "raise the ResourceQuota of the namespace, or lower maxSize of the pool"},
	"CloneSourceInUse":      {Code: step.ExitInfra, Grace: Forever, Text: "a pod still mounts the golden volume: delete it"},
}

// explain turns a reason that CDI gives into trouble; other reasons are none.
func explain(reason, message string) Trouble {
	t, ok := known[reason]
	if !ok {
		return Trouble{}
	}
	t.Kind, t.Text = reason, fmt.Sprintf("the disk is not filled: %s: %s; %s", reason, brief(message), t.Text)
	return t
}

// ownTrouble is what the DataVolume's own status says is wrong.
func ownTrouble(volume *cdiv1.DataVolume) Trouble {
	running, bound := condition(volume, cdiv1.DataVolumeRunning), condition(volume, cdiv1.DataVolumeBound)
	why := brief(cmp.Or(running.Message, running.Reason, bound.Message, "CDI does not say why"))
	switch {
	case volume.Status.RestartCount >= maxRestarts:
		return Trouble{Kind: "restarts", Code: step.ExitInfra, Text: fmt.Sprintf(
			"DataVolume %s: its transfer was restarted %d times: %s; check the source and the size of the disk", volume.Name, volume.Status.RestartCount, why)}
	case volume.Status.Phase == cdiv1.Failed:
		return Trouble{Kind: "failed", Code: step.ExitInfra, Grace: flap, Text: fmt.Sprintf("DataVolume %s: Failed: %s", volume.Name, why)}
	case bound.Status == corev1.ConditionFalse && known[bound.Reason].Text != "":
		return explain(bound.Reason, bound.Message)
	case running.Status == corev1.ConditionFalse && known[running.Reason].Text != "":
		return explain(running.Reason, running.Message)
	case running.Status == corev1.ConditionFalse && running.Reason == "Error":
		return Trouble{Kind: "error", Code: step.ExitInfra, Grace: Forever, Text: "the transfer failed and is tried again: " + why}
	}
	return Trouble{}
}
