package steps

import (
	"bytes"
	"context"
	"os/exec"
	"strings"
	"testing"

	"opdev.io/guestcluster/pkg/steps/step"
)

func TestMainPrintsTheTable(t *testing.T) {
	var out bytes.Buffer
	if code := Main(context.Background(), nil, &out, &out); code != 0 {
		t.Errorf("exit code %d", code)
	}
	for _, command := range Table() {
		if !strings.Contains(out.String(), command.Name) || !strings.Contains(out.String(), command.Short) {
			t.Errorf("the table does not tell of %s", command.Name)
		}
	}
}

func TestMainRefusesWhatItDoesNotKnow(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		text string
	}{
		"a step":      {[]string{"fly"}, `no step is named "fly"`},
		"a flag":      {[]string{"release", "--wings=2"}, "wings"},
		"an omission": {[]string{"release", "--namespace=ci", "--slot="}, "--pipeline-run"},
		"a word":      {[]string{"release", "--slot=", "now"}, "now"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			if code := Main(context.Background(), tc.args, &out, &errs); code != step.ExitUser {
				t.Errorf("exit code %d", code)
			}
			if !strings.Contains(errs.String(), tc.text) {
				t.Errorf("%q does not contain %q", errs.String(), tc.text)
			}
		})
	}
}

// The image is pulled to every node: no clientset, no controller machinery, no
// Tekton. The API types bring kmeta and kmap, which are small.
func TestTheImageIsThin(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "opdev.io/guestcluster/cmd/steps").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	allowed := map[string]bool{"knative.dev/pkg/kmeta": true, "knative.dev/pkg/kmap": true}
	for _, dep := range strings.Fields(string(out)) {
		for _, heavy := range []string{"k8s.io/client-go/kubernetes", "k8s.io/client-go/informers", "knative.dev/", "github.com/tektoncd/", "github.com/google/go-containerregistry"} {
			if strings.HasPrefix(dep, heavy) && !allowed[dep] {
				t.Errorf("cmd/steps links %s", dep)
			}
		}
	}
}
