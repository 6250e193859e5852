// Package workspace stores files of accounts and of the operator in named directory trees.
//
// A file is a document that refers to a blob. The blob has a random key and is sealed under the key
// of the workspace. A write stores the blob before it commits the document. One conditional commit
// changes the document and the counts, and adds the caller's own writes. Therefore every document
// has its blob, a writer cannot overwrite a concurrent change unnoticed, and a crash leaves at most
// a blob without a document, which Sweep deletes later. The removal of a workspace destroys its
// key.
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
	MaxPath       = 400       // in bytes
	MaxFile       = 1 << 20   // in bytes
	MaxFiles      = 10_000    // per workspace
	MaxBytes      = 100 << 20 // per workspace
	MaxWorkspaces = 10        // per owner

	keySize    = 32
	overhead   = 12 + 16 // nonce and tag of a sealed blob
	cachedKeys = 64
)

type Config struct {
	Store store.Updater
	// Blobs opens the blob storage.
	Blobs func() (blob.Blobs, error)
	Vault custody.Vault
	// MayWrite returns an error if an owner must not write, for example because its account is
	// suspended. It is called again in each attempt of a commit.
	MayWrite func(ctx context.Context, owner string) error
	// AlsoRemove adds deletions of related documents to the commit that removes a workspace.
	AlsoRemove func(ctx context.Context, tx *store.Tx, ref Ref) error
	Now        func() time.Time
}

// Workspaces reads and writes files. It is safe for concurrent use. The fmt package prints only its
// type, so that keys are not logged.
type Workspaces struct {
	Config
	keys *lru.Cache[string, cipher.AEAD] // keyed by workspace id
}

func New(c Config) *Workspaces {
	keys, err := lru.New[string, cipher.AEAD](cachedKeys)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	return &Workspaces{c, keys}
}

func (w *Workspaces) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "workspace.Workspaces") }

type File struct {
	Path string    `json:"path"`
	Size int64     `json:"size"`
	Hash string    `json:"sha256"`         // hexadecimal
	Time time.Time `json:"time"`           // last write
	Task string    `json:"task,omitempty"` // id of the task that wrote the file, or ""

	ws   *opened
	blob string
}

type Info struct {
	Name    string    `json:"name"`
	Files   int64     `json:"files"`
	Bytes   int64     `json:"bytes"`
	Created time.Time `json:"created"`
}

// If is a condition of a change. The zero If always holds.
type If struct {
	Absent bool   // the file must not exist
	Exists bool   // the file must exist
	Hash   string // the file must have this hash
}

// Write contains the arguments of Workspaces.Write and Workspaces.Delete. Delete uses only Path, If and
// Also.
type Write struct {
	Path string
	Data []byte
	If   If
	Task string // id of the writing task, or ""
	// Also adds writes to the commit of the change. It is called in each attempt, and an error from
	// it aborts the change. Also may be nil. If an Add from Also exceeds its bounds, the error of
	// the change wraps a *store.BoundsError with the key of the Add.
	Also func(ctx context.Context, tx *store.Tx) error
}

// opened is a workspace whose key has been opened.
type opened struct {
	ref Ref
	id  string
	key cipher.AEAD
}

func (ws *opened) file(k store.Key, v *stored) File {
	return File{v.path(k), v.Size, hex.EncodeToString(v.Hash), v.Time, v.Task, ws, v.Blob}
}

func errNone(name string) error {
	return problem.New(problem.NotFound, "there is no workspace %s; writing a file creates it", name)
}

func vaultContext(id string) string { return "workspace:" + id }

func (w *Workspaces) find(ctx context.Context, ref Ref) (*opened, error) {
	// Read the document even if the key is cached, because the workspace may have been removed.
	v, d, err := Docs.Get(ctx, w.Store.Store, Docs.Key(ref.Owner, ref.Name))
	switch {
	case err != nil:
		return nil, store.AsProblem(err)
	case d.Version == 0:
		return nil, errNone(ref.Name)
	}
	if key, ok := w.keys.Get(v.ID); ok {
		return &opened{ref, v.ID, key}, nil
	}
	raw, err := w.Vault.Open(ctx, vaultContext(v.ID), v.Box)
	if err != nil {
		return nil, fmt.Errorf("the key of workspace %s: %w", ref.Name, err)
	}
	defer clear(raw)
	ws := &opened{ref: ref, id: v.ID}
	block, err := aes.NewCipher(raw)
	if err == nil {
		ws.key, err = cipher.NewGCMWithRandomNonce(block)
	}
	if err != nil {
		return nil, problem.Wrap(problem.Damaged, err, "the key of workspace %s is damaged", ref.Name)
	}
	w.keys.Add(v.ID, ws.key)
	return ws, nil
}

func (w *Workspaces) now() time.Time { return w.Now().UTC().Truncate(time.Second) }

