package plan

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// maxPullSecret keeps the copy in the identity Secret far below etcd's limit.
const maxPullSecret = 256 << 10

// PullSecretProblem says why the content of a pull secret is refused; nothing
// when it is good. It quotes no content: entries are told by their position.
func PullSecretProblem(raw []byte) string {
	if len(bytes.TrimSpace(raw)) == 0 {
		return "it is empty"
	}
	if len(raw) > maxPullSecret {
		return fmt.Sprintf("it has %d bytes, at most %d are taken", len(raw), maxPullSecret)
	}
	var config struct {
		Auths map[string]map[string]any `json:"auths"`
	}
	if json.Unmarshal(raw, &config) != nil {
		return `it is not JSON of the form {"auths": {"<registry>": {"auth": "<base64>"}}}`
	}
	if len(config.Auths) == 0 {
		return "it has no auths: it names no registry"
	}
	for n, registry := range slices.Sorted(maps.Keys(config.Auths)) {
		if problem := authProblem(config.Auths[registry]); problem != "" {
			return fmt.Sprintf("entry %d of %d in auths, in order of names, %s", n+1, len(config.Auths), problem)
		}
	}
	return ""
}

// authProblem asks of an entry what the guest's own tools ask of it.
func authProblem(entry map[string]any) string {
	if store, ok := entry["credsStore"].(string); ok && store != "" {
		return ""
	}
	text, ok := entry["auth"].(string)
	if !ok || text == "" {
		return "has neither auth nor credsStore"
	}
	plain, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return "has an auth that is no base64"
	}
	user, password, ok := bytes.Cut(plain, []byte(":"))
	if !ok || len(user) == 0 || len(password) == 0 {
		return "has an auth that is not the base64 of user:password"
	}
	return ""
}
