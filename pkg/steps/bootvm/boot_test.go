package bootvm

import (
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/pkg/steps/step"
)

const (
	runs     = "status: {phase: Running, interfaces: [{name: default, ipAddress: 10.88.0.7, infoSource: domain}]}"
	noNode   = "status: {phase: Scheduling, conditions: [{type: PodScheduled, status: 'False', reason: Unschedulable, message: '0/3 nodes are available: insufficient memory'}]}"
	oddSpec  = "status: {phase: Scheduled, conditions: [{type: Synchronized, status: 'False', reason: Synchronizing with the Domain failed., message: 'cannot find UEFI firmware'}]}"
	nodeFits = "status: {conditions: null}"
)

func status(s string) frame { return frame{vm: "status: {printableStatus: " + s + "}"} }

var running = frame{vm: "status: {printableStatus: Running}", vmi: runs}

func TestTheGuestBoots(t *testing.T) {
	for name, script := range map[string][]frame{
		"as usual":                        {{}, status("Starting"), {vmi: "status: {phase: Scheduling}"}, {vmi: "status: {phase: Running}"}, running},
		"on storage that waits for it":    {{volume: "status: {phase: PendingPopulation}"}, status("WaitingForVolumeBinding"), {volume: "status: {phase: CloneInProgress, progress: 10%}"}, {volume: "status: {phase: Succeeded}"}, running},
		"and its disk is filled later":    {{volume: "status: {phase: CloneInProgress}", vmi: runs}, {}, {volume: "status: {phase: Succeeded}"}},
		"after no node fitted":            {{vm: "status: {printableStatus: ErrorUnschedulable}", vmi: noNode}, {wait: time.Minute}, {vm: "status: {printableStatus: Starting}", vmi: nodeFits}, {vmi: noNode}, {wait: time.Minute}, {vmi: nodeFits}, running},
		"after an error of its disk":      {status("DataVolumeError"), {wait: time.Minute}, status("Starting"), running},
		"after its claim came late":       {status("ErrorPvcNotFound"), {}, running},
		"after a crash":                   {{vm: "status: {printableStatus: CrashLoopBackOff, startFailure: {consecutiveFailCount: 2}}"}, {wait: time.Hour}, running},
		"after an image came late":        {status("ErrImagePull"), status("ImagePullBackOff"), running},
		"after it did not synchronize":    {{vmi: oddSpec}, {vmi: nodeFits}, running},
		"after KubeVirt had no quota":     {{vm: "status: {conditions: [{type: Failure, status: 'True', reason: FailedCreate, message: 'exceeded quota'}]}"}, {vm: "status: {conditions: null}"}, running},
		"in a status not known before":    {status("Teleporting"), {wait: time.Hour}, running},
		"with a DataVolume that CDI took": {{do: removedByCDI}, running},
		"after an instance that is going": {{vmi: runs, do: func(b *bench) { b.instance("metadata: {deletionTimestamp: '2030-01-01T00:00:00Z'}") }}, {do: func(b *bench) { b.api.Remove(runningPath) }}, running},
	} {
		t.Run(name, func(t *testing.T) { newBench(t, script...).expect(0, "") })
	}
}

// removedByCDI is the garbage collection of CDI 1.55: the claim goes to the instance.
func removedByCDI(b *bench) {
	o := options()
	b.api.Put(claimPath, &corev1.PersistentVolumeClaim{ObjectMeta: o.owner().Meta(name), Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound}})
	b.api.Remove(volumePath)
}

