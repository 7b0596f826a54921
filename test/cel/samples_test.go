package cel_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/test/internal/server"
)

// samples are manifests that people already have: they apply unchanged.
var samples = map[string]string{
	"clusterpools": `
apiVersion: guestcluster.opdev.io/v1alpha1
kind: ClusterPool
metadata:
  name: crc-pool
spec:
  type: crc
  minSize: 1
  maxSize: 3
  warmSpares: 1
  template:
    crcVersion: "4.16.0"
    pullSecretRef:
      name: crc-pull-secret
`,
	"clusterleases": `
apiVersion: guestcluster.opdev.io/v1alpha1
kind: ClusterLease
metadata:
  name: ci-job-1234-lease
spec:
  poolRef:
    name: crc-pool
  ttl: 2h
  requestedBy: ci-job-1234
`,
}

var sampleBundles = map[string]string{
	"minimal": `
apiVersion: guestcluster.opdev.io/v1alpha1
kind: CRCBundle
metadata:
  name: crc-4.16.0-amd64
spec:
  version: "4.16.0"
  arch: amd64
`,
	"mirror": `
apiVersion: guestcluster.opdev.io/v1alpha1
kind: CRCBundle
metadata:
  name: crc-4.16.0-amd64
spec:
  version: "4.16.0"
  arch: amd64
  bundleURL: https://mirror.example.com/crc_libvirt_4.16.0_amd64.crcbundle
  sha256URL: https://mirror.example.com/sha256sum.txt
  storageClassName: ocs-storagecluster-ceph-rbd
  goldenVolumeSize: 35Gi
`,
}

func TestSamplesApplyUnchanged(t *testing.T) {
	namespace := shared.Namespace(t, nil)
	for resource, text := range samples {
		object, err := server.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		client := shared.Dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource(resource)).Namespace(namespace)
		applied, err := client.Apply(t.Context(), object.GetName(), object, metav1.ApplyOptions{FieldManager: "kubectl"})
		if err != nil {
			t.Errorf("%s: %v", resource, err)
			continue
		}
		decodes(t, kind{resource: resource}, applied)
	}
	pool, err := shared.Guest.GuestclusterV1alpha1().ClusterPools(namespace).Get(t.Context(), "crc-pool", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if s := pool.Spec; s.MaxConcurrent != 3 || s.UpdateStrategy != v1alpha1.UpdateOnReplenish || s.Paused {
		t.Errorf("defaults are %+v", s)
	}
	for name, text := range sampleBundles {
		object, err := server.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		applied, err := bundles.client("").Apply(t.Context(), object.GetName(), object, metav1.ApplyOptions{FieldManager: "kubectl", Force: true})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		decodes(t, bundles, applied)
	}
}
