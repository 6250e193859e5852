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

// maxTextBytes limits texts, which must fit into a line of ACP.
const (
	maxTextBytes = 4 << 20
	maxFileBytes = 64 << 20
)

func (a *Agent) relativeName(path string) (string, error) {
	name := filepath.Clean(path)
	if filepath.IsAbs(name) {
		rel, err := filepath.Rel(a.opts.Root, name)
		if err != nil {
			return "", refusalError("%.300s: outside of the root", path)
		}
		name = rel
	}
	if !filepath.IsLocal(name) || strings.ContainsRune(name, 0) {
		return "", refusalError("%.300s: outside of the root", path)
	}
	return name, nil
}

// ReadTextFile implements acp.Client.
func (r requestHandler) ReadTextFile(_ context.Context, q acp.ReadTextFileRequest) (acp.ReadTextFileResponse, error) {
	var empty acp.ReadTextFileResponse
	name, err := r.relativeName(q.Path)
	if err != nil {
		return empty, err
	}
	info, err := r.root.Stat(name)
	if errors.Is(err, fs.ErrNotExist) && r.readsMissingAsEmpty {
		return empty, nil
	}
	if err != nil {
		return empty, fileError(q.Path, err)
	} else if !info.Mode().IsRegular() { // opening a pipe would hang
		return empty, refusalError("%.300s: expected a file", q.Path)
	}
	f, err := r.root.Open(name)
	if err != nil {
		return empty, fileError(q.Path, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFileBytes))
	if err != nil {
		return empty, fileError(q.Path, err)
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
	case len(b) == maxFileBytes:
		return empty, refusalError("%.300s: expected a file below %d MiB", q.Path, maxFileBytes>>20)
	case len(text) > maxTextBytes:
		return empty, refusalError("%.300s: expected at most %d MiB; use line and limit to read a part of the file", q.Path, maxTextBytes>>20)
	case !utf8.ValidString(text):
		return empty, refusalError("%.300s: expected a text in UTF-8", q.Path)
	}
	r.log.Load().Write(sessionlog.ReadTextFile, "path", filepath.ToSlash(name))
	return acp.ReadTextFileResponse{Content: text}, nil
}

// WriteTextFile implements acp.Client.
func (r requestHandler) WriteTextFile(_ context.Context, q acp.WriteTextFileRequest) (acp.WriteTextFileResponse, error) {
	var empty acp.WriteTextFileResponse
	t := r.currentTurn()
	name, err := r.relativeName(q.Path)
	switch {
	case t == nil:
		err = refusalError("%.300s: not written, because no prompt is running", q.Path)
	case err != nil:
	case len(q.Content) > maxTextBytes:
		err = refusalError("%.300s: expected at most %d MiB, got %d bytes", q.Path, maxTextBytes>>20, len(q.Content))
	case r.opts.ReadOnly && !isBelowVault(name):
		err = refusalError("%.300s: the mode is read-only, so only files below .vault/ can be written", q.Path)
	default:
		err = r.replaceFile(name, q.Content)
		if err != nil {
			err = fileError(q.Path, err)
		}
	}
	if err != nil {
		r.log.Load().Write(sessionlog.WriteBlocked, "path", filepath.ToSlash(q.Path), "reason", err.Error())
		return empty, err
	}
	r.log.Load().Write(sessionlog.WriteTextFile, "path", filepath.ToSlash(name), "size", len(q.Content))
	r.mu.Lock()
	t.writtenPaths[filepath.ToSlash(name)] = true
	r.mu.Unlock()
	return empty, nil
}

// replaceFile replaces a file atomically unless it is a link. If the mode is read-only, it opens
// .vault as the root, so that no link leads from .vault to other files.
func (a *Agent) replaceFile(name, text string) error {
	root := a.root
	if a.opts.ReadOnly {
		if err := root.MkdirAll(vaultDir, 0o755); err != nil {
			return err
		}
		if info, err := root.Lstat(vaultDir); err != nil || !info.IsDir() {
			return errors.Join(err, &fs.PathError{Op: "write", Path: vaultDir, Err: errors.New("expected a folder that is not a link")})
		}
		vaultRoot, err := root.OpenRoot(vaultDir)
		if err != nil {
			return err
		}
		defer vaultRoot.Close()
		root, name = vaultRoot, strings.TrimPrefix(name, vaultDir+string(filepath.Separator))
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
	tempName := filepath.Join(filepath.Dir(name), ".vacancy-"+rand.Text())
	if err := root.WriteFile(tempName, []byte(text), mode); err != nil {
		_ = root.Remove(tempName)
		return err
	}
	if err := root.Rename(tempName, name); err != nil {
		_ = root.Remove(tempName)
		return err
	}
	return nil
}

// fileError converts a file error for the agent. The message must not contain other paths of this
// machine.
func fileError(path string, err error) error {
	var pathError *fs.PathError
	var linkError *os.LinkError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &acp.RequestError{Code: resourceNotFound, Message: "Resource not found: " + path}
	case errors.As(err, &pathError):
		err = pathError.Err
	case errors.As(err, &linkError):
		err = linkError.Err
	}
	return refusalError("%.300s: %s", path, problem.PlainMessage(err))
}

const resourceNotFound = -32002
