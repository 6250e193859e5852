package filecmd

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/front/workspaceapi"
	"github.com/vacancy-host/vacancy/shared/host/workspace"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// fakeHost serves files. It refuses as many requests as busy says, because of a rate limit.
type fakeHost struct {
	files  map[string]string
	busy   int
	writes []string
	before func(path string) // runs before each request for a file
}

func (h *fakeHost) Call(_ context.Context, method, path string, header http.Header, body []byte, into any) error {
	if h.busy > 0 {
		h.busy--
		return problem.New(problem.TooManyRequests, "too many requests from this address; try again in 1 s")
	}
	path, isFile := strings.CutPrefix(path, "/v1/workspaces/main/files/")
	if !isFile {
		page := into.(*workspaceapi.Files)
		for _, path := range slices.Sorted(maps.Keys(h.files)) {
			page.Files = append(page.Files, workspace.File{Path: path, Size: int64(len(h.files[path])), Hash: hashHex([]byte(h.files[path]))})
		}
		return nil
	}
	if h.before != nil {
		h.before(path)
	}
	text, exists := h.files[path]
	if method == http.MethodPut {
		tag := workspaceapi.ETag(hashHex([]byte(text)))
		if match := header.Get("If-Match"); exists == (match == "") || exists && match != tag && match != "*" {
			return problem.New(problem.PreconditionFailed, "it was changed")
		}
		h.files[path] = string(body)
		h.writes = append(h.writes, path)
		return nil
	}
	into.(*op.Blob).Data = []byte(text)
	return nil
}

