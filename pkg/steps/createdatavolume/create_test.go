package createdatavolume

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"opdev.io/guestcluster/pkg/steps/step"
)

func phase(p string) frame { return frame{volume: "status: {phase: " + p + "}"} }

func TestTheDiskIsUsable(t *testing.T) {
	for name, script := range map[string][]frame{
		"when it is cloned":                                 {{}, phase("Pending"), phase("CloneScheduled"), {volume: "status: {phase: CloneInProgress, progress: 41.5%}"}, phase("Succeeded")},
		"when it is cloned by the storage":                  {phase("CSICloneInProgress"), phase("Succeeded")},
		"when it is cloned by a snapshot":                   {phase("SnapshotForSmartCloneInProgress"), phase("NamespaceTransferInProgress"), phase("Succeeded")},
		"while it waits for its consumer":                   {phase("WaitForFirstConsumer")},
		"while newer CDI waits for its consumer":            {phase("PendingPopulation")},
		"after Failed, which passed":                        {phase("Failed"), phase("Failed"), phase("CloneInProgress"), phase("Failed"), phase("Succeeded")},
		"after two restarts":                                {{volume: "status: {phase: ImportInProgress, restartCount: 2}"}, phase("Succeeded")},
		"after the source was in use":                       {{volume: "status: {phase: CloneScheduled}", warning: "CloneSourceInUse: pod x uses it"}, {wait: time.Hour}, phase("Succeeded")},
		"after the quota had no room":                       {{volume: "status: {phase: Pending}", warning: "ErrExceededQuota: exceeded quota"}, {wait: time.Hour}, phase("Succeeded")},
		"after the StorageProfile came late":                {{volume: "status: {phase: Pending}", warning: "ErrClaimNotValid: no accessMode"}, {}, {}, phase("Succeeded")},
		"whatever was wrong before":                         {{volume: "status: {phase: Succeeded, restartCount: 7}", warning: "ErrIncompatiblePVC: smaller"}},
		"with an error that the importer got over":          {{volume: "status: {phase: ImportInProgress, conditions: [{type: Running, status: 'False', reason: Error, message: 'no route'}]}"}, {wait: time.Hour}, phase("Succeeded")},
		"in a phase that this version does not know before": {phase("Hydrating"), {wait: time.Hour}, phase("Succeeded")},
		"when old CDI removes the DataVolume":               {phase("CloneInProgress"), {do: removedByCDI}},
	} {
		t.Run(name, func(t *testing.T) { newBench(t, script...).expect(0, "") })
	}
}

// removedByCDI is the garbage collection of CDI 1.55: the claim goes to the instance.
func removedByCDI(b *bench) {
	b.claim("ClusterInstance", "instance-uid", corev1.ClaimBound)
	b.api.Remove(volumePath)
}

func (b *bench) claim(ownerKind string, ownerUID types.UID, phase corev1.PersistentVolumeClaimPhase) {
	b.api.Put(claimPath, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "clusters", OwnerReferences: []metav1.OwnerReference{{Kind: ownerKind, UID: ownerUID}}},
		Status:     corev1.PersistentVolumeClaimStatus{Phase: phase},
	})
}

