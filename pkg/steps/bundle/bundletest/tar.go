package bundletest

import (
	"archive/tar"
	"bytes"
	"fmt"
	"strings"
)

// Ways to write a file with holes.
const (
	// Dense writes the holes as zeros.
	Dense = ""
	// GNU writes old GNU sparse headers, as `tar cS` does.
	GNU = "gnu"
	// PAX writes PAX 1.0 sparse headers.
	PAX = "pax"
)

const (
	record = 512
	hole   = 4096
)

// Member is a file in an archive.
type Member struct {
	// Name without the top directory.
	Name string
	// Data of the file, or the target of a link.
	Data []byte
	// Sparse is how holes are written.
	Sparse string
	// Type is a type flag of package tar; zero for a file.
	Type byte
}

// extent is a region of a file that is no hole.
type extent struct{ offset, length int }

// Tar packs members below a directory.
func Tar(top string, members ...Member) []byte {
	var out bytes.Buffer
	out.Write(header(top+"/", 0, tar.TypeDir, nil))
	for _, m := range members {
		name := m.Name
		if top != "" {
			name = top + "/" + m.Name
		}
		switch {
		case m.Type != 0:
			out.Write(header(name, 0, m.Type, func(h []byte) { copy(h[157:], m.Data) }))
		case m.Sparse == GNU:
			writeGNU(&out, name, m.Data)
		case m.Sparse == PAX:
			writePAX(&out, name, m.Data)
		default:
			out.Write(header(name, len(m.Data), tar.TypeReg, nil))
			pad(&out, m.Data)
		}
	}
	out.Write(make([]byte, 2*record))
	return out.Bytes()
}

func writeGNU(out *bytes.Buffer, name string, data []byte) {
	extents, stored := split(data)
	out.Write(header(name, len(stored), tar.TypeGNUSparse, func(h []byte) {
		entries(h[386:], extents, 4)
		if len(extents) > 4 {
			h[482] = 1
		}
		copy(h[483:], fmt.Sprintf("%011o", len(data)))
	}))
	for rest := extents[min(4, len(extents)):]; len(rest) > 0; rest = rest[min(21, len(rest)):] {
		more := make([]byte, record)
		entries(more, rest, 21)
		if len(rest) > 21 {
			more[504] = 1
		}
		out.Write(more)
	}
	pad(out, stored)
}

func entries(into []byte, extents []extent, most int) {
	for i, e := range extents[:min(most, len(extents))] {
		copy(into[i*24:], fmt.Sprintf("%011o", e.offset))
		copy(into[i*24+12:], fmt.Sprintf("%011o", e.length))
	}
}

func writePAX(out *bytes.Buffer, name string, data []byte) {
	extents, stored := split(data)
	var list, records strings.Builder
	fmt.Fprintln(&list, len(extents))
	for _, e := range extents {
		fmt.Fprintf(&list, "%d\n%d\n", e.offset, e.length)
	}
	table := []byte(list.String())
	table = append(table, make([]byte, (record-len(table)%record)%record)...)
	for _, r := range [][2]string{{"GNU.sparse.major", "1"}, {"GNU.sparse.minor", "0"}, {"GNU.sparse.name", name}, {"GNU.sparse.realsize", fmt.Sprint(len(data))}} {
		records.WriteString(paxRecord(r[0], r[1]))
	}
	out.Write(header("PaxHeaders/sparse", records.Len(), tar.TypeXHeader, nil))
	pad(out, []byte(records.String()))
	out.Write(header("GNUSparseFile.0/sparse", len(table)+len(stored), tar.TypeReg, nil))
	pad(out, append(table, stored...))
}

func paxRecord(key, value string) string {
	length := len(key) + len(value) + 3
	for {
		text := fmt.Sprintf("%d %s=%s\n", length, key, value)
		if len(text) == length {
			return text
		}
		length = len(text)
	}
}

// split finds the holes; the last extent ends the file, empty or not.
func split(data []byte) (extents []extent, stored []byte) {
	for start := 0; start < len(data); start += hole {
		part := data[start:min(start+hole, len(data))]
		if len(bytes.Trim(part, "\x00")) == 0 {
			continue
		}
		if last := len(extents) - 1; last >= 0 && extents[last].offset+extents[last].length == start {
			extents[last].length += len(part)
		} else {
			extents = append(extents, extent{start, len(part)})
		}
		stored = append(stored, part...)
	}
	return append(extents, extent{len(data), 0}), stored
}

func header(name string, length int, kind byte, change func([]byte)) []byte {
	h := make([]byte, record)
	copy(h, name)
	copy(h[100:], "0000640\x000000000\x000000000\x00")
	copy(h[124:], fmt.Sprintf("%011o\x00%011o\x00        ", length, 1700000000))
	h[156] = kind
	copy(h[257:], "ustar  \x00")
	if kind != tar.TypeGNUSparse {
		copy(h[257:], "ustar\x0000")
	}
	if change != nil {
		change(h)
	}
	sum := 0
	for _, b := range h {
		sum += int(b)
	}
	copy(h[148:], fmt.Sprintf("%06o\x00 ", sum))
	return h
}

func pad(out *bytes.Buffer, data []byte) {
	out.Write(data)
	out.Write(make([]byte, (record-len(data)%record)%record))
}
