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

// Publish publishes the index if base is still the newest version. base is the version that the
// index was loaded from, or the zero Version for the first. If another version was published since
// base, Publish returns ErrOvertaken and changes no published version. A crash or an Unavailable
// error may leave an unreferenced archive, which a later Publish removes after an hour.
func (s *Snapshots) Publish(ctx context.Context, index Source, base Version) (Version, error) {
	// The time is read before the upload, which may be slow. Archives that other publishers upload
	// during this time are therefore too new for removeOrphans.
	now := s.cfg.Now()
	m, err := s.upload(ctx, index)
	if err != nil {
		return Version{}, err
	}
	m.PublishedAt = now.UTC()
	v, err := s.putManifest(ctx, m, base)
	if err != nil {
		if errors.Is(err, ErrOvertaken) {
			// No manifest names this archive, so it is never loaded. If the deletion fails, a later
			// Publish removes the archive.
			_ = s.cfg.Blobs.Delete(ctx, m.Archive)
		}
		return Version{}, err
	}
	s.newestTag.record(v.Tag, s.cfg.Now())
	// An error is ignored, because the publication is complete and a later Publish removes the
	// remaining orphans.
	_ = s.removeOrphans(ctx, m.Archive, now)
	return v, nil
}

func (s *Snapshots) upload(ctx context.Context, index Source) (Manifest, error) {
	m := Manifest{Format: manifestFormat}
	var err error
	// The mark is read before the archive, because it must not be later than the archive's state.
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
	// After an unknown outcome the manifest is read again. If it names this archive, the write
	// succeeded.
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

func (s *Snapshots) removeOrphans(ctx context.Context, current string, now time.Time) error {
	// If an unreferenced archive is older than orphanAge, no process is still loading it, and its
	// publisher has failed.
	var errs []error
	pages := store.AllPages(func(cursor string) ([]blob.Info, string, error) {
		return s.cfg.Blobs.List(ctx, Prefix, blob.MaxPage, cursor)
	})
	for o, err := range store.Flatten(pages) {
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		if strings.HasSuffix(o.Key, archiveSuffix) && o.Key != current && now.Sub(o.Modified) > orphanAge {
			errs = append(errs, s.cfg.Blobs.Delete(ctx, o.Key))
		}
	}
	return errors.Join(errs...)
}
