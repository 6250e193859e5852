package snapshot

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store/blob"
)

// Load unpacks the newest version into a new directory, which the caller must remove. If no version
// was published, the path is "". If the archive is damaged, Load also returns the Version, so that
// a rebuilt index can replace it.
func (s *Snapshots) Load(ctx context.Context) (Version, string, error) {
	var absentErr error
	for range maxTries {
		v, err := s.Latest(ctx)
		if err != nil || v.Tag == "" {
			return v, "", err
		}
		dir, err := s.unpack(ctx, v.Manifest)
		if err == nil {
			s.newestTag.record(v.Tag, s.cfg.Now())
			return v, dir, nil
		}
		if !errors.Is(err, blob.ErrAbsent) {
			return v, "", err
		}
		absentErr = err // the archive was replaced after the manifest was read
	}
	v, err := s.Latest(ctx)
	if err != nil {
		return v, "", err
	}
	return v, "", problem.Wrap(problem.Damaged, absentErr, "the search index's archive is missing")
}

func (s *Snapshots) unpack(ctx context.Context, m Manifest) (dir string, err error) {
	archive, err := s.cfg.Blobs.Get(ctx, m.Archive)
	if err != nil {
		return "", blobError(err, "loading the search index")
	}
	defer archive.Body.Close()
	if archive.Size != m.Size {
		return "", damagedError(fmt.Errorf("the archive has %d bytes, want %d", archive.Size, m.Size))
	}
	dir, err = os.MkdirTemp(s.cfg.Dir, "index-")
	if err != nil {
		return "", problem.Wrap(problem.Internal, err, "cannot create a directory for the search index")
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
			dir = ""
		}
	}()
	sum := sha256.New()
	body := io.TeeReader(io.LimitReader(archive.Body, m.Size), sum)
	err = extract(tar.NewReader(body), dir, m.Size)
	if errors.Is(err, blob.ErrUnavailable) {
		return dir, blobError(err, "loading the search index")
	}
	// The checksum also covers data after the last file. A wrong checksum is reported instead of an
	// error of extract.
	if _, readErr := io.Copy(io.Discard, body); readErr != nil {
		return dir, blobError(readErr, "loading the search index")
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != m.SHA256 {
		return dir, damagedError(fmt.Errorf("the archive's SHA-256 is %s, want %s", got, m.SHA256))
	}
	return dir, err
}

// extract writes the files of an archive that is not verified yet. Names must not lead outside dir,
// and the total size is limited, because a sparse file could unpack to any size.
func extract(t *tar.Reader, dir string, remaining int64) error {
	for {
		h, err := t.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return unpackError(err)
		}
		if h.Typeflag == tar.TypeDir {
			continue
		}
		if h.Typeflag != tar.TypeReg || !filepath.IsLocal(h.Name) {
			return damagedError(fmt.Errorf("the archive contains %q of unsupported type %q", h.Name, h.Typeflag))
		}
		if remaining -= h.Size; remaining < 0 {
			return damagedError(fmt.Errorf("the archive's file %q has %d bytes, more than the rest of the archive", h.Name, h.Size))
		}
		if err := writeFile(t, filepath.Join(dir, filepath.FromSlash(h.Name))); err != nil {
			return err
		}
	}
}

func writeFile(src io.Reader, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return problem.Wrap(problem.Internal, err, "unpacking the search index")
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return damagedError(err)
	}
	if err != nil {
		return problem.Wrap(problem.Internal, err, "unpacking the search index")
	}
	_, err = io.Copy(f, src)
	if err := f.Close(); err != nil {
		return problem.Wrap(problem.Internal, err, "unpacking the search index")
	}
	if err != nil {
		return unpackError(err)
	}
	return nil
}

func unpackError(err error) error {
	if pathErr, ok := errors.AsType[*os.PathError](err); ok {
		return problem.Wrap(problem.Internal, pathErr, "unpacking the search index")
	}
	if errors.Is(err, blob.ErrUnavailable) {
		return blobError(err, "loading the search index")
	}
	return damagedError(err)
}

func damagedError(err error) error {
	return problem.Wrap(problem.Damaged, err, "the search index's archive is damaged")
}
