// Package workspace stores files of accounts and of the operator in named trees.
//
// A path is a document, and its bytes are one blob with a random key, sealed under the key of the workspace. A write
// stores the blob before it commits the document, and one conditional commit changes the document, the counts and what
// the caller adds to it. Therefore each path always has its bytes, two writers never overwrite each other unnoticed,
// and a crash leaves at most a blob without a document, which Sweep deletes. Removing a workspace destroys its key.
package workspace

import (
	"bytes"
	"cmp"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/blob"
)

// Limits.
const (
	MaxPath       = 400       // bytes
	MaxFile       = 1 << 20   // bytes
	MaxFiles      = 10_000    // in a workspace
	MaxBytes      = 100 << 20 // in a workspace
	MaxWorkspaces = 10        // of an owner

	// nearlyFull is the number of files from which on a new file must know the exact count. Adds of concurrent
	// writers cannot bound the number of files, but far fewer than MaxFiles-nearlyFull writers run at once.
	nearlyFull = MaxFiles - 1000

	keySize  = 32
	idSize   = 16
	hashSize = sha256.Size
	overhead = 12 + 16 // nonce and tag of a sealed blob
)

// Config configures Workspaces. MayWrite and Wait may be nil.
type Config struct {
	Store store.Store
	// Blobs opens the storage of blobs.
	Blobs func() (blob.Blobs, error)
	Vault custody.Vault
	// MayWrite returns an error if an owner must not write, for example because its account is suspended. It is called
	// in each attempt of a commit.
	MayWrite func(ctx context.Context, owner string) error
	Log      *slog.Logger
	Now      func() time.Time
	Rand     io.Reader // safe for concurrent use
	Wait     func(ctx context.Context, d time.Duration) error
}

// Workspaces reads and writes files. It is safe for concurrent use. The fmt package prints only its type.
type Workspaces struct {
	c    Config
	with store.Updater
	keys *lru.Cache[string, cipher.AEAD] // by id
}

// New returns the workspaces of a host.
func New(c Config) *Workspaces {
	const size = 64
	keys, err := lru.New[string, cipher.AEAD](size)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	return &Workspaces{c, store.Updater{Store: c.Store, Rand: c.Rand, Wait: c.Wait}, keys}
}

// Format implements fmt.Formatter.
func (w *Workspaces) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "workspace.Workspaces") }

// File describes a file. A file read from a Workspaces has its Content.
type File struct {
	Path string    `json:"path"`
	Size int64     `json:"size"`
	Hash string    `json:"sha256"` // in hex
	Time time.Time `json:"time"`   // of the last write
	Task string    `json:"task,omitempty"`

	id, blob string // of the workspace, and of the bytes
}

func fileOf(id string, k store.Key, v *stored) File {
	return File{v.path(k), v.Size, hex.EncodeToString(v.Hash), v.Time, v.Task, id, v.Blob}
}

// Info describes a workspace.
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

// Write is a change of a file.
type Write struct {
	Path string
	Data []byte
	If   If
	Task string // id of the task that writes, or ""
	// Also adds writes to the commit of the change. It runs in each attempt, and its error ends the change. It may be
	// nil. If a bounded Add of its own does not fit, the error of the change has a *store.BoundsError with the key of
	// the Add in its chain.
	Also func(ctx context.Context, tx *store.Tx) error
}

// opened is a workspace whose key is open.
type opened struct {
	ref Ref
	id  string
	key cipher.AEAD
}

// errNone means that a workspace does not exist.
func errNone(name string) error {
	return problem.New(problem.NotFound, "there is no workspace %s; writing a file creates it", name)
}

func bound(id string) string { return "workspace:" + id }

