package rigtest

import "fmt"

// PullSecret is the YAML of a Secret with a well-formed pull secret that opens
// nothing: the rig's guest pulls no images.
func PullSecret(name string) string {
	return fmt.Sprintf(pullSecret, name)
}

const pullSecret = `
apiVersion: v1
kind: Secret
metadata:
  name: %s
type: kubernetes.io/dockerconfigjson
stringData:
  .dockerconfigjson: '{"auths":{"quay.io":{"auth":"cmlnOm9wZW5zLW5vdGhpbmc="}}}'
`