func (w *Workspaces) findOrCreate(ctx context.Context, ref Ref) (*opened, error) {
	ws, err := w.find(ctx, ref)
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
	v := document{Owner: ref.Owner, Name: ref.Name, ID: id.String(), Created: w.now()}
	if v.Box, err = w.Vault.Seal(ctx, vaultContext(v.ID), key); err != nil {
		return nil, err
	}
	count := CountDocs.Key(ref.Owner)
	err = w.Store.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		_, d, err := Docs.Get(ctx, tx, Docs.Key(ref.Owner, ref.Name))
		if err == nil {
			err = w.MayWrite(ctx, ref.Owner)
		}
		if err != nil || d.Version > 0 {
			return err
		}
		Docs.Put(tx, store.Doc{Key: d.Key, Index: Docs.IndexKey(ref.Owner + "/" + ref.Name)}, v)
		CountDocs.Put(tx, store.Doc{Key: CountDocs.Key(v.ID)}, 0)
		tx.Add(store.Add{Key: count, Delta: 1, Max: MaxWorkspaces})
		return nil
	})
	if full := new(store.BoundsError); errors.As(err, &full) && full.Key == count {
		return nil, problem.New(problem.TooLarge, "workspace %s: the limit of %d workspaces is reached; remove one first", ref.Name, MaxWorkspaces)
	}
	if err != nil {
		return nil, store.AsProblem(err)
	}
	return w.find(ctx, ref) // another process may have created it first
}

func (w *Workspaces) Workspaces(ctx context.Context, owner string) (infos []Info, err error) {
	for v, err := range Docs.Each(ctx, w.Store.Store, Docs.Range(owner)) {
		if err != nil {
			return nil, store.AsProblem(err)
		}
		number, _, err := CountDocs.Get(ctx, w.Store.Store, CountDocs.Key(v.ID))
		if err != nil {
			return nil, store.AsProblem(err)
		}
		files, bytes := unpack(max(number, 0))
		infos = append(infos, Info{v.Name, files, bytes, v.Created})
	}
	return infos, nil
}

func (ws *opened) load(ctx context.Context, from store.Reader, path string) (v stored, f File, err error) {
	v, d, err := FileDocs.Get(ctx, from, FileDocs.Key(ws.id, Fold(path)))
	if f = ws.file(d.Key, &v); err == nil && v.isFile() && f.Path != path {
		err = problem.New(problem.Conflict, "path: expected %s, the spelling of the file that exists, got %s", f.Path, path)
	}
	return v, f, err
}

func (w *Workspaces) Stat(ctx context.Context, ref Ref, path string) (f File, err error) {
	if path, err = CheckPath(path); err != nil {
		return f, err
	}
	ws, err := w.find(ctx, ref)
	if err != nil {
		return f, err
	}
	v, f, err := ws.load(ctx, w.Store.Store, path)
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
	data, err := w.Content(ctx, f)
	return f, data, err
}

// Content returns the content of a file from Stat or List. It works for at least an hour after the
// file was replaced or deleted.
func (w *Workspaces) Content(ctx context.Context, f File) ([]byte, error) {
	blobs, err := w.Blobs()
	if err != nil {
		return nil, store.AsProblem(err)
	}
	key := blobKey(f.ws.id, f.blob)
	o, err := blobs.Get(ctx, key)
	switch {
	case errors.Is(err, blob.ErrAbsent):
		return nil, problem.Wrap(problem.Damaged, err, "the bytes of %s are missing", f.Path)
	case err != nil:
		return nil, store.AsProblem(err)
	}
	box, err := io.ReadAll(io.LimitReader(o.Body, MaxFile+overhead+1))
	if err = errors.Join(err, o.Body.Close()); err != nil {
		return nil, store.AsProblem(err)
	}
	data, err := f.ws.key.Open(nil, nil, box, []byte(key))
	if sum := sha256.Sum256(data); err != nil || hex.EncodeToString(sum[:]) != f.Hash {
		return nil, problem.Wrap(problem.Damaged, err, "the bytes of %s are damaged", f.Path)
	}
	return data, nil
}

// List returns the files whose paths begin with prefix, in the order of their folded paths, and the
// cursor of the next page. A page has at most n files and may have fewer even if another page
// follows.
func (w *Workspaces) List(ctx context.Context, ref Ref, prefix string, n int, cursor string) (files []File, next string, err error) {
	if _, err := CheckPath(strings.TrimSuffix(prefix, "/")); err != nil && prefix != "" {
		return nil, "", err
	}
	ws, err := w.find(ctx, ref)
	switch {
	case problem.Is(err, problem.NotFound) && (ref.Name == Main || ref.Name == Test):
		return nil, "", nil // the first write creates the workspace
	case err != nil:
		return nil, "", err
	}
	r := FileDocs.Range(ws.id)
	if prefix != "" {
		r.First, r.Last = Fold(prefix), Fold(prefix)+"\U0010FFFF"
	}
	docs, next, err := w.Store.Store.Docs(ctx, r, n, cursor)
	for _, d := range docs {
		v, err := FileDocs.Parse(d)
		if err != nil {
			return nil, "", err
		}
		if v.isFile() {
			files = append(files, ws.file(d.Key, &v))
		}
	}
	return files, next, store.AsProblem(err)
}