// find opens a workspace. The document is read each time, so a removed workspace is not read although its key is cached.
func (w *Workspaces) find(ctx context.Context, ref Ref) (*opened, error) {
	if err := CheckName(ref.Name); err != nil {
		return nil, err
	}
	v, d, err := Docs.Get(ctx, w.c.Store, Docs.Key(ref.Owner, ref.Name))
	switch {
	case err != nil:
		return nil, store.Problem(err)
	case d.Version == 0:
		return nil, errNone(ref.Name)
	}
	key, ok := w.keys.Get(v.ID)
	if !ok {
		raw, err := w.c.Vault.Open(ctx, bound(v.ID), v.Box)
		if err != nil {
			return nil, fmt.Errorf("the key of workspace %s: %w", ref.Name, err)
		}
		defer clear(raw)
		if key, err = newKey(raw); err != nil {
			return nil, err
		}
		w.keys.Add(v.ID, key)
	}
	return &opened{ref, v.ID, key}, nil
}

func newKey(raw []byte) (cipher.AEAD, error) {
	if len(raw) != keySize {
		return nil, problem.New(problem.Damaged, "a key of a workspace has %d bytes, got %d", keySize, len(raw))
	}
	block, err := aes.NewCipher(raw)
	if err != nil {
		return nil, problem.Wrap(problem.Internal, err, "")
	}
	key, err := cipher.NewGCM(block)
	if err != nil {
		return nil, problem.Wrap(problem.Internal, err, "")
	}
	return key, nil
}

func (w *Workspaces) random(n int) ([]byte, error) {
	b := make([]byte, n)
	if _, err := io.ReadFull(w.c.Rand, b); err != nil {
		return nil, problem.Wrap(problem.Unavailable, err, "no randomness")
	}
	return b, nil
}

func (w *Workspaces) updater() store.Updater { return w.with }

func (w *Workspaces) now() time.Time { return w.c.Now().UTC().Truncate(time.Second) }

func (w *Workspaces) mayWrite(ctx context.Context, owner string) error {
	if w.c.MayWrite == nil {
		return nil
	}
	return w.c.MayWrite(ctx, owner)
}

// findOrCreate opens a workspace, and creates it if it does not exist.
func (w *Workspaces) findOrCreate(ctx context.Context, ref Ref) (*opened, error) {
	ws, err := w.find(ctx, ref)
	if !problem.Is(err, problem.NotFound) {
		return ws, err
	}
	raw, err := w.random(keySize)
	if err != nil {
		return nil, err
	}
	defer clear(raw)
	random, err := w.random(idSize)
	if err != nil {
		return nil, err
	}
	v := document{Owner: ref.Owner, Name: ref.Name, ID: hex.EncodeToString(random), Created: w.now()}
	if v.Box, err = w.c.Vault.Seal(ctx, bound(v.ID), raw); err != nil {
		return nil, err
	}
	count := CountDocs.Key(ref.Owner)
	err = w.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		_, d, err := Docs.Get(ctx, tx, Docs.Key(ref.Owner, ref.Name))
		if err == nil {
			err = w.mayWrite(ctx, ref.Owner)
		}
		if err != nil || d.Version > 0 {
			return err
		}
		Docs.Put(tx, store.Doc{Key: d.Key, Index: Docs.Listed(ref.Owner + "/" + ref.Name)}, v)
		CountDocs.Put(tx, store.Doc{Key: CountDocs.Key(v.ID)}, 0)
		tx.Add(store.Add{Key: count, Delta: 1, Max: MaxWorkspaces})
		return nil
	})
	if full := new(store.BoundsError); errors.As(err, &full) && full.Key == count {
		return nil, problem.New(problem.TooLarge, "workspace %s: expected one of the %d workspaces that exist, which is the limit; remove one first", ref.Name, MaxWorkspaces)
	}
	if err != nil {
		return nil, store.Problem(err)
	}
	return w.find(ctx, ref) // another process may have been faster
}

