package cdi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Admission answers the API server about DataVolumes as CDI's two webhooks do.
// It puts no clone token: the stand-in believes its own answer.
type Admission struct {
	Client kubernetes.Interface
}

func (a Admission) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(w, "expected an AdmissionReview", http.StatusBadRequest)
		return
	}
	response := &admissionv1.AdmissionResponse{UID: review.Request.UID}
	refusal, err := a.judge(r.Context(), review.Request)
	switch {
	case err != nil:
		response.Result = &metav1.Status{Message: err.Error(), Code: http.StatusBadRequest}
	case refusal != "":
		response.Result = &metav1.Status{Message: refusal, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid}
	default:
		response.Allowed = true
	}
	review.Request, review.Response = nil, response
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review)
}

func (a Admission) judge(ctx context.Context, request *admissionv1.AdmissionRequest) (string, error) {
	volume, err := read(request.Object.Raw)
	if err != nil {
		return "", err
	}
	if volume.DeletionTimestamp != nil {
		return "", nil
	}
	if request.Operation == admissionv1.Update {
		return judgeUpdate(request)
	}
	if volume.Namespace == "" {
		volume.Namespace = request.Namespace
	}
	if refusal := judgeSpec(volume.Spec); refusal != "" {
		return refusal, nil
	}
	if refusal, err := a.judgeClaim(ctx, volume); refusal != "" || err != nil {
		return refusal, err
	}
	if volume.clonesAcrossNamespaces() {
		return a.judgeUser(ctx, request.UserInfo, *volume.Spec.Source.PVC)
	}
	return "", nil
}

func read(raw []byte) (*DataVolume, error) {
	volume := &DataVolume{}
	if err := json.Unmarshal(raw, volume); err != nil {
		return nil, fmt.Errorf("read the DataVolume: %w", err)
	}
	return volume, nil
}

func judgeUpdate(request *admissionv1.AdmissionRequest) (string, error) {
	var older, newer struct {
		Spec map[string]any `json:"spec"`
	}
	if err := json.Unmarshal(request.OldObject.Raw, &older); err != nil {
		return "", fmt.Errorf("read the old DataVolume: %w", err)
	}
	if err := json.Unmarshal(request.Object.Raw, &newer); err != nil {
		return "", fmt.Errorf("read the new DataVolume: %w", err)
	}
	if !equality.Semantic.DeepEqual(older.Spec, newer.Spec) {
		return "Cannot update DataVolume Spec", nil
	}
	return "", nil
}

func judgeSpec(spec Spec) string {
	switch {
	case spec.PVC == nil && spec.Storage == nil:
		return "Missing Data volume PVC"
	case spec.PVC != nil && spec.Storage != nil:
		return "Duplicate storage definition, both target storage and target pvc defined"
	case spec.PVC != nil && len(spec.PVC.AccessModes) == 0:
		return "Required value: at least 1 access mode is required"
	case spec.PVC != nil && requested(spec.PVC) == 0:
		return "PVC size is missing"
	case spec.Source == nil:
		return "Data volume should have either Source or SourceRef, or be externally populated"
	}
	if size := requested((&DataVolume{Spec: spec}).target()); size != 0 && size < alignment {
		return "size should be at least 1MiB"
	}
	return judgeSource(*spec.Source)
}

func judgeSource(source Source) string {
	switch {
	case source.HTTP != nil:
		if u, err := url.Parse(source.HTTP.URL); err != nil || u.Host == "" {
			return "spec.source Invalid source URL: " + source.HTTP.URL
		}
	case source.PVC != nil:
		if source.PVC.Namespace == "" || source.PVC.Name == "" {
			return "spec.source.PVC source PVC is not valid"
		}
	case source.Blank == nil:
		return "the rig's CDI knows the sources http, pvc and blank only"
	}
	return ""
}

func (a Admission) judgeClaim(ctx context.Context, volume *DataVolume) (string, error) {
	claim, err := a.Client.CoreV1().PersistentVolumeClaims(volume.Namespace).Get(ctx, volume.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if owner := metav1.GetControllerOf(claim); owner == nil || owner.Kind != kind.Kind {
		return fmt.Sprintf("Destination PVC %s/%s already exists", claim.Namespace, claim.Name), nil
	}
	return "", nil
}

// judgeUser asks whether the user may clone the source, or could read it
// through a pod anyway.
func (a Admission) judgeUser(ctx context.Context, user authenticationv1.UserInfo, source PVCSource) (string, error) {
	if _, err := a.Client.CoreV1().Namespaces().Get(ctx, source.Namespace, metav1.GetOptions{}); err != nil {
		return "", err
	}
	for _, attributes := range []authorizationv1.ResourceAttributes{
		{Namespace: source.Namespace, Verb: "create", Group: Resource.Group, Resource: Resource.Resource, Subresource: "source", Name: source.Name},
		{Namespace: source.Namespace, Verb: "create", Resource: "pods", Name: source.Name},
	} {
		extra := map[string]authorizationv1.ExtraValue{}
		for name, value := range user.Extra {
			extra[name] = authorizationv1.ExtraValue(value)
		}
		review, err := a.Client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{
				User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra, ResourceAttributes: &attributes,
			},
		}, metav1.CreateOptions{})
		if err != nil {
			return "", err
		}
		if review.Status.Allowed {
			return "", nil
		}
	}
	return fmt.Sprintf("User %s has insufficient permissions in clone source namespace %s", user.Username, source.Namespace), nil
}
