package snapshot

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/store/blob"
)

// watch caches the manifest's tag and the time of its last read.
type watch struct {
	mu  sync.Mutex
	at  time.Time
	tag string
}

func (w *watch) saw(tag string, seenAt time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at, w.tag = seenAt, tag
}

// Newer reports whether a version other than held is published. It reads the manifest at most once
// per CheckEvery and otherwise repeats its last result, so it can be called before every query. A
// failed read also delays the next one, so that a failing store does not get more requests.
func (s *Snapshots) Newer(ctx context.Context, held Version) (bool, error) {
	now := s.cfg.Now()
	s.watch.mu.Lock()
	if since := now.Sub(s.watch.at); since >= 0 && since < CheckEvery {
		defer s.watch.mu.Unlock()
		return s.watch.tag != "" && s.watch.tag != held.Tag, nil
	}
	s.watch.at = now // other callers use the cached tag during this read
	s.watch.mu.Unlock()

	info, err := s.cfg.Blobs.Head(ctx, manifestKey)
	if errors.Is(err, blob.ErrAbsent) {
		return false, nil
	}
	if err != nil {
		return false, blobError(err, "looking for a newer search index")
	}
	s.watch.saw(info.Tag, now)
	return info.Tag != held.Tag, nil
}
