package snapshot

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/blob"
)

// Publish publishes an index that was built from base. If another version was published since base,
// Publish returns ErrOvertaken.
func (s *Snapshots) Publish(ctx context.Context, index Source, base Version) (Version, error) {
	// This time is taken before the upload, so that a long upload does not make concurrent uploads
	// look like orphans.
	now := s.cfg.Now()
	m, err := s.upload(ctx, index)
	if err != nil {
		return Version{}, err
	}
	m.PublishedAt = now.UTC()
	v, err := s.putManifest(ctx, m, base)
	if err != nil {
		if errors.Is(err, ErrOvertaken) {
			// If the deletion fails, a later Publish removes the archive.
			_ = s.cfg.Blobs.Delete(ctx, m.Archive)
		}
		return Version{}, err
	}
	s.newestTag.record(v.Tag, s.cfg.Now())
	_ = s.removeOrphans(ctx, m.Archive, now) // the next Publish tries again
	return v, nil
}

func (s *Snapshots) upload(ctx context.Context, index Source) (Manifest, error) {
	m := Manifest{Format: manifestFormat}
	var err error
	// The mark must not be later than the archive's state.
	if m.Mark, err = index.Mark(ctx); err != nil {
		return Manifest{}, err
	}
	if m.Entries, err = index.Count(ctx); err != nil {
		return Manifest{}, err
	}
	var name [16]byte
	if _, err := io.ReadFull(s.cfg.Rand, name[:]); err != nil {
		return Manifest{}, problem.Wrap(problem.Internal, err, "no randomness for the archive's name")
	}
	m.Archive = Prefix + hex.EncodeToString(name[:]) + archiveSuffix
	file, err := os.CreateTemp(s.cfg.Dir, "out-*"+archiveSuffix)
	if err != nil {
		return Manifest{}, problem.Wrap(problem.Internal, err, "cannot create a file for the archive")
	}
	defer func() { _ = errors.Join(file.Close(), os.Remove(file.Name())) }()
	sum := sha256.New()
	if err := index.Snapshot(ctx, io.MultiWriter(file, sum)); err != nil {
		return Manifest{}, err
	}
	m.SHA256 = hex.EncodeToString(sum.Sum(nil))
	if m.Size, err = file.Seek(0, io.SeekCurrent); err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return Manifest{}, problem.Wrap(problem.Internal, err, "reading the archive")
	}
	if _, err := s.cfg.Blobs.Put(ctx, m.Archive, file, m.Size, blob.Condition{Absent: true}); err != nil {
		return Manifest{}, blobError(err, "uploading the search index")
	}
	return m, nil
}

func (s *Snapshots) putManifest(ctx context.Context, m Manifest, base Version) (Version, error) {
	// After an unknown outcome the manifest is read again.
	text, err := m.encode()
	if err != nil {
		return Version{}, problem.Wrap(problem.Internal, err, "writing the manifest")
	}
	cond := blob.Condition{Tag: base.Tag, Absent: base.Tag == ""}
	var lastErr error
	for range maxTries {
		tag, err := s.cfg.Blobs.Put(ctx, manifestKey, bytes.NewReader(text), int64(len(text)), cond)
		if err == nil {
			return Version{Manifest: m, Tag: tag}, nil
		}
		if !errors.Is(err, blob.ErrConflict) && !errors.Is(err, blob.ErrUnavailable) {
			return Version{}, blobError(err, "publishing the search index")
		}
		current, readErr := s.Latest(ctx)
		switch {
		case readErr == nil && current.Manifest.Archive == m.Archive:
			return current, nil
		case errors.Is(err, blob.ErrConflict):
			return Version{}, ErrOvertaken
		}
		lastErr = err
	}
	return Version{}, blobError(lastErr, "publishing the search index")
}

func (s *Snapshots) removeOrphans(ctx context.Context, currentArchive string, now time.Time) error {
	// An archive older than orphanAge is no longer being loaded or published.
	var errs []error
	pages := store.AllPages(func(cursor string) ([]blob.Info, string, error) {
		return s.cfg.Blobs.List(ctx, Prefix, blob.MaxPage, cursor)
	})
	for o, err := range store.Flatten(pages) {
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		if strings.HasSuffix(o.Key, archiveSuffix) && o.Key != currentArchive && now.Sub(o.Modified) > orphanAge {
			errs = append(errs, s.cfg.Blobs.Delete(ctx, o.Key))
		}
	}
	return errors.Join(errs...)
}
