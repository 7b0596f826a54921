package virt

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/steps/kube"
)

// listPause spares the API: events are not cached, so each list reads the
// whole namespace from etcd.
const listPause = 10 * time.Second

const maxMessage = 400

// Warnings finds the newest warning about the objects of one name: disk,
// claim and machine share it. It is best effort, for a warning only explains.
type Warnings struct {
	// Events of the namespace.
	Events *kube.Objects[corev1.Event]
	// Now is the clock.
	Now func() time.Time

	listed time.Time
	newest *corev1.Event
}

// Newest returns the newest warning since a time, or nil.
func (w *Warnings) Newest(ctx context.Context, name string, since time.Time) *corev1.Event {
	if !w.listed.IsZero() && w.Now().Sub(w.listed) < listPause {
		return w.newest
	}
	list, err := w.Events.List(ctx, "involvedObject.name="+name+",type="+corev1.EventTypeWarning)
	if err != nil {
		return w.newest
	}
	w.listed, w.newest = w.Now(), nil
	for i := range list {
		if at := happened(&list[i]); !at.Before(since) && (w.newest == nil || at.After(happened(w.newest))) {
			w.newest = &list[i]
		}
	}
	return w.newest
}

// Text is the newest warning as last seen, for people.
func (w *Warnings) Text() string {
	if w.newest == nil {
		return ""
	}
	e := w.newest
	return fmt.Sprintf("warning on %s: %s: %s", e.InvolvedObject.Kind, e.Reason, brief(e.Message))
}

// happened is when an event was last seen, by either of the two event APIs.
func happened(e *corev1.Event) time.Time {
	last := e.CreationTimestamp.Time
	for _, t := range []time.Time{e.EventTime.Time, e.FirstTimestamp.Time, e.LastTimestamp.Time} {
		if t.After(last) {
			last = t
		}
	}
	if e.Series != nil && e.Series.LastObservedTime.After(last) {
		last = e.Series.LastObservedTime.Time
	}
	return last
}

// brief bounds what others wrote, and keeps it on one line.
func brief(text string) string {
	return v1alpha1.Truncate(strings.Join(strings.Fields(text), " "), maxMessage)
}
