package bundletest

import (
	"encoding/binary"
	"math/rand/v2"
)

const cluster = 64 << 10

// VirtualSize is what a guest sees of Disk.
const VirtualSize = 3<<20 + 512

// Raw is the content of Disk: noise at the start, in the middle and at the end.
func Raw() []byte {
	raw := make([]byte, VirtualSize)
	noise := rand.NewChaCha8([32]byte{2})
	for _, at := range []int{0, 1 << 20, VirtualSize - 700} {
		_, _ = noise.Read(raw[at : at+600])
	}
	return raw
}

// Disk is a qcow2 image of Raw with holes of its own: clusters that are not
// there in the guest, and ones between tables and data in the file.
func Disk() []byte { return Image(Raw()) }

// Image makes a qcow2 image: header, L1, L2 and the clusters that are not zero.
func Image(raw []byte) []byte {
	put, long := binary.BigEndian.PutUint32, binary.BigEndian.PutUint64
	image := make([]byte, 3*cluster+128<<10)
	copy(image, "QFI\xfb")
	put(image[4:], 3)
	put(image[20:], 16)
	long(image[24:], uint64(len(raw)))
	put(image[36:], 1)
	long(image[40:], cluster)
	put(image[96:], 4)
	put(image[100:], 104)
	long(image[cluster:], 2*cluster|1<<63)
	for n := 0; n*cluster < len(raw); n++ {
		part := raw[n*cluster : min((n+1)*cluster, len(raw))]
		if !holds(part) {
			continue
		}
		long(image[2*cluster+n*8:], uint64(len(image))|1<<63)
		image = append(image, part...)
		image = append(image, make([]byte, cluster-len(part))...)
	}
	return image
}

func holds(data []byte) bool {
	for _, b := range data {
		if b != 0 {
			return true
		}
	}
	return false
}
