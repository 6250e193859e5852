package standalone

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
)

func (h *Host) Status(ctx context.Context) (admin.Status, error) {
	counts := h.Calls.Log.Counts()
	s := admin.Status{
		URL: h.config.URL, Data: h.config.Dir, Version: h.config.Version, PID: os.Getpid(), Started: h.started,
		Calls: counts.Calls(), Failed: counts.Failed, Canceled: counts.Canceled, Refused: counts.Refused,
		DataBytes: sizeOf(filepath.Join(h.config.Dir, DataFile)), SearchBytes: sizeOf(filepath.Join(h.config.Dir, SearchDir)),
		JournalBytes: sizeOf(filepath.Join(h.config.Dir, journalDir)),
	}
	if info, err := h.Store.Info(); err == nil {
		if data, err := describe(info); err == nil {
			s.Stored = data.StoredData()
		}
	}
	free, size := h.room.disk()
	s.FreeBytes, s.MinFreeBytes = free, MinFreeBytes(size)
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
	s.TextsEnd, err = h.Texts.NextExpiry(ctx)
	return s, err
}

func sizeOf(path string) (size int64) {
	_ = filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // absent, or removed concurrently
		}
		if info, err := d.Info(); err == nil {
			size += info.Size()
		}
		return nil
	})
	return size
}
