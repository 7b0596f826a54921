package plan

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

// BundleResults is what a prepare-bundle run says of its work.
type BundleResults struct {
	GoldenVolume string
	VolumeUID    types.UID
	SSHKeySecret string
	OCPVersion   string
	SHA256       string
	// BuildTime is RFC 3339, or empty.
	BuildTime string
}

// BundleVolume is a golden volume as a live GET shows it.
type BundleVolume struct {
	UID types.UID
	// Deleting: it has a deletionTimestamp. Foreign: something else controls it.
	Deleting, Foreign bool
	// Run is the UID of the run that wrote it; the rest is there once it is sealed.
	Run                           types.UID
	SHA256, OCPVersion, BuildTime string
}

// SealedBy says whether a run has finished its work on the volume: then it is
// not missed when somebody deletes it.
func (v *BundleVolume) SealedBy(run types.UID) bool {
	return v != nil && !v.Deleting && v.SHA256 != "" && v.Run == run
}

// BundleKey is a boot key Secret as a live GET shows it.
type BundleKey struct {
	Deleting, Foreign bool
	// Filled: it has the key that steps log in with.
	Filled bool
}

// BundleFacts is what is known when a prepare-bundle run has ended well.
type BundleFacts struct {
	Bundle *v1alpha1.CRCBundle
	// Results are nil when the run is gone.
	Results *BundleResults
	Volume  *BundleVolume
	Key     *BundleKey
	// Pods that have not ended and mount the volume.
	Pods []string
}

// BundleStep is what to do with the work of a run.
type BundleStep int

const (
	// BundleWait until nothing mounts the volume.
	BundleWait BundleStep = iota
	// BundleAdopt volume and key: the bundle becomes Ready.
	BundleAdopt
	// BundleRefuse what the run left.
	BundleRefuse
)

// BundlePlan says what to do next.
type BundlePlan struct {
	Step     BundleStep
	Reason   v1alpha1.Reason
	Message  string
	Prepared v1alpha1.Prepared
}

// AcceptBundle decides whether the golden volume may be cloned from now on.
//
//	results, volume and key disagree or are missing   refuse
//	a pod still mounts the volume                     wait
//	else                                              adopt
func AcceptBundle(f BundleFacts) BundlePlan {
	results := f.Results
	if results == nil {
		results = f.remembered()
	}
	for _, check := range []func(*BundleResults) (v1alpha1.Reason, string){f.resultProblem, f.volumeProblem, f.keyProblem} {
		if reason, problem := check(results); problem != "" {
			return BundlePlan{Step: BundleRefuse, Reason: reason, Message: problem}
		}
	}
	if len(f.Pods) > 0 {
		return BundlePlan{Step: BundleWait, Reason: v1alpha1.ReasonBundleInUse, Message: fmt.Sprintf(
			"all is done but the golden volume is still mounted: waiting for pod %s in %s to end", strings.Join(f.Pods, ", "), guestcluster.BundleNamespace)}
	}
	built, _ := parseBuildTime(results.BuildTime)
	return BundlePlan{Step: BundleAdopt, Prepared: v1alpha1.Prepared{
		GoldenVolume: v1alpha1.ObjectReference{Namespace: guestcluster.BundleNamespace, Name: f.Bundle.Name, UID: f.Volume.UID},
		SSHKeySecret: results.SSHKeySecret, OCPVersion: results.OCPVersion, SHA256: results.SHA256, BuildTime: built,
	}}
}

// remembered are the results that the sealed volume repeats.
func (f BundleFacts) remembered() *BundleResults {
	r := &BundleResults{GoldenVolume: f.Bundle.Name, SSHKeySecret: v1alpha1.BootKeySecretName(f.Bundle.Name)}
	if v := f.Volume; v != nil {
		r.VolumeUID, r.OCPVersion, r.SHA256, r.BuildTime = v.UID, v.OCPVersion, v.SHA256, v.BuildTime
	}
	return r
}

