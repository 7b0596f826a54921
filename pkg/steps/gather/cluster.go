package gather

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"opdev.io/guestcluster/pkg/steps/kube"
	"opdev.io/guestcluster/pkg/steps/virt"
)

// status is what is kept of an object.
type status struct {
	Status json.RawMessage `json:"status"`
}

// cluster reads the objects around the VM.
type cluster struct {
	config          *rest.Config
	namespace, name string
	events          *kube.Objects[corev1.Event]
}

func newCluster(config *rest.Config, namespace, name string) (*cluster, error) {
	events, err := kube.NewObjects[corev1.Event](config, virt.EventsResource, namespace)
	return &cluster{config, namespace, name, events}, err
}

func (c *cluster) parts() []part {
	return []part{
		{key: "virtualmachine.json", limit: 16 << 10, ask: c.status(virt.MachinesResource)},
		{key: "virtualmachineinstance.json", limit: 16 << 10, ask: c.status(virt.RunningResource)},
		{key: "datavolume.json", limit: 16 << 10, ask: c.status(virt.DataVolumesResource)},
		{key: "events.txt", limit: 24 << 10, newest: true, ask: c.listEvents},
	}
}

func (c *cluster) status(resource schema.GroupVersionResource) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		client, err := kube.NewObjects[status](c.config, resource, c.namespace)
		if err != nil {
			return "", err
		}
		object, err := client.Get(ctx, c.name)
		if err != nil {
			return "", err
		}
		return string(object.Status) + "\n", nil
	}
}

// listEvents keeps those of the VM's objects and pods, which have its name in theirs.
func (c *cluster) listEvents(ctx context.Context) (string, error) {
	list, err := c.events.List(ctx, "metadata.namespace="+c.namespace)
	if err != nil {
		return "", err
	}
	slices.SortStableFunc(list, func(a, b corev1.Event) int { return cmp.Compare(a.LastTimestamp.Unix(), b.LastTimestamp.Unix()) })
	var text strings.Builder
	for _, e := range list {
		if strings.Contains(e.InvolvedObject.Name, c.name) {
			fmt.Fprintf(&text, "%s %s %s/%s %s: %.500s\n", e.LastTimestamp.UTC().Format("15:04:05"), e.Type, e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Reason, e.Message)
		}
	}
	return text.String(), nil
}
