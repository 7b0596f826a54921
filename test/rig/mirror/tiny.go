package mirror

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"os"

	"golang.org/x/crypto/ssh"
)

const tinyKubeconfig = `apiVersion: v1
kind: Config
clusters:
- name: crc
  cluster: {server: "https://api.crc.testing:6443"}
contexts:
- name: admin
  context: {cluster: crc, user: admin}
current-context: admin
users:
- name: admin
  user: {}
`

// tinyDisk writes a sparse raw disk: a boot sector's mark, then pieces of noise
// far from each other, the last at the very end.
func tinyDisk(name string, size int64) error {
	f, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("make a disk: %w", err)
	}
	defer f.Close()
	const piece = 64 << 10
	noise := mathrand.NewChaCha8([32]byte{})
	buffer := make([]byte, piece)
	for _, at := range []int64{1 << 20, 4 << 20, size / 3, size / 2, size - piece} {
		_, _ = noise.Read(buffer)
		if _, err := f.WriteAt(buffer, at); err != nil {
			return fmt.Errorf("write the disk: %w", err)
		}
	}
	if _, err := f.WriteAt([]byte{0x55, 0xaa}, 510); err != nil {
		return fmt.Errorf("write the disk: %w", err)
	}
	return errors.Join(f.Truncate(size), f.Close())
}

// tinyKey writes a key of the kind that bundles have.
func tinyKey(name string) error {
	key, err := ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make a key: %w", err)
	}
	block, err := ssh.MarshalPrivateKey(key, "core")
	if err != nil {
		return fmt.Errorf("encode the key: %w", err)
	}
	return os.WriteFile(name, pem.EncodeToMemory(block), 0o600)
}