// Write creates or replaces a file, and creates the workspace if it does not exist. If the error is
// not of kind Unavailable, the file is unchanged.
func (w *Workspaces) Write(ctx context.Context, ref Ref, q Write) (f File, err error) {
	if q.Path, err = CheckPath(q.Path); err != nil {
		return f, err
	}
	if len(q.Data) > MaxFile {
		return f, problem.New(problem.TooLarge, "%s: expected at most %d bytes in a file, got %d", q.Path, MaxFile, len(q.Data))
	}
	ws, err := w.findOrCreate(ctx, ref)
	if err != nil {
		return f, err
	}
	name, err := w.Store.NewWriteID()
	if err != nil {
		return f, err
	}
	sum := sha256.Sum256(q.Data)
	next := stored{Size: int64(len(q.Data)), Hash: sum[:], Task: q.Task, Blob: name.String()}
	if Fold(q.Path) != q.Path {
		next.Path = q.Path
	}
	// Check before storing the blob, so that a change that cannot commit leaves no blob behind.
	if _, _, err := w.decide(ctx, w.Store.Store, ws, &q, &next); err != nil {
		return f, store.AsProblem(err)
	}
	key := blobKey(ws.id, next.Blob)
	box := ws.key.Seal(nil, nil, q.Data, []byte(key))
	blobs, err := w.Blobs()
	if err == nil {
		_, err = blobs.Put(ctx, key, bytes.NewReader(box), int64(len(box)), blob.Condition{Absent: true})
	}
	if err != nil {
		return f, store.AsProblem(err)
	}
	return w.change(ctx, ws, &q, next)
}

func (w *Workspaces) Delete(ctx context.Context, ref Ref, q Write) (err error) {
	if q.Path, err = CheckPath(q.Path); err != nil {
		return err
	}
	ws, err := w.find(ctx, ref)
	if err != nil {
		return err
	}
	q.If.Exists = true
	_, err = w.change(ctx, ws, &q, stored{}) // a tombstone
	if problem.Is(err, problem.Precondition) && q.If.Hash == "" {
		return errNoFile(ref, q.Path)
	}
	return err
}

func (w *Workspaces) change(ctx context.Context, ws *opened, q *Write, next stored) (f File, err error) {
	err = w.Store.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		before, number, err := w.decide(ctx, tx, ws, q, &next)
		if err == nil && q.Also != nil {
			err = q.Also(ctx, tx)
		}
		if err != nil {
			return err
		}
		now := w.now()
		next.Time, next.Former, next.Until = now, before.Former, before.Until
		if before.isFile() && now.Sub(before.Time) > young {
			next.Former, next.Until = before.Blob, now.Add(backupTime)
		}
		d := store.Doc{Key: FileDocs.Key(ws.id, Fold(q.Path))}
		if !next.isFile() {
			d.Expires = now.Add(tombstoneTime)
		}
		FileDocs.Put(tx, d, next)
		f = ws.file(d.Key, &next)
		CountDocs.Put(tx, store.Doc{Key: CountDocs.Key(ws.id)}, number+next.weight()-before.weight())
		return nil
	})
	if err != nil {
		return File{}, store.AsProblem(err)
	}
	return f, nil
}

// decide returns an error if a change must not be committed. Otherwise it returns the current
// document of the file and the packed counts of the workspace.
func (w *Workspaces) decide(ctx context.Context, from store.Reader, ws *opened, q *Write, next *stored) (before stored, number int64, err error) {
	if err := w.MayWrite(ctx, ws.ref.Owner); err != nil {
		return before, 0, err
	}
	before, f, err := ws.load(ctx, from, q.Path)
	if err == nil {
		number, _, err = CountDocs.Get(ctx, from, CountDocs.Key(ws.id))
	}
	if err != nil {
		return before, 0, err
	}
	changed := func(want, got string) error {
		return problem.New(problem.Precondition, "%s: expected %s, got %s", q.Path, want, got)
	}
	files, bytes := unpack(number + next.weight() - before.weight())
	switch is := before.isFile(); {
	case number < 0:
		err = errNone(ws.ref.Name)
	case q.If.Absent && is:
		err = changed("no file, or If-Match with the ETag of the file that is to be replaced", "a file")
	case (q.If.Exists || q.If.Hash != "") && !is:
		err = changed("a file", "none")
	case q.If.Hash != "" && q.If.Hash != f.Hash:
		err = changed("the version "+q.If.Hash, "the version "+f.Hash+"; it was changed since it was read")
	case files > MaxFiles:
		err = problem.New(problem.TooLarge, "workspace %s: the limit of %d files is reached; delete files first", ws.ref.Name, MaxFiles)
	case bytes > MaxBytes:
		err = problem.New(problem.TooLarge, "workspace %s: expected at most %d bytes, got %d; delete files first", ws.ref.Name, MaxBytes, bytes)
	}
	return before, number, err
}
