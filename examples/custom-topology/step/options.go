package main

import (
	"flag"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/steps/step"
)

// options are the step's flags.
type options struct {
	instance, namespace, instanceUID string
	// service is the derived name of what belongs to the instance; pod and
	// ConfigMap take it too.
	service string
	// apiHost is a name that the serving certificate is good for.
	apiHost string
	// image holds etcd, kube-apiserver and kube-controller-manager in /usr/local/bin.
	image string
	// identitySecret is mounted in the pod, identityDir is where it is mounted here.
	identitySecret, identityDir string
	timeout                     time.Duration
}

func (o *options) bind(flags *flag.FlagSet) {
	flags.StringVar(&o.instance, "instance", "", "name of the ClusterInstance")
	flags.StringVar(&o.namespace, "namespace", "", "namespace of the ClusterInstance")
	flags.StringVar(&o.instanceUID, "instance-uid", "", "UID of the ClusterInstance")
	flags.StringVar(&o.service, "service", "", "name of the instance's Service")
	flags.StringVar(&o.apiHost, "api-host", "", "external host of the guest API")
	flags.StringVar(&o.image, "image", "", "image of the guest")
	flags.StringVar(&o.identitySecret, "identity-secret", "", "Secret with the guest's certificates")
	flags.StringVar(&o.identityDir, "identity-dir", "", "where that Secret is mounted")
	flags.DurationVar(&o.timeout, "timeout", 0, "how long to wait for the guest API")
	step.BindFailure(flags)
}

func (o *options) validate() error {
	for _, f := range []struct{ name, value string }{
		{"instance", o.instance}, {"namespace", o.namespace}, {"instance-uid", o.instanceUID}, {"service", o.service},
		{"api-host", o.apiHost}, {"image", o.image}, {"identity-secret", o.identitySecret}, {"identity-dir", o.identityDir},
	} {
		if f.value == "" {
			return step.UserError("--%s is empty", f.name)
		}
	}
	if o.timeout <= 0 {
		return step.UserError("timeout must be a positive duration such as 5m")
	}
	return nil
}

// meta names an object of the instance. The owner reference makes it go with
// the instance; blockOwnerDeletion stays unset, it would need more rights.
func (o *options) meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: o.service, Namespace: o.namespace,
		Labels: map[string]string{
			guestcluster.ManagedByLabel:   guestcluster.ManagedBy,
			guestcluster.InstanceUIDLabel: o.instanceUID,
		},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "ClusterInstance",
			Name: o.instance, UID: types.UID(o.instanceUID),
		}},
	}
}

// owns says whether an object that is already there is this instance's.
func (o *options) owns(object metav1.Object) bool {
	for _, owner := range object.GetOwnerReferences() {
		if string(owner.UID) == o.instanceUID {
			return true
		}
	}
	return false
}
