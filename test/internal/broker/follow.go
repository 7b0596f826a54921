package broker

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

const reconnect = 100 * time.Millisecond

// Follow calls back for every revision of the objects that list and watch
// show, in order, until ctx ends. After a lost watch it lists again.
func Follow[L runtime.Object](ctx context.Context, list func(context.Context, metav1.ListOptions) (L, error),
	watcher func(context.Context, metav1.ListOptions) (watch.Interface, error), seen func(object runtime.Object, gone bool)) {
	for ctx.Err() == nil {
		follow(ctx, list, watcher, seen)
		select {
		case <-ctx.Done():
		case <-time.After(reconnect):
		}
	}
}

func follow[L runtime.Object](ctx context.Context, list func(context.Context, metav1.ListOptions) (L, error),
	watcher func(context.Context, metav1.ListOptions) (watch.Interface, error), seen func(object runtime.Object, gone bool)) {
	found, err := list(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	_ = meta.EachListItem(found, func(object runtime.Object) error {
		seen(object, false)
		return nil
	})
	accessor, err := meta.ListAccessor(found)
	if err != nil {
		return
	}
	w, err := watcher(ctx, metav1.ListOptions{ResourceVersion: accessor.GetResourceVersion()})
	if err != nil {
		return
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		switch event.Type {
		case watch.Added, watch.Modified:
			seen(event.Object, false)
		case watch.Deleted:
			seen(event.Object, true)
		}
	}
}
