package datadir

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/vacancy-host/vacancy/shared/durable"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Create creates an identity from b, whose key must be set. An empty logbook gets a GENESIS entry.
// If the process dies, Create leaves no incomplete identity: it writes and syncs all files in a
// temporary directory and then renames the directory. If the name is taken, even by another process
// during Create, the error has kind Conflict.
func (d *Dir) Create(ctx context.Context, name string, b Bundle) (*Identity, error) {
	if err := CheckNewName(name); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(d.Dir, 0o700); err != nil {
		return nil, err
	}
	dir := filepath.Join(d.Dir, name)
	if _, err := os.Lstat(dir); err == nil {
		return nil, nameTakenError(name, dir)
	}
	if err := d.checkNewKey(b); err != nil {
		return nil, err
	}
	if len(b.Logbook) == 0 {
		entry, err := newGenesis(ctx, b.Key, name, d.Now())
		if err != nil {
			return nil, err
		}
		b.Logbook = append(b.Logbook, entry)
	}
	tmp, err := os.MkdirTemp(d.Dir, ".new-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	if err := b.write(ctx, tmp); err != nil {
		return nil, err
	}
	if err := os.Rename(tmp, dir); err != nil {
		if _, statErr := os.Lstat(dir); statErr == nil {
			return nil, nameTakenError(name, dir)
		}
		return nil, err
	}
	if err := durable.SyncDir(d.Dir); err != nil {
		return nil, err
	}
	return &Identity{Name: name, Dir: dir, Key: b.Key}, nil
}

func nameTakenError(name, dir string) error {
	return problem.New(problem.Conflict, "identity %q exists already, in %s; a key is never overwritten", name, dir)
}

// checkNewKey rejects a key that another identity in d already has. The calls of one identity would
// make the stored chains of the other invalid.
func (d *Dir) checkNewKey(b Bundle) error {
	names, err := d.Names()
	if err != nil {
		return err
	}
	for _, other := range names {
		// An identity that cannot be opened is reported when it is used.
		if i, err := d.Open(other); err == nil && i.ID() == b.Key.ID() {
			return problem.New(problem.Conflict, "identity %q has this key already, in %s", other, i.Dir)
		}
	}
	return nil
}

func (b *Bundle) write(ctx context.Context, dir string) error {
	if err := WriteNew(filepath.Join(dir, keyFile), appendKeyFile(nil, b.Key)); err != nil {
		return err
	}
	if err := WriteNew(filepath.Join(dir, logbookFile), b.appendLogbook(nil)); err != nil {
		return err
	}
	if b.Card != nil {
		if err := WriteNew(filepath.Join(dir, cardFile), append(b.Card.Blob(), '\n')); err != nil {
			return err
		}
	}
	if b.Manifest != nil {
		if err := WriteNew(filepath.Join(dir, manifestFile), append(b.Manifest.Blob(), '\n')); err != nil {
			return err
		}
	}
	chains := filepath.Join(dir, chainsDir)
	if err := os.Mkdir(chains, 0o700); err != nil {
		return err
	}
	if err := b.writeChains(ctx, chains); err != nil {
		return err
	}
	return errors.Join(durable.SyncDir(chains), durable.SyncDir(dir))
}

// CheckNewFile returns an error unless WriteNew could create a file at path: the file must not
// exist, and its directory must exist.
func CheckNewFile(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return fileExistsError(path)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_, err := os.Stat(filepath.Dir(path))
	return err
}

func fileExistsError(path string) error {
	return problem.New(problem.Conflict, "%s exists already; it is not overwritten", path)
}

// WriteNew writes and syncs a new file that only its owner can read.
func WriteNew(path string, b []byte) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fileExistsError(path)
	}
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, f.Close())
		if err != nil {
			_ = os.Remove(path) // an incomplete file would make the next try fail
		}
	}()
	if _, err := f.Write(b); err != nil {
		return err
	}
	return f.Sync()
}