// writeFolder writes files into a folder. A text that begins with "-> " is the target of a link.
func writeFolder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if to, isLink := strings.CutPrefix(text, "-> "); isLink {
			err = errors.Join(err, os.Symlink(to, path))
		} else {
			err = errors.Join(err, os.WriteFile(path, []byte(text), 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// run runs push or pull over a folder.
func run(t *testing.T, h *fakeHost, f copier, dir, stdin string, pull bool) (writeResult, string, error) {
	t.Helper()
	var errs bytes.Buffer
	a := &kit.App{In: bufio.NewReader(strings.NewReader(stdin)), Out: io.Discard, Err: &errs}
	f.App, f.fileAPI = a, &fileAPI{WorkspaceName: workspaceapi.WorkspaceName{Workspace: workspace.MainName}}
	do := f.pushFolder
	if pull {
		do = f.pullWorkspace
	}
	r, err := do(t.Context(), h, dir)
	return r, errs.String(), err
}

func TestPushSendsWhatDiffers(t *testing.T) {
	outside := writeFolder(t, map[string]string{"secret": "secret"})
	dir := writeFolder(t, map[string]string{
		"same.md": "same", "new.md": "new", "docs/deep.md": "deep", ".git/config": "git", "sub/.GIT/hooks/x": "git", ".gitignore": "kept",
		"link.md": "-> " + filepath.Join(outside, "secret"), "folder": "-> " + outside, "changed.md": "mine",
	})
	h := &fakeHost{files: map[string]string{"same.md": "same", "changed.md": "theirs", "other.md": "other"}}
	if _, errs, err := run(t, h, copier{}, dir, "no\n", false); !problem.Is(err, problem.Usage) || !strings.Contains(errs, "1 file in workspace main would be replaced, for example changed.md") || len(h.writes) > 0 {
		t.Errorf("without a yes: %v, %q, wrote %q", err, errs, h.writes)
	}
	r, _, err := run(t, h, copier{}, dir, "yes\n", false)
	if want := []string{".gitignore", "changed.md", "docs/deep.md", "new.md"}; err != nil || !slices.Equal(r.Written, want) || r.Unchanged != 1 {
		t.Errorf("push = %+v, %v, want %q written", r, err, want)
	}
	if len(r.Skipped) != 2 || h.files["changed.md"] != "mine" || h.files["other.md"] != "other" || h.files["link.md"] != "" {
		t.Errorf("push skipped %q, and the files are %q", r.Skipped, h.files)
	}
	if r, _, err := run(t, h, copier{prefix: "docs/"}, dir, "", false); err != nil || len(r.Written) != 0 || r.Unchanged != 1 {
		t.Errorf("a second push = %+v, %v", r, err)
	}
}

func TestPushRefusesWhatAWorkspaceCannotHave(t *testing.T) {
	for want, files := range map[string]map[string]string{
		"expected at most 1048576 bytes": {"large": strings.Repeat("x", workspace.MaxFileBytes+1)},
		"differ only in their spelling":  {"a.md": "x", "A.md": "y"},
		"no backslash":                   {`a\b`: "x"},
		"it was changed":                 {"raced.md": "x"},
		"run the same command again":     {"raced.md": "x"},
	} {
		h := &fakeHost{files: map[string]string{}}
		h.before = func(path string) {
			if path == "raced.md" {
				h.files[path] = "another's"
			}
		}
		dir := writeFolder(t, files)
		if _, _, err := run(t, h, copier{skipQuestion: true}, dir, "", false); err == nil || !strings.Contains(err.Error(), want) && want != "it was changed" {
			t.Errorf("push = %v, want %q", err, want)
		}
		if len(h.writes) > 0 {
			t.Errorf("push wrote %q", h.writes)
		}
	}
}

// A local file that is changed after the question stays.
func TestPullKeepsALateChange(t *testing.T) {
	for name, tt := range map[string]struct {
		local map[string]string
		yes   bool
	}{"a changed file": {map[string]string{"a.md": "mine"}, true}, "a new file": {nil, false}} {
		dir := writeFolder(t, tt.local)
		h := &fakeHost{files: map[string]string{"a.md": "theirs"}, before: func(string) {
			if err := os.WriteFile(filepath.Join(dir, "a.md"), []byte("my late change"), 0o600); err != nil {
				t.Error(err)
			}
		}}
		_, _, err := run(t, h, copier{skipQuestion: tt.yes}, dir, "", true)
		if got, _ := os.ReadFile(filepath.Join(dir, "a.md")); !problem.Is(err, problem.Conflict) || string(got) != "my late change" {
			t.Errorf("%s: pull = %v, and the file is %q", name, err, got)
		}
	}
}

func TestPullWritesOnlyIntoItsFolder(t *testing.T) {
	outside := writeFolder(t, map[string]string{"x": "safe"})
	for name, tt := range map[string]struct {
		local, remote map[string]string
		stdin         string
		want          map[string]string // after the command
		fails         string
	}{
		"new files":          {nil, map[string]string{"a.md": "a", ".vault/deep/b.md": "b"}, "", map[string]string{"a.md": "a", ".vault/deep/b.md": "b"}, ""},
		"the same":           {map[string]string{"a.md": "a"}, map[string]string{"a.md": "a"}, "", map[string]string{"a.md": "a"}, ""},
		"another, no":        {map[string]string{"a.md": "mine"}, map[string]string{"a.md": "a", "b.md": "b"}, "no\n", map[string]string{"a.md": "mine", "b.md": ""}, "not confirmed"},
		"another, yes":       {map[string]string{"a.md": "mine"}, map[string]string{"a.md": "a"}, "yes\n", map[string]string{"a.md": "a"}, ""},
		"git":                {map[string]string{".git/config": "mine"}, map[string]string{".git/config": "a", ".GIT/hooks/post-merge": "a", "sub/.g\u200cit/x": "a", "git~1/x": "a", "a": "a"}, "", map[string]string{".git/config": "mine", ".GIT/hooks/post-merge": "", "a": "a"}, ""},
		"a link":             {map[string]string{"x": "-> " + filepath.Join(outside, "x")}, map[string]string{"x": "a"}, "yes\n", nil, "got a symbolic link"},
		"a link to a folder": {map[string]string{"dir": "-> " + outside}, map[string]string{"dir/x": "a"}, "yes\n", nil, "dir: expected a folder, got a symbolic link"},
		"a link within":      {map[string]string{"dir": "-> real", "real/y": "y"}, map[string]string{"dir/x": "a"}, "yes\n", map[string]string{"real/x": ""}, "got a symbolic link"},
		"a file as a folder": {map[string]string{"a": "x"}, map[string]string{"a/b": "a"}, "yes\n", map[string]string{"a": "x"}, "a: expected a folder, got a file"},
		"a folder as a file": {map[string]string{"a/b": "x"}, map[string]string{"a": "a"}, "yes\n", map[string]string{"a/b": "x"}, "a: expected a file, got a folder"},
		"a parent":           {nil, map[string]string{"../x": "a"}, "yes\n", nil, "which is not a valid file path"},
		"an absolute path":   {nil, map[string]string{filepath.Join(outside, "x"): "a"}, "yes\n", nil, "which is not a valid file path"},
	} {
		h := &fakeHost{files: tt.remote}
		dir := writeFolder(t, tt.local)
		_, _, err := run(t, h, copier{}, dir, tt.stdin, true)
		if (err == nil) != (tt.fails == "") || err != nil && !strings.Contains(err.Error(), tt.fails) {
			t.Errorf("%s: pull = %v, want %q", name, err, tt.fails)
		}
		for path, want := range tt.want {
			got, _ := os.ReadFile(filepath.Join(dir, filepath.FromSlash(path)))
			if string(got) != want {
				t.Errorf("%s: %s is %q, want %q", name, path, got, want)
			}
		}
	}
	if got, _ := os.ReadFile(filepath.Join(outside, "x")); string(got) != "safe" {
		t.Errorf("a file outside is %q", got)
	}
}

// A link that appears after the question is not followed.
func TestPullFollowsNoLinkThatAppears(t *testing.T) {
	outside := writeFolder(t, map[string]string{"x": "safe"})
	dir := writeFolder(t, map[string]string{"dir/y": "y"})
	h := &fakeHost{files: map[string]string{"dir/x": "a"}}
	h.before = func(string) {
		if err := errors.Join(os.RemoveAll(filepath.Join(dir, "dir")), os.Symlink(outside, filepath.Join(dir, "dir"))); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := run(t, h, copier{skipQuestion: true}, dir, "", true); err == nil || !strings.Contains(err.Error(), "got a symbolic link") {
		t.Errorf("pull = %v", err)
	}
	if got, _ := os.ReadFile(filepath.Join(outside, "x")); string(got) != "safe" {
		t.Errorf("a file outside is %q", got)
	}
}

func TestRequestsWaitForARateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &fakeHost{files: map[string]string{"a": "text"}, busy: maxTries - 1}
		in := workspaceapi.ReadTarget{WorkspaceName: workspaceapi.WorkspaceName{Workspace: workspace.MainName}, Path: "a"}
		if b, err := retryWhenLimited(workspaceapi.ReadFile)(t.Context(), h, in); err != nil || string(b.Data) != "text" {
			t.Errorf("ReadFile = %q, %v", b.Data, err)
		}
		h.busy = maxTries
		if _, err := retryWhenLimited(workspaceapi.ReadFile)(t.Context(), h, in); !problem.Is(err, problem.TooManyRequests) {
			t.Errorf("ReadFile = %v", err)
		}
	})
}
