// Package workspace stores files of accounts and of the operator in named directory trees.
//
// A file is a document that refers to a blob, which is sealed under the key of the workspace. A
// write stores the blob before it commits the document. After a crash, a blob may therefore have no
// document until Sweep deletes it, but every document has its blob. Documents are changed in
// conditional commits, so a writer cannot overwrite a concurrent change unnoticed.
package workspace

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/blob"
)

const (
	MaxPathBytes  = 400       // in bytes
	MaxFileBytes  = 1 << 20   // in bytes
	MaxFiles      = 10_000    // per workspace
	MaxBytes      = 100 << 20 // per workspace
	MaxWorkspaces = 10        // per owner

	keySize       = 32
	sealOverhead  = 12 + 16 // nonce and tag
	maxCachedKeys = 64
)

type Config struct {
	Store store.Updater
	Blobs func() (blob.Blobs, error)
	Vault custody.Vault
	// CheckWritable returns an error if an owner must not write.
	CheckWritable func(ctx context.Context, owner string) error
	// RemoveRelated adds deletions to the commit that removes a workspace.
	RemoveRelated func(ctx context.Context, tx *store.Tx, ref Ref) error
	Now           func() time.Time
}

// Workspaces is safe for concurrent use. The fmt package prints only its type, so that keys are not
// logged.
type Workspaces struct {
	Config
	keyCache *lru.Cache[string, cipher.AEAD]
}

func New(c Config) *Workspaces {
	keyCache, err := lru.New[string, cipher.AEAD](maxCachedKeys)
	if err != nil {
		panic(err)
	}
	return &Workspaces{c, keyCache}
}

func (w *Workspaces) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "workspace.Workspaces") }

type File struct {
	Path string    `json:"path"`
	Size int64     `json:"size"`
	Hash string    `json:"sha256"` // hexadecimal
	Time time.Time `json:"time"`
	Task string    `json:"task,omitempty"`

	ws   *openWorkspace
	blob string
}

type Info struct {
	Name      string    `json:"name"`
	Files     int64     `json:"files"`
	Bytes     int64     `json:"bytes"`
	CreatedAt time.Time `json:"created"`
}

type Condition struct {
	Absent bool
	Exists bool
	Hash   string
}

type Change struct {
	Path      string
	Data      []byte
	Condition Condition
	Task      string
	// AddWrites adds writes to the commit of the change. It is called in each attempt, and may be nil.
	AddWrites func(ctx context.Context, tx *store.Tx) error
}

type openWorkspace struct {
	ref Ref
	id  string
	key cipher.AEAD
}

func (ws *openWorkspace) newFile(k store.Key, v *fileDocument) File {
	return File{v.path(k), v.Size, hex.EncodeToString(v.Hash), v.Time, v.Task, ws, v.Blob}
}

func errNoWorkspace(name string) error {
	return problem.New(problem.NotFound, "there is no workspace %s; writing a file creates it", name)
}

func vaultContext(id string) string { return "workspace:" + id }

func (w *Workspaces) findWorkspace(ctx context.Context, ref Ref) (*openWorkspace, error) {
	// The workspace may have been removed while its key was cached.
	v, d, err := Docs.Get(ctx, w.Store.Store, Docs.Key(ref.Owner, ref.Name))
	switch {
	case err != nil:
		return nil, store.AsProblem(err)
	case d.Version == 0:
		return nil, errNoWorkspace(ref.Name)
	}
	if key, ok := w.keyCache.Get(v.ID); ok {
		return &openWorkspace{ref, v.ID, key}, nil
	}
	rawKey, err := w.Vault.Open(ctx, vaultContext(v.ID), v.SealedKey)
	if err != nil {
		return nil, fmt.Errorf("the key of workspace %s: %w", ref.Name, err)
	}
	defer clear(rawKey)
	ws := &openWorkspace{ref: ref, id: v.ID}
	block, err := aes.NewCipher(rawKey)
	if err == nil {
		ws.key, err = cipher.NewGCMWithRandomNonce(block)
	}
	if err != nil {
		return nil, problem.Wrap(problem.Damaged, err, "the key of workspace %s is damaged", ref.Name)
	}
	w.keyCache.Add(v.ID, ws.key)
	return ws, nil
}

