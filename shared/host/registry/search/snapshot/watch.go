package snapshot

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/store/blob"
)

// watch caches the manifest's tag and when it was read.
type watch struct {
	mu  sync.Mutex
	at  time.Time
	tag string
}

func (w *watch) saw(tag string, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at, w.tag = at, tag
}

// Newer reports whether another version than held is published. It reads the
// manifest at most once in ten seconds and otherwise repeats the last answer,
// so it can precede every query. Unavailable counts as an answer too: a store
// in trouble is not asked more often.
func (s *Snapshots) Newer(ctx context.Context, held Version) (bool, error) {
	now := s.cfg.Now()
	s.watch.mu.Lock()
	if since := now.Sub(s.watch.at); since >= 0 && since < CheckEvery {
		defer s.watch.mu.Unlock()
		return s.watch.tag != "" && s.watch.tag != held.Tag, nil
	}
	s.watch.at = now // others continue while this one reads
	s.watch.mu.Unlock()

	info, err := s.cfg.Blobs.Head(ctx, manifestKey)
	if errors.Is(err, blob.ErrAbsent) {
		return false, nil
	}
	if err != nil {
		return false, failed(err, "looking for a newer search index")
	}
	s.watch.saw(info.Tag, now)
	return info.Tag != held.Tag, nil
}