func TestWhatEndsTheWait(t *testing.T) {
	for name, tc := range map[string]struct {
		script []frame
		code   int
		text   string
	}{
		"Failed that lasts": {
			[]frame{{volume: "status: {phase: Failed, conditions: [{type: Running, status: 'False', reason: Error, message: 'checksum mismatch'}]}"}, {wait: 2 * time.Minute}},
			step.ExitInfra, "Failed: checksum mismatch"},
		"three restarts": {
			[]frame{{volume: "status: {phase: ImportInProgress, restartCount: 3, conditions: [{type: Running, status: 'False', reason: Error, message: 'server answered 404'}]}"}},
			step.ExitInfra, "restarted 3 times: server answered 404"},
		"a disk smaller than its source": {
			[]frame{{volume: "status: {phase: CloneScheduled}", warning: "ErrIncompatiblePVC: target resources requests storage size is smaller than the source"}, {wait: time.Minute}},
			step.ExitUser, "raise template.rootVolumeSize"},
		"a disk smaller than its source, as a condition": {
			[]frame{{volume: "status: {phase: Pending, conditions: [{type: Bound, status: 'False', reason: CloneValidationFailed, message: 'is smaller than the source'}]}"}, {wait: time.Minute}},
			step.ExitUser, "is smaller than the source; raise template.rootVolumeSize"},
		"a class without a StorageProfile": {
			[]frame{{volume: "status: {phase: Pending}", warning: "ErrClaimNotValid: no accessMode"}, {wait: 2 * time.Minute}},
			step.ExitUser, "set template.storageClassName"},
		"a golden volume that is gone": {
			[]frame{{warning: "CloneWithoutSource: The source pvc crc-4.19.3-amd64 doesn't exist"}, {wait: 2 * time.Minute}},
			step.ExitInfra, "delete its CRCBundle"},
		"a claim in the way": {
			[]frame{{volume: "status: {phase: Pending}", warning: "ErrResourceExists: not managed by DataVolume"}, {wait: 2 * time.Minute}},
			step.ExitUser, "delete it"},
		"a volume that the storage lost": {
			[]frame{{volume: "status: {phase: Pending, conditions: [{type: Bound, status: 'False', reason: ErrClaimLost, message: 'Claim Lost'}]}"}, {wait: 2 * time.Minute}},
			step.ExitInfra, "Claim Lost"},
		"somebody who deletes the DataVolume": {
			[]frame{phase("CloneInProgress"), {do: func(b *bench) { b.api.Remove(volumePath) }}},
			step.ExitInfra, "was deleted by somebody"},
		"an owner that is gone": {
			[]frame{{do: func(b *bench) { b.api.Remove(volumePath) }}},
			step.ExitInfra, "no ClusterInstance crc-pool-0 with UID instance-uid"},
		"somebody who makes another one": {
			[]frame{phase("CloneInProgress"), {volume: "metadata: {ownerReferences: [{kind: ClusterInstance, uid: other}]}"}},
			step.ExitUser, "does not belong to ClusterInstance crc-pool-0"},
	} {
		t.Run(name, func(t *testing.T) { newBench(t, tc.script...).expect(tc.code, tc.text) })
	}
}

func TestTheDeadlineSaysWhatWasSeenLast(t *testing.T) {
	for name, tc := range map[string]struct {
		script []frame
		text   string
	}{
		"a source in use":   {[]frame{{volume: "status: {phase: CloneScheduled}", warning: "CloneSourceInUse: pod x uses it"}}, "disk: CloneScheduled; the disk is not filled: CloneSourceInUse: pod x uses it; a pod still mounts the golden volume"},
		"a quota":           {[]frame{{volume: "status: {phase: Pending}", warning: "ErrExceededQuota: exceeded quota: q"}}, "ErrExceededQuota: exceeded quota: q; raise the ResourceQuota"},
		"a stuck clone":     {[]frame{{volume: "status: {phase: CSICloneInProgress}", warning: "ProvisioningFailed: storage is full"}}, "disk: CSICloneInProgress; warning on PersistentVolumeClaim: ProvisioningFailed: storage is full"},
		"no CDI":            {nil, "not looked at by CDI yet"},
		"a slow clone":      {[]frame{{volume: "status: {phase: CloneInProgress, progress: 49.99%}"}}, "disk: CloneInProgress 40%"},
		"an import's error": {[]frame{{volume: "status: {phase: ImportInProgress, conditions: [{type: Running, status: 'False', reason: Error, message: 'no route'}]}"}}, "is tried again: no route"},
	} {
		t.Run(name, func(t *testing.T) {
			newBench(t, tc.script...).expectTimeout(tc.text)
		})
	}
}

func TestProgressIsToldWhenItChanges(t *testing.T) {
	b := newBench(t, phase("CloneScheduled"), phase("CloneScheduled"),
		frame{volume: "status: {phase: CloneInProgress, progress: 41%}"}, frame{volume: "status: {progress: 44%}"}, frame{volume: "status: {progress: 57%}"}, phase("Succeeded"))
	b.expect(0, "")
	want := `source: volume guestcluster-bundles/crc-4.19.3-amd64 (0s)
made DataVolume clusters/gc-crc-pool-0-0123456789abcdef of 80Gi
disk: CloneScheduled (15s)
disk: CloneInProgress 40% (45s)
disk: CloneInProgress 50% (75s)
disk: Succeeded (90s)
`
	if diff := cmp.Diff(want, b.out.String()); diff != "" {
		t.Error(diff)
	}
}

