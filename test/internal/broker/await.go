package broker

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// Patience is how long Await waits. It is long: a busy machine is no failure.
const Patience = 60 * time.Second

// Client is the part of a typed client that Await needs.
type Client[T any] interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (T, error)
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
}

// Await returns the object as soon as missing has nothing more to say about
// it. It looks at every revision; found is false while there is no object.
func Await[T any](t testing.TB, client Client[T], name string, missing func(object T, found bool) string) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	lacks := "it was never seen"
	for ctx.Err() == nil {
		object, done, err := await(ctx, client, name, missing, &lacks)
		if done {
			return object
		}
		if err != nil && ctx.Err() == nil {
			lacks = err.Error()
			time.Sleep(reconnect)
		}
	}
	t.Fatalf("waited %s for %s: %s", Patience, name, lacks)
	panic("unreachable")
}

func await[T any](ctx context.Context, client Client[T], name string, missing func(T, bool) string, lacks *string) (T, bool, error) {
	var none T
	w, err := client.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		return none, false, err
	}
	defer w.Stop()
	object, err := client.Get(ctx, name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return none, false, err
	}
	if *lacks = missing(object, err == nil); *lacks == "" {
		return object, true, nil
	}
	for event := range w.ResultChan() {
		object, ok := event.Object.(T)
		if !ok {
			return none, false, errors.New("the watch failed")
		}
		if *lacks = missing(object, event.Type != watch.Deleted); *lacks == "" {
			return object, true, nil
		}
	}
	return none, false, nil
}

// Gone waits until there is no object of that name, or another one.
func Gone[T metav1.Object](t testing.TB, client Client[T], object metav1.Object) {
	t.Helper()
	Await(t, client, object.GetName(), func(live T, found bool) string {
		if found && live.GetUID() == object.GetUID() {
			return "it still exists"
		}
		return ""
	})
}
