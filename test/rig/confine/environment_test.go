package confine

import (
	"slices"
	"testing"
)

func TestEnvironmentKeepsTheLastValue(t *testing.T) {
	got := Environment([]string{"PATH=/bin", "HOME=/root"}, []string{"PATH=/opt"}, nil)
	if want := []string{"PATH=/opt", "HOME=/root"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
