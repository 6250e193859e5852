// Package filetools gives the agents of dispatched tasks tools for the files of a workspace.
//
// The invariants: a tool reaches only the workspace of its task, and reads only the folders that its agent may read. It
// replaces only a version of a file that it has read, so no change of others is lost. A write commits only while its task
// has not ended and no other task has an enforced lock on the path. Package loop decides what a tool may do (its gate).
package filetools

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/loop"
	"github.com/vacancy-host/vacancy/shared/host/workspace"
	"github.com/vacancy-host/vacancy/shared/host/workspace/locks"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// maxTries limits how often a change of a file begins again because others have changed the file or a lock.
const maxTries = 32

// Config configures Tools. If Files is nil, the host has no workspaces.
type Config struct {
	Files *workspace.Workspaces
	Locks *locks.Locks
	// GrepBytes limits the bytes that a call of Grep reads.
	GrepBytes int64
}

// session is the use of a workspace by the agent of a call.
type session struct {
	*Config
	work    *task.Work
	ref     workspace.Ref
	folders []string // that the agent may read; empty means all

	mu    sync.Mutex
	known map[string]string // hashes of the versions that the agent knows, by path
}

// Tools returns the tools of an agent in a task that has files.
func (c *Config) Tools(w *task.Work, a *definition.Agent) []loop.Tool {
	s := &session{Config: c, work: w, ref: workspace.Ref{Owner: w.Files.Owner, Name: w.Files.Workspace}, known: map[string]string{}}
	if len(a.IncludeDirs) > 0 {
		s.folders = slices.Concat([]string{definition.SharedFolder}, w.Files.Lock, a.IncludeDirs)
	}
	file := text("file_path", "the path of the file in the workspace, for example .vault/report.md")
	folder := text("path", "the folder; the default is the workspace")
	after := text("after_path", "where to go on, as an earlier answer says")
	edit := object(text("old_string", "the text to replace"), text("new_string", "the new text"), flag("replace_all", "replace each place"))
	all := []loop.Tool{
		tool("Read", "Reads a text file of the workspace, with numbers of lines.", s.read,
			file, number("offset", "the first line"), number("limit", "the number of lines")),
		tool("Write", "Creates a file of the workspace, or replaces a file that you have read.", s.create, file, text("content", "the text of the file")),
		tool("Edit", "Replaces a text in a file of the workspace. The text must occur once, unless replace_all is true.", s.edit,
			file, text("old_string", "the text to replace"), text("new_string", "the new text"), flag("replace_all", "replace each place")),
		tool("MultiEdit", "Makes several replacements in a file of the workspace, one after the other, or none of them.", s.multiEdit,
			file, member("edits", `{"type":"array","items":`+edit+`}`)),
		tool("NotebookEdit", "Replaces, inserts or deletes a cell of a Jupyter notebook of the workspace.", s.editNotebook,
			text("notebook_path", "the path of the notebook"), text("cell_id", "the id of the cell, or after which to insert"), number("cell_number", "the number of the cell instead, from 0"),
			text("new_source", "the text of the cell"), text("cell_type", "code or markdown"), text("edit_mode", "replace, insert or delete; the default is replace")),
		tool("Glob", "Lists files of the workspace whose paths match a pattern such as src/**/*.go.", s.glob, text("pattern", "the pattern"), folder, after),
		tool("Grep", "Finds the lines of files of the workspace that match a regular expression of RE2.", s.grep,
			text("pattern", "the expression"), folder, text("glob", "only files that match this pattern"), flag("ignore_case", "take upper and lower case as equal"),
			text("output_mode", "content, files_with_matches or count; the default is content"), after, number("after_line", "where to go on, as an earlier answer says")),
		tool("LS", "Lists the files and folders of a folder of the workspace.", s.list, folder, after),
	}
	for i := range all {
		if t := &all[i]; slices.Contains([]string{"Write", "Edit", "MultiEdit", "NotebookEdit"}, t.Name) {
			t.Writes, t.Refused = true, s.refused
		}
	}
	return all
}

// member returns a member of a JSON Schema.
func member(name, schema string) string { return fmt.Sprintf("%q:%s", name, schema) }

func text(name, what string) string {
	return member(name, fmt.Sprintf(`{"type":"string","description":%q}`, what))
}

func number(name, what string) string {
	return member(name, fmt.Sprintf(`{"type":"integer","description":%q}`, what))
}

func flag(name, what string) string {
	return member(name, fmt.Sprintf(`{"type":"boolean","description":%q}`, what))
}

func object(members ...string) string {
	return `{"type":"object","properties":{` + strings.Join(members, ",") + `}}`
}