func TestWhatEndsTheWait(t *testing.T) {
	for name, tc := range map[string]struct {
		script []frame
		code   int
		text   string
	}{
		"no node fits": {[]frame{{vmi: noNode}, {wait: 3 * time.Minute}},
			step.ExitInfra, "no node fits: 0/3 nodes are available: insufficient memory; lower template.memory"},
		"no node fits, by the machine's word": {[]frame{status("ErrorUnschedulable"), {wait: 3 * time.Minute}},
			step.ExitInfra, "no node fits"},
		"it crashes": {[]frame{{vm: "status: {printableStatus: CrashLoopBackOff, startFailure: {consecutiveFailCount: 3}}", vmi: oddSpec}},
			step.ExitInfra, "failed to start 3 times: cannot find UEFI firmware"},
		"it crashes, and an event tells why": {[]frame{{warning: "SyncFailed: server error. command SyncVMI failed"}, {vm: "status: {printableStatus: CrashLoopBackOff, startFailure: {consecutiveFailCount: 3}}"}},
			step.ExitInfra, "last seen: warning on VirtualMachineInstance: SyncFailed: server error. command SyncVMI failed"},
		"its disk has an error": {[]frame{status("DataVolumeError"), {wait: 3 * time.Minute}},
			step.ExitInfra, "error of its DataVolume"},
		"its disk fails": {[]frame{{volume: "status: {phase: Failed}"}, {wait: 3 * time.Minute}},
			step.ExitInfra, "Failed: CDI does not say why"},
		"its import fails": {[]frame{{volume: "status: {phase: ImportInProgress, restartCount: 4, conditions: [{type: Running, status: 'False', reason: Error, message: 'no space left'}]}"}},
			step.ExitInfra, "restarted 4 times: no space left"},
		"its claim is gone": {[]frame{status("ErrorPvcNotFound"), {wait: 3 * time.Minute}},
			step.ExitInfra, "PersistentVolumeClaim of its disk is gone"},
		"its disk is deleted": {[]frame{{do: func(b *bench) { b.api.Remove(volumePath) }}},
			step.ExitInfra, "DataVolume clusters/" + name + " is missing"},
		"an image cannot be pulled": {[]frame{status("ImagePullBackOff"), {wait: 3 * time.Minute}},
			step.ExitInfra, "cannot be pulled"},
		"it does not synchronize": {[]frame{{vmi: oddSpec}, {wait: 3 * time.Minute}},
			step.ExitInfra, "cannot find UEFI firmware"},
		"KubeVirt cannot make it": {[]frame{{vm: "status: {conditions: [{type: Failure, status: 'True', reason: FailedCreate, message: 'violates PodSecurity'}]}"}, {wait: 3 * time.Minute}},
			step.ExitInfra, "KubeVirt cannot make it: violates PodSecurity"},
		"somebody stops it": {[]frame{{vm: "spec: {runStrategy: Halted}"}},
			step.ExitInfra, "was stopped by somebody (runStrategy Halted)"},
		"somebody stops it the old way": {[]frame{{vm: "spec: {runStrategy: null, running: false}"}},
			step.ExitInfra, "was stopped by somebody"},
		"somebody deletes it": {[]frame{{}, {do: func(b *bench) { b.api.Remove(machinePath) }}},
			step.ExitInfra, "was deleted by somebody"},
	} {
		t.Run(name, func(t *testing.T) { newBench(t, tc.script...).expect(tc.code, tc.text) })
	}
}

func TestTheDeadlineSaysWhatWasSeenLast(t *testing.T) {
	for name, tc := range map[string]struct {
		script []frame
		text   string
	}{
		"no address":           {[]frame{{vmi: "status: {phase: Running, interfaces: [{name: default}]}"}}, "vm: Running, but KubeVirt reports no address of its interface"},
		"another's address":    {[]frame{{vmi: "status: {phase: Running, interfaces: [{name: other, ipAddress: 10.0.0.1}]}"}}, "no address of its interface"},
		"no KubeVirt":          {nil, "vm: not looked at by KubeVirt yet"},
		"a paused guest":       {[]frame{status("Paused")}, "vm: Paused"},
		"an unfilled disk":     {[]frame{{volume: "status: {phase: CloneInProgress}", vmi: runs}}, "disk: CloneInProgress; vm: "},
		"a stuck launcher":     {[]frame{{vm: "status: {printableStatus: Starting}", warning: "FailedAttachVolume: Multi-Attach error"}}, "vm: Starting; warning on VirtualMachineInstance: FailedAttachVolume: Multi-Attach error"},
		"a crash":              {[]frame{{vm: "status: {printableStatus: CrashLoopBackOff, startFailure: {consecutiveFailCount: 1}}"}}, "failed to start 1 times"},
		"an earlier machine's": {[]frame{{vmi: runs, do: func(b *bench) { b.instance("metadata: {ownerReferences: [{uid: old, controller: true}]}") }}}, "deadline reached"},
	} {
		t.Run(name, func(t *testing.T) {
			newBench(t, tc.script...).expectTimeout(tc.text)
		})
	}
}

