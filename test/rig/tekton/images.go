package tekton

import (
	"regexp"
	"slices"
)

// References returns the images of a resolved stream that live at registry.
func References(resolved []byte, registry string) []string {
	pattern := regexp.MustCompile(regexp.QuoteMeta(registry) + `/[a-z0-9./_-]+@sha256:[0-9a-f]{64}`)
	var found []string
	for _, match := range pattern.FindAll(resolved, -1) {
		found = append(found, string(match))
	}
	slices.Sort(found)
	return slices.Compact(found)
}
