package plan

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

const bundleName = "crc-4.19.3-amd64"

func bundle(changes ...func(*v1alpha1.CRCBundle)) *v1alpha1.CRCBundle {
	b := &v1alpha1.CRCBundle{ObjectMeta: metav1.ObjectMeta{Name: bundleName, UID: "b"},
		Spec: v1alpha1.CRCBundleSpec{Version: "4.19.3", Arch: "amd64"}}
	for _, change := range changes {
		change(b)
	}
	return b
}

func sealed() *BundleVolume {
	return &BundleVolume{UID: "pvc", Run: "run", SHA256: "0a", OCPVersion: "4.19.3", BuildTime: "2026-01-02T03:04:05Z"}
}

// prepared is what a run that ended well leaves behind.
func prepared(change func(*BundleFacts)) BundleFacts {
	f := BundleFacts{
		Bundle: bundle(),
		Results: &BundleResults{GoldenVolume: bundleName, VolumeUID: "pvc", SSHKeySecret: bundleName + "-boot-key",
			OCPVersion: "4.19.3", SHA256: "0a", BuildTime: "2026-01-02T03:04:05Z"},
		Volume: sealed(), Key: &BundleKey{Filled: true},
	}
	if change != nil {
		change(&f)
	}
	return f
}

func TestAcceptBundle(t *testing.T) {
	rows := map[string]struct {
		change func(*BundleFacts)
		step   BundleStep
		reason v1alpha1.Reason
		says   string
	}{
		"all is there": {nil, BundleAdopt, "", ""},
		"the run is gone and the volume is sealed":    {func(f *BundleFacts) { f.Results = nil }, BundleAdopt, "", ""},
		"the bundle does not tell when it was built":  {func(f *BundleFacts) { f.Results.BuildTime, f.Volume.BuildTime = "", "" }, BundleAdopt, "", ""},
		"the checksum is the one asked for":           {func(f *BundleFacts) { f.Bundle.Spec.SHA256 = "0a" }, BundleAdopt, "", ""},
		"a pod mounts the volume":                     {func(f *BundleFacts) { f.Pods = []string{"p1", "p2"} }, BundleWait, v1alpha1.ReasonBundleInUse, "waiting for pod p1, p2"},
		"no volume":                                   {func(f *BundleFacts) { f.Volume = nil }, BundleRefuse, v1alpha1.ReasonHandoffInvalid, "does not exist although"},
		"another volume of that name":                 {func(f *BundleFacts) { f.Volume.UID = "other" }, BundleRefuse, v1alpha1.ReasonHandoffInvalid, "not the one that the run prepared"},
		"the volume is being deleted":                 {func(f *BundleFacts) { f.Volume.Deleting = true }, BundleRefuse, v1alpha1.ReasonHandoffInvalid, "is being deleted"},
		"the volume belongs to something else":        {func(f *BundleFacts) { f.Volume.Foreign = true }, BundleRefuse, v1alpha1.ReasonForeignObject, "delete or rename it"},
		"the volume is not sealed":                    {func(f *BundleFacts) { f.Volume.SHA256 = "" }, BundleRefuse, v1alpha1.ReasonHandoffInvalid, "not sealed with the results"},
		"the volume is sealed with another checksum":  {func(f *BundleFacts) { f.Volume.SHA256 = "0b" }, BundleRefuse, v1alpha1.ReasonHandoffInvalid, "not sealed with the results"},
		"the volume is sealed with another version":   {func(f *BundleFacts) { f.Volume.OCPVersion = "4.1.1" }, BundleRefuse, v1alpha1.ReasonHandoffInvalid, "not sealed with the results"},
		"a volume of another name":                    {func(f *BundleFacts) { f.Results.GoldenVolume = "x" }, BundleRefuse, v1alpha1.ReasonHandoffInvalid, `volume "x"`},
		"a Secret of another name":                    {func(f *BundleFacts) { f.Results.SSHKeySecret = "x" }, BundleRefuse, v1alpha1.ReasonHandoffInvalid, `Secret "x"`},
		"a result is empty":                           {func(f *BundleFacts) { f.Results.OCPVersion = "" }, BundleRefuse, v1alpha1.ReasonHandoffInvalid, "left no"},
		"another checksum than spec.sha256":           {func(f *BundleFacts) { f.Bundle.Spec.SHA256 = "ff" }, BundleRefuse, v1alpha1.ReasonHandoffInvalid, "not spec.sha256"},
		"a build time that is none":                   {func(f *BundleFacts) { f.Results.BuildTime = "now" }, BundleRefuse, v1alpha1.ReasonHandoffInvalid, "no RFC 3339"},
		"no key Secret":                               {func(f *BundleFacts) { f.Key = nil }, BundleRefuse, v1alpha1.ReasonHandoffInvalid, "does not exist although"},
		"an empty key Secret":                         {func(f *BundleFacts) { f.Key.Filled = false }, BundleRefuse, v1alpha1.ReasonHandoffInvalid, "has no key id_ecdsa"},
		"a key Secret of something else":              {func(f *BundleFacts) { f.Key.Foreign = true }, BundleRefuse, v1alpha1.ReasonForeignObject, "delete or rename it"},
		"a key Secret that is being deleted":          {func(f *BundleFacts) { f.Key.Deleting = true }, BundleRefuse, v1alpha1.ReasonHandoffInvalid, "does not exist although"},
		"a pod mounts a volume that is refused":       {func(f *BundleFacts) { f.Pods, f.Key = []string{"p"}, nil }, BundleRefuse, v1alpha1.ReasonHandoffInvalid, "Secret"},
		"the run is gone and so is the volume":        {func(f *BundleFacts) { f.Results, f.Volume = nil, nil }, BundleRefuse, v1alpha1.ReasonHandoffInvalid, "left no"},
		"the run is gone before it sealed the volume": {func(f *BundleFacts) { f.Results = nil; f.Volume.SHA256 = "" }, BundleRefuse, v1alpha1.ReasonHandoffInvalid, "left no"},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			got := AcceptBundle(prepared(row.change))
			if got.Step != row.step || (row.reason != "" && got.Reason != row.reason) || !strings.Contains(got.Message, row.says) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestAdoptedBundleKnowsWhatToClone(t *testing.T) {
	want := v1alpha1.Prepared{
		GoldenVolume: v1alpha1.ObjectReference{Namespace: "guestcluster-bundles", Name: bundleName, UID: "pvc"},
		SSHKeySecret: bundleName + "-boot-key", OCPVersion: "4.19.3", SHA256: "0a", BuildTime: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	}
	if diff := cmp.Diff(want, AcceptBundle(prepared(nil)).Prepared); diff != "" {
		t.Error(diff)
	}
}

func TestBundleLost(t *testing.T) {
	rows := map[string]struct {
		volume *BundleVolume
		key    *BundleKey
		says   string
	}{
		"all is there":          {sealed(), &BundleKey{Filled: true}, ""},
		"the volume is gone":    {nil, &BundleKey{Filled: true}, "PersistentVolumeClaim guestcluster-bundles/" + bundleName + " was deleted"},
		"the volume goes":       {&BundleVolume{UID: "pvc", Deleting: true}, &BundleKey{Filled: true}, "was deleted"},
		"the volume is another": {&BundleVolume{UID: "other"}, &BundleKey{Filled: true}, "was replaced"},
		"the key is gone":       {sealed(), nil, "Secret guestcluster-bundles/" + bundleName + "-boot-key was deleted"},
		"the key is empty":      {sealed(), &BundleKey{}, "has lost its key"},
	}
	b := bundle(func(b *v1alpha1.CRCBundle) { b.MarkReady(AcceptBundle(prepared(nil)).Prepared) })
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			got := BundleLost(b, row.volume, row.key)
			if (got == "") != (row.says == "") || !strings.Contains(got, row.says) {
				t.Errorf("got %q", got)
			}
			if got != "" && !strings.Contains(got, "kubectl delete crcbundle "+bundleName) {
				t.Errorf("%q does not say what to do", got)
			}
		})
	}
}

