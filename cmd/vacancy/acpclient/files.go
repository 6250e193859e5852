package acpclient

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/coder/acp-go-sdk"

	"github.com/vacancy-host/vacancy/cmd/vacancy/sessionlog"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// maxFile limits the bytes of a text that the agent reads or writes, because the text must fit into a line of ACP.
// maxRead limits the size of a file from which the agent reads a part.
const (
	maxFile = 4 << 20
	maxRead = 64 << 20
)

// name converts a path into a name relative to the root. path is absolute, or already relative to the root.
func (a *Agent) name(path string) (string, error) {
	name := filepath.Clean(path)
	if filepath.IsAbs(name) {
		rel, err := filepath.Rel(a.o.Root, name)
		if err != nil {
			return "", refuse("%.300s: outside of the root", path)
		}
		name = rel
	}
	if !filepath.IsLocal(name) || strings.ContainsRune(name, 0) {
		return "", refuse("%.300s: outside of the root", path)
	}
	return name, nil
}

// ReadTextFile implements acp.Client. Lines are counted from 1.
func (r requests) ReadTextFile(_ context.Context, q acp.ReadTextFileRequest) (acp.ReadTextFileResponse, error) {
	var none acp.ReadTextFileResponse
	name, err := r.name(q.Path)
	if err != nil {
		return none, err
	}
	info, err := r.root.Stat(name)
	if errors.Is(err, fs.ErrNotExist) && r.readsMissing {
		return none, nil
	}
	if err != nil {
		return none, fileError(q.Path, err)
	} else if !info.Mode().IsRegular() { // opening a pipe would hang
		return none, refuse("%.300s: expected a file", q.Path)
	}
	f, err := r.root.Open(name)
	if err != nil {
		return none, fileError(q.Path, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxRead))
	if err != nil {
		return none, fileError(q.Path, err)
	}
	lines := strings.SplitAfter(string(b), "\n")
	if q.Line != nil {
		lines = lines[min(max(*q.Line-1, 0), len(lines)):]
	}
	if q.Limit != nil {
		lines = lines[:min(max(*q.Limit, 0), len(lines))]
	}
	text := strings.Join(lines, "")
	switch {
	case len(b) == maxRead:
		return none, refuse("%.300s: expected a file below %d MiB", q.Path, maxRead>>20)
	case len(text) > maxFile:
		return none, refuse("%.300s: expected at most %d MiB; read it in parts, by line and limit", q.Path, maxFile>>20)
	case !utf8.ValidString(text):
		return none, refuse("%.300s: expected a text in UTF-8", q.Path)
	}
	r.log.Load().Write(sessionlog.ReadTextFile, "path", filepath.ToSlash(name))
	return acp.ReadTextFileResponse{Content: text}, nil
}

// WriteTextFile implements acp.Client. It creates missing folders, and replaces a file atomically unless it is a link.
func (r requests) WriteTextFile(_ context.Context, q acp.WriteTextFileRequest) (acp.WriteTextFileResponse, error) {
	var none acp.WriteTextFileResponse
	t := r.current()
	name, err := r.name(q.Path)
	switch {
	case t == nil:
		err = refuse("%.300s: not written, because no prompt is under way", q.Path)
	case err != nil:
	case len(q.Content) > maxFile:
		err = refuse("%.300s: expected at most %d MiB, got %d bytes", q.Path, maxFile>>20, len(q.Content))
	case r.o.ReadOnly && !isBelowVault(name):
		err = refuse("%.300s: the mode is read-only, and only files below .vault/ may be written", q.Path)
	default:
		err = r.write(name, q.Content)
		if err != nil {
			err = fileError(q.Path, err)
		}
	}
	if err != nil {
		r.log.Load().Write(sessionlog.WriteBlocked, "path", filepath.ToSlash(q.Path), "reason", err.Error())
		return none, err
	}
	r.log.Load().Write(sessionlog.WriteTextFile, "path", filepath.ToSlash(name), "size", len(q.Content))
	r.mu.Lock()
	t.written[filepath.ToSlash(name)] = true
	r.mu.Unlock()
	return none, nil
}

// write replaces a file below the root. If the mode is read-only, it opens .vault as the root, so that no link leads from
// .vault to other files.
func (a *Agent) write(name, text string) error {
	root := a.root
	if a.o.ReadOnly {
		if err := root.MkdirAll(vault, 0o755); err != nil {
			return err
		}
		if info, err := root.Lstat(vault); err != nil || !info.IsDir() {
			return errors.Join(err, &fs.PathError{Op: "write", Path: vault, Err: errors.New("expected a folder that is not a link")})
		}
		below, err := root.OpenRoot(vault)
		if err != nil {
			return err
		}
		defer below.Close()
		root, name = below, strings.TrimPrefix(name, vault+string(filepath.Separator))
	}
	mode := fs.FileMode(0o644)
	info, err := root.Lstat(name)
	switch {
	case err == nil && info.Mode()&fs.ModeSymlink != 0:
		return root.WriteFile(name, []byte(text), mode) // a new file would replace the link
	case err == nil && !info.Mode().IsRegular():
		return &fs.PathError{Op: "write", Path: name, Err: errors.New("expected a file")}
	case err == nil:
		mode = info.Mode().Perm()
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	next := filepath.Join(filepath.Dir(name), ".vacancy-"+rand.Text())
	if err := root.WriteFile(next, []byte(text), mode); err != nil {
		_ = root.Remove(next)
		return err
	}
	if err := root.Rename(next, name); err != nil {
		_ = root.Remove(next)
		return err
	}
	return nil
}

// fileError converts a file error for the agent. The message contains no path of this machine other than path.
func fileError(path string, err error) error {
	var pathError *fs.PathError
	var link *os.LinkError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &acp.RequestError{Code: resourceNotFound, Message: "Resource not found: " + path}
	case errors.As(err, &pathError):
		err = pathError.Err
	case errors.As(err, &link):
		err = link.Err
	}
	return refuse("%.300s: %s", path, problem.PlainMessage(err))
}

// resourceNotFound is the code of the error of a missing file.
const resourceNotFound = -32002
