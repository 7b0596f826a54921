package cel_test

import (
	"fmt"
	"strings"
)

// entries are n entries of a YAML flow map.
func entries(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("k%d: v", i)
	}
	return strings.Join(list, ", ")
}

// conditions are n conditions of a YAML flow list.
func conditions(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("{type: T%d, status: 'True', reason: R, message: m, lastTransitionTime: '2026-01-01T00:00:00Z'}", i)
	}
	return strings.Join(list, ", ")
}
