package workspace

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/blob"
)

// Prefix begins the keys of all blobs.
const Prefix = "workspaces/"

const (
	// orphanAge is the minimum age at which a blob without a document is deleted. It is longer than
	// any write. The count document of a removed workspace remains for the same time after the
	// files are deleted.
	orphanAge = 24 * time.Hour
	// backupTime is the minimum time between the replacement of a blob and its deletion. A backup
	// reads the blobs within this time after it has read the documents.
	backupTime = time.Hour
	// young is the maximum age of a replaced blob that is not recorded in Former. Such a blob
	// reaches orphanAge more than backupTime after its replacement.
	young = orphanAge - 2*backupTime
	// tombstoneTime is the lifetime of a tombstone. It exceeds backupTime and the time during which
	// a writer may retry.
	tombstoneTime = 2 * backupTime
	// verifyAge is the minimum age at which verify reports a blob without a document.
	verifyAge = 2 * orphanAge

	deletesAtOnce = 8
)

func blobKey(id, name string) string { return Prefix + id + "/" + name }

// Remove removes a workspace and destroys its key, which makes the files unreadable. Sweep deletes
// the files later.
func (w *Workspaces) Remove(ctx context.Context, ref Ref) error {
	return store.AsProblem(w.Store.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		v, d, err := Docs.Get(ctx, tx, Docs.Key(ref.Owner, ref.Name))
		if err == nil && d.Version == 0 {
			err = errNone(ref.Name)
		}
		var number int64
		count := store.Doc{Key: CountDocs.Key(v.ID)}
		if err == nil {
			number, _, err = CountDocs.Get(ctx, tx, count.Key)
		}
		if err == nil {
			err = w.AlsoRemove(ctx, tx, ref)
		}
		if err != nil {
			return err
		}
		tx.Delete(d.Key)
		if number == 0 {
			count.Expires = w.now().Add(orphanAge) // a workspace without blobs is not visited by Sweep
		}
		CountDocs.Put(tx, count, -w.now().Unix()) // makes concurrent writes fail
		tx.Add(store.Add{Key: CountDocs.Key(ref.Owner), Delta: -1, Max: MaxWorkspaces})
		return nil
	}))
}

func (w *Workspaces) deleteFiles(ctx context.Context, id string, number int64) error {
	for docs, err := range store.Pages(ctx, w.Store.Store, FileDocs.Range(id), store.MaxWrites) {
		if err == nil {
			err = w.Store.Update(ctx, func(_ context.Context, tx *store.Tx) error {
				for _, d := range docs {
					tx.Add(store.Delete{Key: d.Key, If: d.Version})
				}
				return nil
			})
		}
		if err != nil {
			return err
		}
	}
	return w.Store.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		d, err := tx.Doc(ctx, CountDocs.Key(id))
		CountDocs.Put(tx, store.Doc{Key: d.Key, Expires: w.now().Add(orphanAge)}, number)
		return err
	})
}

// Sweep deletes the files of removed workspaces, and sufficiently old blobs without a document. It
// returns the number of deleted blobs.
func (w *Workspaces) Sweep(ctx context.Context) (deleted int, err error) {
	blobs, err := w.Blobs()
	if err != nil {
		return 0, store.AsProblem(err)
	}
	c := Verification{Documents: w.Store.Store, Now: w.now(), Found: func(_, _, _ string) {}}
	var failed []error // errors of single workspaces, which do not stop the sweep
	err = eachWorkspace(ctx, blobs, func(id string, listed []blob.Info) error {
		number, _, err := CountDocs.Get(ctx, w.Store.Store, CountDocs.Key(id))
		switch {
		case err != nil:
		case number < 0 && w.now().Before(time.Unix(-number, 0).Add(backupTime)):
			return nil // a backup that began before the removal may still read the blobs
		case number < 0:
			err = w.deleteFiles(ctx, id, number)
		default:
			listed, err = c.verify(ctx, id, listed, orphanAge)
		}
		if err != nil {
			failed = append(failed, err)
			return ctx.Err()
		}
		var group errgroup.Group
		group.SetLimit(deletesAtOnce)
		for _, b := range listed {
			group.Go(func() error { return blobs.Delete(ctx, b.Key) })
		}
		if err := group.Wait(); err != nil {
			failed = append(failed, err)
			return ctx.Err()
		}
		deleted += len(listed)
		return nil
	})
	return deleted, store.AsProblem(errors.Join(append(failed, err)...))
}

