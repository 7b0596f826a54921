package qcow2

import (
	"compress/flate"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

const (
	offsetMask     = 0x00fffffffffffe00
	compressedFlag = 1 << 62
	zeroBit        = 1
	sector         = 512
	// maxRun bounds how much is read at once.
	maxRun = 2 << 20
)

// Image is an opened image.
type Image struct {
	Header
	file io.ReaderAt
	l1   []uint64
}

// Open reads an image's header and first table. It takes the file as it is:
// nothing that the image names is opened.
func Open(file io.ReaderAt) (*Image, error) {
	head := make([]byte, HeaderLength)
	n, err := file.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read header: %w", err)
	}
	header, err := ParseHeader(head[:n])
	if err != nil {
		return nil, err
	}
	image := &Image{Header: header, file: file}
	image.l1, err = image.table(header.l1Offset, header.l1Entries)
	return image, err
}

func (i *Image) table(offset int64, entries int) ([]uint64, error) {
	raw := make([]byte, entries*8)
	if _, err := i.file.ReadAt(raw, offset); err != nil {
		return nil, fmt.Errorf("read table at %#x: %w", offset, err)
	}
	table := make([]uint64, entries)
	for n := range table {
		table[n] = binary.BigEndian.Uint64(raw[n*8:])
	}
	return table, nil
}

// CopyTo writes all that is not zero to raw, which reads as zero before, and
// tells progress how far it is from time to time.
func (i *Image) CopyTo(ctx context.Context, raw io.WriterAt, progress func(done int64)) error {
	c := &copier{Image: i, raw: raw, buffer: make([]byte, max(maxRun, i.clusterSize()))}
	for n, entry := range i.l1 {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		start := int64(n) * i.clusterSize() * i.l2Entries()
		progress(start)
		if entry&offsetMask == 0 {
			continue
		}
		l2, err := i.table(int64(entry&offsetMask), int(i.l2Entries()))
		if err != nil {
			return err
		}
		if err := c.clusters(start, l2); err != nil {
			return err
		}
	}
	progress(i.VirtualSize)
	return nil
}

// copier copies clusters; those that lie side by side in one go.
type copier struct {
	*Image
	raw     io.WriterAt
	buffer  []byte
	run     run
	inflate io.ReadCloser
	zstd    *zstd.Decoder
}

// run is a region of the disk and where the file has it.
type run struct{ guest, host, length int64 }

func (c *copier) clusters(start int64, l2 []uint64) error {
	size := c.clusterSize()
	for n, entry := range l2 {
		guest := start + int64(n)*size
		if guest >= c.VirtualSize {
			break
		}
		host := int64(entry & offsetMask)
		switch {
		case entry&compressedFlag != 0:
			if err := c.decompress(guest, entry); err != nil {
				return fmt.Errorf("decompress cluster at %#x: %w", guest, err)
			}
		case host == 0 || (c.zeroFlag && entry&zeroBit != 0):
		case host%size != 0:
			return fmt.Errorf("cluster of %#x at %#x is out of place", guest, host)
		case c.run.length > 0 && c.run.length+size <= maxRun && guest == c.run.guest+c.run.length && host == c.run.host+c.run.length:
			c.run.length += size
		default:
			if err := c.flush(); err != nil {
				return err
			}
			c.run = run{guest, host, size}
		}
	}
	return c.flush()
}

func (c *copier) flush() error {
	if c.run.length == 0 {
		return nil
	}
	data := c.buffer[:c.run.length]
	n, err := c.file.ReadAt(data, c.run.host)
	if err != nil && (n == 0 || !errors.Is(err, io.EOF)) {
		return fmt.Errorf("read cluster at %#x: %w", c.run.host, err)
	}
	clear(data[n:]) // the file's last cluster may be cut where it is zero
	guest := c.run.guest
	c.run = run{}
	return c.write(data, guest)
}

func (c *copier) write(data []byte, guest int64) error {
	return WriteSparse(c.raw, data[:min(int64(len(data)), c.VirtualSize-guest)], guest)
}

// decompress copies one compressed cluster. Its length is known only in sectors.
func (c *copier) decompress(guest int64, entry uint64) error {
	if err := c.flush(); err != nil {
		return err
	}
	shift := 62 - (c.clusterBits - 8)
	descriptor := entry & (compressedFlag - 1)
	host := int64(descriptor & (1<<shift - 1))
	length := int64(descriptor>>shift+1)*sector - host%sector
	source, err := c.decoder(io.NewSectionReader(c.file, host, length))
	if err != nil {
		return err
	}
	data := c.buffer[:c.clusterSize()]
	if _, err := io.ReadFull(source, data); err != nil {
		return err
	}
	return c.write(data, guest)
}

// decoder reuses one decoder for all clusters.
func (c *copier) decoder(source io.Reader) (io.Reader, error) {
	switch {
	case c.Header.zstd && c.zstd == nil:
		made, err := zstd.NewReader(source, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(1<<maxClusterBits))
		c.zstd = made
		return made, err
	case c.Header.zstd:
		return c.zstd, c.zstd.Reset(source)
	case c.inflate == nil:
		c.inflate = flate.NewReader(source)
		return c.inflate, nil
	}
	return c.inflate, c.inflate.(flate.Resetter).Reset(source, nil)
}
