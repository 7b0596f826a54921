package crc_test

import (
	"testing"
	"time"

	steps "opdev.io/guestcluster/pkg/steps/step"
)

func exitCode(err error) int { return steps.ExitCode(err) }

func TestABootedDiskBecomesAClusterOfItsOwn(t *testing.T) {
	w := newWorld(t, "certs=expired")
	w.run(w.fixer(2*time.Minute), 0, "")
	t.Logf("phases:\n%s", w.seconds())
	w.run(w.fixer(time.Minute), 0, "")
}
