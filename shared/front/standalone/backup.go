package standalone

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/host/workspace"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/blob"
	"github.com/vacancy-host/vacancy/shared/store/blob/files"
)

// A backup is a tar archive of aboutFile, SealFile, DataFile, the blobs, and endFile, which shows
// that the backup is complete. The archive has no signature, so use authenticated encryption to
// protect it.
const (
	aboutFile    = "backup.json"
	endFile      = "end"
	snapshotFile = DataFile + ".backup"
	maxSmallFile = 1 << 20
	// blobPrefix precedes the key of a blob, which contains the sealed bytes of a workspace file.
	blobPrefix = "files/"
	maxBlob    = 2 * workspace.MaxFileBytes
	// A replaced blob is deleted only after an hour. Therefore every blob to which the copied data
	// file refers still exists during blobTimeout.
	blobTimeout = 55 * time.Minute

	backupFormat = 1
)

type BackupInfo struct {
	Format    int       `json:"format"`
	CreatedAt time.Time `json:"made"`
	URL       string    `json:"url"`
	Version   string    `json:"version"`
}

// serveBackup serves POST /v1/admin/backup. The backup contains the host's keys, so only the
// operator of the machine may have it. Each backup uses snapshotFile until its end, so there is
// only one at a time.
func (h *Host) serveBackup(w http.ResponseWriter, r *http.Request) {
	if !h.backupMu.TryLock() {
		httpapi.Fail(w, problem.New(problem.Conflict, "another backup is in progress; try again when it is complete"))
		return
	}
	defer h.backupMu.Unlock()
	path := filepath.Join(h.config.Dir, snapshotFile)
	err := os.Remove(path) // left by a process that was killed
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		err = problem.Wrap(problem.Unavailable, err, "%s cannot be removed", path)
	} else {
		err = h.Store.Snapshot(r.Context(), path)
	}
	if err != nil {
		httpapi.Fail(w, err)
		return
	}
	defer os.Remove(path)
	w.Header().Set("Content-Type", "application/x-tar")
	w.Header().Set("Cache-Control", "no-store")
	if err := h.writeBackup(r.Context(), w, path); err != nil {
		h.config.Log.ErrorContext(r.Context(), "a backup was not written", "cause", err.Error())
		panic(http.ErrAbortHandler) // the client receives an archive without endFile
	}
}

func (h *Host) writeBackup(ctx context.Context, dst io.Writer, dataPath string) error {
	ctx, cancel := context.WithTimeout(ctx, blobTimeout)
	defer cancel()
	about, err := json.Marshal(BackupInfo{backupFormat, h.config.Now().UTC().Truncate(time.Second), h.config.URL, h.config.Version})
	if err != nil {
		return err
	}
	key, err := os.ReadFile(filepath.Join(h.config.Dir, SealFile))
	if err != nil {
		return err
	}
	defer clear(key)
	f, err := os.Open(dataPath)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	w := tar.NewWriter(dst)
	addFile := func(name string, size int64, from io.Reader) error {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: size, Typeflag: tar.TypeReg}); err != nil {
			return err
		}
		_, err := io.Copy(w, from)
		return err
	}
	for _, part := range []struct {
		name string
		size int64
		from io.Reader
	}{
		{aboutFile, int64(len(about)), bytes.NewReader(about)},
		{SealFile, int64(len(key)), bytes.NewReader(key)},
		{DataFile, info.Size(), f},
	} {
		if err := addFile(part.name, part.size, part.from); err != nil {
			return err
		}
	}
	// The blobs are listed after the data file was copied, so the list includes every blob to which
	// the copy refers.
	if err := h.writeBlobs(ctx, addFile); err != nil {
		return err
	}
	if err := addFile(endFile, 0, bytes.NewReader(nil)); err != nil {
		return err
	}
	return w.Close()
}