func TestAnAttemptThatWasKilledIsTakenUp(t *testing.T) {
	for name, prepare := range map[string]func(*bench){
		"after it made the DataVolume": func(b *bench) { b.put("{}") },
		"when the disk was filled":     func(b *bench) { b.put("status: {phase: Succeeded}") },
		"when old CDI had cleaned up":  func(b *bench) { b.claim("ClusterInstance", "instance-uid", corev1.ClaimBound) },
		"while its answer was lost":    func(b *bench) { b.loseTheAnswer() },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, phase("Succeeded"))
			prepare(b)
			b.expect(0, "")
			posts := b.posts()
			b.restart()
			b.expect(0, "")
			if b.posts() != posts || posts > 1 {
				t.Errorf("%d, then %d creations", posts, b.posts())
			}
		})
	}
}

// loseTheAnswer stores what is created and answers with an error.
func (b *bench) loseTheAnswer() {
	b.api.Fault(func(r *http.Request) int {
		if r.Method != http.MethodPost {
			return 0
		}
		go b.put("{}")
		return http.StatusGatewayTimeout
	})
}

func TestALeavingDataVolumeIsMadeAnew(t *testing.T) {
	b := newBench(t, frame{}, frame{do: func(b *bench) {
		b.claim("DataVolume", "gone", corev1.ClaimBound)
		b.api.Remove(volumePath)
		b.script = append(b.script, phase("Succeeded"))
		go b.api.Remove(claimPath)
	}})
	b.put("metadata: {deletionTimestamp: '2030-01-01T00:00:00Z'}")
	b.expect(0, "")
	if b.posts() != 1 {
		t.Errorf("%d creations", b.posts())
	}
}

func TestItMayBeKilledAtEveryRequest(t *testing.T) {
	for n := 1; ; n++ {
		b := newBench(t, phase("Pending"), phase("CloneScheduled"), phase("CloneInProgress"), phase("Succeeded"))
		killed := b.killed(n)
		b.restart()
		b.expect(0, "")
		if b.posts() > 2 {
			t.Errorf("killed at request %d: %d creations", n, b.posts())
		}
		if !killed {
			t.Logf("%d requests", n-1)
			return
		}
	}
}

func TestWhatIsNotOursIsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare func(*bench)
		text    string
	}{
		"a DataVolume of nobody": {func(b *bench) { b.put("metadata: {ownerReferences: null}") }, "DataVolume clusters/" + name + " exists and does not belong"},
		"a DataVolume of the last instance": {func(b *bench) {
			b.put("metadata: {ownerReferences: [{kind: ClusterInstance, name: crc-pool-0, uid: last}]}")
		}, "does not belong"},
		"a DataVolume of another source":     {func(b *bench) { b.put("spec: {source: {pvc: {name: crc-4.18.2-amd64}}}") }, "is made from volume guestcluster-bundles/crc-4.18.2-amd64"},
		"an imported one instead of a clone": {func(b *bench) { b.put("spec: {source: {pvc: null, http: {url: 'https://x/y'}}}") }, "is made from https://x/y"},
		"a claim of another":                 {func(b *bench) { b.claim("Deployment", "other", corev1.ClaimBound) }, "PersistentVolumeClaim clusters/" + name + " exists and does not belong"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			tc.prepare(b)
			b.expect(step.ExitUser, tc.text)
			if b.posts() != 0 {
				t.Error("it made something")
			}
		})
	}
}

func TestTheDiskIsAtLeastItsGoldenVolume(t *testing.T) {
	for name, tc := range map[string]struct {
		size string
		code int
	}{
		"smaller": {"31Gi", step.ExitUser}, "as large": {"33Gi", 0}, "in other units": {"35433480192", 0}, "larger": {"80Gi", 0},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, phase("Succeeded"))
			b.api.Put("/api/v1/namespaces/guestcluster-bundles/persistentvolumeclaims/"+golden, &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("33Gi")}},
			}})
			b.step.Size = tc.size
			b.expect(tc.code, "a disk of 31Gi is smaller than its golden volume guestcluster-bundles/"+golden+", which has 33Gi: raise template.rootVolumeSize to 33Gi")
			if made := b.posts(); (made > 0) != (tc.code == 0) {
				t.Errorf("%d creations", made)
			}
		})
	}
}