func TestOwnedByBundle(t *testing.T) {
	yes := true
	ours := metav1.OwnerReference{UID: "b", Controller: &yes}
	other := metav1.OwnerReference{UID: "o", Controller: &yes}
	mere := metav1.OwnerReference{UID: "o"}
	rows := map[string]struct {
		child BundleChild
		want  bool
	}{
		"it has our owner reference":               {BundleChild{Owners: []metav1.OwnerReference{mere, ours}}, true},
		"one of our runs wrote it":                 {BundleChild{Bundle: bundleName, Run: "run"}, true},
		"another run wrote it":                     {BundleChild{Bundle: bundleName, Run: "stranger"}, false},
		"a label alone":                            {BundleChild{Bundle: bundleName}, false},
		"the lock alone":                           {BundleChild{Run: "run"}, false},
		"the label of another bundle":              {BundleChild{Bundle: "crc-4.1.1-amd64", Run: "run"}, false},
		"another controller":                       {BundleChild{Owners: []metav1.OwnerReference{other}, Bundle: bundleName, Run: "run"}, false},
		"an owner of others that is no controller": {BundleChild{Owners: []metav1.OwnerReference{mere}, Bundle: bundleName, Run: "run"}, true},
	}
	for name, row := range rows {
		if got := OwnedByBundle(bundle(), row.child, map[types.UID]bool{"run": true}); got != row.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

func TestPersonsRun(t *testing.T) {
	early, late := PreparingRun{Name: "early", UID: "1", Bundle: bundleName, Created: ago(2 * time.Hour)}, PreparingRun{Name: "late", UID: "2", Bundle: bundleName, Created: ago(time.Hour)}
	but := func(r PreparingRun, change func(*PreparingRun)) PreparingRun { change(&r); return r }
	succeeded := func(r *PreparingRun) { r.Done, r.Succeeded = true, true }
	rows := map[string]struct {
		list   []PreparingRun
		volume *BundleVolume
		want   string
	}{
		"nobody started one":                   {nil, nil, ""},
		"the oldest that lives":                {[]PreparingRun{late, early}, nil, "early"},
		"the one that writes the volume":       {[]PreparingRun{early, late}, &BundleVolume{Run: "2"}, "late"},
		"the one that has sealed the volume":   {[]PreparingRun{early, but(late, succeeded)}, &BundleVolume{Run: "2", SHA256: "0a"}, "late"},
		"one that succeeded, volume is gone":   {[]PreparingRun{but(early, succeeded)}, nil, ""},
		"one that succeeded, volume of others": {[]PreparingRun{but(early, succeeded)}, &BundleVolume{Run: "9", SHA256: "0a"}, ""},
		"one that failed":                      {[]PreparingRun{but(early, func(r *PreparingRun) { r.Done = true })}, &BundleVolume{Run: "1"}, ""},
		"one for another bundle":               {[]PreparingRun{but(early, func(r *PreparingRun) { r.Bundle = "crc-4.1.1-amd64" })}, nil, ""},
		"one without a version":                {[]PreparingRun{but(early, func(r *PreparingRun) { r.Bundle = "" })}, nil, ""},
		"one that is being deleted":            {[]PreparingRun{but(early, func(r *PreparingRun) { r.Deleting = true })}, nil, ""},
	}
	for name, row := range rows {
		got := ""
		if r := PersonsRun(bundleName, row.list, row.volume); r != nil {
			got = r.Name
			if !r.WantsBundle(row.volume) {
				t.Errorf("%s: the run makes no bundle", name)
			}
		}
		if got != row.want {
			t.Errorf("%s: got %q, want %q", name, got, row.want)
		}
	}
}

func TestKeepBundleRun(t *testing.T) {
	readySince := func(age time.Duration) func(*v1alpha1.CRCBundle) {
		return func(b *v1alpha1.CRCBundle) {
			b.MarkReady(v1alpha1.Prepared{})
			b.Status.Conditions[0].LastTransitionTime = metav1.Time{Time: ago(age)}
		}
	}
	failedFor := func(age time.Duration) func(*v1alpha1.CRCBundle) {
		return func(b *v1alpha1.CRCBundle) {
			b.MarkFailed(v1alpha1.FailureStatus{Time: metav1.Time{Time: ago(age)}}, "")
		}
	}
	rows := map[string]struct {
		bundle *v1alpha1.CRCBundle
		keep   bool
		left   time.Duration
	}{
		"it is running":           {bundle(), true, 0},
		"just Ready":              {bundle(readySince(time.Minute)), true, 9 * time.Minute},
		"Ready for ten minutes":   {bundle(readySince(10 * time.Minute)), false, 0},
		"just failed":             {bundle(failedFor(time.Minute)), true, 59 * time.Minute},
		"failed for over an hour": {bundle(failedFor(2 * time.Hour)), false, -time.Hour},
	}
	for name, row := range rows {
		keep, left := KeepBundleRun(row.bundle, noon)
		if keep != row.keep || left != row.left {
			t.Errorf("%s: got %t, %s", name, keep, left)
		}
	}
}
