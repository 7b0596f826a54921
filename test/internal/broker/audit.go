package broker

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

// Canary is part of every credential that a stand-in makes.
const Canary = "canary-"

// canaries must occur in no object but the product's Secrets.
var canaries = []string{Canary, "PRIVATE KEY-----", base64.StdEncoding.EncodeToString([]byte(Canary))[:8]}

// Audit goes through revisions in order and notes what breaks an invariant of
// design section 3, by its number. It holds the world as of one revision.
type Audit struct {
	// Persons are the UIDs of instances that somebody other than the product deletes.
	Persons map[types.UID]bool
	// Collected: two processes write at once, and one with old news may make a
	// child again that the other just destroyed; garbage collection takes it.
	Collected bool
	// MostInstances is how many instances of one pool existed at a time.
	MostInstances int

	breaches  []string
	number    uint64
	pools     map[types.UID]*v1alpha1.ClusterPool
	limits    map[types.UID]int32
	instances map[types.UID]*v1alpha1.ClusterInstance
	leases    map[types.UID]*v1alpha1.ClusterLease
	secrets   map[string]*corev1.Secret
	children  map[types.UID]map[types.UID]string
	bystander map[types.UID]string
	volumes   map[types.UID]*corev1.PersistentVolumeClaim
	runs      map[string]run
	claims    map[types.UID]v1alpha1.ClaimReference
	served    map[types.UID]types.UID
	bound     map[types.UID]types.UID
}

type run struct {
	uid   types.UID
	ended bool
	gone  bool
}

// BystanderLabel is on objects of tests that the product must never touch.
const BystanderLabel = "test/bystander"

// NewAudit knows nothing yet.
func NewAudit() *Audit {
	return &Audit{
		Persons: map[types.UID]bool{}, pools: map[types.UID]*v1alpha1.ClusterPool{}, limits: map[types.UID]int32{},
		instances: map[types.UID]*v1alpha1.ClusterInstance{}, leases: map[types.UID]*v1alpha1.ClusterLease{},
		secrets: map[string]*corev1.Secret{}, children: map[types.UID]map[types.UID]string{}, bystander: map[types.UID]string{},
		volumes: map[types.UID]*corev1.PersistentVolumeClaim{}, runs: map[string]run{}, claims: map[types.UID]v1alpha1.ClaimReference{},
		served: map[types.UID]types.UID{}, bound: map[types.UID]types.UID{},
	}
}

// Breaches are what was noted so far.
func (a *Audit) Breaches() []string { return slices.Clone(a.breaches) }

// Served is how many leases have got an instance.
func (a *Audit) Served() int { return len(a.served) }

func (a *Audit) breach(format string, args ...any) {
	a.breaches = append(a.breaches, fmt.Sprintf("at %d: ", a.number)+fmt.Sprintf(format, args...))
}

// See takes the next revision.
func (a *Audit) See(r Revision) {
	a.number = r.Number
	a.seeCredentials(r)
	a.seeBystander(r)
	var err error
	switch r.Resource {
	case "clusterpools":
		err = see(r, a.seePool)
	case "clusterinstances":
		err = see(r, a.seeInstance)
	case "clusterleases":
		err = see(r, a.seeLease)
	case "crcbundles":
		err = see(r, a.seeBundle)
	case "events":
	case "secrets":
		err = see(r, a.seeSecret)
		a.seeChild(r)
	case "persistentvolumeclaims":
		err = see(r, a.seeVolume)
		a.seeChild(r)
	case "pipelineruns":
		a.seeRun(r)
		a.seeChild(r)
	default:
		a.seeChild(r)
	}
	if err != nil {
		a.breach("%s %s cannot be read: %v", r.Resource, r.Object.GetName(), err)
	}
}

func see[T any](r Revision, next func(*T, bool)) error {
	object, err := As[T](r)
	if err == nil {
		next(object, r.Gone)
	}
	return err
}

// seePool: 13, a pool goes after its last instance.
func (a *Audit) seePool(p *v1alpha1.ClusterPool, gone bool) {
	if !gone {
		a.pools[p.UID] = p
		a.limits[p.UID] = max(a.limits[p.UID], p.Spec.MaxSize)
		return
	}
	delete(a.pools, p.UID)
	for _, i := range a.instances {
		if i.Spec.PoolRef != nil && i.Spec.PoolRef.UID == p.UID && i.Spec.ClaimRef != nil {
			a.breach("13: pool %s went before its leased instance %s", p.Name, i.Name)
		}
	}
}

