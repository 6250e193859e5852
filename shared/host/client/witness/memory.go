package witness

import (
	"context"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"github.com/vacancy-host/vacancy/shared/durable"
	"github.com/vacancy-host/vacancy/shared/host/registry/translog"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Checkpoints is a directory with the last verified checkpoint of each host, so that a host cannot
// show a different history later.
type Checkpoints struct{ Dir string }

func (m Checkpoints) Path(baseURL string) string {
	name := "host"
	if u, err := url.Parse(baseURL); err == nil && u.Host != "" {
		name = strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' || r == '-' {
				return r
			}
			return '_'
		}, strings.ToLower(u.Host))
	}
	// The hash distinguishes URLs with the same file name.
	return filepath.Join(m.Dir, name[:min(len(name), 100)]+"-"+identity.Sum([]byte(baseURL)).String()[:16]+".checkpoint")
}

func (m Checkpoints) Load(baseURL string) ([]byte, error) {
	note, err := os.ReadFile(m.Path(baseURL))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, problem.Wrap(problem.Unavailable, err, "the stored checkpoint cannot be read")
	}
	if _, _, err := translog.VerifyCheckpoint(note); err != nil {
		return nil, problem.Wrap(problem.Damaged, err, "%s is not a valid checkpoint: restore the file, or remove it to start again", m.Path(baseURL))
	}
	return note, nil
}

const lockPollInterval = 50 * time.Millisecond

// Save stores a verified checkpoint unless another process has stored a later one.
func (m Checkpoints) Save(ctx context.Context, baseURL string, r Report) error {
	if err := os.MkdirAll(m.Dir, 0o700); err != nil {
		return writeError(err)
	}
	path := m.Path(baseURL)
	lock := flock.New(path+".lock", flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(ctx, lockPollInterval); err != nil {
		return writeError(err)
	}
	defer func() { _ = lock.Unlock() }()
	if checkpoint, err := os.ReadFile(path); err == nil {
		if c, _, err := translog.VerifyCheckpoint(checkpoint); err == nil && c.Host == r.Host && c.Size > r.Size {
			return nil
		}
	}
	return writeFile(path, r.Note)
}

// SaveFork stores the two checkpoints of a ForkError and returns the name of the file.
func (m Checkpoints) SaveFork(baseURL string, f *ForkError) (string, error) {
	c, _, err := translog.VerifyCheckpoint(f.NewNote)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(m.Dir, 0o700); err != nil {
		return "", writeError(err)
	}
	path := strings.TrimSuffix(m.Path(baseURL), ".checkpoint") + "." + strconv.FormatUint(c.Size, 10) + ".fork"
	return path, writeFile(path, append(append(append([]byte(nil), f.OldNote...), '\n'), f.NewNote...))
}

func writeFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".next-*")
	if err != nil {
		return writeError(err)
	}
	defer os.Remove(f.Name()) // has no effect after the rename
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err == nil {
		err = durable.SyncDir(filepath.Dir(path))
	}
	return writeError(err)
}

func writeError(err error) error {
	if err == nil {
		return nil
	}
	return problem.Wrap(problem.Unavailable, err, "the checkpoint cannot be stored")
}
