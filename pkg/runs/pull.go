package runs

import (
	"fmt"
	"regexp"

	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	"knative.dev/pkg/apis"
)

// pullFailed is Tekton's text on an image that cannot be had: kind of
// container, its name, the image, and what the node says.
var pullFailed = regexp.MustCompile(`^the ([a-z ]+) "([^"]*)" in TaskRun "[^"]*" failed to pull the image "([^"]*)"\. (.*)`)

// pullProblem names the container whose image cannot be pulled and says what
// to do. Tekton gives every step of such a pod exit code 1, so that none of
// them says which one it was.
func pullProblem(t *pipelinev1.TaskRun) (container, text string) {
	c := t.Status.GetCondition(apis.ConditionSucceeded)
	if c.Reason != pipelinev1.TaskRunReasonImagePullFailed.String() {
		return "", ""
	}
	said := pullFailed.FindStringSubmatch(c.Message)
	if said == nil {
		return "", c.Message
	}
	return said[2], fmt.Sprintf("the node cannot pull image %s of %s %s: correct the image in the Task, or see to its registry: %s", said[3], said[1], said[2], said[4])
}