// tool returns a tool whose arguments are read strictly: with two members of one name, the gate and the tool could see
// different paths.
func tool[In any](name, description string, run func(context.Context, In) (string, error), members ...string) loop.Tool {
	return loop.Tool{
		Tool: substrate.Tool{Name: name, Description: description, Schema: json.RawMessage(object(members...))},
		Run: func(ctx context.Context, _ *substrate.Request, arguments json.RawMessage) (string, error) {
			var in In
			if err := canon.Unmarshal(arguments, &in, canon.Limits{Bytes: 8 << 20, Depth: 4, Keys: 1 << 12, Lenient: true, Open: true}); err != nil {
				return "", err
			}
			return run(ctx, in)
		},
	}
}

// filePath returns the normal form of a path that a model names. A model may begin a path with a slash or with "./".
func filePath(p string) (string, error) {
	if slices.Contains(strings.Split(p, "/"), "..") {
		return workspace.CheckPath(p) // which refuses it
	}
	return workspace.CheckPath(strings.TrimPrefix(path.Clean("/"+p), "/"))
}

// folderPath is filePath for a folder; "" for the workspace. Other folders end with a slash.
func folderPath(p string) (string, error) {
	if strings.Trim(p, "./") == "" && !strings.Contains(p, "..") {
		return "", nil
	}
	p, err := filePath(p)
	return p + "/", err
}

// mayRead reports whether the agent may read a file.
func (s *session) mayRead(path string) bool {
	return len(s.folders) == 0 || slices.ContainsFunc(s.folders, func(dir string) bool { return locks.Below(path, dir) })
}

// open reads a file that the agent may read.
func (s *session) open(ctx context.Context, name string) (f workspace.File, data []byte, err error) {
	if name, err = filePath(name); err != nil {
		return f, nil, err
	}
	if !s.mayRead(name) {
		return f, nil, problem.New(problem.Forbidden, "%s is denied: the agent may read only %s", name, strings.Join(s.folders, ", "))
	}
	if f, data, err = s.Files.Read(ctx, s.ref, name); err != nil {
		return f, nil, err
	}
	s.knows(f.Path, f.Hash)
	s.log(task.LogRead, f.Path, f.Size, f.Hash)
	return f, data, nil
}

func (s *session) knows(path, hash string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[path] = hash
}

func (s *session) log(t task.LogType, path string, size int64, hash string) {
	n := int(size)
	s.work.Log(t, task.LogData{Path: redact(path), Size: &n, Hash: hash})
}

// redact returns a path, or a reason with a path, without what looks like a secret. It takes the names of a path one by
// one, because a long path would look like a secret. The id of a task that a reason names stays.
func redact(text string) string {
	words := strings.Split(substrate.Cut(text, 2*workspace.MaxPath), " ")
	for i, word := range words {
		if i > 0 && words[i-1] == "task" {
			continue
		}
		names := strings.Split(word, "/")
		for j, name := range names {
			names[j] = substrate.Redact(name, len(name)+len("[redacted]"))
		}
		words[i] = strings.Join(names, "/")
	}
	return strings.Join(words, " ")
}

// refused logs a call that the gate has refused.
func (s *session) refused(_ context.Context, arguments json.RawMessage, reason string) {
	var in struct {
		File     string `json:"file_path"`
		Notebook string `json:"notebook_path"`
	}
	_ = json.Unmarshal(arguments, &in) // the gate may have refused the call because it does not decode
	s.blocked(cmp.Or(in.File, in.Notebook), reason)
}

func (s *session) blocked(path, reason string) {
	s.work.Log(task.LogBlocked, task.LogData{Path: redact(path), Reason: redact(reason)})
}

// write writes a file, unless the file is not as cond says. It logs the write or the refusal.
func (s *session) write(ctx context.Context, path string, data []byte, cond workspace.If) (workspace.File, error) {
	f, err := workspace.File{}, call.Recheck(ctx)
	for try := 1; err == nil; try++ {
		f, err = s.Files.Write(ctx, s.ref, workspace.Write{Path: path, Data: data, If: cond, Task: s.work.Ref.ID, Also: func(ctx context.Context, tx *store.Tx) error {
			return s.Locks.Guard(ctx, tx, s.ref, s.work.Ref, path)
		}})
		if !locks.IsChanged(err) {
			break
		}
		if err = nil; try == maxTries {
			err = problem.New(problem.Conflict, "%s: the locks of the workspace keep changing; call the tool again", path)
		}
	}
	if err != nil {
		s.blocked(path, problem.Of(err).Text())
		return f, err
	}
	s.knows(f.Path, f.Hash)
	s.log(task.LogWrite, f.Path, f.Size, f.Hash)
	return f, nil
}