// eachWorkspace calls fn for each workspace that has blobs. It lists the blobs before fn reads the
// documents. A listed blob that is old and has no document will therefore never get one.
func eachWorkspace(ctx context.Context, blobs blob.Blobs, fn func(id string, listed []blob.Info) error) error {
	var listed []blob.Info
	last := ""
	for b, err := range store.Flatten(store.AllPages(func(cursor string) ([]blob.Info, string, error) {
		return blobs.List(ctx, Prefix, blob.MaxPage, cursor)
	})) {
		if err != nil {
			return err
		}
		id, _, _ := strings.Cut(strings.TrimPrefix(b.Key, Prefix), "/")
		if id != last && len(listed) > 0 {
			if err := fn(last, listed); err != nil {
				return err
			}
			listed = nil
		}
		last, listed = id, append(listed, b)
	}
	if len(listed) == 0 {
		return nil
	}
	return fn(last, listed)
}

// Verification compares the documents of all workspaces with each other and with the blobs. Its
// method Verify returns an error only if it cannot read all documents and blobs.
type Verification struct {
	Documents interface {
		store.Reader
		store.Lister
	}
	// Blobs opens the blob storage, or returns nil if the host has none. If Blobs is nil, Verify
	// compares only documents.
	Blobs func() (blob.Blobs, error)
	Now   time.Time
	// Found is called for each inconsistency with the key of a document or blob.
	Found func(where, want, got string)
}

func (c *Verification) Verify(ctx context.Context) error {
	verified := map[string]bool{}
	verify := func(id string, listed []blob.Info) error {
		verified[id] = true
		orphans, err := c.verify(ctx, id, listed, verifyAge)
		for _, b := range orphans {
			c.Found(b.Key, "the document of a file that has it", "none")
		}
		return err
	}
	if c.Blobs != nil {
		blobs, err := c.Blobs()
		if err == nil && blobs != nil {
			err = eachWorkspace(ctx, blobs, verify)
		}
		if err != nil {
			return err
		}
	}
	for d, err := range store.Documents(ctx, c.Documents, Docs.IndexRange()) {
		if err != nil {
			return err
		}
		v, err := Docs.Parse(d)
		if err != nil {
			c.Found(d.Key.String(), "a workspace", problem.AsError(err).Text())
			continue
		}
		if !verified[v.ID] {
			if err := verify(v.ID, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// verify compares the documents of a workspace with its blobs. It returns the blobs that are older
// than age and not needed by any document. If a file was written after the blobs were listed,
// verify may report that its blob is missing.
func (c *Verification) verify(ctx context.Context, id string, listed []blob.Info, age time.Duration) (orphans []blob.Info, err error) {
	number, count, err := CountDocs.Get(ctx, c.Documents, CountDocs.Key(id))
	if err != nil || number < 0 {
		return nil, err
	}
	sizes := map[string]int64{}
	for _, b := range listed {
		sizes[b.Key] = b.Size
	}
	var counted int64
	needed, isComplete := map[string]bool{}, true
	for d, err := range store.Documents(ctx, c.Documents, FileDocs.Range(id)) {
		if err != nil {
			return nil, err
		}
		v, err := FileDocs.Parse(d)
		if err != nil {
			c.Found(d.Key.String(), "a file", problem.AsError(err).Text())
			isComplete = false // the unreadable document may need any blob
			continue
		}
		counted += v.weight()
		key := blobKey(id, v.Blob)
		needed[key] = true
		if c.Now.Before(v.Until) {
			needed[blobKey(id, v.Former)] = true
		}
		switch size, ok := sizes[key]; {
		case c.Blobs == nil || !v.isFile():
		case !ok:
			c.Found(d.Key.String(), "its bytes, in blob "+key, "none")
		case size != v.Size+overhead:
			c.Found(d.Key.String(), fmt.Sprintf("a blob of %d bytes", v.Size+overhead), fmt.Sprintf("%d bytes", size))
		}
	}
	if number != counted {
		c.Found(count.Key.String(), describe(counted)+", according to the files", describe(number))
	}
	for _, b := range listed {
		if isComplete && !needed[b.Key] && c.Now.Sub(b.Modified) > age {
			orphans = append(orphans, b)
		}
	}
	return orphans, nil
}

func describe(number int64) string {
	files, bytes := unpack(number)
	return fmt.Sprintf("%d files of %d bytes", files, bytes)
}
