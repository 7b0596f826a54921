package fixupguest

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"opdev.io/guestcluster/pkg/steps/guest"
	"opdev.io/guestcluster/pkg/steps/step"
)

// goodLooks is how often in a row the operators must look well.
const goodLooks = 3

func (f *fixup) waitForNode(ctx context.Context) error {
	var list corev1.NodeList
	err := f.within(ctx, func(api *guest.API) error { return api.Get(ctx, "/api/v1/nodes", &list) })
	if err != nil {
		return err
	}
	if len(list.Items) == 0 {
		return fmt.Errorf("the kubelet has not registered its node; %s", f.approved.text())
	}
	for _, node := range list.Items {
		if why := notReady(&node); why != "" {
			return fmt.Errorf("node %s is not Ready: %.300s; %s", node.Name, why, f.approved.text())
		}
	}
	return nil
}

func notReady(node *corev1.Node) string {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			if c.Status == corev1.ConditionTrue {
				return ""
			}
			return c.Reason + " " + c.Message
		}
	}
	return "its kubelet has not said anything"
}

// operator is a ClusterOperator as far as it matters here.
type operator struct {
	named
	Status struct {
		Conditions []struct {
			Type    string `json:"type"`
			Status  string `json:"status"`
			Reason  string `json:"reason"`
			Message string `json:"message"`
		} `json:"conditions"`
	} `json:"status"`
}

// is the status of a condition, "" without it.
func (o *operator) is(kind string) string {
	for _, c := range o.Status.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return ""
}

func (o *operator) message(kind string) string {
	for _, c := range o.Status.Conditions {
		if c.Type == kind {
			return fmt.Sprintf("%s %.200s", c.Reason, c.Message)
		}
	}
	return ""
}

// trouble says what keeps an operator from being settled, "" when it is.
func (o *operator) trouble() string {
	switch {
	case o.is("Available") != "True":
		return "not Available"
	case o.is("Degraded") == "True":
		return "Degraded"
	case o.is("Progressing") == "True":
		return "Progressing"
	case o.is("Disabled") == "True":
		return "Disabled"
	}
	return ""
}

// waitForOperators wants several good looks in a row: after a roll-out the
// operators take turns. It looks at its own pace and starts over when broken off.
func (f *fixup) waitForOperators(ctx context.Context) error {
	var last error
	for good := 0; good < goodLooks; {
		err := f.lookAtOperators(ctx)
		switch {
		case step.Final(err):
			return err
		case ctx.Err() != nil:
			return step.Interrupted(ctx, last)
		case err == nil:
			good++
		default:
			good, last = 0, err
			f.say(err)
		}
		if good < goodLooks && !step.Pause(ctx, f.Settle) {
			return step.Interrupted(ctx, last)
		}
	}
	return nil
}

func (f *fixup) lookAtOperators(ctx context.Context) error {
	var list struct{ Items []operator }
	err := f.within(ctx, func(api *guest.API) error { return api.Get(ctx, operatorObject, &list) })
	if err != nil {
		return err
	}
	var troubled []string
	for _, o := range list.Items {
		if t := o.trouble(); t != "" {
			troubled = append(troubled, o.Name+" ("+t+")")
		}
	}
	switch {
	case len(list.Items) == 0:
		return fmt.Errorf("there are no cluster operators")
	case len(troubled) > 0:
		return fmt.Errorf("%d of %d operators do not settle: %.600s", len(troubled), len(list.Items), strings.Join(troubled, ", "))
	}
	return nil
}

// say prints an error when it differs from the last one.
func (f *fixup) say(err error) {
	if text := err.Error(); text != f.said {
		f.said = text
		fmt.Fprintln(f.out, text)
	}
}