func (h *Host) writeBlobs(ctx context.Context, addFile func(name string, size int64, from io.Reader) error) error {
	for b, err := range store.Flatten(store.AllPages(func(cursor string) ([]blob.Info, string, error) {
		return h.blobs.List(ctx, workspace.BlobPrefix, blob.MaxPage, cursor)
	})) {
		if err != nil {
			return err
		}
		object, err := h.blobs.Get(ctx, b.Key)
		if errors.Is(err, blob.ErrAbsent) {
			continue // unused for an hour, and deleted since then
		}
		if err == nil {
			err = errors.Join(addFile(blobPrefix+b.Key, object.Size, object.Body), object.Body.Close())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Unpack writes the files of a backup to an empty directory. The error is of kind Untrusted if the
// backup is incomplete or invalid.
func Unpack(archive io.Reader, dir string) (about BackupInfo, err error) {
	newInvalidError := func(cause error, what string) (BackupInfo, error) {
		return about, problem.Wrap(problem.Untrusted, cause, "it is not a complete backup: %s", what)
	}
	r := tar.NewReader(archive)
	for _, expectedFile := range []string{aboutFile, SealFile, DataFile, endFile} {
		header, err := r.Next()
		for err == nil && expectedFile == endFile && strings.HasPrefix(header.Name, blobPrefix) && header.Typeflag == tar.TypeReg {
			if err := unpackBlob(r, header, dir); err != nil {
				return about, err
			}
			header, err = r.Next()
		}
		if err != nil {
			return newInvalidError(err, expectedFile+" is missing")
		}
		if header.Name != expectedFile || header.Typeflag != tar.TypeReg {
			return newInvalidError(nil, "expected "+expectedFile+", got another file")
		}
		switch expectedFile {
		case aboutFile:
			b, err := io.ReadAll(io.LimitReader(r, maxSmallFile))
			if err != nil {
				return newInvalidError(err, "its description cannot be read")
			}
			if err := json.Unmarshal(b, &about); err != nil || about.Format != backupFormat {
				return newInvalidError(err, "its description has an unknown format")
			}
		case SealFile, DataFile:
			if expectedFile == SealFile && header.Size > maxSmallFile {
				return newInvalidError(nil, expectedFile+" is too large")
			}
			if err := unpackFile(r, filepath.Join(dir, expectedFile)); err != nil {
				return about, err
			}
		}
	}
	if _, err := r.Next(); err != io.EOF {
		return newInvalidError(err, "it contains data after its end")
	}
	return about, nil
}

// unpackBlob stores a blob of a backup. It checks the blob's key, so a backup cannot write outside
// of dir.
func unpackBlob(r io.Reader, header *tar.Header, dir string) error {
	key := strings.TrimPrefix(header.Name, blobPrefix)
	if header.Size > maxBlob || !strings.HasPrefix(key, workspace.BlobPrefix) || blob.CheckKey(key) != nil {
		return problem.New(problem.Untrusted, "it is not a complete backup: it contains an unexpected file %.100q of %d bytes", header.Name, header.Size)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return problem.Wrap(problem.Untrusted, err, "it is not a complete backup: %v", err)
	}
	blobs, err := files.Open(filepath.Join(dir, FilesDir), time.Time{})
	if err == nil {
		_, err = blobs.Put(context.Background(), key, bytes.NewReader(data), int64(len(data)), blob.Condition{})
	}
	if err != nil {
		return problem.Wrap(problem.Unavailable, err, "%s cannot be written: %v", filepath.Join(dir, FilesDir), err)
	}
	return nil
}

func unpackFile(r io.Reader, path string) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return problem.Wrap(problem.Unavailable, err, "%s cannot be created", path)
	}
	recorder := &errorRecorder{w: f}
	_, err = io.Copy(recorder, r)
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	switch {
	case recorder.err != nil:
		return problem.Wrap(problem.Unavailable, err, "%s cannot be written: %v", path, err)
	case err != nil:
		return problem.Wrap(problem.Untrusted, err, "it is not a complete backup: %v", err)
	}
	return nil
}

type errorRecorder struct {
	w   io.Writer
	err error
}

func (e *errorRecorder) Write(b []byte) (int, error) {
	n, err := e.w.Write(b)
	if err != nil {
		e.err = err
	}
	return n, err
}
