package qcow2

import (
	"bytes"
	"io"
)

// block is the unit of holes: that of nearly all file systems.
const block = 4096

var zeros [block]byte

// WriteSparse writes data at offset, but no block that is zero.
func WriteSparse(w io.WriterAt, data []byte, offset int64) error {
	for start := 0; start < len(data); {
		end := start
		for end < len(data) && !zero(data[end:min(end+block, len(data))]) {
			end = min(end+block, len(data))
		}
		if end > start {
			if _, err := w.WriteAt(data[start:end], offset+int64(start)); err != nil {
				return err
			}
		}
		start = min(end+block, len(data)) // the block at end is zero, or data is over
	}
	return nil
}

func zero(data []byte) bool { return bytes.Equal(data, zeros[:len(data)]) }
