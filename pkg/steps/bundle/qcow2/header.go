package qcow2

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// Magic starts every image.
const Magic = "QFI\xfb"

// HeaderLength is how much of an image ParseHeader wants to see.
const HeaderLength = 112

// Bounds on what a header may ask for; those of L1 and clusters are QEMU's own.
const (
	maxVirtualSize = 1 << 40
	maxL1Bytes     = 32 << 20
	minClusterBits = 9
	maxClusterBits = 21
)

// Incompatible features that change how data is read, and the one that does not.
const (
	dirtyBit    = 0 // reference counts are out of date: nothing here reads them
	compression = 3
)

var refused = map[int]string{1: "corrupt bit", 2: "external data file", 4: "extended L2 entries"}

// Header is what the start of an image tells.
type Header struct {
	// VirtualSize is the size of the disk that a guest sees.
	VirtualSize int64

	clusterBits uint
	l1Offset    int64
	l1Entries   int
	zeroFlag    bool // version 3: an L2 entry can say that a cluster is zero
	zstd        bool
}

// ParseHeader checks the first bytes of an image, and says what is not supported.
func ParseHeader(raw []byte) (Header, error) {
	if len(raw) < len(Magic) || string(raw[:len(Magic)]) != Magic {
		return Header{}, fmt.Errorf("not a qcow2 image")
	}
	if len(raw) < HeaderLength {
		return Header{}, fmt.Errorf("image ends within its header")
	}
	word, long := binary.BigEndian.Uint32, binary.BigEndian.Uint64
	switch {
	case long(raw[8:]) != 0:
		return Header{}, fmt.Errorf("backing file is not supported: the image must stand alone")
	case word(raw[32:]) != 0:
		return Header{}, fmt.Errorf("encryption is not supported")
	}
	h := Header{}
	switch version := word(raw[4:]); version {
	case 2:
	case 3:
		if err := h.features(raw); err != nil {
			return Header{}, err
		}
	default:
		return Header{}, fmt.Errorf("version %d is not supported, only 2 and 3", version)
	}
	return h, h.geometry(word(raw[20:]), long(raw[24:]), word(raw[36:]), long(raw[40:]))
}

// features reads what only version 3 has.
func (h *Header) features(raw []byte) error {
	h.zeroFlag = true
	for set := binary.BigEndian.Uint64(raw[72:]); set != 0; set &= set - 1 {
		bit := bits.TrailingZeros64(set)
		if name := refused[bit]; name != "" {
			return fmt.Errorf("incompatible feature %q is not supported", name)
		}
		if bit != dirtyBit && bit != compression {
			return fmt.Errorf("unknown incompatible feature bit %d", bit)
		}
	}
	if binary.BigEndian.Uint32(raw[100:]) <= 104 {
		return nil
	}
	switch kind := raw[104]; kind {
	case 0:
	case 1:
		h.zstd = true
	default:
		return fmt.Errorf("compression type %d is not supported, only zlib and zstd", kind)
	}
	return nil
}

func (h *Header) geometry(clusterBits uint32, size uint64, l1Entries uint32, l1Offset uint64) error {
	if clusterBits < minClusterBits || clusterBits > maxClusterBits {
		return fmt.Errorf("clusters of 2^%d bytes are not supported", clusterBits)
	}
	if size == 0 || size > maxVirtualSize {
		return fmt.Errorf("virtual size of %d bytes is not supported, only up to %d", size, int64(maxVirtualSize))
	}
	h.VirtualSize, h.clusterBits = int64(size), uint(clusterBits)
	perEntry := h.clusterSize() * h.l2Entries()
	h.l1Entries = int((h.VirtualSize + perEntry - 1) / perEntry)
	switch {
	case h.l1Entries*8 > maxL1Bytes:
		return fmt.Errorf("L1 table of %d entries is not supported", h.l1Entries)
	case int64(l1Entries) < int64(h.l1Entries):
		return fmt.Errorf("L1 table has %d entries where the virtual size needs %d", l1Entries, h.l1Entries)
	case l1Offset == 0 || l1Offset%uint64(h.clusterSize()) != 0 || l1Offset > 1<<56:
		return fmt.Errorf("L1 table at %#x is out of place", l1Offset)
	}
	h.l1Offset = int64(l1Offset)
	return nil
}

func (h *Header) clusterSize() int64 { return 1 << h.clusterBits }

func (h *Header) l2Entries() int64 { return h.clusterSize() / 8 }
