package sweep

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/pager"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	versioned "opdev.io/guestcluster/pkg/client/clientset/versioned"
	listers "opdev.io/guestcluster/pkg/client/listers/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/plan"
	"opdev.io/guestcluster/pkg/reconciler/catalog"
	"opdev.io/guestcluster/pkg/reconciler/metrics"
)

// Sweeper makes passes, one at a time.
type Sweeper struct {
	Client     versioned.Interface
	Metadata   metadata.Interface
	Discovery  catalog.Discovery
	Instances  listers.ClusterInstanceLister
	Namespaces corelisters.NamespaceLister
	Events     record.EventRecorder
	Metrics    *metrics.Recorder
	Clock      clock.PassiveClock
	// Namespace is the only one that is swept besides guestcluster-bundles; empty is all that opted in.
	Namespace string
	// DryRun only reports.
	DryRun bool
	// Say tells the log what a pass cannot see.
	Say func(string)

	denied map[string]string            // by namespace: what the log was told
	told   map[types.UID]bool           // of whom an Event told
	found  map[place]map[plan.Proof]int // what the last look at each place saw

	mu     sync.Mutex
	counts map[metrics.Orphan]int
}

// place is what one list covers.
type place struct{ namespace, kind string }

// pass is what one pass learns.
type pass struct {
	gone   map[plan.InstanceID]bool
	known  sets.Set[types.UID]
	served map[string]bool
	told   map[types.UID]bool
	errs   []error
}

// Sweep makes one pass. What cannot be read now is looked at in the next one.
func (s *Sweeper) Sweep(ctx context.Context) error {
	namespaces, err := s.namespaces()
	if err != nil {
		return err
	}
	p := &pass{gone: map[plan.InstanceID]bool{}, served: map[string]bool{}, told: map[types.UID]bool{}}
	if err := s.observe(p); err != nil {
		return err
	}
	found := map[place]map[plan.Proof]int{}
	for _, namespace := range namespaces {
		s.sweepNamespace(ctx, p, namespace, found)
	}
	if len(p.errs) > 0 {
		maps.Copy(p.told, s.told) // who was not seen now is not told of again
	}
	s.told, s.found = p.told, found
	s.count()
	return errors.Join(p.errs...)
}

func (s *Sweeper) namespaces() ([]string, error) {
	list := []string{guestcluster.BundleNamespace}
	if s.Namespace != "" {
		return append(list, s.Namespace), nil
	}
	enabled, err := s.Namespaces.List(labels.SelectorFromSet(labels.Set{guestcluster.EnabledLabel: "true"}))
	if err != nil {
		return nil, fmt.Errorf("list namespaces: %w", err)
	}
	for _, ns := range enabled {
		if ns.Name != guestcluster.BundleNamespace {
			list = append(list, ns.Name)
		}
	}
	return list, nil
}

// observe asks which kinds are served, and remembers the instances that the
// cache knows: labels do not tell an instance's namespace.
func (s *Sweeper) observe(p *pass) error {
	for _, k := range kinds {
		serves, err := catalog.Serves(s.Discovery, k.resource)
		if err != nil {
			p.errs = append(p.errs, err)
		}
		p.served[k.name] = serves
	}
	instances, err := s.Instances.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list instances: %w", err)
	}
	p.known = sets.New[types.UID]()
	for _, i := range instances {
		p.known.Insert(i.UID)
	}
	return nil
}

func (s *Sweeper) sweepNamespace(ctx context.Context, p *pass, namespace string, found map[place]map[plan.Proof]int) {
	var denied []string
	for _, k := range kindsIn(namespace) {
		if !p.served[k.name] {
			continue
		}
		at := place{namespace, k.name}
		seen, err := s.sweepKind(ctx, p, namespace, k)
		switch {
		case s.isGone(namespace, err):
			continue
		case apierrors.IsForbidden(err):
			denied = append(denied, k.resource.GroupResource().String())
		case err != nil:
			p.errs = append(p.errs, err)
			seen = s.found[at]
		}
		found[at] = seen
	}
	s.tellDenied(namespace, denied)
}

// tellDenied names once what may not be listed in a namespace.
func (s *Sweeper) tellDenied(namespace string, denied []string) {
	text := strings.Join(denied, ", ")
	if s.denied == nil {
		s.denied = map[string]string{}
	}
	if s.denied[namespace] == text {
		return
	}
	s.denied[namespace] = text
	if text != "" {
		s.Say(fmt.Sprintf("the sweep may not list in namespace %s and does not see what is left behind there: %s", namespace, text))
	}
}

