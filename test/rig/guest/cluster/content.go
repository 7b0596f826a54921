package cluster

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// parkedNamespaces are the ones that something looks into.
var parkedNamespaces = []string{
	"openshift", "openshift-config", "openshift-config-managed", "openshift-authentication", "openshift-console", "openshift-ingress",
	"openshift-etcd", "openshift-kube-apiserver", "openshift-kube-controller-manager", "openshift-kube-scheduler", mcoNamespace,
}

// developer and kubeadmin of the installation; nobody knows the passwords.
const htpasswd = "developer:$2a$10$B5TZlz3RmrVUiHnYLhNDNuAWyCUJbuBtfRnnrwqOGkVbnSXOOkO0W\n" +
	"kubeadmin:$2a$10$9nHCcCmPYnFmVjVxIbHQuO0YV1Pn1kI9SBsJmAl0w5kb2s1jD4cVC\n"

// object is one that is created, with its status when it has one.
type object struct {
	kind      schema.GroupVersionResource
	namespace string
	content   map[string]any
}

func fillCluster(ctx context.Context, client api, content Content) error {
	for _, crd := range content.CRDs {
		if err := client.create(ctx, resource("apiextensions.k8s.io", "v1", "customresourcedefinitions"), "", crd); err != nil {
			return err
		}
	}
	for _, o := range parkedObjects(content) {
		if err := createServed(ctx, client, o); err != nil {
			return err
		}
	}
	return nil
}

// createServed allows for kinds that the server has just learnt.
func createServed(ctx context.Context, client api, o object) error {
	for {
		created, err := client.Resource(o.kind).Namespace(o.namespace).Create(ctx, &unstructured.Unstructured{Object: o.content}, metav1.CreateOptions{})
		if apierrors.IsNotFound(err) && pause(ctx, 100*time.Millisecond) {
			continue
		}
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("create %s: %w", o.kind.Resource, err)
		}
		if o.content["status"] == nil {
			return nil
		}
		return client.patch(ctx, o.kind, o.namespace, created.GetName(), map[string]any{"status": o.content["status"]}, "status")
	}
}

func parkedObjects(content Content) []object {
	var all []object
	add := func(kind schema.GroupVersionResource, kindName, namespace, name string, fields map[string]any) {
		o := map[string]any{"apiVersion": kind.GroupVersion().String(), "kind": kindName, "metadata": map[string]any{"name": name}}
		for key, value := range fields {
			o[key] = value
		}
		all = append(all, object{kind, namespace, o})
	}
	for _, name := range parkedNamespaces {
		add(resource("", "v1", "namespaces"), "Namespace", "", name, nil)
	}
	addIdentities(add, content)
	addConfig(add)
	addMachines(add, content)
	for _, name := range Operators {
		add(clusterOperators, "ClusterOperator", "", name, map[string]any{"spec": map[string]any{}, "status": map[string]any{
			"conditions": GoodConditions(), "versions": []any{map[string]any{"name": "operator", "version": DefaultVersion}},
		}})
	}
	return all
}

type adder func(kind schema.GroupVersionResource, kindName, namespace, name string, fields map[string]any)

func addIdentities(add adder, content Content) {
	encode := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	add(secrets, "Secret", configNamespace, "pull-secret", map[string]any{
		"type": "kubernetes.io/dockerconfigjson", "data": map[string]any{".dockerconfigjson": encode("{}\n")},
	})
	add(secrets, "Secret", configNamespace, "htpass-secret", map[string]any{"type": "Opaque", "data": map[string]any{"htpasswd": encode(htpasswd)}})
	add(configMaps, "ConfigMap", configNamespace, "admin-kubeconfig-client-ca", map[string]any{"data": map[string]any{"ca-bundle.crt": content.AdminCA}})
	add(resource("", "v1", "serviceaccounts"), "ServiceAccount", mcoNamespace, "node-bootstrapper", nil)
	bindings := resource("rbac.authorization.k8s.io", "v1", "clusterrolebindings")
	bind := func(name, role string, subject map[string]any) {
		add(bindings, "ClusterRoleBinding", "", name, map[string]any{
			"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
			"subjects": []any{subject},
		})
	}
	user := func(name string) map[string]any {
		return map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}
	}
	bind("cluster-admins", "cluster-admin", user("system:admin"))
	bind("kubeadmin", "cluster-admin", user("kubeadmin"))
	bind("system-bootstrap-node-bootstrapper", "system:node-bootstrapper",
		map[string]any{"kind": "ServiceAccount", "name": "node-bootstrapper", "namespace": mcoNamespace})
}

