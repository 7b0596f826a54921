package broker

import (
	"context"

	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"knative.dev/pkg/apis"
	duckv1 "knative.dev/pkg/apis/duck/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/runs"
)

// CRCPipeline stands for provision-crc: params and results are its own.
const CRCPipeline = `
apiVersion: tekton.dev/v1
kind: Pipeline
metadata:
  name: provision-crc
  namespace: ` + guestcluster.SystemNamespace + `
  annotations: {guestcluster.opdev.io/step-cluster-role: guestcluster-provision-crc}
spec:
  params:
  - {name: instance, type: string}
  - {name: namespace, type: string}
  - {name: instance-uid, type: string}
  - {name: service, type: string}
  - {name: api-host, type: string}
  - {name: kubeconfig-secret, type: string}
  - {name: identity-secret, type: string}
  - {name: source-namespace, type: string}
  - {name: source-volume, type: string}
  - {name: source-url, type: string}
  - {name: root-volume-size, type: string}
  - {name: storage-class, type: string}
  - {name: memory, type: string}
  - {name: cores, type: string}
  - {name: node-selector, type: string}
  - {name: arch, type: string}
  results:
  - {name: api-endpoint, value: $(tasks.boot.results.api-endpoint)}
  - {name: ocp-version, value: $(tasks.boot.results.ocp-version)}
  tasks:
  - name: boot
    taskSpec:
      results: [{name: api-endpoint, type: string}, {name: ocp-version, type: string}]
      steps: [{name: boot, image: example.org/boot, command: [boot]}]`

// machineKeys makes the guest of a run of provision-crc and returns what its
// steps add to the kubeconfig Secret; nothing for another Pipeline.
func (p *Provisioner) machineKeys(ctx context.Context, run *pipelinev1.PipelineRun, act Act) (map[string][]byte, error) {
	if param(run, runs.ParamRootVolumeSize) == "" {
		return nil, nil
	}
	uid, err := p.makeMachine(ctx, run.Namespace, param(run, runs.ParamService))
	if err != nil {
		return nil, err
	}
	if act.VMIUID != "" {
		uid = act.VMIUID
	}
	identity, err := p.server.Kube.CoreV1().Secrets(run.Namespace).Get(ctx, param(run, runs.ParamIdentitySecret), metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		guestcluster.VMIUIDKey: []byte(uid), guestcluster.SSHHostKeyKey: []byte("ssh-ed25519 AAAA"),
		guestcluster.KubeadminPasswordKey: identity.Data[guestcluster.KubeadminPasswordKey],
	}, nil
}

// gather is the finally task of a run that failed: it fails too, after it has
// named its ConfigMap.
func (p *Provisioner) gather(ctx context.Context, run *pipelinev1.PipelineRun, act Act) ([]pipelinev1.ChildStatusReference, error) {
	if act.Gathered == "" {
		return nil, nil
	}
	isController := true
	taskRuns := p.server.Tekton.TektonV1().TaskRuns(run.Namespace)
	taskRun, err := taskRuns.Create(ctx, &pipelinev1.TaskRun{
		ObjectMeta: metav1.ObjectMeta{
			Name: run.Name + "-gather", Namespace: run.Namespace,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "tekton.dev/v1", Kind: "PipelineRun", Name: run.Name, UID: run.UID, Controller: &isController}},
		},
		Spec: pipelinev1.TaskRunSpec{TaskRef: &pipelinev1.TaskRef{Name: runs.TaskGather}},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	taskRun.Status.Conditions = duckv1.Conditions{{Type: apis.ConditionSucceeded, Status: corev1.ConditionFalse, Reason: "Failed", Message: `"step-gather" exited`}}
	taskRun.Status.Results = []pipelinev1.TaskRunResult{{Name: runs.ResultConfigMap, Type: pipelinev1.ResultsTypeString, Value: *pipelinev1.NewStructuredValues(act.Gathered)}}
	if _, err := taskRuns.UpdateStatus(ctx, taskRun, metav1.UpdateOptions{}); err != nil {
		return nil, err
	}
	return []pipelinev1.ChildStatusReference{{
		TypeMeta: runtime.TypeMeta{APIVersion: "tekton.dev/v1", Kind: "TaskRun"}, Name: taskRun.Name, PipelineTaskName: runs.TaskGather}}, nil
}
