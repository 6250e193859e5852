package export

import (
	"fmt"
	"io"

	"github.com/vacancy-host/vacancy/shared/store"
)

// ExportFormat is the version of the pages. Readers refuse other versions.
const ExportFormat = 2

type About struct {
	Format           int   `json:"format"`
	RetentionSeconds int64 `json:"retention_seconds"`
}

type StreamsPage struct {
	Streams [][]byte `json:"streams"`
	Next    string   `json:"next,omitempty"`
}

type Row struct {
	Position uint64 `json:"position"`
	WriteID  []byte `json:"attempt"`
	Data     []byte `json:"data"`
}

// RowsPart is a range of a stream. Damaged is the reason why the range ends early.
type RowsPart struct {
	Rows    []Row  `json:"rows"`
	Damaged string `json:"damaged,omitempty"`
}

// RowsPage is the requested range. If the request sets head, Head contains the first rows of the
// stream.
type RowsPage struct {
	Rows RowsPart  `json:"page"`
	Head *RowsPart `json:"head,omitempty"`
}

// Doc is a version of a document. Version 0 means that the document does not exist.
type Doc struct {
	Partition string `json:"partition"`
	Sort      string `json:"sort"`
	Version   uint64 `json:"version"`
	WriteID   []byte `json:"attempt,omitempty"`
	Data      []byte `json:"data,omitempty"`
	Number    int64  `json:"number,omitempty"`
	Index     string `json:"index,omitempty"` // sort key in the index, if the page lists an index
}

type DocPage struct {
	Doc     Doc    `json:"doc"`
	Damaged string `json:"damaged,omitempty"`
}

// DocsPage is a page of documents, or of keys in the order of an index.
type DocsPage struct {
	Docs    []Doc  `json:"docs"`
	Next    string `json:"next,omitempty"`
	Damaged string `json:"damaged,omitempty"`
}

// Sealed is the body of an open request: an encrypted box and the context to which the vault bound
// it.
type Sealed struct {
	VaultContext string `json:"bound"`
	Box          []byte `json:"box"`
}

type Secret struct {
	Secret []byte `json:"secret"`
}

func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "secret") }

func docOf(d *store.Doc) Doc {
	out := Doc{Partition: d.Key.Partition, Sort: d.Key.Sort, Version: d.Version, Data: d.Data, Number: d.Number}
	if d.WriteID != (store.WriteID{}) {
		out.WriteID = d.WriteID[:]
	}
	return out
}
