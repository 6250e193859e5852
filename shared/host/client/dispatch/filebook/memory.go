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

// known is the base name of the file of a client's Remembered. It differs from the names of
// targets, which have 64 hexadecimal digits.
const known = "known"

// Change implements discovery.Memory. It ignores the identity, because the directory belongs to one
// identity.
func (b *Book) Change(ctx context.Context, _ identity.ID, f func(*discovery.Remembered) bool) error {
	if err := os.MkdirAll(b.Dir, 0o700); err != nil {
		return unavailable(err)
	}
	lock, err := b.lock(ctx, known, func() {})
	if err != nil {
		return err
	}
	return errors.Join(b.change(f), unavailable(lock.Unlock()))
}

func (b *Book) change(f func(*discovery.Remembered) bool) error {
	path := filepath.Join(b.Dir, known+".json")
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

func load(path string) (discovery.Remembered, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return discovery.Remembered{}, nil
	}
	if err != nil {
		return discovery.Remembered{}, unavailable(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, discovery.MaxMemory+1))
	if err != nil {
		return discovery.Remembered{}, unavailable(err)
	}
	m, err := discovery.DecodeRemembered(data)
	if err != nil {
		return m, problem.Wrap(problem.Damaged, err, "%s: %s; it is left as it is: mend it, or move it away, and the cards seen are forgotten", path, problem.Of(err).Text())
	}
	return m, nil
}