func (w *Workspaces) now() time.Time { return w.Now().UTC().Truncate(time.Second) }

func (w *Workspaces) findOrCreateWorkspace(ctx context.Context, ref Ref) (*openWorkspace, error) {
	ws, err := w.findWorkspace(ctx, ref)
	if !problem.Is(err, problem.NotFound) {
		return ws, err
	}
	key := make([]byte, keySize)
	defer clear(key)
	if _, err := io.ReadFull(w.Store.Rand, key); err != nil {
		return nil, store.AsProblem(err)
	}
	id, err := w.Store.NewWriteID()
	if err != nil {
		return nil, err
	}
	v := workspaceDocument{Owner: ref.Owner, Name: ref.Name, ID: id.String(), CreatedAt: w.now()}
	if v.SealedKey, err = w.Vault.Seal(ctx, vaultContext(v.ID), key); err != nil {
		return nil, err
	}
	countKey := CountDocs.Key(ref.Owner)
	err = w.Store.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		_, d, err := Docs.Get(ctx, tx, Docs.Key(ref.Owner, ref.Name))
		if err == nil {
			err = w.CheckWritable(ctx, ref.Owner)
		}
		if err != nil || d.Version > 0 {
			return err
		}
		Docs.Put(tx, store.Doc{Key: d.Key, Index: Docs.IndexKey(ref.Owner + "/" + ref.Name)}, v)
		CountDocs.Put(tx, store.Doc{Key: CountDocs.Key(v.ID)}, 0)
		tx.AddWrites(store.Add{Key: countKey, Delta: 1, Max: MaxWorkspaces})
		return nil
	})
	if boundsErr := new(store.BoundsError); errors.As(err, &boundsErr) && boundsErr.Key == countKey {
		return nil, problem.New(problem.TooLarge, "workspace %s: the limit of %d workspaces is reached; remove one first", ref.Name, MaxWorkspaces)
	}
	if err != nil {
		return nil, store.AsProblem(err)
	}
	return w.findWorkspace(ctx, ref) // another process may have created it first
}

func (w *Workspaces) ListWorkspaces(ctx context.Context, owner string) (infos []Info, err error) {
	for v, err := range Docs.Each(ctx, w.Store.Store, Docs.Range(owner)) {
		if err != nil {
			return nil, store.AsProblem(err)
		}
		number, _, err := CountDocs.Get(ctx, w.Store.Store, CountDocs.Key(v.ID))
		if err != nil {
			return nil, store.AsProblem(err)
		}
		files, bytes := unpackCounts(max(number, 0))
		infos = append(infos, Info{v.Name, files, bytes, v.CreatedAt})
	}
	return infos, nil
}

func (ws *openWorkspace) loadFile(ctx context.Context, reader store.Reader, path string) (v fileDocument, f File, err error) {
	v, d, err := FileDocs.Get(ctx, reader, FileDocs.Key(ws.id, FoldPath(path)))
	if f = ws.newFile(d.Key, &v); err == nil && v.isFile() && f.Path != path {
		err = problem.New(problem.Conflict, "path: expected %s, the spelling of the existing file, got %s", f.Path, path)
	}
	return v, f, err
}

func (w *Workspaces) Stat(ctx context.Context, ref Ref, path string) (f File, err error) {
	if path, err = NormalizePath(path); err != nil {
		return f, err
	}
	ws, err := w.findWorkspace(ctx, ref)
	if err != nil {
		return f, err
	}
	v, f, err := ws.loadFile(ctx, w.Store.Store, path)
	if err == nil && !v.isFile() {
		err = errNoFile(ref, path)
	}
	return f, store.AsProblem(err)
}

