package guest_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"opdev.io/guestcluster/test/rig/guest"
)

func TestTry(t *testing.T) {
	ctx := context.Background()
	parts, err := guest.Build(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	disk := filepath.Join(os.TempDir(), "gtest", "try.img")
	start := time.Now()
	if err := guest.Copy(ctx, disk, parts.Disk); err != nil {
		t.Fatal(err)
	}
	t.Log("copied in", time.Since(start))
}
