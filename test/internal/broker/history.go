package broker

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/test/internal/server"
)

// Kinds are what a History follows: all that the product and its runs make.
var Kinds = []schema.GroupVersionResource{
	ours("clusterpools"), ours("clusterinstances"), ours("clusterleases"), ours("crcbundles"),
	{Version: "v1", Resource: "secrets"}, {Version: "v1", Resource: "services"}, {Version: "v1", Resource: "serviceaccounts"},
	{Version: "v1", Resource: "persistentvolumeclaims"}, {Version: "v1", Resource: "events"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
	{Group: "route.openshift.io", Version: "v1", Resource: "routes"},
	{Group: "tekton.dev", Version: "v1", Resource: "pipelineruns"}, {Group: "tekton.dev", Version: "v1", Resource: "taskruns"},
}

func ours(resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: guestcluster.GroupName, Version: "v1alpha1", Resource: resource}
}

// Revision is one object as one write left it. The numbers of all kinds come
// from one etcd: they are a total order.
type Revision struct {
	Number uint64
	// Resource is the plural name of the kind.
	Resource string
	Object   *unstructured.Unstructured
	// Gone: the write deleted the object; Object is its last state.
	Gone bool
}

// History holds every revision of Kinds on one server, seen by watches of its
// own that go on where they broke off. It forgets a namespace on request.
type History struct {
	server *server.Server
	begin  sync.Once

	mu        sync.Mutex
	revisions map[string][]Revision
	live      map[string]map[types.UID]uint64
	gaps      []string
}

var histories sync.Map

// HistoryOf is the History of a server. It has begun when this returns.
func HistoryOf(s *server.Server) *History {
	made, _ := histories.LoadOrStore(s, &History{server: s, revisions: map[string][]Revision{}, live: map[string]map[types.UID]uint64{}})
	h, _ := made.(*History)
	h.begin.Do(func() {
		var ready sync.WaitGroup
		for _, kind := range Kinds {
			ready.Add(1)
			go h.follow(context.Background(), kind, sync.OnceFunc(ready.Done))
		}
		ready.Wait()
	})
	return h
}

// follow lists once and watches from there on, for ever.
func (h *History) follow(ctx context.Context, kind schema.GroupVersionResource, ready func()) {
	from := ""
	for ctx.Err() == nil {
		next, err := h.stretch(ctx, kind, from, ready)
		if apierrors.IsGone(err) || apierrors.IsResourceExpired(err) {
			h.gap("revisions of %s after %s are gone: %v", kind.Resource, from, err)
			next = ""
		}
		from = next
		time.Sleep(reconnect)
	}
}

func (h *History) stretch(ctx context.Context, kind schema.GroupVersionResource, from string, ready func()) (string, error) {
	client := h.server.Dynamic.Resource(kind)
	if from == "" {
		list, err := client.List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		for n := range list.Items {
			h.add(kind, &list.Items[n], false)
		}
		from = list.GetResourceVersion()
		ready()
	}
	w, err := client.Watch(ctx, metav1.ListOptions{ResourceVersion: from, AllowWatchBookmarks: true})
	if err != nil {
		return from, err
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		object, ok := event.Object.(*unstructured.Unstructured)
		if !ok || event.Type == watch.Error {
			return from, apierrors.FromObject(event.Object)
		}
		from = object.GetResourceVersion()
		if event.Type != watch.Bookmark {
			h.add(kind, object, event.Type == watch.Deleted)
		}
	}
	return from, nil
}

func (h *History) add(kind schema.GroupVersionResource, object *unstructured.Unstructured, gone bool) {
	number, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	if err != nil {
		h.gap("%s %s has resourceVersion %q", kind.Resource, object.GetName(), object.GetResourceVersion())
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	namespace := object.GetNamespace()
	h.revisions[namespace] = append(h.revisions[namespace], Revision{number, kind.Resource, object, gone})
	if h.live[namespace] == nil {
		h.live[namespace] = map[types.UID]uint64{}
	}
	if gone {
		delete(h.live[namespace], object.GetUID())
		return
	}
	h.live[namespace][object.GetUID()] = number
}

func (h *History) gap(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gaps = append(h.gaps, fmt.Sprintf(format, args...))
}

// Until waits until the history has all that the API server shows of a
// namespace now, and returns it in order.
func (h *History) Until(ctx context.Context, namespace string) ([]Revision, error) {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	for {
		lacks := h.lacks(ctx, namespace)
		if lacks == "" {
			return h.Revisions(namespace), nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("the history of namespace %s lags behind: %s", namespace, lacks)
		case <-time.After(reconnect):
		}
	}
}

// Revisions are what was seen of a namespace so far, in order.
func (h *History) Revisions(namespace string) []Revision {
	h.mu.Lock()
	defer h.mu.Unlock()
	seen := slices.Clone(h.revisions[namespace])
	slices.SortStableFunc(seen, func(a, b Revision) int { return cmp.Compare(a.Number, b.Number) })
	return seen
}

// Gaps are stretches that no watch showed.
func (h *History) Gaps() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.gaps)
}

// Forget drops a namespace that no test looks at any more.
func (h *History) Forget(namespace string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.revisions, namespace)
	delete(h.live, namespace)
}

func (h *History) lacks(ctx context.Context, namespace string) string {
	present := map[types.UID]bool{}
	for _, kind := range Kinds {
		if kind.Resource == "crcbundles" && namespace != "" {
			continue
		}
		list, err := h.server.Dynamic.Resource(kind).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		for n := range list.Items {
			o := &list.Items[n]
			present[o.GetUID()] = true
			number, _ := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
			h.mu.Lock()
			seen := h.live[namespace][o.GetUID()]
			h.mu.Unlock()
			if seen < number {
				return fmt.Sprintf("%s %s is at %d, seen at %d", kind.Resource, o.GetName(), number, seen)
			}
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for uid := range h.live[namespace] {
		if !present[uid] {
			return fmt.Sprintf("the deletion of %s was not seen", uid)
		}
	}
	return ""
}

// As reads a revision's object as a typed one.
func As[T any](r Revision) (*T, error) {
	raw, err := json.Marshal(r.Object.Object)
	if err != nil {
		return nil, err
	}
	object := new(T)
	return object, json.Unmarshal(raw, object)
}
