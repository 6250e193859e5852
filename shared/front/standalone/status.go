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
		URL: h.config.URL, DataDir: h.config.Dir, Version: h.config.Version, PID: os.Getpid(), StartedAt: h.startedAt,
		Calls: counts.Calls(), Failed: counts.Failed, Canceled: counts.Canceled, Refused: counts.Refused,
		DataBytes: diskUsage(filepath.Join(h.config.Dir, DataFile)), SearchBytes: diskUsage(filepath.Join(h.config.Dir, SearchDir)),
		JournalBytes: diskUsage(filepath.Join(h.config.Dir, journalDir)),
	}
	if info, err := h.Store.Info(); err == nil {
		if data, err := parseDataInfo(info); err == nil {
			s.Stored = data.StoredData()
		}
	}
	free, size := h.diskMonitor.measure()
	s.FreeBytes, s.MinFreeBytes = free, MinFreeBytes(size)
	for page, err := range h.Vacants.Pages(ctx, vacants.OperatorAsker()) {
		if err != nil {
			return s, err
		}
		s.Vacants += len(page)
		for i := range page {
			if r := &page[i]; r.RestoredAt.After(s.RestoredAt) {
				s.RestoredAt, s.RefusedUntil = r.RestoredAt, r.Floor
			}
		}
	}
	var err error
	s.OldestTextExpiry, err = h.Texts.NextExpiry(ctx)
	return s, err
}

func diskUsage(path string) (size int64) {
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
