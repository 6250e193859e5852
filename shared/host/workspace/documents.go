package workspace

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/vacancy-host/vacancy/shared/store"
)

// Docs contains the workspaces of an owner by name.
var Docs = store.Kind[document]{
	Shape: store.Shape{Name: "workspace", Partition: "workspace#*", Sort: "*", Index: "workspaces", Verify: store.Joined},
	Codec: store.JSON[document](1),
	Own:   func(v document) []string { return []string{v.Owner, v.Name} },
	Valid: func(_ store.Doc, v document) error {
		if v.ID == "" || len(v.Box) == 0 {
			return errors.New("it has no id or no key")
		}
		return nil
	},
}

type document struct {
	Owner   string    `json:"owner"`
	Name    string    `json:"name"`
	ID      string    `json:"id"` // random; names the partition of the files and the prefix of their blobs
	Created time.Time `json:"created"`
	Box     []byte    `json:"box"` // the sealed key
}

// CountDocs contains the number of workspaces of an owner, and the counts of files and bytes of a workspace, which are
// one number (pack). A removed workspace has the negative time of its removal, in seconds, until its files are deleted.
var CountDocs = store.Kind[int64]{
	Shape: store.Shape{Name: "count of a workspace", Partition: "workspacecount#*", Sort: "count", Verify: store.Joined},
	Codec: store.Count(),
}

const (
	filesBits = 20
	filesMask = 1<<filesBits - 1
)

func pack(files, bytes int64) int64 { return bytes<<filesBits + files }

func unpack(number int64) (files, bytes int64) { return number & filesMask, number >> filesBits }

// FileDocs contains the files of a workspace. The sort is the folded path, so two spellings of a path cannot exist.
var FileDocs = store.Kind[stored]{
	Shape: store.Shape{Name: "file", Partition: "workspacefile#*", Sort: "*", Verify: store.Joined},
	Codec: store.JSON[stored](1),
	Valid: func(d store.Doc, v stored) error {
		path := v.path(d.Key)
		if normal, err := CheckPath(path); err != nil || normal != path || Fold(path) != d.Key.Sort {
			return errors.New("its path does not belong under its key")
		}
		if v.Size < 0 || v.Size > MaxFile || len(v.Hash) != sha256.Size && v.Blob != "" {
			return errors.New("it has no size or no hash")
		}
		return nil
	},
}

// stored is a file, or the tombstone of a deleted file. A tombstone stays long enough to stop a late retry of the write
// before it.
type stored struct {
	Path string    `json:"path,omitempty"` // if it is not the sort key
	Size int64     `json:"size"`
	Hash []byte    `json:"sha256,omitempty"`
	Time time.Time `json:"time"`
	Task string    `json:"task,omitempty"`
	Blob string    `json:"blob,omitempty"` // "" for a tombstone
	// Former is a blob that the file had and that a backup may still need. Younger blobs need no mention, because
	// the age of a blob protects it (Sweep).
	Former string    `json:"former,omitempty"`
	Until  time.Time `json:"former_until,omitzero"`
}

func (v *stored) path(k store.Key) string { return cmp.Or(v.Path, k.Sort) }

func (v *stored) isFile() bool { return v.Blob != "" }

// weight returns what a file adds to the number of counts.
func (v *stored) weight() int64 {
	if !v.isFile() {
		return 0
	}
	return pack(1, v.Size)
}
