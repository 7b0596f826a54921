package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"opdev.io/guestcluster/test/rig/guest/faults"
)

const (
	settleDelay    = 3 * time.Second
	rolledDelay    = 2 * time.Second
	aggregatorWait = 4 * time.Second

	// DefaultVersion is what a guest reports that is not told otherwise.
	DefaultVersion = "4.19.3"
	// VersionFile tells the release of the disk.
	VersionFile = "etc/rig/version"
)

// Operators are the ClusterOperators of the parked cluster.
var Operators = []string{
	"authentication", "console", "dns", "etcd", "image-registry", "ingress", "kube-apiserver", "kube-controller-manager",
	"kube-scheduler", "machine-config", "network", "openshift-apiserver", "openshift-controller-manager", "service-ca",
}

// verdict is the state of one operator.
type verdict struct {
	available, progressing, degraded bool
	reason, message                  string
}

var good = verdict{available: true, reason: "AsExpected", message: "All is well"}

func (c *Cluster) syncOperators(ctx context.Context) error {
	if err := c.lookAtLogin(ctx); err != nil {
		return err
	}
	list, err := c.api.Resource(clusterOperators).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list operators: %w", err)
	}
	now := c.now()
	for i := range list.Items {
		operator := &list.Items[i]
		if !slices.Contains(Operators, operator.GetName()) {
			continue
		}
		if err := c.report(ctx, operator, c.judge(operator.GetName(), now)); err != nil {
			return err
		}
	}
	return nil
}

// judge says what an operator would report.
func (c *Cluster) judge(name string, s state) verdict {
	waiting := s.readyAt.IsZero()
	settling := !waiting && time.Since(s.readyAt) < c.faults.Delay(settleDelay)
	rolled := time.Since(s.rolledAt) < c.faults.Delay(rolledDelay)
	needsPods := slices.Contains([]string{"authentication", "console", "image-registry", "ingress", "openshift-apiserver"}, name)
	switch {
	case name == "authentication" && c.faults.Has(faults.OperatorsNever):
		return verdict{degraded: true, reason: "OAuthServerRouteEndpointAccessibleController_SyncError", message: "the OAuth server's route does not answer"}
	case name == "kube-apiserver" && (s.rolling || rolled):
		return verdict{available: true, progressing: true, reason: "NodeInstaller", message: "NodeInstallerProgressing: 1 node is at an older revision"}
	case needsPods && waiting:
		return verdict{progressing: true, reason: "NoPodsAvailable", message: "no pods available on any node"}
	case needsPods && settling:
		return verdict{available: true, progressing: true, reason: "Deploying", message: "pods are starting"}
	case name == "authentication" && (rolled || time.Since(s.loginAt) < c.faults.Delay(rolledDelay)):
		return verdict{available: true, progressing: true, reason: "OAuthServerDeployment_PodsUpdating", message: "a new OAuth server is starting"}
	}
	return good
}

// lookAtLogin notices new passwords.
func (c *Cluster) lookAtLogin(ctx context.Context) error {
	secret, err := c.api.get(ctx, secrets, configNamespace, "htpass-secret")
	if err != nil || secret == nil {
		return err
	}
	text, _, _ := unstructured.NestedString(secret.Object, "data", "htpasswd")
	sum := sha256.Sum256([]byte(text))
	login := hex.EncodeToString(sum[:])
	c.set(func(s *state) {
		if s.login != "" && s.login != login {
			s.loginAt = time.Now()
		}
		s.login = login
	})
	return nil
}

// report writes conditions that differ from the recorded ones.
func (c *Cluster) report(ctx context.Context, operator *unstructured.Unstructured, v verdict) error {
	wanted := v.conditions()
	old, _, _ := unstructured.NestedSlice(operator.Object, "status", "conditions")
	if sameConditions(old, wanted) && reported(operator) == c.version() {
		return nil
	}
	versions := []any{map[string]any{"name": "operator", "version": c.version()}}
	status := map[string]any{"conditions": wanted, "versions": versions}
	return c.api.patch(ctx, clusterOperators, "", operator.GetName(), map[string]any{"status": status}, "status")
}

func reported(operator *unstructured.Unstructured) string {
	versions, _, _ := unstructured.NestedSlice(operator.Object, "status", "versions")
	for _, item := range versions {
		entry, _ := item.(map[string]any)
		if entry["name"] == "operator" {
			return fmt.Sprint(entry["version"])
		}
	}
	return ""
}

func (v verdict) conditions() []any {
	return []any{
		condition("Available", v.available, v.reason, v.message),
		condition("Progressing", v.progressing, v.reason, v.message),
		condition("Degraded", v.degraded, v.reason, v.message),
		condition("Upgradeable", true, "AsExpected", ""),
	}
}

// GoodConditions is what an operator of a stable cluster reports.
func GoodConditions() []any { return good.conditions() }

func condition(kind string, on bool, reason, message string) map[string]any {
	status := map[bool]string{true: "True", false: "False"}[on]
	return map[string]any{
		"type": kind, "status": status, "reason": reason, "message": message,
		"lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
	}
}

// sameConditions compares without times.
func sameConditions(a, b []any) bool {
	strip := func(list []any) string {
		var lines []string
		for _, item := range list {
			entry, _ := item.(map[string]any)
			lines = append(lines, fmt.Sprint(entry["type"], entry["status"], entry["reason"], entry["message"]))
		}
		data, _ := json.Marshal(lines)
		return string(data)
	}
	return strip(a) == strip(b)
}

// syncAggregator renews the aggregator's certificate a while after the start.
func (c *Cluster) syncAggregator() func(context.Context) error {
	var since time.Time
	return func(context.Context) error {
		if since.IsZero() {
			since = time.Now()
		}
		if time.Since(since) < c.faults.Delay(aggregatorWait) {
			return nil
		}
		return c.root.refreshAggregator()
	}
}

// version is the release that the disk holds.
func (c *Cluster) version() string {
	if v := c.faults[faults.Version]; v != "" {
		return v
	}
	data, err := os.ReadFile(c.root.Path(VersionFile))
	if err != nil {
		return DefaultVersion
	}
	return strings.TrimSpace(string(data))
}

// syncVersion is the version operator: the release says what the version is.
func (c *Cluster) syncVersion() func(context.Context) error {
	done := false
	return func(ctx context.Context) error {
		if done {
			return nil
		}
		if err := c.api.patch(ctx, clusterVersions, "", "version", map[string]any{"status": VersionStatus(c.version())}, "status"); err != nil {
			return err
		}
		done = true
		return nil
	}
}

// VersionStatus is the status of a cluster that was installed with a version.
func VersionStatus(version string) map[string]any {
	image := "quay.io/openshift-release-dev/ocp-release:" + version + "-x86_64"
	installed := time.Now().Add(-60 * day).UTC().Format(time.RFC3339)
	return map[string]any{
		"desired":            map[string]any{"version": version, "image": image},
		"observedGeneration": int64(1), "versionHash": "parked", "availableUpdates": []any{},
		"history": []any{map[string]any{
			"state": "Completed", "version": version, "image": image, "verified": false,
			"startedTime": installed, "completionTime": installed,
		}},
		"conditions": []any{condition("Available", true, "", "Done applying "+version), condition("Progressing", false, "", "Cluster version is "+version), condition("Failing", false, "", "")},
	}
}