func (f BundleFacts) resultProblem(r *BundleResults) (v1alpha1.Reason, string) {
	problem := ""
	_, err := parseBuildTime(r.BuildTime)
	switch {
	case r.GoldenVolume != f.Bundle.Name:
		problem = fmt.Sprintf("the run prepared volume %q, not %q", r.GoldenVolume, f.Bundle.Name)
	case r.SSHKeySecret != v1alpha1.BootKeySecretName(f.Bundle.Name):
		problem = fmt.Sprintf("the run put the boot key into Secret %q, not %q", r.SSHKeySecret, v1alpha1.BootKeySecretName(f.Bundle.Name))
	case r.VolumeUID == "" || r.SHA256 == "" || r.OCPVersion == "":
		problem = "the run left no golden-volume-uid, sha256 or ocp-version"
	case f.Bundle.Spec.SHA256 != "" && f.Bundle.Spec.SHA256 != r.SHA256:
		problem = fmt.Sprintf("the run prepared a file with checksum %s, not spec.sha256", r.SHA256)
	case err != nil:
		problem = fmt.Sprintf("the build time %q is no RFC 3339 time", r.BuildTime)
	}
	return v1alpha1.ReasonHandoffInvalid, problem
}

func (f BundleFacts) volumeProblem(r *BundleResults) (v1alpha1.Reason, string) {
	name := "PersistentVolumeClaim " + guestcluster.BundleNamespace + "/" + f.Bundle.Name
	v := f.Volume
	switch {
	case v == nil:
		return v1alpha1.ReasonHandoffInvalid, name + " does not exist although the run succeeded"
	case v.Foreign:
		return v1alpha1.ReasonForeignObject, name + " belongs to something else: delete or rename it"
	case v.UID != r.VolumeUID || v.Deleting:
		return v1alpha1.ReasonHandoffInvalid, name + " is not the one that the run prepared, or is being deleted"
	case v.SHA256 != r.SHA256 || v.OCPVersion != r.OCPVersion || v.BuildTime != r.BuildTime:
		return v1alpha1.ReasonHandoffInvalid, name + " is not sealed with the results of the run"
	}
	return "", ""
}

func (f BundleFacts) keyProblem(*BundleResults) (v1alpha1.Reason, string) {
	name := "Secret " + guestcluster.BundleNamespace + "/" + v1alpha1.BootKeySecretName(f.Bundle.Name)
	switch {
	case f.Key == nil || f.Key.Deleting:
		return v1alpha1.ReasonHandoffInvalid, name + " does not exist although the run succeeded"
	case f.Key.Foreign:
		return v1alpha1.ReasonForeignObject, name + " belongs to something else: delete or rename it"
	case !f.Key.Filled:
		return v1alpha1.ReasonHandoffInvalid, name + " has no key " + guestcluster.BootKeyKey
	}
	return "", ""
}

func parseBuildTime(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	return time.Parse(time.RFC3339, text)
}

// BundleLost says what a Ready bundle has lost; empty when all is there.
func BundleLost(b *v1alpha1.CRCBundle, volume *BundleVolume, key *BundleKey) string {
	what := ""
	switch ref := b.Status.GoldenVolume; {
	case ref == nil || b.Status.SSHKeySecretRef == nil:
		what = "status names no volume or key"
	case volume == nil || volume.Deleting:
		what = fmt.Sprintf("PersistentVolumeClaim %s/%s was deleted", ref.Namespace, ref.Name)
	case volume.UID != ref.UID:
		what = fmt.Sprintf("PersistentVolumeClaim %s/%s was replaced by another", ref.Namespace, ref.Name)
	case key == nil || key.Deleting || !key.Filled:
		what = fmt.Sprintf("Secret %s/%s was deleted or has lost its key", ref.Namespace, b.Status.SSHKeySecretRef.Name)
	default:
		return ""
	}
	return what + ": kubectl delete crcbundle " + b.Name + " prepares it anew"
}

// BundleChild is what the metadata of a volume or Secret say of its owner.
type BundleChild struct {
	Owners []metav1.OwnerReference
	// Bundle is the value of the bundle label, Run that of the lock.
	Bundle string
	Run    types.UID
}

// OwnedByBundle says whether an object may be deleted with the bundle: it has
// its owner reference; or nothing controls it and, besides the label, it names
// one of the bundle's runs as its writer.
func OwnedByBundle(b *v1alpha1.CRCBundle, c BundleChild, runs map[types.UID]bool) bool {
	for _, owner := range c.Owners {
		if owner.UID == b.UID {
			return true
		}
	}
	return !ForeignToBundle(b, c.Owners) && c.Bundle == b.Name && runs[c.Run]
}

// ForeignToBundle says whether something else controls an object.
func ForeignToBundle(b *v1alpha1.CRCBundle, owners []metav1.OwnerReference) bool {
	for _, owner := range owners {
		if owner.Controller != nil && *owner.Controller && owner.UID != b.UID {
			return true
		}
	}
	return false
}
