package fixupguest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"opdev.io/guestcluster/pkg/steps/guest"
	"opdev.io/guestcluster/pkg/steps/step"
)

// Both places hold keys that open the guest. The second is the machine config
// operator's; all files here are written as core, for the operator removes a
// .ssh that core does not own.
const (
	authorizedKeys = "/home/core/.ssh/authorized_keys"
	ignitionKeys   = "/home/core/.ssh/authorized_keys.d/ignition"
)

// swapKeys replaces the public bundle's key, which anyone can have, by the
// instance's: add, log in with it, then remove all others.
func (f *fixup) swapKeys(ctx context.Context) error {
	present, err := f.readKeys(ctx, authorizedKeys)
	if err != nil {
		return err
	}
	if !bytes.Equal(present, f.id.authorized) {
		if err := f.replaceKeys(ctx, present); err != nil {
			return err
		}
	}
	if err := f.clearIgnition(ctx); err != nil {
		return err
	}
	if len(f.dialer.Keys) > 1 { // only before the approver dials too
		f.dialer.Keys = []guest.Key{f.id.instanceKey}
	}
	f.link.Close() // what follows shows that the new key opens the guest
	return f.proveBootKeyDead(ctx)
}

// replaceKeys never leaves the guest without a key that was seen to work.
func (f *fixup) replaceKeys(ctx context.Context, present []byte) error {
	if !slices.ContainsFunc(bytes.Split(present, []byte("\n")), f.isOurs) {
		if err := f.link.Write(ctx, guest.Core, authorizedKeys, 0o600, appendLine(present, f.id.authorized)); err != nil {
			return err
		}
	}
	works, err := f.dialer.Accepts(ctx, f.id.instanceKey)
	if err != nil {
		return err
	}
	if !works {
		return fmt.Errorf("the guest does not accept the instance's key though %s has it", authorizedKeys)
	}
	return f.link.Write(ctx, guest.Core, authorizedKeys, 0o600, f.id.authorized)
}

// clearIgnition leaves the file alone when the operator wrote our key into it.
func (f *fixup) clearIgnition(ctx context.Context) error {
	present, err := f.readKeys(ctx, ignitionKeys)
	if err != nil || len(present) == 0 || f.isOurs(present) {
		return err
	}
	_, err = f.link.Run(ctx, guest.Command{Doing: "remove " + ignitionKeys, Line: "rm -f " + ignitionKeys})
	return err
}

func (f *fixup) isOurs(line []byte) bool {
	return bytes.Equal(bytes.TrimSpace(line), bytes.TrimSpace(f.id.authorized))
}

func (f *fixup) readKeys(ctx context.Context, file string) ([]byte, error) {
	present, err := f.link.Read(ctx, guest.Core, file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return present, err
}

// stubborn is how often a swap may turn out to be undone. The machine config
// operator brings the key back as long as 99-master-ssh has it, which a step
// that was killed in between leaves behind.
const stubborn = 20

// proveBootKeyDead shows that a fresh connection with the boot key alone fails.
func (f *fixup) proveBootKeyDead(ctx context.Context) error {
	alive, err := f.dialer.Accepts(ctx, f.id.bootKey)
	if err != nil {
		return err
	}
	if !alive {
		return nil
	}
	if f.alive++; f.alive < stubborn {
		return errors.New("the guest still accepts the bundle's SSH key after the swap")
	}
	return step.InfraError("the guest still accepts the bundle's public SSH key after the swap: its SSH server reads keys from a place that this version does not know")
}

func appendLine(content, line []byte) []byte {
	content = slices.Clone(content)
	if len(content) > 0 && content[len(content)-1] != '\n' {
		content = append(content, '\n')
	}
	return append(content, line...)
}
