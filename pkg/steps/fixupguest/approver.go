package fixupguest

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"

	"opdev.io/guestcluster/pkg/steps/guest"
)

const (
	requests     = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
	bootstrapper = "system:serviceaccount:openshift-machine-config-operator:node-bootstrapper"
)

// approvals counts what the approver did.
type approvals struct{ n atomic.Int32 }

func (a *approvals) text() string {
	if n := a.n.Load(); n > 0 {
		return fmt.Sprintf("%d certificate requests were approved", n)
	}
	return "no certificate request of the kubelet came that could be approved"
}

// startApprover approves in the background until the step ends: a second
// request may come after the first, and the serving one after the client's.
func (f *fixup) startApprover(ctx context.Context) {
	f.stop()
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // it outlives the phase
	ended := make(chan struct{})
	f.stop = func() { cancel(); <-ended }
	go func() {
		defer close(ended)
		ticker := time.NewTicker(f.Poll)
		defer ticker.Stop()
		for {
			f.approvePending(ctx)
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	}()
}

// approvePending is silent about errors: the API comes and goes, and the phase
// that needs the certificates says what is missing.
func (f *fixup) approvePending(ctx context.Context) {
	api, err := f.door.API(ctx)
	if err != nil {
		return
	}
	var list certificatesv1.CertificateSigningRequestList
	if err := api.Get(ctx, requests, &list); err != nil {
		f.door.Refused(err)
		return
	}
	for i := range list.Items {
		if !ours(&list.Items[i], f.host) {
			continue
		}
		if err := approve(ctx, api, &list.Items[i], f.Now()); err == nil {
			f.approved.n.Add(1)
			fmt.Fprintf(f.out, "approved certificate request %s for %s\n", list.Items[i].Name, list.Items[i].Spec.SignerName)
		}
	}
}

// ours says whether a request is pending and one of this guest's kubelet.
func ours(csr *certificatesv1.CertificateSigningRequest, host string) bool {
	if len(csr.Status.Conditions) > 0 || len(csr.Status.Certificate) > 0 {
		return false
	}
	node := "system:node:" + host
	switch csr.Spec.SignerName {
	case certificatesv1.KubeAPIServerClientKubeletSignerName:
		return slices.Contains([]string{node, bootstrapper}, csr.Spec.Username) && subject(csr) == node
	case certificatesv1.KubeletServingSignerName:
		return csr.Spec.Username == node && subject(csr) == node
	}
	return false
}

// subject is the user that a request asks a certificate for.
func subject(csr *certificatesv1.CertificateSigningRequest) string {
	block, _ := pem.Decode(csr.Spec.Request)
	if block == nil {
		return ""
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return ""
	}
	return request.Subject.CommonName
}

func approve(ctx context.Context, api *guest.API, csr *certificatesv1.CertificateSigningRequest, now time.Time) error {
	return api.Patch(ctx, requests+"/"+csr.Name+"/approval", csr.ObjectMeta, map[string]any{"status": map[string]any{
		"conditions": []map[string]any{{
			"type": certificatesv1.CertificateApproved, "status": corev1.ConditionTrue, "reason": "GuestclusterApproves",
			"message": "a request of the only node's kubelet", "lastUpdateTime": now.UTC().Format(time.RFC3339),
		}},
	}})
}
