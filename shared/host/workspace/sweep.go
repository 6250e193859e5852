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

const BlobPrefix = "workspaces/"

const (
	// orphanAge is the minimum age at which a blob without a document is deleted. It is longer than
	// any write.
	orphanAge = 24 * time.Hour
	// backupTime is the minimum time between the replacement of a blob and its deletion. A backup must
	// read the blobs within this time after it has read the documents.
	backupTime = time.Hour
	// maxUnrecordedAge limits the age of a replaced blob that is not recorded in FormerBlob. Sweep
	// deletes an unrecorded blob at least 2*backupTime after its replacement.
	maxUnrecordedAge = orphanAge - 2*backupTime
	// tombstoneTime exceeds backupTime and the time during which a writer may retry.
	tombstoneTime = 2 * backupTime
	verifyAge     = 2 * orphanAge

	maxParallelDeletes = 8
)

func blobKey(id, name string) string { return BlobPrefix + id + "/" + name }

// RemoveWorkspace removes a workspace and destroys its key. Sweep deletes the unreadable files
// later.
func (w *Workspaces) RemoveWorkspace(ctx context.Context, ref Ref) error {
	return store.AsProblem(w.Store.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		v, d, err := Docs.Get(ctx, tx, Docs.Key(ref.Owner, ref.Name))
		if err == nil && d.Version == 0 {
			err = errNoWorkspace(ref.Name)
		}
		var number int64
		countDoc := store.Doc{Key: CountDocs.Key(v.ID)}
		if err == nil {
			number, _, err = CountDocs.Get(ctx, tx, countDoc.Key)
		}
		if err == nil {
			err = w.RemoveRelated(ctx, tx, ref)
		}
		if err != nil {
			return err
		}
		tx.Delete(d.Key)
		if number == 0 {
			countDoc.Expires = w.now().Add(orphanAge) // deleteFiles sets it for workspaces with blobs
		}
		CountDocs.Put(tx, countDoc, -w.now().Unix()) // makes concurrent writes fail
		tx.AddWrites(store.Add{Key: CountDocs.Key(ref.Owner), Delta: -1, Max: MaxWorkspaces})
		return nil
	}))
}

func (w *Workspaces) deleteFiles(ctx context.Context, id string, number int64) error {
	for docs, err := range store.Pages(ctx, w.Store.Store, FileDocs.Range(id), store.MaxWrites) {
		if err == nil {
			err = w.Store.Update(ctx, func(_ context.Context, tx *store.Tx) error {
				for _, d := range docs {
					tx.AddWrites(store.Delete{Key: d.Key, IfVersion: d.Version})
				}
				return nil
			})
		}
		if err != nil {
			return err
		}
	}
	// The count document must outlive every write, because its negative number makes late writes
	// fail.
	return w.Store.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		d, err := tx.Doc(ctx, CountDocs.Key(id))
		CountDocs.Put(tx, store.Doc{Key: d.Key, Expires: w.now().Add(orphanAge)}, number)
		return err
	})
}

// Sweep deletes the files of removed workspaces, and old blobs without a document.
func (w *Workspaces) Sweep(ctx context.Context) (deleted int, err error) {
	blobs, err := w.Blobs()
	if err != nil {
		return 0, store.AsProblem(err)
	}
	verifier := Verifier{Documents: w.Store.Store, Now: w.now(), Report: func(_, _, _ string) {}}
	var errs []error
	err = forEachWorkspace(ctx, blobs, func(id string, blobInfos []blob.Info) error {
		number, _, err := CountDocs.Get(ctx, w.Store.Store, CountDocs.Key(id))
		switch {
		case err != nil:
		case number < 0 && w.now().Before(time.Unix(-number, 0).Add(backupTime)):
			return nil // a backup that began before the removal may still read the blobs
		case number < 0:
			err = w.deleteFiles(ctx, id, number)
		default:
			blobInfos, err = verifier.verifyWorkspace(ctx, id, blobInfos, orphanAge)
		}
		if err != nil {
			errs = append(errs, err)
			return ctx.Err()
		}
		var group errgroup.Group
		group.SetLimit(maxParallelDeletes)
		for _, b := range blobInfos {
			group.Go(func() error { return blobs.Delete(ctx, b.Key) })
		}
		if err := group.Wait(); err != nil {
			errs = append(errs, err)
			return ctx.Err()
		}
		deleted += len(blobInfos)
		return nil
	})
	return deleted, store.AsProblem(errors.Join(append(errs, err)...))
}