// Workspaces lists an owner's workspaces by name.
func (w *Workspaces) Workspaces(ctx context.Context, owner string) (all []Info, err error) {
	for v, err := range Docs.Each(ctx, w.c.Store, Docs.All(owner)) {
		if err != nil {
			return nil, store.Problem(err)
		}
		if v.isRemoved() {
			continue
		}
		number, _, err := CountDocs.Get(ctx, w.c.Store, CountDocs.Key(v.ID))
		if err != nil {
			return nil, store.Problem(err)
		}
		files, bytes := unpack(max(number, 0))
		all = append(all, Info{v.Name, files, bytes, v.Created})
	}
	return all, nil
}

// Stat describes a file.
func (w *Workspaces) Stat(ctx context.Context, ref Ref, path string) (File, error) {
	path, err := CheckPath(path)
	if err != nil {
		return File{}, err
	}
	ws, err := w.find(ctx, ref)
	if err != nil {
		return File{}, err
	}
	return w.stat(ctx, ws, path)
}

func (w *Workspaces) stat(ctx context.Context, ws *opened, path string) (File, error) {
	v, d, err := FileDocs.Get(ctx, w.c.Store, FileDocs.Key(ws.id, Fold(path)))
	if err != nil {
		return File{}, store.Problem(err)
	}
	f := fileOf(ws.id, d.Key, &v)
	if err := f.checkSpelling(&v, path); err != nil {
		return File{}, err
	}
	if !v.isFile() {
		return File{}, problem.New(problem.NotFound, "path: there is no file %s in workspace %s", path, ws.ref.Name)
	}
	return f, nil
}

// checkSpelling returns an error if the file exists under another spelling of a path.
func (f *File) checkSpelling(v *stored, path string) error {
	if v.isFile() && f.Path != path {
		return problem.New(problem.Conflict, "path: expected %s, the spelling of the file that exists, got %s", f.Path, path)
	}
	return nil
}

// Read returns a file with its bytes.
func (w *Workspaces) Read(ctx context.Context, ref Ref, path string) (File, []byte, error) {
	path, err := CheckPath(path)
	if err != nil {
		return File{}, nil, err
	}
	ws, err := w.find(ctx, ref)
	if err != nil {
		return File{}, nil, err
	}
	f, err := w.stat(ctx, ws, path)
	if err != nil {
		return f, nil, err
	}
	data, err := w.content(ctx, ws, &f)
	return f, data, err
}

// Content returns the bytes of a file that Stat or List described. It returns them also if the file was replaced less
// than an hour ago.
func (w *Workspaces) Content(ctx context.Context, ref Ref, f File) ([]byte, error) {
	ws, err := w.find(ctx, ref)
	if err == nil && ws.id != f.id {
		err = errNone(ref.Name) // it was removed, and another has its name
	}
	if err != nil {
		return nil, err
	}
	return w.content(ctx, ws, &f)
}

func (w *Workspaces) content(ctx context.Context, ws *opened, f *File) ([]byte, error) {
	blobs, err := w.c.Blobs()
	if err != nil {
		return nil, store.Problem(err)
	}
	key := blobKey(ws.id, f.blob)
	o, err := blobs.Get(ctx, key)
	switch {
	case errors.Is(err, blob.ErrAbsent):
		return nil, problem.Wrap(problem.Damaged, err, "the bytes of %s are missing", f.Path)
	case err != nil:
		return nil, store.Problem(err)
	}
	box, err := io.ReadAll(io.LimitReader(o.Body, MaxFile+overhead+1))
	if err = errors.Join(err, o.Body.Close()); err != nil {
		return nil, store.Problem(err)
	}
	data, err := open(ws.key, key, box)
	if sum := sha256.Sum256(data); err != nil || hex.EncodeToString(sum[:]) != f.Hash {
		return nil, problem.Wrap(problem.Damaged, err, "the bytes of %s are damaged", f.Path)
	}
	return data, nil
}

func seal(key cipher.AEAD, name string, nonce, data []byte) []byte {
	return key.Seal(nonce, nonce, data, []byte(name))
}

