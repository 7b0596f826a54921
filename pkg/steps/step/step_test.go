package step

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

type runner func(context.Context) error

func (r runner) Run(ctx context.Context) error { return r(ctx) }

func TestExitCode(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		code int
	}{
		"nothing":      {nil, 0},
		"user":         {UserError("x"), ExitUser},
		"infra":        {InfraError("x"), ExitInfra},
		"timeout":      {TimeoutError("x"), ExitTimeout},
		"interrupted":  {InterruptedError("x"), ExitInterrupted},
		"wrapped":      {errors.Join(errors.New("y"), UserError("x")), ExitUser},
		"deadline":     {context.DeadlineExceeded, ExitTimeout},
		"unclassified": {errors.New("x"), ExitInfra},
	} {
		if got := ExitCode(tc.err); got != tc.code {
			t.Errorf("%s: exit code %d, want %d", name, got, tc.code)
		}
	}
}

func TestASignalIsNobodysFault(t *testing.T) {
	for name, tc := range map[string]struct {
		err    error
		signal bool
		code   int
	}{
		"all is done":                     {nil, true, 0},
		"a request was cut":               {context.Canceled, true, ExitInterrupted},
		"a connection was cut":            {errors.New("closed"), true, ExitInterrupted},
		"it was called the cluster's":     {InfraError("closed"), true, ExitInterrupted},
		"the user's mistake stays one":    {UserError("x"), true, ExitUser},
		"a deadline that is over as well": {TimeoutError("x"), true, ExitTimeout},
		"no signal":                       {InfraError("closed"), false, ExitInfra},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			command := Command{Name: "x", New: func(*flag.FlagSet, io.Writer) Runner {
				return runner(func(context.Context) error {
					if tc.signal {
						stop()
					}
					return tc.err
				})
			}}
			if got := command.Main(ctx, nil, io.Discard); got != tc.code {
				t.Errorf("exit code %d, want %d", got, tc.code)
			}
		})
	}
}

func TestAFailingStepSaysWhyInItsResult(t *testing.T) {
	path := filepath.Join(t.TempDir(), "failure")
	command := Command{Name: "x", New: func(flags *flag.FlagSet, _ io.Writer) Runner {
		BindFailure(flags)
		return runner(func(context.Context) error { return UserError("%s", strings.Repeat("é", 4000)) })
	}}
	if err := command.Execute(context.Background(), []string{"--failure-path=" + path}, io.Discard); ExitCode(err) != ExitUser {
		t.Errorf("error %v", err)
	}
	if raw, err := os.ReadFile(path); err != nil || len(raw) == 0 || len(raw) > maxFailure {
		t.Errorf("%d bytes, %v", len(raw), err)
	}
}

func TestURLsAreToldWithoutWhatIsSecret(t *testing.T) {
	const signed = "https://me:canary@h/disk?sig=canary"
	path, out := filepath.Join(t.TempDir(), "failure"), &strings.Builder{}
	command := Command{Name: "x", New: func(flags *flag.FlagSet, progress io.Writer) Runner {
		BindFailure(flags)
		return runner(func(context.Context) error {
			fmt.Fprintf(progress, "looking at %s\n", signed)
			return InfraError("%s: 503", signed)
		})
	}}
	if code := command.Main(context.Background(), []string{"--failure-path=" + path}, out); code != ExitInfra {
		t.Errorf("exit code %d", code)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text := out.String() + string(raw); strings.Contains(text, "canary") || strings.Count(text, "h/disk?") != 4 || strings.Count(text, ": 503") != 2 {
		t.Errorf("it said %q", text)
	}
}

func TestAFailureEndsWithTheLastLines(t *testing.T) {
	path, log := filepath.Join(t.TempDir(), "failure"), &strings.Builder{}
	command := Command{Name: "x", New: func(flags *flag.FlagSet, progress io.Writer) Runner {
		BindFailure(flags)
		return runner(func(context.Context) error {
			for n := range 9 {
				fmt.Fprintf(progress, "line %d\n\n", n)
			}
			fmt.Fprint(progress, "token: hunter2\n"+strings.Repeat("y ", 500)+"\nunfinished")
			return InfraError("no room; password=hunter2")
		})
	}}
	if err := command.Execute(context.Background(), []string{"--failure-path=" + path}, log); ExitCode(err) != ExitInfra {
		t.Errorf("error %v", err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := "no room; password=[redacted]; last lines: line 6 | line 7 | line 8 | token: [redacted] | y y"
	if got := string(raw); !strings.HasPrefix(got, want) || len(got) > len(want)+tailLength || strings.Contains(got, "hunter2") {
		t.Errorf("got %q", got)
	}
	if !strings.Contains(log.String(), "line 0\n") || !strings.HasSuffix(log.String(), "unfinished") {
		t.Errorf("progress is lost: %q", log.String())
	}
}

func TestRetry(t *testing.T) {
	pause := wait.Backoff{Duration: time.Millisecond, Steps: 1}
	tries := 0
	err := Retry(context.Background(), pause, io.Discard, func(context.Context) error {
		if tries++; tries < 3 {
			return errors.New("not yet")
		}
		return UserError("never")
	})
	if tries != 3 || ExitCode(err) != ExitUser {
		t.Errorf("%d tries, %v", tries, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	err = Retry(ctx, pause, io.Discard, func(context.Context) error { return errors.New("no route") })
	if ExitCode(err) != ExitTimeout || !strings.Contains(err.Error(), "no route") {
		t.Errorf("a timeout does not say what was wrong: %v", err)
	}
}
