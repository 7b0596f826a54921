package cdi

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

const denial = "User maker has insufficient permissions in clone source namespace golden"

// cluster has the claim golden/image, a claim clusters/taken of nobody, and
// allows the user what is listed.
func cluster(allowed string) *fake.Clientset {
	client := fake.NewClientset(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "golden"}},
		&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "clusters", Name: "taken"}})
	client.PrependReactor("create", "subjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
		asked := review.Spec.ResourceAttributes
		review.Status.Allowed = asked.Namespace == "golden" && asked.Verb == "create" && asked.Resource+"/"+asked.Subresource == allowed &&
			(asked.Subresource == "" || asked.Name == "image")
		return true, review, nil
	})
	return client
}

func TestAdmission(t *testing.T) {
	clone := func(namespace string) Spec {
		return Spec{Source: &Source{PVC: &PVCSource{Namespace: namespace, Name: "image"}}, Storage: spec("80Gi")}
	}
	older := clone("golden")
	for _, row := range []struct {
		name    string
		target  string
		spec    Spec
		old     *Spec
		allowed string
		want    string
	}{
		{"a clone needs a right in the source's namespace", "disk", clone("golden"), nil, "", denial},
		{"the right to the source is enough", "disk", clone("golden"), nil, "datavolumes/source", ""},
		{"so is the right to make pods", "disk", clone("golden"), nil, "pods/", ""},
		{"the own namespace needs none", "disk", clone("clusters"), nil, "", ""},
		{"a namespace that is not there is told", "disk", clone("nowhere"), nil, "", `namespaces "nowhere" not found`},
		{"a claim that is there already is told", "taken", clone("clusters"), nil, "", "Destination PVC clusters/taken already exists"},
		{"the spec does not change", "disk", clone("clusters"), &older, "", "Cannot update DataVolume Spec"},
		{"the rest does", "disk", clone("golden"), &older, "", ""},
		{"a target is needed", "disk", Spec{Source: &cloning}, nil, "", "Missing Data volume PVC"},
		{"one target is enough", "disk", Spec{Source: &cloning, PVC: spec("1Gi"), Storage: spec("1Gi")}, nil, "", "Duplicate storage definition, both target storage and target pvc defined"},
		{"a source is needed", "disk", Spec{Storage: spec("1Gi")}, nil, "", "Data volume should have either Source or SourceRef, or be externally populated"},
		{"an address needs a host", "disk", Spec{Source: &Source{HTTP: &HTTPSource{URL: "disk.img"}}, Storage: spec("1Gi")}, nil, "", "spec.source Invalid source URL: disk.img"},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := ask(t, Admission{cluster(row.allowed)}, row.target, row.spec, row.old)
			if got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

// ask returns the refusal, or nothing.
func ask(t *testing.T, a Admission, name string, newer Spec, older *Spec) string {
	t.Helper()
	print := func(s Spec) runtime.RawExtension {
		v := DataVolume{Spec: s}
		v.Name, v.Namespace = name, "clusters"
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return runtime.RawExtension{Raw: raw}
	}
	request := &admissionv1.AdmissionRequest{
		UID: "1", Operation: admissionv1.Create, Object: print(newer), UserInfo: authenticationv1.UserInfo{Username: "maker"},
	}
	if older != nil {
		request.Operation, request.OldObject = admissionv1.Update, print(*older)
	}
	body, err := json.Marshal(admissionv1.AdmissionReview{Request: request})
	if err != nil {
		t.Fatal(err)
	}
	answer := httptest.NewRecorder()
	a.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/datavolumes", bytes.NewReader(body)))
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(answer.Body.Bytes(), &review); err != nil || review.Response == nil {
		t.Fatalf("got %s, %v", answer.Body, err)
	}
	if review.Response.Allowed {
		return ""
	}
	return review.Response.Result.Message
}
