package standalone

import (
	"context"
	"io/fs"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/message"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
)

// Status describes a running host. Calls and Failed are counted since Started.
type Status struct {
	URL     string    `json:"url"`
	Data    string    `json:"data"`
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	Vacants int       `json:"vacants"`
	Calls   uint64    `json:"calls"`
	Failed  uint64    `json:"failed"` // 5xx
	// Sizes in bytes.
	DataBytes    int64 `json:"data_bytes"`
	SearchBytes  int64 `json:"search_bytes"`
	JournalBytes int64 `json:"journal_bytes"`
	// TextsEnd is when the oldest texts become unreadable; zero if there are none.
	TextsEnd time.Time `json:"texts_end,omitzero"`
}

// status serves GET /v1/admin/status.
func (h *Host) status(w http.ResponseWriter, r *http.Request) {
	s, err := h.Status(r.Context())
	if err == nil {
		err = httpapi.Answer(w, http.StatusOK, s)
	}
	if err != nil {
		httpapi.Fail(w, err)
	}
}

// Status describes the host.
func (h *Host) Status(ctx context.Context) (Status, error) {
	s := Status{
		URL: h.config.URL, Data: h.config.Dir, Version: h.config.Version, Started: h.started,
		Calls: h.counts.calls.Load(), Failed: h.counts.failed.Load(),
		DataBytes: sizeOf(filepath.Join(h.config.Dir, DataFile)), SearchBytes: sizeOf(filepath.Join(h.config.Dir, SearchDir)),
		JournalBytes: sizeOf(filepath.Join(h.config.Dir, journalDir)),
	}
	for page, err := range h.Vacants.Pages(ctx, vacants.Operator()) {
		if err != nil {
			return s, err
		}
		s.Vacants += len(page)
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

// Handle counts a record and passes it on.
func (c *counts) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == message.CallLine {
		c.calls.Add(1)
		if r.Level >= slog.LevelError {
			c.failed.Add(1)
		}
	}
	return c.Handler.Handle(ctx, r)
}
