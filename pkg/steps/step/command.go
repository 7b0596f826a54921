package step

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"opdev.io/guestcluster/pkg/redact"
)

// Runner does a step's work. It is safe to run again after any failure.
type Runner interface {
	Run(ctx context.Context) error
}

// Command is one step of the image.
type Command struct {
	// Name of the subcommand.
	Name string
	// Short is one line for people.
	Short string
	// New declares the step's flags and returns what runs once they are
	// parsed. Progress lines go to progress.
	New func(flags *flag.FlagSet, progress io.Writer) Runner
}

// Flags returns the step's flag set, for those who check YAML against it.
func (c Command) Flags() *flag.FlagSet {
	flags, _ := c.build(io.Discard)
	return flags
}

// Main executes the step, says what went wrong and returns the exit code.
func (c Command) Main(ctx context.Context, args []string, stderr io.Writer) int {
	err := c.Execute(ctx, args, stderr)
	if err != nil {
		fmt.Fprintf(&clean{stderr}, "%s: %v\n", c.Name, err)
	}
	return ExitCode(err)
}

// clean passes texts on without what URLs may carry. Steps write whole lines.
type clean struct{ to io.Writer }

func (c *clean) Write(p []byte) (int, error) {
	if _, err := io.WriteString(c.to, redact.URLs(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Execute parses args and runs the step. What it tells, and why it failed,
// names URLs without user, password and query.
func (c Command) Execute(ctx context.Context, args []string, progress io.Writer) error {
	said := &tail{next: progress}
	flags, runner := c.build(&clean{said})
	if err := parse(flags, args); err != nil {
		return err
	}
	err := interruption(ctx, runner.Run(ctx))
	if path := flags.Lookup(failurePath); err != nil && path != nil {
		explain(path.Value.String(), said.failure(err))
	}
	return err
}

func (c Command) build(progress io.Writer) (*flag.FlagSet, Runner) {
	flags := flag.NewFlagSet(c.Name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	return flags, c.New(flags, progress)
}

// parse wants every flag to be given, if only as empty: the YAML is the one
// place for defaults, so a flag that it forgot is a mistake and not a choice.
func parse(flags *flag.FlagSet, args []string) error {
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return UserError("flags are documented as the params of the Task")
		}
		return UserError("%v", err)
	}
	if flags.NArg() > 0 {
		return UserError("unexpected argument %q", flags.Arg(0))
	}
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	var missing []string
	flags.VisitAll(func(f *flag.Flag) {
		if !given[f.Name] {
			missing = append(missing, "--"+f.Name)
		}
	})
	if len(missing) > 0 {
		return UserError("missing flag %s", strings.Join(missing, ", "))
	}
	return nil
}
