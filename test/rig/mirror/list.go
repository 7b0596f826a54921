package mirror

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/clearsign"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"opdev.io/guestcluster/test/rig/builds"
)

const (
	listName      = "sha256sum.txt"
	signatureName = "sha256sum.txt.sig"
	// PublicKeyName is the file beside a signature that verifies it.
	PublicKeyName = "signing-key.asc"
	signingKey    = "signing-key.private"
)

// list is sha256sum.txt for a version: the bundle, and neighbours that are not
// there, some with names that a careless search takes for the bundle's.
func list(o Options, sum string) string {
	var text strings.Builder
	line := func(sum, name string) { fmt.Fprintf(&text, "%s  %s\n", sum, name) }
	other := func(name string) { line(strings.Repeat(digest(name), 6)[:64], name) }
	other(o.Name() + ending + ".asc")
	other("old_" + o.File())
	other(bundleName("hyperv", o.Version, "amd64") + ending)
	for _, arch := range []string{"amd64", "arm64"} {
		name := bundleName("libvirt", o.Version, arch)
		other(name + "_1700000000" + ending)
		if arch == o.Arch {
			line(sum, name+ending)
		} else {
			other(name + ending)
		}
		other(bundleName("vfkit", o.Version, arch) + ending)
	}
	return text.String()
}

// writeLists puts sha256sum.txt, its signature and the public key into dir.
func writeLists(dir string, o Options, signer *openpgp.Entity) error {
	_, sum, err := measure(filepath.Join(dir, o.File()))
	if err != nil {
		return err
	}
	text := []byte(list(o, sum))
	signed, err := sign(text, signer)
	if err != nil {
		return err
	}
	public, err := armored(openpgp.PublicKeyType, func(w *bytes.Buffer) error { return signer.Serialize(w) })
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, listName), text, 0o644),
		os.WriteFile(filepath.Join(dir, signatureName), signed, 0o644),
		os.WriteFile(filepath.Join(dir, PublicKeyName), public, 0o644))
}

// sign returns a clear-signed message that contains the text.
func sign(text []byte, signer *openpgp.Entity) ([]byte, error) {
	var signed bytes.Buffer
	w, err := clearsign.Encode(&signed, signer.PrivateKey, nil)
	if err != nil {
		return nil, fmt.Errorf("sign the list: %w", err)
	}
	if _, err := w.Write(text); err != nil {
		return nil, fmt.Errorf("sign the list: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("sign the list: %w", err)
	}
	signed.WriteByte('\n')
	return signed.Bytes(), nil
}

// loadSigner returns the rig's own OpenPGP key, made on first use.
func loadSigner(cacheDir string) (*openpgp.Entity, error) {
	name := filepath.Join(cacheDir, signingKey)
	unlock, err := builds.Lock(name + ".lock")
	if err != nil {
		return nil, err
	}
	defer unlock()
	text, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return newSigner(name)
	}
	if err != nil {
		return nil, fmt.Errorf("read the signing key: %w", err)
	}
	keys, err := openpgp.ReadArmoredKeyRing(bytes.NewReader(text))
	if err != nil || len(keys) != 1 {
		return nil, fmt.Errorf("read the signing key: %d keys, %w (remove %s)", len(keys), err, name)
	}
	return keys[0], nil
}

func newSigner(name string) (*openpgp.Entity, error) {
	signer, err := openpgp.NewEntity("Guestcluster rig", "", "rig@rig.test", &packet.Config{Algorithm: packet.PubKeyAlgoEdDSA})
	if err != nil {
		return nil, fmt.Errorf("make a signing key: %w", err)
	}
	text, err := armored(openpgp.PrivateKeyType, func(w *bytes.Buffer) error { return signer.SerializePrivate(w, nil) })
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(name+".partial", text, 0o600); err != nil {
		return nil, fmt.Errorf("keep the signing key: %w", err)
	}
	return signer, os.Rename(name+".partial", name)
}

func armored(kind string, serialize func(*bytes.Buffer) error) ([]byte, error) {
	var plain, text bytes.Buffer
	if err := serialize(&plain); err != nil {
		return nil, fmt.Errorf("write a key: %w", err)
	}
	w, err := armor.Encode(&text, kind, nil)
	if err != nil {
		return nil, fmt.Errorf("write a key: %w", err)
	}
	if _, err := w.Write(plain.Bytes()); err != nil {
		return nil, fmt.Errorf("write a key: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("write a key: %w", err)
	}
	return text.Bytes(), nil
}
