package local

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/vacancy-host/vacancy/shared/durable"
	"github.com/vacancy-host/vacancy/shared/problem"
	"golang.org/x/crypto/chacha20poly1305"
)

func loadKeyFile(path string) ([]byte, error) {
	// The open file is checked, so that it cannot be replaced between the check and the read.
	f, err := os.Open(path)
	if err != nil {
		return nil, problem.Wrap(problem.Unavailable, err, "key file %s cannot be read", path)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, problem.Wrap(problem.Unavailable, err, "key file %s cannot be read", path)
	}
	if !info.Mode().IsRegular() {
		return nil, problem.New(problem.Forbidden, "key file %s: expected a regular file, got %s", path, info.Mode().Type())
	}
	if mode := info.Mode().Perm(); runtime.GOOS != "windows" && mode&0o077 != 0 {
		return nil, problem.New(problem.Forbidden, "key file %s: expected mode 0600, got %04o, which lets others read it; run: chmod 600 %s", path, mode, path)
	}
	if info.Size() != chacha20poly1305.KeySize {
		return nil, problem.New(problem.Damaged, "key file %s: expected %d bytes, got %d", path, chacha20poly1305.KeySize, info.Size())
	}
	key := make([]byte, chacha20poly1305.KeySize)
	if _, err := io.ReadFull(f, key); err != nil {
		return nil, problem.Wrap(problem.Unavailable, err, "key file %s cannot be read", path)
	}
	return key, nil
}

// createKeyFile writes and syncs the key under another name and links it to path, so that the file
// is complete after a crash. A link never replaces an existing file.
func createKeyFile(path string, rand io.Reader) error {
	wrapError := func(err error) error {
		return problem.Wrap(problem.Unavailable, err, "key file %s cannot be created", path)
	}
	key := make([]byte, chacha20poly1305.KeySize)
	defer clear(key)
	if _, err := io.ReadFull(rand, key); err != nil {
		return problem.Wrap(problem.Unavailable, err, "no randomness for a new key file")
	}
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, ".key-*") // mode 0600
	if err != nil {
		return wrapError(err)
	}
	defer os.Remove(f.Name())
	_, err = f.Write(key)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return wrapError(err)
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return wrapError(err)
	}
	// The directory entry must survive a crash before a secret is sealed.
	if err := durable.SyncDir(dir); err != nil {
		return wrapError(err)
	}
	return nil
}