func (a *Audit) seeInstance(i *v1alpha1.ClusterInstance, gone bool) {
	before := a.instances[i.UID]
	if gone {
		delete(a.instances, i.UID)
		for _, text := range a.children[i.UID] {
			if a.Collected {
				break
			}
			a.breach("8: instance %s is gone, %s is left", i.Name, text)
		}
		return
	}
	a.instances[i.UID] = i
	if len(i.OwnerReferences) > 0 {
		a.breach("13: instance %s has an owner reference", i.Name)
	}
	if before == nil {
		a.countInstances(i)
	}
	a.seeClaim(before, i)
	a.seeReady(before, i)
	if i.DeletionTimestamp != nil && (before == nil || before.DeletionTimestamp == nil) {
		a.seeDeletion(i)
	}
}

// countInstances: 4, the number and the names of a pool's instances.
func (a *Audit) countInstances(i *v1alpha1.ClusterInstance) {
	if i.Spec.PoolRef == nil {
		return
	}
	n, names := 0, map[string]bool{}
	for _, other := range a.instances {
		if other.Spec.PoolRef != nil && other.Spec.PoolRef.UID == i.Spec.PoolRef.UID {
			n++
			names[other.Name] = true
		}
	}
	a.MostInstances = max(a.MostInstances, n)
	limit := a.limits[i.Spec.PoolRef.UID]
	if n > int(limit) || len(names) != n {
		a.breach("4: pool %s has %d instances with %d names, maxSize is %d", i.Spec.PoolRef.Name, n, len(names), limit)
	}
	slot := int32(-1)
	if i.Spec.Slot != nil {
		slot = *i.Spec.Slot
	}
	if want := fmt.Sprintf("%s-%d", i.Spec.PoolRef.Name, slot); i.Name != want || slot >= limit {
		a.breach("4: instance %s is in slot %d of %d", i.Name, slot, limit)
	}
}

// seeClaim: 1, set once, of a Ready instance; 2, one instance for one lease,
// announced before.
func (a *Audit) seeClaim(before, i *v1alpha1.ClusterInstance) {
	was, claimed := a.claims[i.UID]
	now := i.Spec.ClaimRef
	switch {
	case now == nil && claimed:
		a.breach("1: instance %s lost its claim by %s", i.Name, was.LeaseName)
	case now == nil:
	case claimed && was != *now:
		a.breach("1: instance %s was claimed by %s, then by %s", i.Name, was.LeaseName, now.LeaseName)
	case !claimed:
		a.claims[i.UID] = *now
		if other, ok := a.served[now.LeaseUID]; ok && other != i.UID {
			a.breach("2: lease %s has claimed instances %s and %s", now.LeaseName, other, i.UID)
		}
		a.served[now.LeaseUID] = i.UID
		l := a.leases[now.LeaseUID]
		if l == nil || l.Status.InstanceRef == nil || l.Status.InstanceRef.UID != i.UID {
			a.breach("2: the claim of instance %s was not announced by lease %s", i.Name, now.LeaseName)
		}
		if before == nil || !before.IsReady() || before.DeletionTimestamp != nil {
			a.breach("3: instance %s was claimed while it was not Ready or was deleted", i.Name)
		}
	}
}

// seeReady: 5, the kubeconfig that made the instance usable is its own run's.
func (a *Audit) seeReady(before, i *v1alpha1.ClusterInstance) {
	if !i.IsReady() || (before != nil && before.IsReady()) {
		return
	}
	secret := a.secrets[i.Namespace+"/"+i.KubeconfigSecretName()]
	switch {
	case secret == nil:
		a.breach("5: instance %s is Ready without a kubeconfig", i.Name)
	case i.Status.Run == nil || string(secret.Data[guestcluster.RunUIDKey]) != string(i.Status.Run.UID):
		a.breach("5: instance %s is Ready by the kubeconfig of another run", i.Name)
	}
}