func errNoFile(ref Ref, path string) error {
	return problem.New(problem.NotFound, "path: there is no file %s in workspace %s", path, ref.Name)
}

func (w *Workspaces) Read(ctx context.Context, ref Ref, path string) (File, []byte, error) {
	f, err := w.Stat(ctx, ref, path)
	if err != nil {
		return f, nil, err
	}
	data, err := w.ReadContent(ctx, f)
	return f, data, err
}

// ReadContent returns the content of f, even if the file was replaced or deleted in the last hour.
func (w *Workspaces) ReadContent(ctx context.Context, f File) ([]byte, error) {
	blobs, err := w.Blobs()
	if err != nil {
		return nil, store.AsProblem(err)
	}
	key := blobKey(f.ws.id, f.blob)
	object, err := blobs.Get(ctx, key)
	switch {
	case errors.Is(err, blob.ErrAbsent):
		return nil, problem.Wrap(problem.Damaged, err, "the bytes of %s are missing", f.Path)
	case err != nil:
		return nil, store.AsProblem(err)
	}
	sealed, err := io.ReadAll(io.LimitReader(object.Body, MaxFileBytes+sealOverhead+1))
	if err = errors.Join(err, object.Body.Close()); err != nil {
		return nil, store.AsProblem(err)
	}
	data, err := f.ws.key.Open(nil, nil, sealed, []byte(key))
	if sum := sha256.Sum256(data); err != nil || hex.EncodeToString(sum[:]) != f.Hash {
		return nil, problem.Wrap(problem.Damaged, err, "the bytes of %s are damaged", f.Path)
	}
	return data, nil
}

// ListFiles returns up to n files whose paths begin with prefix, in the order of their folded
// paths, and the cursor of the next page. A page may have fewer files even if another page follows.
func (w *Workspaces) ListFiles(ctx context.Context, ref Ref, prefix string, n int, cursor string) (files []File, next string, err error) {
	if _, err := NormalizePath(strings.TrimSuffix(prefix, "/")); err != nil && prefix != "" {
		return nil, "", err
	}
	ws, err := w.findWorkspace(ctx, ref)
	switch {
	case problem.Is(err, problem.NotFound) && (ref.Name == MainName || ref.Name == TestName):
		return nil, "", nil // the first write creates the workspace
	case err != nil:
		return nil, "", err
	}
	r := FileDocs.Range(ws.id)
	if prefix != "" {
		r.Start, r.End = FoldPath(prefix), FoldPath(prefix)+"\U0010FFFF"
	}
	docs, next, err := w.Store.Store.Docs(ctx, r, n, cursor)
	for _, d := range docs {
		v, err := FileDocs.Parse(d)
		if err != nil {
			return nil, "", err
		}
		if v.isFile() {
			files = append(files, ws.newFile(d.Key, &v))
		}
	}
	return files, next, store.AsProblem(err)
}

// Write creates or replaces a file. If the error is not of kind Unavailable, the file is unchanged.
func (w *Workspaces) Write(ctx context.Context, ref Ref, change Change) (f File, err error) {
	if change.Path, err = NormalizePath(change.Path); err != nil {
		return f, err
	}
	if len(change.Data) > MaxFileBytes {
		return f, problem.New(problem.TooLarge, "%s: expected at most %d bytes in a file, got %d", change.Path, MaxFileBytes, len(change.Data))
	}
	ws, err := w.findOrCreateWorkspace(ctx, ref)
	if err != nil {
		return f, err
	}
	name, err := w.Store.NewWriteID()
	if err != nil {
		return f, err
	}
	sum := sha256.Sum256(change.Data)
	next := fileDocument{Size: int64(len(change.Data)), Hash: sum[:], Task: change.Task, Blob: name.String()}
	if FoldPath(change.Path) != change.Path {
		next.Path = change.Path
	}
	// A change that cannot commit should not leave a blob behind.
	if _, _, err := w.checkChange(ctx, w.Store.Store, ws, &change, &next); err != nil {
		return f, store.AsProblem(err)
	}
	key := blobKey(ws.id, next.Blob)
	sealed := ws.key.Seal(nil, nil, change.Data, []byte(key))
	blobs, err := w.Blobs()
	if err == nil {
		_, err = blobs.Put(ctx, key, bytes.NewReader(sealed), int64(len(sealed)), blob.Condition{Absent: true})
	}
	if err != nil {
		return f, store.AsProblem(err)
	}
	return w.commitChange(ctx, ws, &change, next)
}

