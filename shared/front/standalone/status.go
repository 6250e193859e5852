package standalone

import (
	"context"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/message"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/obs"
)

// Status describes the host.
func (h *Host) Status(ctx context.Context) (admin.Status, error) {
	s := admin.Status{
		URL: h.config.URL, Data: h.config.Dir, Version: h.config.Version, PID: os.Getpid(), Started: h.started,
		Calls: h.counts.calls.Load(), Failed: h.counts.failed.Load(),
		DataBytes: sizeOf(filepath.Join(h.config.Dir, DataFile)), SearchBytes: sizeOf(filepath.Join(h.config.Dir, SearchDir)),
		JournalBytes: sizeOf(filepath.Join(h.config.Dir, journalDir)),
	}
	if info, err := h.Store.Info(); err == nil {
		if data, err := describe(info); err == nil {
			s.Stored = data.Stored()
		}
	}
	free, size := h.room.disk()
	s.FreeBytes, s.MinFreeBytes = free, MinFree(size)
	for page, err := range h.Vacants.Pages(ctx, vacants.Operator()) {
		if err != nil {
			return s, err
		}
		s.Vacants += len(page)
		for i := range page {
			if r := &page[i]; r.Restored.After(s.Restored) {
				s.Restored, s.RefusedUntil = r.Restored, r.Floor
			}
		}
	}
	var err error
	s.TextsEnd, err = h.Texts.NextEnd(ctx)
	return s, err
}

// sizeOf is the size of a file, or of all files in a directory; 0 if it is absent.
func sizeOf(path string) (size int64) {
	_ = filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // absent, or removed meanwhile
		}
		if info, err := d.Info(); err == nil {
			size += info.Size()
		}
		return nil
	})
	return size
}

// counts counts the calls in a log.
type counts struct {
	slog.Handler
	calls, failed atomic.Uint64
}

// Handle counts a record and passes it on. The line of a call has its pair and its verdict,
// whatever the call's protocol; a line with only the pair tells what an agent did.
func (c *counts) Handle(ctx context.Context, r slog.Record) error {
	var pair, verdict string
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "pair":
			pair = a.Value.String()
		case obs.Verdict:
			verdict = a.Value.String()
		}
		return true
	})
	failed := r.Level >= slog.LevelError
	isCall := pair != "" && (verdict == "ok" || failed) // a refused request is not a call
	if isCall && (r.Message == message.CallLine || r.Message == "a2a" || r.Message == "mcp") {
		c.calls.Add(1)
		if failed {
			c.failed.Add(1)
		}
	}
	return c.Handler.Handle(ctx, r)
}
