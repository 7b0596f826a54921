package broker

import (
	"context"
	"os"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/test/internal/server"
)

// Pipeline is a valid provisioning Pipeline in the controller's namespace.
const Pipeline = "make-it"

// manifests are what the product's installation and OpenShift would give.
var manifests = []string{`
apiVersion: v1
kind: Namespace
metadata: {name: ` + guestcluster.SystemNamespace + `}`, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: routes.route.openshift.io}
spec:
  group: route.openshift.io
  scope: Namespaced
  names: {kind: Route, plural: routes, singular: route, listKind: RouteList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}`, `
apiVersion: tekton.dev/v1
kind: Pipeline
metadata: {name: ` + Pipeline + `, namespace: ` + guestcluster.SystemNamespace + `}
spec:
  params:
  - {name: instance, type: string}
  - {name: namespace, type: string}
  - {name: api-host, type: string}
  - {name: kubeconfig-secret, type: string}
  - {name: flavour, type: string, default: plain}
  results:
  - {name: api-endpoint, value: $(tasks.boot.results.api-endpoint)}
  - {name: ocp-version, value: $(tasks.boot.results.ocp-version)}
  tasks:
  - name: boot
    taskSpec:
      results: [{name: api-endpoint, type: string}, {name: ocp-version, type: string}]
      steps: [{name: boot, image: example.org/boot, command: [boot]}]`,
	CRCPipeline,
}

// Install prepares a server for the tests of a package.
func Install(ctx context.Context, s *server.Server) error {
	if err := os.Setenv("SYSTEM_NAMESPACE", guestcluster.SystemNamespace); err != nil {
		return err
	}
	for _, text := range manifests {
		object, err := server.Parse(text)
		if err != nil {
			return err
		}
		if err := s.Apply(ctx, object); err != nil {
			return err
		}
	}
	return nil
}
