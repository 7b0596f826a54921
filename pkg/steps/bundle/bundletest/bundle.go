package bundletest

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/crypto/ssh"
)

// Version and Arch of the bundle that Default describes.
const (
	Version = "4.19.3"
	Arch    = "amd64"
)

// FileName of that bundle on the mirror.
const FileName = "crc_libvirt_4.19.3_amd64.crcbundle"

// Top is the directory in it.
const Top = "crc_libvirt_4.19.3_amd64"

// Key is the bundle's private key.
var Key = sync.OnceValue(func() []byte { return newKey("") })

// LockedKey is a private key with a passphrase.
var LockedKey = sync.OnceValue(func() []byte { return newKey("sesame") })

func newKey(passphrase string) []byte {
	private, err := ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	if err != nil {
		panic(err)
	}
	var block *pem.Block
	if passphrase == "" {
		block, err = ssh.MarshalPrivateKey(private, "core")
	} else {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(private, "core", []byte(passphrase))
	}
	if err != nil {
		panic(err)
	}
	return pem.EncodeToMemory(block)
}

// Object is a JSON object.
type Object = map[string]any

// Info is the description of a bundle with Disk, as snc writes it.
func Info() Object {
	return Object{
		"version": "1.4", "type": "snc", "name": Top, "arch": Arch,
		"buildInfo": Object{"buildTime": "2026-01-02T03:04:05+00:00", "openshiftInstallerVersion": "openshift-install 4.19.3", "sncVersion": "git0"},
		"clusterInfo": Object{
			"openshiftVersion": Version, "clusterName": "crc", "baseDomain": "testing", "appsDomain": "apps-crc.testing",
			"sshPrivateKeyFile": "id_ecdsa_crc", "kubeConfig": "kubeconfig",
		},
		"nodes": []any{Object{"kind": []any{"master", "worker"}, "hostname": "crc", "diskImage": "crc.qcow2", "internalIP": "192.168.126.11"}},
		"storage": Object{
			"diskImages": []any{Object{"name": "crc.qcow2", "format": "qcow2", "size": fmt.Sprint(len(Disk())), "sha256sum": "0"}},
			"fileList":   []any{Object{"name": "oc", "type": "oc-executable", "size": "5", "sha256sum": "0"}},
		},
		"driverInfo": Object{"name": "libvirt"},
	}
}

// Members are the files of a bundle, in the order that snc packs them.
func Members(info Object) []Member {
	raw, err := json.Marshal(info)
	if err != nil {
		panic(err)
	}
	return []Member{
		{Name: "crc-bundle-info.json", Data: raw},
		{Name: "crc.qcow2", Data: Disk(), Sparse: GNU},
		{Name: "id_ecdsa_crc", Data: Key()},
		{Name: "kubeconfig", Data: []byte("apiVersion: v1\nkind: Config\n")},
		{Name: "oc", Data: []byte("#!oc\n")},
	}
}

// Default is a bundle without fault.
var Default = sync.OnceValue(func() []byte { return Zstd(Tar(Top, Members(Info())...)) })

// Zstd packs, with a window that is quick to make.
func Zstd(raw []byte) []byte {
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out, zstd.WithWindowSize(1<<20), zstd.WithEncoderConcurrency(1))
	if err != nil {
		panic(err)
	}
	_, _ = w.Write(raw)
	if err := w.Close(); err != nil {
		panic(err)
	}
	return out.Bytes()
}

// ZstdWindow makes a frame that asks for a window of 2^log bytes; its blocks
// are stored as they are.
func ZstdWindow(raw []byte, log int) []byte {
	const most = 128 << 10
	out := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, byte(log-10) << 3}
	for {
		n := min(len(raw), most)
		head := n << 3
		if n == len(raw) {
			head |= 1
		}
		out = append(append(out, byte(head), byte(head>>8), byte(head>>16)), raw[:n]...)
		if raw = raw[n:]; len(raw) == 0 {
			return out
		}
	}
}

// Without leaves a member out.
func Without(t *testing.T, members []Member, name string) []Member {
	t.Helper()
	var kept []Member
	for _, m := range members {
		if m.Name != name {
			kept = append(kept, m)
		}
	}
	if len(kept) != len(members)-1 {
		t.Fatalf("no member %s", name)
	}
	return kept
}

// SHA256 is a checksum in hexadecimal.
func SHA256(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}
