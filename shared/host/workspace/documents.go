package workspace

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/vacancy-host/vacancy/shared/store"
)

var Docs = store.DocKind[workspaceDocument]{
	Shape:    store.Shape{Name: "workspace", Partition: "workspace#*", Sort: "*", Index: "workspaces", Verify: store.VerifyWithRows},
	Codec:    store.JSONCodec[workspaceDocument](1),
	KeyParts: func(v workspaceDocument) []string { return []string{v.Owner, v.Name} },
	CheckValue: func(_ store.Doc, v workspaceDocument) error {
		if v.ID == "" || len(v.SealedKey) == 0 {
			return errors.New("it has no id or no key")
		}
		return nil
	},
}

type workspaceDocument struct {
	Owner     string    `json:"owner"`
	Name      string    `json:"name"`
	ID        string    `json:"id"`
	CreatedAt time.Time `json:"created"`
	SealedKey []byte    `json:"box"`
}

// CountDocs contains the number of workspaces of each owner, and the packed file and byte counts of
// each workspace. The removal of a workspace replaces its counts with the negative Unix time.
var CountDocs = store.DocKind[int64]{
	Shape: store.Shape{Name: "count of a workspace", Partition: "workspacecount#*", Sort: "count", Verify: store.VerifyWithRows},
	Codec: store.CountCodec(),
}

const (
	filesBits = 20
	filesMask = 1<<filesBits - 1
)

func packCounts(files, bytes int64) int64 { return bytes<<filesBits + files }

func unpackCounts(number int64) (files, bytes int64) { return number & filesMask, number >> filesBits }

// FileDocs contains the files of a workspace. The sort key is the folded path, so a path cannot
// exist in two spellings.
var FileDocs = store.DocKind[fileDocument]{
	Shape: store.Shape{Name: "file", Partition: "workspacefile#*", Sort: "*", Verify: store.VerifyWithRows},
	Codec: store.JSONCodec[fileDocument](1),
	CheckValue: func(d store.Doc, v fileDocument) error {
		path := v.path(d.Key)
		if normal, err := NormalizePath(path); err != nil || normal != path || FoldPath(path) != d.Key.Sort {
			return errors.New("its path does not belong under its key")
		}
		if v.Size < 0 || v.Size > MaxFileBytes || len(v.Hash) != sha256.Size && v.Blob != "" {
			return errors.New("its size or hash is invalid")
		}
		return nil
	},
}

// fileDocument is a file, or the tombstone of a deleted file. A tombstone stops a late retry of the
// preceding write.
type fileDocument struct {
	Path string    `json:"path,omitempty"` // set only if it differs from the sort key
	Size int64     `json:"size"`
	Hash []byte    `json:"sha256,omitempty"`
	Time time.Time `json:"time"`
	Task string    `json:"task,omitempty"`
	Blob string    `json:"blob,omitempty"` // "" for a tombstone
	// FormerBlob is a replaced blob that a backup may need until FormerUntil.
	FormerBlob  string    `json:"former,omitempty"`
	FormerUntil time.Time `json:"former_until,omitzero"`
}

func (v *fileDocument) path(k store.Key) string { return cmp.Or(v.Path, k.Sort) }

func (v *fileDocument) isFile() bool { return v.Blob != "" }

func (v *fileDocument) packedCounts() int64 {
	if !v.isFile() {
		return 0
	}
	return packCounts(1, v.Size)
}