func addConfig(add adder) {
	config := func(plural string) schema.GroupVersionResource { return resource("config.openshift.io", "v1", plural) }
	add(clusterVersions, "ClusterVersion", "", "version", map[string]any{
		"spec": map[string]any{"clusterID": "", "channel": "stable-4.19"}, "status": VersionStatus(DefaultVersion),
	})
	add(apiServers, "APIServer", "", "cluster", map[string]any{"spec": map[string]any{"audit": map[string]any{"profile": "Default"}}})
	add(config("oauths"), "OAuth", "", "cluster", map[string]any{"spec": map[string]any{
		"identityProviders": []any{map[string]any{
			"name": "developer", "mappingMethod": "claim", "type": "HTPasswd",
			"htpasswd": map[string]any{"fileData": map[string]any{"name": "htpass-secret"}},
		}},
		"tokenConfig": map[string]any{"accessTokenMaxAgeSeconds": int64(31536000)},
	}})
	add(config("ingresses"), "Ingress", "", "cluster", map[string]any{"spec": map[string]any{"domain": "apps-crc.testing"}})
	add(config("proxies"), "Proxy", "", "cluster", map[string]any{"spec": map[string]any{"trustedCA": map[string]any{"name": ""}}})
	add(config("dnses"), "DNS", "", "cluster", map[string]any{"spec": map[string]any{"baseDomain": "crc.testing"}})
	add(config("networks"), "Network", "", "cluster", map[string]any{"spec": map[string]any{
		"clusterNetwork": []any{map[string]any{"cidr": "10.217.0.0/22", "hostPrefix": int64(23)}},
		"serviceNetwork": []any{ServiceRange}, "networkType": "OVNKubernetes",
	}})
	add(config("infrastructures"), "Infrastructure", "", "cluster", map[string]any{
		"spec": map[string]any{"platformSpec": map[string]any{"type": "None"}},
		"status": map[string]any{
			"apiServerURL": "https://" + APIName + ":6443", "apiServerInternalURI": "https://" + APIIntName + ":6443",
			"infrastructureName": "crc-parked", "platform": "None", "platformStatus": map[string]any{"type": "None"},
			"controlPlaneTopology": "SingleReplica", "infrastructureTopology": "SingleReplica",
		},
	})
}

func addMachines(add adder, content Content) {
	stamp := time.Now().Add(-60 * day)
	ready := map[string]any{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status",
		"lastHeartbeatTime": stamp.UTC().Format(time.RFC3339), "lastTransitionTime": stamp.UTC().Format(time.RFC3339)}
	add(nodes, "Node", "", NodeName, map[string]any{
		"metadata": map[string]any{"name": NodeName, "labels": map[string]any{
			"kubernetes.io/hostname": NodeName, "node-role.kubernetes.io/control-plane": "", "node-role.kubernetes.io/master": "", "node-role.kubernetes.io/worker": "",
		}},
		"status": map[string]any{
			"conditions": []any{ready}, "addresses": []any{map[string]any{"type": "InternalIP", "address": NodeIP}, map[string]any{"type": "Hostname", "address": NodeName}},
			"nodeInfo": map[string]any{"kubeletVersion": "v1.36.3", "osImage": "Red Hat Enterprise Linux CoreOS", "kernelVersion": "", "machineID": "", "systemUUID": "", "bootID": "",
				"containerRuntimeVersion": "cri-o://1.32", "kubeProxyVersion": "", "operatingSystem": "linux", "architecture": "amd64"},
		},
	})
	ignition := map[string]any{"version": "3.2.0"}
	add(machineConfigs, "MachineConfig", "", "99-master-ssh", map[string]any{
		"metadata": map[string]any{"name": "99-master-ssh", "labels": map[string]any{"machineconfiguration.openshift.io/role": "master"}},
		"spec": map[string]any{"config": map[string]any{"ignition": ignition, "passwd": map[string]any{
			"users": []any{map[string]any{"name": "core", "sshAuthorizedKeys": []any{strings.TrimSpace(content.CoreKey)}}},
		}}},
	})
	for _, name := range []string{"master", "worker"} {
		add(pools, "MachineConfigPool", "", name, map[string]any{"spec": map[string]any{
			"machineConfigSelector": map[string]any{"matchLabels": map[string]any{"machineconfiguration.openshift.io/role": name}},
			"nodeSelector":          map[string]any{"matchLabels": map[string]any{"node-role.kubernetes.io/" + name: ""}},
		}})
	}
	add(configMaps, "ConfigMap", mcoNamespace, mcoName, map[string]any{"metadata": map[string]any{
		"name": mcoName, "annotations": map[string]any{"control-plane.alpha.kubernetes.io/leader": `{"holderIdentity":"` + StaleOwner + `"}`},
	}})
	for _, l := range []struct{ namespace, name, holder string }{
		{mcoNamespace, mcoName, StaleOwner}, {mcoNamespace, "machine-config", StaleOwner},
		{"kube-system", "kube-controller-manager", "crc_parked"}, {"kube-system", "kube-scheduler", "crc_parked"},
		{"openshift-kube-apiserver", "cert-regeneration-controller-lock", "crc_parked"},
	} {
		all := leaseObject(l.name, l.holder, stamp)
		add(leases, "Lease", l.namespace, l.name, map[string]any{"spec": all["spec"]})
	}
}