// seeDeletion: 13 and 6, a leased cluster is destroyed only when its lease ends.
func (a *Audit) seeDeletion(i *v1alpha1.ClusterInstance) {
	ref := i.Spec.ClaimRef
	if ref == nil || a.Persons[i.UID] {
		return
	}
	l := a.leases[ref.LeaseUID]
	if l != nil && l.DeletionTimestamp == nil && !l.Ending() && l.Status.InstanceRef != nil && l.Status.InstanceRef.UID == i.UID {
		a.breach("13: instance %s is deleted while lease %s holds it in phase %s", i.Name, l.Name, l.Status.Phase)
	}
}

func (a *Audit) seeLease(l *v1alpha1.ClusterLease, gone bool) {
	if gone {
		delete(a.leases, l.UID)
		a.seeEnd(l, "was removed")
		return
	}
	a.leases[l.UID] = l
	if served, ok := a.served[l.UID]; ok && l.Status.InstanceRef != nil && l.Status.InstanceRef.UID != served {
		a.breach("2: lease %s names instance %s after it claimed %s", l.Name, l.Status.InstanceRef.UID, served)
	}
	if l.Ended() {
		a.seeEnd(l, "ended")
	}
	if l.Status.Phase != v1alpha1.LeaseBound {
		return
	}
	if uid, ok := a.bound[l.UID]; !ok {
		a.seeBound(l)
	} else if l.Status.InstanceRef == nil || l.Status.InstanceRef.UID != uid {
		a.breach("2: lease %s changed its instance while Bound", l.Name)
	}
}

// seeBound: 3.
func (a *Audit) seeBound(l *v1alpha1.ClusterLease) {
	ref := l.Status.InstanceRef
	if ref == nil {
		a.breach("3: lease %s is Bound to nothing", l.Name)
		return
	}
	a.bound[l.UID] = ref.UID
	i := a.instances[ref.UID]
	if i == nil {
		a.breach("3: lease %s is Bound to instance %s, which does not exist", l.Name, ref.Name)
		return
	}
	if !i.ClaimedBy(l) || (i.DeletionTimestamp != nil && !a.Persons[i.UID]) {
		a.breach("3: lease %s is Bound to instance %s, which it did not claim or which is deleted", l.Name, ref.Name)
	}
	if l.Status.APIEndpoint != i.Status.APIEndpoint {
		a.breach("3: lease %s is Bound to %s at another endpoint", l.Name, ref.Name)
	}
	secret := a.secrets[l.Namespace+"/"+l.AccessSecretName()]
	if secret == nil || !metav1.IsControlledBy(secret, l) {
		a.breach("3: lease %s is Bound without a Secret of its own", l.Name)
	}
}

// seeEnd: 6, a lease that is over has no Secret and no living instance.
func (a *Audit) seeEnd(l *v1alpha1.ClusterLease, how string) {
	if secret := a.secrets[l.Namespace+"/"+l.AccessSecretName()]; secret != nil && metav1.IsControlledBy(secret, l) {
		a.breach("6: lease %s %s, its Secret is left", l.Name, how)
	}
	uid, ok := a.served[l.UID]
	if i := a.instances[uid]; ok && i != nil && i.DeletionTimestamp == nil {
		a.breach("6: lease %s %s, instance %s lives on", l.Name, how, i.Name)
	}
}

// seeSecret: 3, an access Secret has the kubeconfig of its lease's instance.
func (a *Audit) seeSecret(s *corev1.Secret, gone bool) {
	key := s.Namespace + "/" + s.Name
	if gone {
		delete(a.secrets, key)
		return
	}
	a.secrets[key] = s
	owner := metav1.GetControllerOf(s)
	if owner == nil || owner.Kind != "ClusterLease" {
		return
	}
	uid, ok := a.served[owner.UID]
	i := a.instances[uid]
	if !ok || i == nil {
		a.breach("3: Secret %s was written before lease %s claimed an instance", s.Name, owner.Name)
		return
	}
	source := a.secrets[i.Namespace+"/"+i.KubeconfigSecretName()]
	if source == nil || string(source.Data[guestcluster.KubeconfigKey]) != string(s.Data[guestcluster.KubeconfigKey]) {
		a.breach("3: Secret %s has not the kubeconfig of instance %s", s.Name, i.Name)
	}
}

