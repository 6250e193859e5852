package export

import (
	"fmt"
	"io"

	"github.com/vacancy-host/vacancy/shared/store"
)

// ExportFormat is the version of the pages. A reader refuses another.
const ExportFormat = 1

// About is what a reader of the pages needs to know first.
type About struct {
	Format           int   `json:"format"`
	RetentionSeconds int64 `json:"retention_seconds"` // of texts, after the end of their day
}

// StreamsPage is a page of names, as bytes.
type StreamsPage struct {
	Streams [][]byte `json:"streams"`
	Next    string   `json:"next,omitempty"`
}

// Row is a row as it is kept.
type Row struct {
	Position uint64 `json:"position"`
	WriteID  []byte `json:"attempt"` // 16 bytes
	Data     []byte `json:"data"`
}

// RowsPart is a stretch of a stream, in the order asked for. Damaged says what
// keeps it from going on, if the host's own data do.
type RowsPart struct {
	Rows    []Row  `json:"rows"`
	Damaged string `json:"damaged,omitempty"`
}

// RowsPage is the stretch that was asked for, and the first rows if head asked
// for so many of them: who begins with a stream's end reads its beginning next.
type RowsPage struct {
	Rows RowsPart  `json:"page"`
	Head *RowsPart `json:"head,omitempty"`
}

// Doc is a version of a document; version 0 if there is none.
type Doc struct {
	Partition string `json:"partition"`
	Sort      string `json:"sort"`
	Version   uint64 `json:"version"`
	WriteID   []byte `json:"attempt,omitempty"`
	Data      []byte `json:"data,omitempty"`
	Number    int64  `json:"number,omitempty"`
	Index     string `json:"index,omitempty"` // the sort by which a list has it, if that is not its own
}

// The lists of documents.
const (
	ListNames    = "names"
	ListRegistry = "registry" // keys of registrations, by their last change
	ListRevoked  = "revoked"  // keys of revocations
	ListChildren = "children" // keys of the edges from one parent, named by of
)

// DocPage is a document, or what is wrong with it.
type DocPage struct {
	Doc     Doc    `json:"doc"`
	Damaged string `json:"damaged,omitempty"`
}

// DocsPage is a page of documents in the order of their keys, or of the list.
type DocsPage struct {
	Docs    []Doc  `json:"docs"`
	Next    string `json:"next,omitempty"`
	Damaged string `json:"damaged,omitempty"`
}

// Sealed is what open opens: a box of the vault, and what it is bound to.
type Sealed struct {
	Bound string `json:"bound"`
	Box   []byte `json:"box"`
}

// Secret is what was in it.
type Secret struct {
	Secret []byte `json:"secret"`
}

// Format shows only what s is, whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "secret") }

func docOf(d *store.Doc) Doc {
	out := Doc{Partition: d.Key.Partition, Sort: d.Key.Sort, Version: d.Version, Data: d.Data, Number: d.Number}
	if d.WriteID != (store.WriteID{}) {
		out.WriteID = d.WriteID[:]
	}
	return out
}
