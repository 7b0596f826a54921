package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

const sector = 512

// Root is the number of the partition with the root file system, as in RHCOS.
const Root = 4

// Script is sfdisk's input for the layout of RHCOS.
const Script = `label: gpt
size=1MiB, type=21686148-6449-6E6F-744E-656564454649, name="BIOS-BOOT"
size=127MiB, type=C12A7328-F81F-11D2-BA4B-00A0C93EC93B, name="EFI-SYSTEM"
size=384MiB, type=0FC63DAF-8483-4772-8E79-3D69D8477DE4, name="boot"
type=0FC63DAF-8483-4772-8E79-3D69D8477DE4, name="root"
`

// Extent is where a partition lies, in bytes.
type Extent struct{ Offset, Size uint64 }

// Partition reads the place of a partition out of the primary GPT.
func Partition(file string, number int) (Extent, error) {
	f, err := os.Open(file)
	if err != nil {
		return Extent{}, fmt.Errorf("open the disk: %w", err)
	}
	defer f.Close()
	header := make([]byte, sector)
	if _, err := f.ReadAt(header, sector); err != nil {
		return Extent{}, fmt.Errorf("read the partition table of %s: %w", file, err)
	}
	if string(header[:8]) != "EFI PART" {
		return Extent{}, fmt.Errorf("read the partition table of %s: not bootable, no GPT", file)
	}
	return entry(f, header, number)
}

func entry(f io.ReaderAt, header []byte, number int) (Extent, error) {
	table := binary.LittleEndian.Uint64(header[72:])
	count, size := binary.LittleEndian.Uint32(header[80:]), binary.LittleEndian.Uint32(header[84:])
	if number < 1 || uint32(number) > count || size < 128 || size > 4096 {
		return Extent{}, fmt.Errorf("read partition %d: the table has %d entries of %d bytes", number, count, size)
	}
	record := make([]byte, size)
	if _, err := f.ReadAt(record, int64(table)*sector+int64(number-1)*int64(size)); err != nil {
		return Extent{}, fmt.Errorf("read partition %d: %w", number, err)
	}
	from, to := binary.LittleEndian.Uint64(record[32:]), binary.LittleEndian.Uint64(record[40:])
	if from == 0 || to < from {
		return Extent{}, errors.New("read the partition table: no such partition")
	}
	return Extent{Offset: from * sector, Size: (to - from + 1) * sector}, nil
}
