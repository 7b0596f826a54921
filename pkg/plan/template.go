package plan

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

// TemplateHash is the identity of what a pool makes: an HMAC, keyed by the pool
// UID, of the topology, the Pipeline's name and the template with zero fields
// left out. A golden test pins it: an upgrade must not recycle every pool.
func TemplateHash(pool types.UID, spec v1alpha1.ClusterPoolSpec) (string, error) {
	text, err := json.Marshal(struct {
		Type     v1alpha1.ClusterType     `json:"type"`
		Pipeline string                   `json:"pipeline"`
		Template v1alpha1.ClusterTemplate `json:"template"`
	}{spec.Type, v1alpha1.PipelineName(spec.Type, spec.Provisioning), spec.Template})
	if err != nil {
		return "", fmt.Errorf("encode template: %w", err)
	}
	mac := hmac.New(sha256.New, []byte(pool))
	mac.Write(text)
	return hex.EncodeToString(mac.Sum(nil)[:16]), nil
}

// IsStale says whether an instance was made from another template than the one hashed.
func IsStale(instance *v1alpha1.ClusterInstance, hash string) bool {
	return instance.Annotations[guestcluster.TemplateHashAnnotation] != hash
}