// create is the tool Write.
func (s *session) create(ctx context.Context, in struct {
	Path    string `json:"file_path" canon:"required"`
	Content string `json:"content" canon:"required"`
}) (string, error) {
	name, err := filePath(in.Path)
	if err != nil {
		s.blocked(in.Path, problem.Of(err).Text())
		return "", err
	}
	s.mu.Lock()
	known := s.known[name]
	s.mu.Unlock()
	f, err := s.write(ctx, name, []byte(in.Content), workspace.If{Absent: known == "", Hash: known})
	if problem.Is(err, problem.Precondition) {
		s.knows(name, "")
		if known == "" {
			err = problem.New(problem.Precondition, "%s exists; read it before you replace it, or use Edit", name)
		} else {
			err = problem.New(problem.Precondition, "%s was changed by others since you read it; read it again", name)
		}
	}
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("wrote %d bytes to %s", f.Size, f.Path), nil
}

// change replaces the text of a file by the result of edit. If others change the file at the same time, it begins again.
func (s *session) change(ctx context.Context, name string, edit func(text string) (string, error)) (string, error) {
	for try := 1; ; try++ {
		f, data, err := s.open(ctx, name)
		if err != nil {
			s.blocked(name, problem.Of(err).Text())
			return "", err
		}
		changed, err := edit(string(data))
		if err != nil {
			return "", problem.Within(problem.Of(err).Kind, f.Path, err)
		}
		f, err = s.write(ctx, f.Path, []byte(changed), workspace.If{Hash: f.Hash})
		switch {
		case err == nil:
			return fmt.Sprintf("changed %s, which now has %d bytes", f.Path, f.Size), nil
		case !problem.Is(err, problem.Precondition) || try == maxTries || s.Locks.Store.Backoff(ctx, try) != nil:
			return "", err
		}
	}
}

// edit is a replacement.
type edit struct {
	Old string `json:"old_string" canon:"required"`
	New string `json:"new_string" canon:"required"`
	All bool   `json:"replace_all"`
}

func (e *edit) apply(text string) (string, error) {
	n := strings.Count(text, e.Old)
	switch {
	case e.Old == "" || e.Old == e.New:
		return "", problem.Invalid("old_string", "a text that differs from new_string", fmt.Sprintf("%.80q", e.Old))
	case n == 0:
		return "", problem.Invalid("old_string", "a text of the file", fmt.Sprintf("%.80q, which is not in the file", e.Old))
	case n > 1 && !e.All:
		return "", problem.Invalid("old_string", "a text that occurs once, or replace_all", fmt.Sprintf("a text that occurs %d times", n))
	case len(text)+n*(len(e.New)-len(e.Old)) > workspace.MaxFile:
		return "", problem.New(problem.TooLarge, "expected at most %d bytes in a file, got more", workspace.MaxFile)
	}
	return strings.ReplaceAll(text, e.Old, e.New), nil
}

func (s *session) edit(ctx context.Context, in struct {
	Path string `json:"file_path" canon:"required"`
	Old  string `json:"old_string" canon:"required"`
	New  string `json:"new_string" canon:"required"`
	All  bool   `json:"replace_all"`
}) (string, error) {
	return s.change(ctx, in.Path, (&edit{in.Old, in.New, in.All}).apply)
}

func (s *session) multiEdit(ctx context.Context, in struct {
	Path  string `json:"file_path" canon:"required"`
	Edits []edit `json:"edits" canon:"required"`
}) (string, error) {
	if len(in.Edits) == 0 {
		return "", problem.Invalid("edits", "at least one replacement", "none")
	}
	return s.change(ctx, in.Path, func(text string) (_ string, err error) {
		for i, e := range in.Edits {
			if text, err = e.apply(text); err != nil {
				return "", problem.Within(problem.Of(err).Kind, fmt.Sprintf("edits[%d]", i), err)
			}
		}
		return text, nil
	})
}

// files lists the files of a folder that the agent may read, beginning with the path from.
func (s *session) files(ctx context.Context, folder, from string) iter.Seq2[workspace.File, error] {
	const page = 500
	return func(yield func(workspace.File, error) bool) {
		for cursor, more := "", true; more; more = cursor != "" {
			var all []workspace.File
			var err error
			if all, cursor, err = s.Files.List(ctx, s.ref, folder, page, cursor); err != nil {
				yield(workspace.File{}, err)
				return
			}
			for _, f := range all {
				if s.mayRead(f.Path) && workspace.Fold(f.Path) >= workspace.Fold(from) && !yield(f, nil) {
					return
				}
			}
		}
	}
}
