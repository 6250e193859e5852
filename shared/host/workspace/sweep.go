package workspace

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/blob"
)

// Prefix is the prefix of the keys of all blobs.
const Prefix = "workspaces/"

const (
	// orphanAge is the age from which on a blob without a document is deleted. No write takes as long.
	orphanAge = 24 * time.Hour
	// backupTime is the least time between the replacement of a blob and its deletion: a backup reads the blobs
	// within that time after the documents.
	backupTime = time.Hour
	// young is the age up to which a replaced blob needs no mention: orphanAge protects it for backupTime.
	young = orphanAge - 2*backupTime
	// tombstoneTime is the time for which a deleted file keeps its document, which is more than backupTime and more
	// than the time for which a writer may retry.
	tombstoneTime = 2 * backupTime
	// removalTime limits the deletion of files in a request that removes a workspace. Sweep deletes the rest.
	removalTime = 5 * time.Second
	// verifyAge is the age from which on verify reports a blob without a document.
	verifyAge = 2 * orphanAge
)

func prefixOf(id string) string { return Prefix + id + "/" }

func blobKey(id, name string) string { return prefixOf(id) + name }

// Remove removes a workspace with all files. Its key is destroyed at once, so its files can no longer be read.
func (w *Workspaces) Remove(ctx context.Context, ref Ref) error {
	if err := CheckName(ref.Name); err != nil {
		return err
	}
	var v document
	err := w.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		var d store.Doc
		v, d, err = Docs.Get(ctx, tx, Docs.Key(ref.Owner, ref.Name))
		if err == nil && d.Version == 0 {
			err = errNone(ref.Name)
		}
		if err == nil {
			_, _, err = CountDocs.Get(ctx, tx, CountDocs.Key(v.ID))
		}
		if err != nil {
			return err
		}
		tx.Delete(d.Key)
		v.Box, v.Removed = nil, w.now()
		Docs.Put(tx, store.Doc{Key: Docs.Key(ref.Owner, v.sort()), Index: Docs.Listed(ref.Owner + "/" + v.sort())}, v)
		CountDocs.Put(tx, store.Doc{Key: CountDocs.Key(v.ID)}, removed) // refuses writes that have begun
		tx.Add(store.Add{Key: CountDocs.Key(ref.Owner), Delta: -1, Max: MaxWorkspaces})
		return nil
	})
	if err != nil {
		return store.Problem(err)
	}
	w.keys.Remove(v.ID)
	ctx, cancel := context.WithTimeout(ctx, removalTime)
	defer cancel()
	if err := w.clean(ctx, &v); err != nil {
		w.c.Log.InfoContext(ctx, "the files of a removed workspace are deleted later", "cause", err.Error())
	}
	return nil
}

// clean deletes what a removed workspace has left.
func (w *Workspaces) clean(ctx context.Context, v *document) error {
	for {
		docs, _, err := w.c.Store.Docs(ctx, FileDocs.All(v.ID), store.MaxWrites, "")
		if err != nil {
			return err
		}
		if len(docs) == 0 {
			break
		}
		deletes := make([]store.Write, len(docs))
		for i, d := range docs {
			deletes[i] = store.Delete{Key: d.Key, If: d.Version}
		}
		if err := w.updater().Commit(ctx, deletes...); err != nil && !store.IsConflict(err) {
			return err
		}
	}
	blobs, err := w.c.Blobs()
	if err != nil {
		return err
	}
	for {
		page, _, err := blobs.List(ctx, prefixOf(v.ID), blob.MaxPage, "")
		if err != nil {
			return err
		}
		if len(page) == 0 {
			break
		}
		for _, b := range page {
			if err := blobs.Delete(ctx, b.Key); err != nil {
				return err
			}
		}
	}
	return w.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		_, d, err := Docs.Get(ctx, tx, Docs.Key(v.Owner, v.sort()))
		if err == nil {
			_, _, err = CountDocs.Get(ctx, tx, CountDocs.Key(v.ID))
		}
		if err != nil || d.Version == 0 {
			return err
		}
		tx.Delete(d.Key)
		CountDocs.Put(tx, store.Doc{Key: CountDocs.Key(v.ID), Expires: w.now().Add(orphanAge)}, removed)
		return nil
	})
}

// Swept is the result of Sweep.
type Swept struct {
	Removed int // workspaces
	Blobs   int
}

// Sweep deletes the files of removed workspaces, and blobs without a document that are old enough.
func (w *Workspaces) Sweep(ctx context.Context) (s Swept, err error) {
	for v, err := range Docs.Each(ctx, w.c.Store, Docs.Indexed()) {
		if err == nil && v.isRemoved() {
			err = w.clean(ctx, &v)
			s.Removed++
		}
		if err != nil {
			return s, store.Problem(err)
		}
	}
	blobs, err := w.c.Blobs()
	if err != nil {
		return s, store.Problem(err)
	}
	now := w.now()
	err = orphans(ctx, w.c.Store, blobs, now, orphanAge, func(b blob.Info) error {
		s.Blobs++
		return blobs.Delete(ctx, b.Key)
	})
	return s, store.Problem(err)
}