func (w *Workspaces) Delete(ctx context.Context, ref Ref, change Change) (err error) {
	if change.Path, err = NormalizePath(change.Path); err != nil {
		return err
	}
	ws, err := w.findWorkspace(ctx, ref)
	if err != nil {
		return err
	}
	change.Condition.Exists = true
	_, err = w.commitChange(ctx, ws, &change, fileDocument{}) // a tombstone
	if problem.Is(err, problem.PreconditionFailed) && change.Condition.Hash == "" {
		return errNoFile(ref, change.Path)
	}
	return err
}

func (w *Workspaces) commitChange(ctx context.Context, ws *openWorkspace, change *Change, next fileDocument) (f File, err error) {
	err = w.Store.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		current, number, err := w.checkChange(ctx, tx, ws, change, &next)
		if err == nil && change.AddWrites != nil {
			err = change.AddWrites(ctx, tx)
		}
		if err != nil {
			return err
		}
		now := w.now()
		next.Time, next.FormerBlob, next.FormerUntil = now, current.FormerBlob, current.FormerUntil
		if current.isFile() && now.Sub(current.Time) > maxUnrecordedAge {
			next.FormerBlob, next.FormerUntil = current.Blob, now.Add(backupTime)
		}
		d := store.Doc{Key: FileDocs.Key(ws.id, FoldPath(change.Path))}
		if !next.isFile() {
			d.Expires = now.Add(tombstoneTime)
		}
		FileDocs.Put(tx, d, next)
		f = ws.newFile(d.Key, &next)
		CountDocs.Put(tx, store.Doc{Key: CountDocs.Key(ws.id)}, number+next.packedCounts()-current.packedCounts())
		return nil
	})
	if err != nil {
		return File{}, store.AsProblem(err)
	}
	return f, nil
}

func (w *Workspaces) checkChange(ctx context.Context, reader store.Reader, ws *openWorkspace, change *Change, next *fileDocument) (current fileDocument, number int64, err error) {
	if err := w.CheckWritable(ctx, ws.ref.Owner); err != nil {
		return current, 0, err
	}
	current, f, err := ws.loadFile(ctx, reader, change.Path)
	if err == nil {
		number, _, err = CountDocs.Get(ctx, reader, CountDocs.Key(ws.id))
	}
	if err != nil {
		return current, 0, err
	}
	preconditionError := func(want, got string) error {
		return problem.New(problem.PreconditionFailed, "%s: expected %s, got %s", change.Path, want, got)
	}
	files, bytes := unpackCounts(number + next.packedCounts() - current.packedCounts())
	switch exists := current.isFile(); {
	case number < 0:
		err = errNoWorkspace(ws.ref.Name)
	case change.Condition.Absent && exists:
		err = preconditionError("no file, or an If-Match header with the ETag of the file to replace", "a file")
	case (change.Condition.Exists || change.Condition.Hash != "") && !exists:
		err = preconditionError("a file", "none")
	case change.Condition.Hash != "" && change.Condition.Hash != f.Hash:
		err = preconditionError("the version "+change.Condition.Hash, "the version "+f.Hash+"; it was changed since it was read")
	case files > MaxFiles:
		err = problem.New(problem.TooLarge, "workspace %s: the limit of %d files is reached; delete files first", ws.ref.Name, MaxFiles)
	case bytes > MaxBytes:
		err = problem.New(problem.TooLarge, "workspace %s: expected at most %d bytes, got %d; delete files first", ws.ref.Name, MaxBytes, bytes)
	}
	return current, number, err
}