// seeRun: 5, one run for one attempt, and the next only after the last is over.
func (a *Audit) seeRun(r Revision) {
	instance, attempt := r.Object.GetLabels()[guestcluster.InstanceUIDLabel], r.Object.GetLabels()[guestcluster.AttemptLabel]
	owner := metav1.GetControllerOf(r.Object)
	if instance == "" || owner == nil || string(owner.UID) != instance {
		return
	}
	key := instance + "/" + attempt
	known, ok := a.runs[key]
	// One that vanished before anybody recorded it may be made again.
	if i := a.instances[owner.UID]; ok && known.uid != r.Object.GetUID() && i != nil && i.Status.Run != nil && i.Status.Run.UID == known.uid {
		a.breach("5: attempt %s of instance %s has a second run", attempt, owner.Name)
	}
	if !ok && attempt != "0" {
		var n int
		_, _ = fmt.Sscan(attempt, &n)
		if last := a.runs[fmt.Sprintf("%s/%d", instance, n-1)]; !last.ended && !last.gone {
			a.breach("5: attempt %s of instance %s began while the one before ran", attempt, owner.Name)
		}
	}
	ended := false
	if status, ok := r.Object.Object["status"].(map[string]any); ok {
		ended = status["completionTime"] != nil
	}
	a.runs[key] = run{uid: r.Object.GetUID(), ended: ended, gone: r.Gone || r.Object.GetDeletionTimestamp() != nil}
}

// seeChild: 8, the finalizer is on before the first child.
func (a *Audit) seeChild(r Revision) {
	owner := metav1.GetControllerOf(r.Object)
	if owner == nil || owner.Kind != "ClusterInstance" {
		return
	}
	uid := r.Object.GetUID()
	if r.Gone {
		delete(a.children[owner.UID], uid)
		return
	}
	if a.children[owner.UID][uid] == "" {
		i := a.instances[owner.UID]
		if i == nil || !slices.Contains(i.Finalizers, guestcluster.InstanceFinalizer) {
			a.breach("8: %s %s was made before the finalizer of instance %s, or after it", r.Resource, r.Object.GetName(), owner.Name)
		}
	}
	if a.children[owner.UID] == nil {
		a.children[owner.UID] = map[types.UID]string{}
	}
	a.children[owner.UID][uid] = r.Resource + " " + r.Object.GetName()
}

// seeBystander: 7, nothing is changed or deleted that is not ours.
func (a *Audit) seeBystander(r Revision) {
	if r.Object.GetLabels()[BystanderLabel] == "" {
		return
	}
	uid, number := r.Object.GetUID(), r.Object.GetResourceVersion()
	if known, ok := a.bystander[uid]; ok && (known != number || r.Gone) {
		a.breach("7: %s %s is not ours and was touched", r.Resource, r.Object.GetName())
	}
	a.bystander[uid] = number
}

// seeVolume keeps what seeBundle compares with.
func (a *Audit) seeVolume(v *corev1.PersistentVolumeClaim, gone bool) {
	if gone {
		delete(a.volumes, v.UID)
		return
	}
	a.volumes[v.UID] = v
}

// seeBundle: 10, a Ready bundle's volume was sealed with its checksum.
func (a *Audit) seeBundle(b *v1alpha1.CRCBundle, gone bool) {
	if gone || b.Status.Phase != v1alpha1.BundleReady || b.Status.GoldenVolume == nil {
		return
	}
	v := a.volumes[b.Status.GoldenVolume.UID]
	if v == nil || v.Annotations[guestcluster.BundleSHA256Annotation] != b.Status.SHA256 {
		a.breach("10: bundle %s is Ready, its volume is not sealed with its checksum", b.Name)
	}
}

// secretsOfProduct may hold credentials.
var secretsOfProduct = []string{"-access", "-kubeconfig", "-identity", "-ssh-key", "-boot-key", "pull-secret", "boot-key"}

// seeCredentials: 9.
func (a *Audit) seeCredentials(r Revision) {
	if r.Resource == "secrets" {
		for _, suffix := range secretsOfProduct {
			if strings.HasSuffix(r.Object.GetName(), suffix) {
				return
			}
		}
	}
	text, err := json.Marshal(r.Object.Object)
	if err != nil {
		a.breach("9: %s cannot be read: %v", r.Resource, err)
		return
	}
	for _, canary := range canaries {
		if strings.Contains(string(text), canary) {
			a.breach("9: %s %s holds a credential", r.Resource, r.Object.GetName())
		}
	}
}
