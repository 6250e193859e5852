package bleve

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/blevesearch/bleve/v2/index/scorch"
	index "github.com/blevesearch/bleve_index_api"
	segment "github.com/blevesearch/scorch_segment_api/v2"
)

// Snapshot writes the current state of the index as a tar of regular files. Open can open a
// directory into which the tar was extracted.
func (x *Index) Snapshot(ctx context.Context, w io.Writer) error {
	return x.whileOpen(func() (err error) {
		r := x.scorch.CopyReader()
		defer func() { err = errors.Join(err, r.CloseCopyReader()) }()
		dir, err := os.MkdirTemp("", "vacancy-index-")
		if err != nil {
			return unavailableError(err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		a := &archive{ctx: ctx, tar: tar.NewWriter(w), dir: dir}
		if a.sizes, err = segmentSizes(r); err != nil {
			return unavailableError(err)
		}
		if err := errors.Join(r.CopyTo(a), a.closeErr); err != nil {
			return unavailableError(err)
		}
		if err := errors.Join(a.addRootFile(), a.tar.Close()); err != nil {
			return unavailableError(err)
		}
		return nil
	})
}

// segmentSizes omits segments that are not persisted yet, because their files may be incomplete.
func segmentSizes(r index.CopyReader) (map[string]int64, error) {
	s, ok := r.(*scorch.IndexSnapshot)
	if !ok {
		return nil, fmt.Errorf("scorch returned a %T as its copy reader", r)
	}
	fileSizes := make(map[string]int64)
	for _, part := range s.Segments() {
		if file, ok := part.Segment().(segment.PersistedSegment); ok {
			info, err := os.Stat(file.Path())
			if err != nil {
				return nil, err
			}
			fileSizes[filepath.Base(file.Path())] = info.Size()
		}
	}
	return fileSizes, nil
}

// archive is the Directory to which scorch copies the index. Segment files are streamed, because
// there may be no space for a second copy. Other files are first written to dir, because a tar
// header needs their sizes.
type archive struct {
	ctx      context.Context
	tar      *tar.Writer
	sizes    map[string]int64
	dir      string
	closeErr error // error of a Close, which scorch ignores
}

// rootFile lists the segments. scorch opens it by name, so it must be a real file.
const rootFile = "root.bolt"

func (a *archive) GetWriter(name string) (io.WriteCloser, error) {
	if err := a.ctx.Err(); err != nil {
		return nil, err
	}
	if filepath.Base(name) == rootFile {
		return os.OpenFile(filepath.Join(a.dir, rootFile), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	}
	if size, ok := a.sizes[filepath.Base(name)]; ok {
		return streamWriter{a}, a.writeHeader(name, size)
	}
	f, err := os.Create(filepath.Join(a.dir, filepath.Base(name)))
	return &spoolFile{f, a, name}, err
}

func (a *archive) writeHeader(name string, size int64) error {
	return a.tar.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: filepath.ToSlash(name), Size: size, Mode: 0o600,
	})
}

// addRootFile adds the root file last, because it is complete only after all segments were copied.
func (a *archive) addRootFile() error {
	f, err := os.Open(filepath.Join(a.dir, rootFile))
	if err != nil {
		return err
	}
	return errors.Join(a.addFile(filepath.Join(storeDir, rootFile), f), f.Close())
}

func (a *archive) addFile(name string, f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := a.writeHeader(name, info.Size()); err != nil {
		return err
	}
	_, err = io.Copy(a.tar, f)
	return err
}

type streamWriter struct{ archive *archive }

func (t streamWriter) Write(b []byte) (int, error) {
	if err := t.archive.ctx.Err(); err != nil {
		return 0, err
	}
	return t.archive.tar.Write(b)
}

func (t streamWriter) Close() error { return nil }

type spoolFile struct {
	*os.File
	archive *archive
	name    string
}

func (s *spoolFile) Close() error {
	_, err := s.Seek(0, io.SeekStart)
	if err == nil {
		err = s.archive.addFile(s.name, s.File)
	}
	err = errors.Join(err, s.File.Close())
	s.archive.closeErr = errors.Join(s.archive.closeErr, err)
	return err
}

// Compact merges all segments into one, which makes queries faster.
func (x *Index) Compact(ctx context.Context) error {
	return x.whileOpen(func() error {
		if x.path == "" {
			return nil // segments in memory are never merged
		}
		if err := x.scorch.ForceMerge(ctx, nil); err != nil {
			return unavailableError(err)
		}
		return nil
	})
}