// sweepKind looks at all objects of a kind in a namespace and counts orphans.
func (s *Sweeper) sweepKind(ctx context.Context, p *pass, namespace string, k kind) (map[plan.Proof]int, error) {
	client := s.Metadata.Resource(k.resource).Namespace(namespace)
	pages := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return client.List(ctx, o) })
	var suspects []*metav1.PartialObjectMetadata
	err := pages.EachListItem(ctx, metav1.ListOptions{}, func(item runtime.Object) error {
		object, err := meta.Accessor(item)
		if err != nil {
			return err
		}
		if len(plan.Names(object).Instances) > 0 {
			suspects = append(suspects, meta.AsPartialObjectMetadata(object))
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list %s in namespace %s: %w", k.resource.GroupResource(), namespace, err)
	}
	seen := map[plan.Proof]int{}
	for _, object := range suspects {
		if s.judge(ctx, p, client, k, object) {
			seen[plan.Names(object).Proof]++
		}
	}
	return seen, nil
}

// judge acts on one object and says whether an orphan stays behind.
func (s *Sweeper) judge(ctx context.Context, p *pass, client metadata.ResourceInterface, k kind, object *metav1.PartialObjectMetadata) bool {
	naming := plan.Names(object)
	gone := func(id plan.InstanceID) bool {
		if naming.Proof == plan.ProofLabel && p.known.Has(id.UID) {
			return false
		}
		return s.gone(ctx, p, id)
	}
	step := plan.Sweep(object, naming, gone, s.Clock.Now())
	if step == plan.SweepKeep {
		return false
	}
	s.tell(p, k, object, plan.SweepText(object, naming, s.DryRun))
	if step != plan.SweepDelete || s.DryRun {
		return true
	}
	deleted, err := s.delete(ctx, client, k, object)
	if err != nil {
		p.errs = append(p.errs, err)
	}
	return !deleted
}

// tell makes one Event for an orphan, not one each pass.
func (s *Sweeper) tell(p *pass, k kind, object *metav1.PartialObjectMetadata, text string) {
	p.told[object.UID] = true
	if !s.told[object.UID] {
		s.Events.Event(reference(k, object), corev1.EventTypeWarning, plan.OrphanFound, text)
	}
}

// gone says whether no instance has this UID any more. Who cannot be read is not gone.
func (s *Sweeper) gone(ctx context.Context, p *pass, id plan.InstanceID) bool {
	if gone, ok := p.gone[id]; ok {
		return gone
	}
	live, err := s.Client.GuestclusterV1alpha1().ClusterInstances(id.Namespace).Get(ctx, id.Name, metav1.GetOptions{})
	gone := false
	switch {
	case err == nil:
		gone = live.UID != id.UID
	case apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse):
		gone = true
	default:
		p.errs = append(p.errs, fmt.Errorf("read instance %s/%s: %w", id.Namespace, id.Name, err))
	}
	p.gone[id] = gone
	return gone
}

// delete deletes the object as it was seen: whoever adopts it meanwhile keeps it.
func (s *Sweeper) delete(ctx context.Context, client metadata.ResourceInterface, k kind, object *metav1.PartialObjectMetadata) (bool, error) {
	background := metav1.DeletePropagationBackground
	err := client.Delete(ctx, object.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &object.UID, ResourceVersion: &object.ResourceVersion}, PropagationPolicy: &background,
	})
	switch {
	case err == nil:
		s.Events.Event(reference(k, object), corev1.EventTypeNormal, plan.OrphanDeleted, "deleted: its ClusterInstance is gone")
		s.Metrics.OrphanDeleted(ctx, k.name)
		return true, nil
	case s.isGone(object.Namespace, err):
		return true, nil
	case apierrors.IsConflict(err):
		return false, nil // it changed: the next pass looks again
	}
	return false, fmt.Errorf("delete %s %s/%s of an instance that is gone: %w", k.name, object.Namespace, object.Name, err)
}

func reference(k kind, object *metav1.PartialObjectMetadata) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: k.resource.GroupVersion().String(), Kind: k.name,
		Namespace: object.Namespace, Name: object.Name, UID: object.UID,
	}
}

// isGone: in a namespace that is being deleted our rights go early, and the
// namespace controller deletes the rest.
func (s *Sweeper) isGone(namespace string, err error) bool {
	if apierrors.IsNotFound(err) {
		return true
	}
	if !apierrors.IsForbidden(err) {
		return false
	}
	ns, nsErr := s.Namespaces.Get(namespace)
	return apierrors.IsNotFound(nsErr) || (nsErr == nil && (ns.DeletionTimestamp != nil || ns.Status.Phase == corev1.NamespaceTerminating))
}

// count publishes what the last pass found, with zeros.
func (s *Sweeper) count() {
	counts := map[metrics.Orphan]int{}
	for _, k := range kinds {
		for _, proof := range []plan.Proof{plan.ProofOwner, plan.ProofLabel} {
			counts[metrics.Orphan{Kind: k.name, Proof: string(proof)}] = 0
		}
	}
	for at, seen := range s.found {
		for proof, n := range seen {
			counts[metrics.Orphan{Kind: at.kind, Proof: string(proof)}] += n
		}
	}
	s.publish(counts)
}

func (s *Sweeper) publish(counts map[metrics.Orphan]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts = counts
}

// Counts are the orphans that the last pass left, for the metrics.
func (s *Sweeper) Counts() map[metrics.Orphan]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.counts)
}
