package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/apis"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/test/rigtest"
)

const (
	poolNamespace        = "clusters"
	ciNamespace, runName = "ci", "test-on-a-cluster-1"
	// examplePool is the pool that examples/ci-pipeline.yaml names.
	examplePool = "demo-pool"
)

type demo struct {
	*rigtest.Rig
	scene    scene
	began    time.Time
	timeline []string
	times    []string
	lease    *v1alpha1.ClusterLease
}

func (d *demo) setUp(ctx context.Context) error {
	foreground := metav1.DeletePropagationForeground
	err := d.Tekton.TektonV1().PipelineRuns(ciNamespace).Delete(ctx, runName, metav1.DeleteOptions{PropagationPolicy: &foreground})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("remove the run of an earlier demo: %w", err)
	}
	if err := d.scene.setUp(ctx, d); err != nil {
		return err
	}
	if err := d.Apply(ctx, "", "examples/ci-namespace.yaml"); err != nil {
		return err
	}
	d.say("applying acquire-cluster and release-cluster in namespace " + ciNamespace)
	return d.Apply(ctx, ciNamespace, "tasks/lessee/")
}

func (d *demo) waitForSpare(ctx context.Context) error {
	last := ""
	return rigtest.Wait(ctx, "a Ready cluster in pool "+d.scene.pool, d.scene.patience, func(ctx context.Context) (bool, string, error) {
		pool, err := d.Guest.GuestclusterV1alpha1().ClusterPools(poolNamespace).Get(ctx, d.scene.pool, metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		s := pool.Status
		text := fmt.Sprintf("pool: %d available, %d provisioning, %d failed", s.AvailableInstances, s.ProvisioningInstances, s.FailedInstances)
		if s.LastFailure != nil {
			text += "; last failure: " + s.LastFailure.Message
		}
		for _, c := range s.Conditions {
			if c.Type == v1alpha1.ConditionReady && c.Status == metav1.ConditionFalse {
				text += "; " + c.Reason + ": " + c.Message
			}
		}
		if text != last {
			d.say(text)
			last = text
		}
		return s.AvailableInstances > 0, text, d.noteTimes(ctx, s.AvailableInstances > 0)
	})
}

func (d *demo) runPipeline(ctx context.Context) error {
	text, err := os.ReadFile(filepath.Join(d.Root, "examples/ci-pipeline.yaml"))
	if err != nil {
		return err
	}
	if err := rigtest.Wait(ctx, "the run of an earlier demo to be gone", time.Minute, d.earlierRunGone); err != nil {
		return err
	}
	if err := d.ApplyText(ctx, "", strings.ReplaceAll(string(text), "value: "+examplePool, "value: "+d.scene.pool)); err != nil {
		return err
	}
	d.mark("PipelineRun created")
	seen := map[string]string{}
	return rigtest.Wait(ctx, "the end of PipelineRun "+runName, 15*time.Minute, func(ctx context.Context) (bool, string, error) {
		return d.follow(ctx, seen)
	})
}

func (d *demo) earlierRunGone(ctx context.Context) (bool, string, error) {
	_, err := d.Tekton.TektonV1().PipelineRuns(ciNamespace).Get(ctx, runName, metav1.GetOptions{})
	return apierrors.IsNotFound(err), "it still exists", nil
}

// follow marks every change of the lease and of the run's tasks.
func (d *demo) follow(ctx context.Context, seen map[string]string) (bool, string, error) {
	run, err := d.Tekton.TektonV1().PipelineRuns(ciNamespace).Get(ctx, runName, metav1.GetOptions{})
	if err != nil {
		return false, "", err
	}
	note := func(what, state string) {
		if state != "" && seen[what] != state {
			seen[what] = state
			d.mark(what + ": " + state)
		}
	}
	if err := d.followLease(ctx, run.UID, note); err != nil {
		return false, "", err
	}
	tasks, err := d.Tekton.TektonV1().TaskRuns(ciNamespace).List(ctx, metav1.ListOptions{LabelSelector: "tekton.dev/pipelineRun=" + runName})
	if err != nil {
		return false, "", err
	}
	for _, t := range tasks.Items {
		note("task "+t.Labels["tekton.dev/pipelineTask"], stateOf(t.Status.GetCondition(apis.ConditionSucceeded)))
	}
	condition := run.Status.GetCondition(apis.ConditionSucceeded)
	if !run.IsDone() {
		return false, "running", nil
	}
	note("PipelineRun", stateOf(condition))
	d.noteTasks(tasks.Items)
	if !run.IsSuccessful() {
		return false, "", fmt.Errorf("the run ended: %s: %s", condition.Reason, condition.Message)
	}
	return true, "", d.checkRun(run)
}

func (d *demo) followLease(ctx context.Context, holder types.UID, note func(what, state string)) error {
	leases, err := d.Guest.GuestclusterV1alpha1().ClusterLeases(ciNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range leases.Items {
		l := &leases.Items[i]
		if l.Spec.HolderRef == nil || l.Spec.HolderRef.UID != holder {
			continue
		}
		d.lease = l
		note("lease", string(l.Status.Phase)+" ("+string(l.Status.BoundReason())+")")
	}
	return nil
}

func (d *demo) checkRun(run *pipelinev1.PipelineRun) error {
	if d.lease == nil || d.lease.Status.InstanceRef == nil {
		return errors.New("no lease of the run was ever bound")
	}
	d.say(fmt.Sprintf("tested on %s (version %s) at %s", d.lease.Status.InstanceRef.Name, d.lease.Status.OCPVersion, d.lease.Status.APIEndpoint))
	return nil
}

func (d *demo) checkReplaced(ctx context.Context) error {
	old := d.lease.Status.InstanceRef
	instances := d.Guest.GuestclusterV1alpha1().ClusterInstances(old.Namespace)
	err := rigtest.Wait(ctx, "destruction of instance "+old.Name, 3*time.Minute, func(ctx context.Context) (bool, string, error) {
		i, err := instances.Get(ctx, old.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || (err == nil && i.UID != old.UID) {
			return true, "", nil
		}
		return false, "it still exists", err
	})
	if err != nil {
		return err
	}
	d.mark(fmt.Sprintf("instance %s (UID %s): destroyed", old.Name, old.UID))
	if err := d.waitForSpare(ctx); err != nil {
		return err
	}
	list, err := instances.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, i := range list.Items {
		if i.IsReady() {
			d.mark(fmt.Sprintf("instance %s (UID %s): Ready for the next lease", i.Name, i.UID))
		}
	}
	return nil
}

func stateOf(c *apis.Condition) string {
	if c == nil {
		return ""
	}
	return c.Reason
}

func (d *demo) mark(text string) {
	line := fmt.Sprintf("%6.1f s  %s", time.Since(d.began).Seconds(), text)
	d.timeline = append(d.timeline, line)
	fmt.Println(line)
}

func (d *demo) say(text string) {
	fmt.Printf("%6.1f s  %s\n", time.Since(d.began).Seconds(), text)
}

func (d *demo) printTimeline() {
	fmt.Println("--- timeline")
	for _, line := range d.timeline {
		fmt.Println(line)
	}
}