// forEachWorkspace calls fn with the blobs of each workspace. The blobs are listed before fn reads
// the documents, so an old blob without a document is an orphan.
func forEachWorkspace(ctx context.Context, blobs blob.Blobs, fn func(id string, blobInfos []blob.Info) error) error {
	var blobInfos []blob.Info
	lastID := ""
	for b, err := range store.Flatten(store.AllPages(func(cursor string) ([]blob.Info, string, error) {
		return blobs.List(ctx, BlobPrefix, blob.MaxPage, cursor)
	})) {
		if err != nil {
			return err
		}
		id, _, _ := strings.Cut(strings.TrimPrefix(b.Key, BlobPrefix), "/")
		if id != lastID && len(blobInfos) > 0 {
			if err := fn(lastID, blobInfos); err != nil {
				return err
			}
			blobInfos = nil
		}
		lastID, blobInfos = id, append(blobInfos, b)
	}
	if len(blobInfos) == 0 {
		return nil
	}
	return fn(lastID, blobInfos)
}

type Verifier struct {
	Documents interface {
		store.Reader
		store.Lister
	}
	// Blobs opens the blob storage. If Blobs or its result is nil, Verify compares only documents.
	Blobs func() (blob.Blobs, error)
	Now   time.Time
	// Report is called for each inconsistency with the key of a document or blob.
	Report func(where, want, got string)
}

func (c *Verifier) Verify(ctx context.Context) error {
	verifiedIDs := map[string]bool{}
	verifyOne := func(id string, blobInfos []blob.Info) error {
		verifiedIDs[id] = true
		orphans, err := c.verifyWorkspace(ctx, id, blobInfos, verifyAge)
		for _, b := range orphans {
			c.Report(b.Key, "a file document that refers to this blob", "none")
		}
		return err
	}
	if c.Blobs != nil {
		blobs, err := c.Blobs()
		if err == nil && blobs != nil {
			err = forEachWorkspace(ctx, blobs, verifyOne)
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
			c.Report(d.Key.String(), "a workspace", problem.AsError(err).Text())
			continue
		}
		if !verifiedIDs[v.ID] {
			if err := verifyOne(v.ID, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// verifyWorkspace returns the blobs that are older than age and not needed by any document. If a
// file was written after the blobs were listed, verifyWorkspace may report that its blob is
// missing.
func (c *Verifier) verifyWorkspace(ctx context.Context, id string, blobInfos []blob.Info, age time.Duration) (orphans []blob.Info, err error) {
	number, countDoc, err := CountDocs.Get(ctx, c.Documents, CountDocs.Key(id))
	if err != nil || number < 0 {
		return nil, err
	}
	sizes := map[string]int64{}
	for _, b := range blobInfos {
		sizes[b.Key] = b.Size
	}
	var total int64
	neededBlobs, isComplete := map[string]bool{}, true
	for d, err := range store.Documents(ctx, c.Documents, FileDocs.Range(id)) {
		if err != nil {
			return nil, err
		}
		v, err := FileDocs.Parse(d)
		if err != nil {
			c.Report(d.Key.String(), "a file", problem.AsError(err).Text())
			isComplete = false // the unreadable document may need any blob
			continue
		}
		total += v.packedCounts()
		key := blobKey(id, v.Blob)
		neededBlobs[key] = true
		if c.Now.Before(v.FormerUntil) {
			neededBlobs[blobKey(id, v.FormerBlob)] = true
		}
		switch size, ok := sizes[key]; {
		case c.Blobs == nil || !v.isFile():
		case !ok:
			c.Report(d.Key.String(), "its content in blob "+key, "none")
		case size != v.Size+sealOverhead:
			c.Report(d.Key.String(), fmt.Sprintf("a blob of %d bytes", v.Size+sealOverhead), fmt.Sprintf("%d bytes", size))
		}
	}
	if number != total {
		c.Report(countDoc.Key.String(), describeCounts(total)+", according to the files", describeCounts(number))
	}
	for _, b := range blobInfos {
		if isComplete && !neededBlobs[b.Key] && c.Now.Sub(b.Modified) > age {
			orphans = append(orphans, b)
		}
	}
	return orphans, nil
}

func describeCounts(number int64) string {
	files, bytes := unpackCounts(number)
	return fmt.Sprintf("%d files of %d bytes", files, bytes)
}
