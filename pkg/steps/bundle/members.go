package bundle

import (
	"errors"
	"io"

	"opdev.io/guestcluster/pkg/steps/bundle/qcow2"
	"opdev.io/guestcluster/pkg/steps/step"
)

const (
	// maxSmall bounds the members that are kept in memory: all but disk and oc.
	maxSmall = 1 << 20
	// headLength tells a disk; a multiple of what files have as blocks.
	headLength = 64 << 10
)

// Disk is the file that takes an archive's disk.
type Disk interface {
	io.WriterAt
	Truncate(size int64) error
}

// Members is what an archive holds. Members that nobody asks for are skipped.
type Members struct {
	// Info is crc-bundle-info.json, checked.
	Info *Info
	// Header is the head of the disk.
	Header qcow2.Header

	source *Source
	small  map[string][]byte
	disk   string
	size   int64
}

// Peek reads an archive until its description and the head of its disk are seen.
func Peek(archive *Archive, source *Source) (*Members, error) {
	m := &Members{source: source, small: map[string][]byte{}}
	for {
		err := m.next(archive, nil)
		if errors.Is(err, io.EOF) {
			return m, m.complete(false)
		}
		if err != nil {
			return nil, err
		}
		if m.Info != nil && m.disk != "" {
			return m, m.diskIsNamed()
		}
	}
}

// Unpack reads all of an archive: the disk goes to a file of the caller's,
// small members are kept, the rest is skipped.
func Unpack(archive *Archive, source *Source, disk Disk) (*Members, error) {
	m := &Members{source: source, small: map[string][]byte{}}
	for {
		err := m.next(archive, disk)
		if errors.Is(err, io.EOF) {
			return m, m.complete(true)
		}
		if err != nil {
			return nil, err
		}
	}
}

// Key is the private key of user core at first boot.
func (m *Members) Key() []byte { return m.small[m.Info.Key] }

// next takes one member. What is a disk is told by its first bytes, for its
// name stands in a member that may come later.
func (m *Members) next(archive *Archive, disk Disk) error {
	name, length, err := archive.Next()
	if err != nil {
		return err
	}
	head := make([]byte, min(length, headLength))
	if _, err := io.ReadFull(archive, head); err != nil {
		return Damaged(err)
	}
	if len(head) >= len(qcow2.Magic) && string(head[:len(qcow2.Magic)]) == qcow2.Magic {
		return m.takeDisk(archive, disk, name, length, head)
	}
	if length > maxSmall {
		if name == InfoName {
			return step.UserError("%s is larger than %s", name, size(maxSmall))
		}
		return nil
	}
	rest, err := io.ReadAll(archive)
	if err != nil {
		return err
	}
	m.small[name] = append(head, rest...)
	if name == InfoName {
		m.Info, err = ParseInfo(m.small[name], m.source)
	}
	return err
}

func (m *Members) takeDisk(archive *Archive, disk Disk, name string, length int64, head []byte) (err error) {
	if m.disk != "" {
		return step.UserError("the bundle has two disks: %s and %s", m.disk, name)
	}
	if m.Header, err = qcow2.ParseHeader(head); err != nil {
		return step.UserError("disk %s: %w", name, err)
	}
	m.disk, m.size = name, length
	if disk == nil {
		return nil
	}
	if err := disk.Truncate(length); err != nil { // its end may be a hole
		return step.InfraError("write scratch file: %w", err)
	}
	if err := qcow2.WriteSparse(disk, head, 0); err != nil {
		return step.InfraError("write scratch file: %w", err)
	}
	return spool(archive, disk, int64(len(head)))
}

// spool writes what is left of a member to a file that has holes where it has.
func spool(member io.Reader, file io.WriterAt, offset int64) error {
	buffer := make([]byte, 1<<20)
	for {
		n, err := io.ReadFull(member, buffer)
		if werr := qcow2.WriteSparse(file, buffer[:n], offset); werr != nil {
			return step.InfraError("write scratch file: %w", werr)
		}
		offset += int64(n)
		switch {
		case err == nil:
		case !IsDamaged(err) && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)):
			return nil // the member's end
		default:
			return err
		}
	}
}

// complete checks that nothing is missing; all wants key and kubeconfig too.
func (m *Members) complete(all bool) error {
	if m.Info == nil {
		return step.UserError("%s is not in the bundle", InfoName)
	}
	if err := m.diskIsNamed(); err != nil || !all {
		return err
	}
	for _, name := range []string{m.Info.Key, m.Info.Kubeconfig} {
		if len(m.small[name]) == 0 {
			return step.UserError("%s, which %s names, is not in the bundle or no such file", name, InfoName)
		}
	}
	return nil
}

func (m *Members) diskIsNamed() error {
	switch {
	case m.Info == nil:
		return nil
	case m.disk == "":
		return step.UserError("disk %s, which %s names, is not in the bundle or no qcow2 image", m.Info.Disk, InfoName)
	case m.disk != m.Info.Disk:
		return step.UserError("the bundle's disk is %s, but %s names %s", m.disk, InfoName, m.Info.Disk)
	case m.size != m.Info.DiskSize:
		return step.UserError("unexpected disk image size: %s has %d bytes, not the %d that %s tells", m.disk, m.size, m.Info.DiskSize, InfoName)
	}
	return nil
}
