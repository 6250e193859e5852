package files

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vacancy-host/vacancy/shared/store/blob"
)

// List walks the complete directory for each page, because the byte order of keys is not the order
// of nested directories.
func (f *Files) List(ctx context.Context, prefix string, n int, cursor string) ([]blob.Info, string, error) {
	if err := blob.CheckList(prefix, n); err != nil {
		return nil, "", err
	}
	var infos []blob.Info
	root := filepath.Join(f.dir, objectsDir)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil || d.IsDir() {
			return ignoreMissing(err)
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		key := strings.ReplaceAll(filepath.ToSlash(rel), dirSuffix+"/", "/")
		if !strings.HasPrefix(key, prefix) || key <= cursor {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return ignoreMissing(err)
		}
		infos = append(infos, blob.Info{Key: key, Size: info.Size(), Modified: info.ModTime()})
		return nil
	})
	if err != nil {
		return nil, "", unavailableError("listing", prefix, err)
	}
	slices.SortFunc(infos, func(a, b blob.Info) int { return strings.Compare(a.Key, b.Key) })
	if len(infos) <= n {
		return infos, "", nil
	}
	return infos[:n:n], infos[n-1].Key, nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
