package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
)

// words are what the timeline calls the tasks.
var words = map[string]string{"create-datavolume": "disk", "boot-vm": "boot", "fix-up-guest": "fixups", "publish-kubeconfig": "publish"}

// noteTimes collects how long bundle and first instance took, while their runs exist.
func (d *demo) noteTimes(ctx context.Context, ready bool) error {
	if !ready || len(d.times) > 0 {
		return nil
	}
	if err := d.noteBundle(ctx); err != nil {
		return err
	}
	list, err := d.Guest.GuestclusterV1alpha1().ClusterInstances(poolNamespace).List(ctx, metav1.ListOptions{
		LabelSelector: guestcluster.PoolLabel + "=" + d.scene.pool})
	if err != nil {
		return err
	}
	for _, i := range list.Items {
		if i.Status.Run == nil || i.Status.ReadyTime == nil {
			continue
		}
		tasks, err := d.Tekton.TektonV1().TaskRuns(poolNamespace).List(ctx, metav1.ListOptions{LabelSelector: "tekton.dev/pipelineRun=" + i.Status.Run.Name})
		if err != nil {
			return err
		}
		d.noteTasks(tasks.Items)
		d.note("ready", i.Status.ReadyTime.Sub(i.CreationTimestamp.Time), "from the instance's creation")
		return nil
	}
	return nil
}

func (d *demo) noteBundle(ctx context.Context) error {
	bundles, err := d.Guest.GuestclusterV1alpha1().CRCBundles().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, b := range bundles.Items {
		if b.Status.Run == nil {
			continue
		}
		tasks, err := d.Tekton.TektonV1().TaskRuns(guestcluster.BundleNamespace).List(ctx, metav1.ListOptions{LabelSelector: "tekton.dev/pipelineRun=" + b.Status.Run.Name})
		if err != nil {
			return err
		}
		for _, t := range tasks.Items {
			d.noteTask("bundle: ", t)
		}
	}
	return nil
}

func (d *demo) noteTasks(tasks []pipelinev1.TaskRun) {
	slices.SortFunc(tasks, func(a, b pipelinev1.TaskRun) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	for _, t := range tasks {
		d.noteTask("", t)
	}
}

func (d *demo) noteTask(prefix string, t pipelinev1.TaskRun) {
	if t.Status.CompletionTime == nil || t.Status.StartTime == nil {
		return
	}
	name := t.Labels["tekton.dev/pipelineTask"]
	if word := words[name]; word != "" {
		name = word
	}
	d.note(prefix+name, t.Status.CompletionTime.Sub(t.Status.StartTime.Time), "")
}

func (d *demo) note(what string, took time.Duration, remark string) {
	d.times = append(d.times, fmt.Sprintf("%6.0f s  %-30s %s", took.Seconds(), what, remark))
}

func (d *demo) printTimes() {
	fmt.Println("--- times, as Tekton tells them in whole seconds")
	for _, line := range d.times {
		fmt.Println(line)
	}
}
