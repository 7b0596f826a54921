package fixupguest

import (
	"context"
	"time"

	"opdev.io/guestcluster/pkg/steps/guest"
)

// kubeletTimeout covers the units that the kubelet pulls in.
const kubeletTimeout = 3 * time.Minute

// startKubelet also enables it: without that the cluster stays down after a
// reboot of the guest. The approver runs from here to the end of the step.
func (f *fixup) startKubelet(ctx context.Context) error {
	// The guest may refuse this one without harm.
	if _, err := f.link.Try(ctx, guest.Command{Doing: "reload systemd", Line: "sudo -n systemctl daemon-reload", Timeout: time.Minute}); err != nil {
		return err
	}
	for _, c := range []guest.Command{
		{Doing: "enable the kubelet", Line: "sudo -n systemctl enable kubelet", Timeout: time.Minute},
		{Doing: "start the kubelet", Line: "sudo -n systemctl start kubelet", Timeout: kubeletTimeout},
	} {
		if _, err := f.link.Run(ctx, c); err != nil {
			return err
		}
	}
	f.startApprover(ctx)
	return nil
}
