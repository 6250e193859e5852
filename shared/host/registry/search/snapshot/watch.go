package snapshot

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/store/blob"
)

type tagCache struct {
	mu       sync.Mutex
	lastRead time.Time
	tag      string
}

func (w *tagCache) record(tag string, readTime time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lastRead, w.tag = readTime, tag
}

// HasNewer reports whether a version other than loaded is published. It reads the manifest at most
// once per CheckInterval.
func (s *Snapshots) HasNewer(ctx context.Context, loaded Version) (bool, error) {
	now := s.cfg.Now()
	s.newestTag.mu.Lock()
	if elapsed := now.Sub(s.newestTag.lastRead); elapsed >= 0 && elapsed < CheckInterval {
		defer s.newestTag.mu.Unlock()
		return s.newestTag.tag != "" && s.newestTag.tag != loaded.Tag, nil
	}
	s.newestTag.lastRead = now // other callers use the cached tag during this read
	s.newestTag.mu.Unlock()

	info, err := s.cfg.Blobs.Head(ctx, manifestKey)
	if errors.Is(err, blob.ErrAbsent) {
		return false, nil
	}
	if err != nil {
		return false, blobError(err, "looking for a newer search index")
	}
	s.newestTag.record(info.Tag, now)
	return info.Tag != loaded.Tag, nil
}
