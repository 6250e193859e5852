package filebook

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/vacancy-host/vacancy/shared/host/client/discovery"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

const savedDataFile = "known"

// Change implements discovery.Memory. It ignores the identity, because the directory belongs to one
// identity.
func (b *Book) Change(ctx context.Context, _ identity.ID, f func(*discovery.SavedData) bool) error {
	if err := os.MkdirAll(b.Dir, 0o700); err != nil {
		return unavailableError(err)
	}
	lock, err := b.lock(ctx, savedDataFile, func() {})
	if err != nil {
		return err
	}
	return errors.Join(b.changeLocked(f), unavailableError(lock.Unlock()))
}

func (b *Book) changeLocked(f func(*discovery.SavedData) bool) error {
	path := filepath.Join(b.Dir, savedDataFile+".json")
	m, err := loadSavedData(path)
	if err != nil || !f(&m) {
		return err
	}
	data, err := m.Encode()
	if err != nil {
		return unavailableError(err)
	}
	return replaceFile(b.Dir, path, data)
}

func loadSavedData(path string) (discovery.SavedData, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return discovery.SavedData{}, nil
	}
	if err != nil {
		return discovery.SavedData{}, unavailableError(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, discovery.MaxSavedBytes+1))
	if err != nil {
		return discovery.SavedData{}, unavailableError(err)
	}
	m, err := discovery.DecodeSavedData(data)
	if err != nil {
		return m, problem.Wrap(problem.Damaged, err, "%s: %s; the file was not changed: repair it, or move it away, which forgets the cards seen so far", path, problem.AsError(err).Text())
	}
	return m, nil
}