func open(key cipher.AEAD, name string, box []byte) ([]byte, error) {
	if len(box) < overhead {
		return nil, errors.New("it is too short")
	}
	return key.Open(nil, box[:key.NonceSize()], box[key.NonceSize():], []byte(name))
}

// List returns up to n files whose paths begin with prefix, in the order of their folded paths, and the cursor of the
// next page. A page may be short although another follows.
func (w *Workspaces) List(ctx context.Context, ref Ref, prefix string, n int, cursor string) ([]File, string, error) {
	prefix, err := CheckPrefix(prefix)
	if err != nil {
		return nil, "", err
	}
	ws, err := w.find(ctx, ref)
	switch {
	case problem.Is(err, problem.NotFound) && (ref.Name == Main || ref.Name == Test):
		return nil, "", nil // the first write creates it
	case err != nil:
		return nil, "", err
	}
	r := FileDocs.All(ws.id)
	if prefix != "" {
		r.First, r.Last = Fold(prefix), Fold(prefix)+"\U0010FFFF"
	}
	docs, next, err := w.c.Store.Docs(ctx, r, n, cursor)
	if err != nil {
		return nil, "", store.Problem(err)
	}
	files := make([]File, 0, len(docs))
	for _, d := range docs {
		v, err := FileDocs.Parse(d)
		if err != nil {
			return nil, "", err
		}
		if v.isFile() {
			files = append(files, fileOf(ws.id, d.Key, &v))
		}
	}
	return files, next, nil
}

// Write creates or replaces a file. It creates the workspace if it does not exist. If it returns an error that is not
// of kind Unavailable, it has written nothing.
func (w *Workspaces) Write(ctx context.Context, ref Ref, q Write) (f File, err error) {
	if q.Path, err = CheckPath(q.Path); err != nil {
		return f, err
	}
	if len(q.Data) > MaxFile {
		return f, problem.New(problem.TooLarge, "%s: expected at most %d bytes in a file, got %d", q.Path, MaxFile, len(q.Data))
	}
	if err := w.mayWrite(ctx, ref.Owner); err != nil {
		return f, err
	}
	ws, err := w.findOrCreate(ctx, ref)
	if err != nil {
		return f, err
	}
	// A write that cannot commit shall not leave a blob.
	if _, _, err := q.decide(ctx, w.c.Store, ws); err != nil {
		return f, err
	}
	sum := sha256.Sum256(q.Data)
	random, err := w.random(idSize + ws.key.NonceSize())
	if err != nil {
		return f, err
	}
	next := stored{Size: int64(len(q.Data)), Hash: sum[:], Task: q.Task, Blob: hex.EncodeToString(random[:idSize])}
	if Fold(q.Path) != q.Path {
		next.Path = q.Path
	}
	key := blobKey(ws.id, next.Blob)
	box := seal(ws.key, key, random[idSize:], q.Data)
	blobs, err := w.c.Blobs()
	if err == nil {
		_, err = blobs.Put(ctx, key, bytes.NewReader(box), int64(len(box)), blob.If{Absent: true})
	}
	if err != nil {
		return f, store.Problem(err)
	}
	return w.change(ctx, ws, &q, next)
}

// Delete deletes a file.
func (w *Workspaces) Delete(ctx context.Context, ref Ref, q Write) (err error) {
	if q.Path, err = CheckPath(q.Path); err != nil {
		return err
	}
	ws, err := w.find(ctx, ref)
	if err != nil {
		return err
	}
	if q.If.Hash == "" {
		q.If.Exists = true
	}
	q.Data = nil
	_, err = w.change(ctx, ws, &q, stored{})
	if problem.Is(err, problem.Precondition) && q.If.Hash == "" {
		return problem.New(problem.NotFound, "path: there is no file %s in workspace %s", q.Path, ref.Name)
	}
	return err
}

