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

// knownFile is the base name of the file with a client's SavedData. It differs from the names of
// targets, which have 64 hexadecimal digits.
const knownFile = "known"

// Change implements discovery.Memory. It ignores the identity, because the directory belongs to one
// identity.
func (b *Book) Change(ctx context.Context, _ identity.ID, f func(*discovery.SavedData) bool) error {
	if err := os.MkdirAll(b.Dir, 0o700); err != nil {
		return unavailable(err)
	}
	lock, err := b.lock(ctx, knownFile, func() {})
	if err != nil {
		return err
	}
	return errors.Join(b.change(f), unavailable(lock.Unlock()))
}

func (b *Book) change(f func(*discovery.SavedData) bool) error {
	path := filepath.Join(b.Dir, knownFile+".json")
	m, err := load(path)
	if err != nil || !f(&m) {
		return err
	}
	data, err := m.Encode()
	if err != nil {
		return unavailable(err)
	}
	return replace(b.Dir, path, data)
}

func load(path string) (discovery.SavedData, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return discovery.SavedData{}, nil
	}
	if err != nil {
		return discovery.SavedData{}, unavailable(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, discovery.MaxMemory+1))
	if err != nil {
		return discovery.SavedData{}, unavailable(err)
	}
	m, err := discovery.DecodeRemembered(data)
	if err != nil {
		return m, problem.Wrap(problem.Damaged, err, "%s: %s; the file was not changed: repair it, or move it away, which forgets the cards seen so far", path, problem.AsError(err).Text())
	}
	return m, nil
}