// orphans calls found for each blob of an age that no document has. The blobs are listed before the documents are
// read, because a blob that was listed never gets a document later.
func orphans(ctx context.Context, from store.Lister, blobs blob.Blobs, now time.Time, age time.Duration, found func(blob.Info) error) error {
	var id string
	var old []blob.Info // blobs of the workspace id
	flush := func() error {
		if len(old) == 0 {
			return nil
		}
		used := map[string]bool{}
		for d, err := range store.All(ctx, from, FileDocs.All(id)) {
			if err != nil {
				return err
			}
			v, err := FileDocs.Parse(d)
			if err != nil {
				return err // a damaged document may need any blob
			}
			used[v.Blob] = true
			used[v.Former] = used[v.Former] || now.Before(v.Until)
		}
		for _, b := range old {
			if !used[strings.TrimPrefix(b.Key, prefixOf(id))] {
				if err := found(b); err != nil {
					return err
				}
			}
		}
		old = nil
		return nil
	}
	pages := store.Items(store.Follow(func(cursor string) ([]blob.Info, string, error) {
		return blobs.List(ctx, Prefix, blob.MaxPage, cursor)
	}))
	for b, err := range pages {
		if err != nil {
			return err
		}
		of, _, _ := strings.Cut(strings.TrimPrefix(b.Key, Prefix), "/")
		if of != id {
			if err := flush(); err != nil {
				return err
			}
			id = of
		}
		if now.Sub(b.Modified) > age {
			old = append(old, b)
		}
	}
	return flush()
}

func sizes(files, bytes int64) string { return fmt.Sprintf("%d files of %d bytes", files, bytes) }

// Damage is a finding of Verify.
type Damage struct {
	Key       store.Key // of a document; zero for a blob
	Blob      string    // key of a blob, or ""
	Want, Got string
}

// Verification compares the documents of all workspaces with each other and with the blobs.
type Verification struct {
	Documents interface {
		store.Reader
		store.Lister
	}
	// Blobs opens the storage of blobs, or returns nil if there is none. If Blobs is nil, only documents are compared.
	Blobs func() (blob.Blobs, error)
	Now   time.Time
	Found func(Damage)
}

// Verify reports damage. It returns an error if it could not read everything.
func Verify(ctx context.Context, c Verification) (err error) {
	from, found := c.Documents, c.Found
	var blobs blob.Blobs
	if c.Blobs != nil {
		if blobs, err = c.Blobs(); err != nil {
			return err
		}
	}
	// damaged reports errors of documents, and returns others.
	damaged := func(k store.Key, want string, err error) error {
		if !problem.Is(err, problem.Damaged) || errors.Is(err, store.ErrUnavailable) {
			return err
		}
		found(Damage{Key: k, Want: want, Got: problem.Of(err).Text()})
		return nil
	}
	for d, err := range store.All(ctx, from, Docs.Indexed()) {
		if err != nil {
			return err
		}
		v, err := Docs.Parse(d)
		if err != nil {
			if err := damaged(d.Key, "a workspace", err); err != nil {
				return err
			}
			continue
		}
		if v.isRemoved() {
			continue
		}
		if err := c.verifyFiles(ctx, blobs, &v, damaged); err != nil {
			return err
		}
	}
	if blobs == nil {
		return nil
	}
	err = orphans(ctx, from, blobs, c.Now, verifyAge, func(b blob.Info) error {
		found(Damage{Blob: b.Key, Want: "the document of a file that has it", Got: "none"})
		return nil
	})
	if problem.Is(err, problem.Damaged) && !errors.Is(err, store.ErrUnavailable) {
		return nil // verifyFiles reported the document
	}
	return err
}

func (c *Verification) verifyFiles(ctx context.Context, blobs blob.Blobs, v *document, damaged func(store.Key, string, error) error) error {
	from, found := c.Documents, c.Found
	var counted int64
	files := map[string]stored{} // by blob
	keys := map[string]store.Key{}
	for d, err := range store.All(ctx, from, FileDocs.All(v.ID)) {
		if err != nil {
			return err
		}
		f, err := FileDocs.Parse(d)
		if err != nil {
			if err := damaged(d.Key, "a file", err); err != nil {
				return err
			}
			continue
		}
		if counted += f.weight(); f.isFile() {
			files[f.Blob], keys[f.Blob] = f, d.Key
		}
	}
	number, d, err := CountDocs.Get(ctx, from, CountDocs.Key(v.ID))
	if err != nil {
		return err
	}
	if number != counted {
		n, bytes := unpack(counted)
		m, others := unpack(number)
		found(Damage{Key: d.Key, Want: sizes(n, bytes) + ", as the files say", Got: sizes(m, others)})
	}
	if c.Blobs == nil {
		return nil
	}
	// The blobs are listed after the documents were read: a replaced blob stays for an hour.
	for page, err := range store.Follow(func(cursor string) ([]blob.Info, string, error) {
		if blobs == nil {
			return nil, "", nil
		}
		return blobs.List(ctx, prefixOf(v.ID), blob.MaxPage, cursor)
	}) {
		if err != nil {
			return err
		}
		for _, b := range page {
			name := strings.TrimPrefix(b.Key, prefixOf(v.ID))
			f, ok := files[name]
			if ok && b.Size != f.Size+overhead {
				found(Damage{Key: keys[name], Want: "a blob of " + sizes(1, f.Size+overhead), Got: sizes(1, b.Size)})
			}
			delete(files, name)
		}
	}
	for name := range files {
		found(Damage{Key: keys[name], Want: "its bytes, in blob " + blobKey(v.ID, name), Got: "none"})
	}
	return nil
}