// change commits the document of a file, or with the zero stored a tombstone.
func (w *Workspaces) change(ctx context.Context, ws *opened, q *Write, next stored) (f File, err error) {
	count := CountDocs.Key(ws.id)
	err = w.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		before, number, err := q.decide(ctx, tx, ws)
		if err == nil {
			err = w.mayWrite(ctx, ws.ref.Owner)
		}
		if err == nil && q.Also != nil {
			err = q.Also(ctx, tx)
		}
		if err != nil {
			return err
		}
		next, now := next, w.now()
		next.Time, next.Former, next.Until = now, before.Former, before.Until
		switch {
		case before.isFile() && now.Sub(before.Time) > young:
			next.Former, next.Until = before.Blob, now.Add(backupTime)
		case !now.Before(before.Until):
			next.Former, next.Until = "", time.Time{}
		}
		d := store.Doc{Key: FileDocs.Key(ws.id, Fold(q.Path))}
		if !next.isFile() {
			d.Expires = now.Add(tombstoneTime)
		}
		FileDocs.Put(tx, d, next)
		f = fileOf(ws.id, d.Key, &next)
		delta := next.weight() - before.weight()
		files, _ := unpack(number)
		if files >= nearlyFull && next.isFile() && !before.isFile() {
			CountDocs.Put(tx, store.Doc{Key: count}, number+delta)
		} else {
			tx.Add(store.Add{Key: count, Delta: delta, Max: pack(filesMask, MaxBytes)})
		}
		return nil
	})
	if full := new(store.BoundsError); errors.As(err, &full) && full.Key == count {
		err = cmp.Or(ws.checkRoom(full.Number, next.weight()), err)
	}
	if err != nil {
		return File{}, store.Problem(err)
	}
	return f, nil
}

func (v *stored) weight() int64 {
	if !v.isFile() {
		return 0
	}
	return pack(1, v.Size)
}

// decide checks a change. It returns the document of the file and the number of the counts.
func (q *Write) decide(ctx context.Context, from store.Reader, ws *opened) (before stored, number int64, err error) {
	before, d, err := FileDocs.Get(ctx, from, FileDocs.Key(ws.id, Fold(q.Path)))
	if err != nil {
		return before, 0, err
	}
	f := fileOf(ws.id, d.Key, &before)
	if err := f.checkSpelling(&before, q.Path); err != nil {
		return before, 0, err
	}
	changed := func(want, got string) error {
		return problem.New(problem.Precondition, "%s: expected %s, got %s", q.Path, want, got)
	}
	switch is := before.isFile(); {
	case q.If.Absent && is:
		return before, 0, changed("no file, or If-Match with the ETag of the file that is to be replaced", "a file")
	case (q.If.Exists || q.If.Hash != "") && !is:
		return before, 0, changed("a file", "none")
	case q.If.Hash != "" && q.If.Hash != f.Hash:
		return before, 0, changed("the version "+q.If.Hash, "the version "+f.Hash+"; it was changed since it was read")
	}
	number, _, err = CountDocs.Get(ctx, from, CountDocs.Key(ws.id))
	if err != nil {
		return before, 0, err
	}
	after := stored{Size: int64(len(q.Data)), Blob: "new"}
	return before, number, ws.checkRoom(number, after.weight()-before.weight())
}

// checkRoom returns an error unless a change of the number of counts fits into a workspace.
func (ws *opened) checkRoom(number, delta int64) error {
	if number < 0 {
		return errNone(ws.ref.Name)
	}
	files, bytes := unpack(number + delta)
	switch {
	case files > MaxFiles:
		return problem.New(problem.TooLarge, "workspace %s: expected at most %d files, which is the limit, got another; delete files first", ws.ref.Name, MaxFiles)
	case bytes > MaxBytes:
		return problem.New(problem.TooLarge, "workspace %s: expected at most %d bytes, which is the limit, got %d; delete files first", ws.ref.Name, MaxBytes, bytes)
	}
	return nil
}
