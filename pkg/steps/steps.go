package steps

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"opdev.io/guestcluster/pkg/steps/acquire"
	"opdev.io/guestcluster/pkg/steps/bootvm"
	"opdev.io/guestcluster/pkg/steps/createdatavolume"
	"opdev.io/guestcluster/pkg/steps/creategoldenvolume"
	"opdev.io/guestcluster/pkg/steps/fetchbundle"
	"opdev.io/guestcluster/pkg/steps/fixupguest"
	"opdev.io/guestcluster/pkg/steps/gather"
	"opdev.io/guestcluster/pkg/steps/publishbundle"
	"opdev.io/guestcluster/pkg/steps/publishkubeconfig"
	"opdev.io/guestcluster/pkg/steps/release"
	"opdev.io/guestcluster/pkg/steps/step"
)

// Table lists every step of the image.
func Table() []step.Command {
	return []step.Command{
		acquire.Command(),
		bootvm.Command(),
		createdatavolume.Command(),
		creategoldenvolume.Command(),
		fetchbundle.Command(),
		fixupguest.Command(),
		gather.Command(),
		publishbundle.Command(),
		publishkubeconfig.Command(),
		release.Command(),
	}
}

// Find returns the step of that name.
func Find(name string) (step.Command, bool) {
	for _, command := range Table() {
		if command.Name == name {
			return command, true
		}
	}
	return step.Command{}, false
}

// Main runs the step that args name and returns the process's exit code.
// Without arguments it prints the table.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		printTable(stdout)
		return 0
	}
	command, ok := Find(args[0])
	if !ok {
		printTable(stderr)
		fmt.Fprintf(stderr, "steps: no step is named %q\n", args[0])
		return step.ExitUser
	}
	return command.Main(ctx, args[1:], stderr)
}

func printTable(w io.Writer) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, command := range Table() {
		fmt.Fprintf(table, "%s\t%s\n", command.Name, command.Short)
	}
	table.Flush()
}