func TestASourceThatMayNotBeReadIsLeftToCDI(t *testing.T) {
	b := newBench(t, phase("Succeeded"))
	b.api.Fault(func(r *http.Request) int {
		if strings.HasPrefix(r.URL.Path, "/api/v1/namespaces/guestcluster-bundles/") {
			return http.StatusForbidden
		}
		return 0
	})
	b.expect(0, "")
}

func TestAnImageByHTTPIsWarnedOf(t *testing.T) {
	for url, warned := range map[string]bool{"http://x/y.qcow2": true, "https://x/y.qcow2": false, "docker://x/y": false} {
		b := newBench(t, phase("Succeeded"))
		b.step.SourceVolume, b.step.SourceNamespace, b.step.SourceURL = "", "", url
		b.expect(0, "")
		if got := strings.Contains(b.out.String(), "no integrity"); got != warned {
			t.Errorf("%s: warned %v\n%s", url, got, b.out)
		}
	}
}

func TestRefusedCreations(t *testing.T) {
	for name, tc := range map[string]struct {
		message string
		code    int
		text    string
	}{
		"no right to clone": {`admission webhook "datavolume-mutate.cdi.kubevirt.io" denied the request: User system:serviceaccount:clusters:x has insufficient permissions in clone source namespace guestcluster-bundles`,
			step.ExitUser, "needs create on datavolumes/source (cdi.kubevirt.io) for " + golden + " in namespace guestcluster-bundles"},
		"no right to create": {"User x cannot create resource datavolumes", step.ExitUser, "guestcluster-provision-crc"},
		"no room":            {"exceeded quota: objects, requested: count/datavolumes=1", step.ExitInfra, "raise the ResourceQuota"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.deny = tc.message
			b.expect(tc.code, tc.text)
		})
	}
	b := newBench(t)
	b.api.Fault(func(r *http.Request) int {
		if r.Method == http.MethodPost {
			return http.StatusNotFound
		}
		return 0
	})
	b.expect(step.ExitUser, "install OpenShift Virtualization")
}

func TestAnAPIThatStumblesIsAskedAgain(t *testing.T) {
	b, n := newBench(t, phase("CloneScheduled"), phase("Succeeded")), 0
	b.api.Fault(func(r *http.Request) int {
		if n++; n < 12 && n%2 == 1 {
			return http.StatusInternalServerError
		}
		return 0
	})
	b.expect(0, "")
}

func TestFlagsThatMakeNoSense(t *testing.T) {
	for text, change := range map[string]func(*Options){
		"--instance-uid is empty":     func(o *Options) { o.InstanceUID = "" },
		"must be a positive quantity": func(o *Options) { o.Size = "eighty" },
		"size \"-1Gi\"":               func(o *Options) { o.Size = "-1Gi" },
		"timeout must be":             func(o *Options) { o.Timeout = 0 },
		"not both":                    func(o *Options) { o.SourceURL = "https://x/y" },
		"needs a source-namespace":    func(o *Options) { o.SourceNamespace = "" },
		"nothing to make the disk":    func(o *Options) { o.SourceVolume = "" },
		"must be an https://":         func(o *Options) { o.SourceVolume, o.SourceURL = "", "file:///etc/passwd" },
		"holds credentials":           func(o *Options) { o.SourceVolume, o.SourceURL = "", "https://me:secret@x/y" },
		"is a bundle and no disk":     func(o *Options) { o.SourceVolume, o.SourceURL = "", "https://x/crc_libvirt_4.19.3_amd64.crcbundle" },
	} {
		t.Run(text, func(t *testing.T) {
			b := newBench(t)
			change(&b.step.Options)
			b.expect(step.ExitUser, text)
			if strings.Contains(b.out.String(), "secret") || len(b.api.Calls()) > 0 {
				t.Errorf("%s, %v", b.out, b.api.Calls())
			}
		})
	}
}