func TestProgressIsToldWhenItChanges(t *testing.T) {
	b := newBench(t, frame{volume: "status: {phase: CloneInProgress, progress: 41%}", vm: "status: {printableStatus: Provisioning}"}, status("Provisioning"),
		frame{volume: "status: {phase: Succeeded, progress: 100.0%}", vm: "status: {printableStatus: Starting}"}, running)
	b.expect(0, "")
	want := `made VirtualMachine clusters/gc-crc-pool-0-0123456789abcdef with 4 cores and 14Gi
disk: Succeeded (0s)
vm: not looked at by KubeVirt yet (0s)
disk: CloneInProgress 40% (15s)
vm: Provisioning (15s)
disk: Succeeded (45s)
vm: Starting (45s)
vm: Running at 10.88.0.7 (60s)
`
	if diff := cmp.Diff(want, b.out.String()); diff != "" {
		t.Error(diff)
	}
	if uid, _ := os.ReadFile(b.result); string(uid) != "vmi-1" {
		t.Errorf("result %q", uid)
	}
}

func TestAnAttemptThatWasKilledIsTakenUp(t *testing.T) {
	for name, prepare := range map[string]func(*bench){
		"before it did anything":  func(*bench) {},
		"after it made the VM":    func(b *bench) { b.put("{}") },
		"when the guest ran":      func(b *bench) { b.put("{}"); b.instance(runs) },
		"when old CDI cleaned up": removedByCDI,
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, running)
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

func TestALeavingMachineIsMadeAnew(t *testing.T) {
	b := newBench(t, frame{}, frame{do: func(b *bench) {
		b.api.Remove(machinePath)
		b.script = append(b.script, running)
	}})
	b.put("metadata: {deletionTimestamp: '2030-01-01T00:00:00Z'}")
	b.expect(0, "")
	if b.posts() != 1 {
		t.Errorf("%d creations", b.posts())
	}
}

func TestItMayBeKilledAtEveryRequest(t *testing.T) {
	for n := 1; ; n++ {
		b := newBench(t, frame{volume: "status: {phase: PendingPopulation}"}, status("Provisioning"), frame{volume: "status: {phase: Succeeded}"}, status("Starting"), running)
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
		"a machine of nobody": {func(b *bench) { b.put("metadata: {ownerReferences: null}") }, "VirtualMachine clusters/" + name + " exists and does not belong to ClusterInstance crc-pool-0"},
		"a machine of the last instance": {func(b *bench) {
			b.put("metadata: {ownerReferences: [{kind: ClusterInstance, name: crc-pool-0, uid: last}]}")
		}, "does not belong"},
		"a disk of another": {func(b *bench) { b.api.Merge(volumePath, "metadata: {ownerReferences: null}") }, "DataVolume clusters/" + name + " exists and does not belong"},
		"a claim of another": {func(b *bench) {
			b.api.Remove(volumePath)
			b.api.Put(claimPath, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}, "PersistentVolumeClaim clusters/" + name},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			tc.prepare(b)
			b.expect(step.ExitUser, tc.text)
		})
	}
}

func TestRefusedCreations(t *testing.T) {
	for text, code := range map[string]int{
		"User x cannot create resource virtualmachines":    step.ExitUser,
		"exceeded quota: objects, count/virtualmachines=1": step.ExitInfra,
	} {
		b := newBench(t)
		b.deny = text
		b.expect(code, text)
	}
}

func TestFlagsThatMakeNoSense(t *testing.T) {
	for text, change := range map[string]func(*Options){
		"--name is empty":            func(o *Options) { o.Name = "" },
		"memory \"much\" must be":    func(o *Options) { o.Memory = "much" },
		"cores must be":              func(o *Options) { o.Cores = 0 },
		"arch \"s390x\" must be":     func(o *Options) { o.Arch = "s390x" },
		"node-selector must be":      func(o *Options) { o.NodeSelector = "a,b" },
		"timeout and schedule-grace": func(o *Options) { o.Timeout = 0 },
		"must be durations such as":  func(o *Options) { o.ScheduleGrace = -1 },
	} {
		t.Run(text, func(t *testing.T) {
			b := newBench(t)
			change(&b.step.Options)
			b.expect(step.ExitUser, text)
			if calls := b.api.Calls(); len(calls) > 0 {
				t.Error(calls)
			}
		})
	}
}
