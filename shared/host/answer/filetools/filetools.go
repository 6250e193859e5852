// Package filetools gives the agents of dispatched tasks tools for the files in a workspace.
//
// A tool reads only folders that its agent may read. A write replaces only a version of a file that
// the agent knows, so that concurrent changes are not lost. It commits only if its task has not
// ended and no other task has an enforced lock on the path.
package filetools

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"

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

const maxWriteTries = 32

// Config configures Tools. If Files is nil, the host has no workspaces.
type Config struct {
	Files *workspace.Workspaces
	Locks *locks.Locks
	// GrepBytes limits the bytes that a call of Grep reads. Zero means maxGrepBytes.
	GrepBytes int64
}

// session is an agent's use of a workspace during a call.
type session struct {
	*Config
	turn         *task.WorkerTurn
	workspaceRef workspace.Ref
	folders      []string // folders that the agent may read; if empty, all
	knownHashes  sync.Map // versions that the agent knows, keyed by path
}

// Tools returns the tools of an agent. w must have files.
func (c *Config) Tools(w *task.WorkerTurn, a *definition.Agent) []loop.Tool {
	s := &session{Config: c, turn: w, workspaceRef: workspace.Ref{Owner: w.Files.Owner, Name: w.Files.Workspace}}
	if len(a.IncludeDirs) > 0 {
		s.folders = slices.Concat([]string{definition.SharedFolder}, w.Files.LockPaths, a.IncludeDirs)
	}
	return []loop.Tool{
		newTool("Read", "Reads a text file of the workspace, with numbers of lines.", s.readLines),
		newTool("Glob", "Lists the files of the workspace whose paths match a pattern.", s.listMatches),
		newTool("Grep", "Finds the lines of files of the workspace that match a regular expression of RE2.", s.searchLines),
		newTool("LS", "Lists the files and folders of a folder of the workspace.", s.listFolder),
		s.asWritingTool(newTool("Write", "Creates a file of the workspace, or replaces a file that you have read.", s.writeFile)),
		s.asWritingTool(newTool("Edit", "Replaces a text in a file of the workspace.", s.editFile)),
		s.asWritingTool(newTool("MultiEdit", "Makes several replacements in a file of the workspace, one after the other, or none of them.", s.editFileRepeatedly)),
		s.asWritingTool(newTool("NotebookEdit", "Replaces, inserts or deletes a cell of a Jupyter notebook of the workspace.", s.editNotebook)),
	}
}

// newTool returns a tool that rejects duplicate members in its arguments, because the gate and the
// tool could otherwise see different paths.
func newTool[In any](name, description string, run func(context.Context, In) (string, error)) loop.Tool {
	schema, err := jsonschema.For[In](nil)
	encoded, encodeErr := json.Marshal(schema)
	if err = cmp.Or(err, encodeErr); err != nil {
		panic(err) // the types of this package have schemas
	}
	return loop.Tool{
		Tool: substrate.Tool{Name: name, Description: description, Schema: encoded},
		Run: func(ctx context.Context, _ *substrate.Request, arguments json.RawMessage) (string, error) {
			var in In
			if err := canon.Unmarshal(arguments, &in, canon.Limits{Bytes: 8 << 20, Depth: 4, Keys: 1 << 12, Lenient: true, SkipUnknown: true}); err != nil {
				return "", err
			}
			return run(ctx, in)
		},
	}
}

func (s *session) asWritingTool(t loop.Tool) loop.Tool {
	t.Writes = true
	t.OnRefusal = func(_ context.Context, arguments json.RawMessage, reason string) {
		var in map[string]any
		_ = json.Unmarshal(arguments, &in) // the gate may have refused the call because it does not decode
		path, _ := cmp.Or(in["file_path"], in["notebook_path"]).(string)
		s.logBlocked(path, reason)
	}
	return t
}

// normalizePath normalizes a path chosen by a model. The path may begin with a slash or "./".
func normalizePath(p string) (string, error) {
	if slices.Contains(strings.Split(p, "/"), "..") {
		return workspace.NormalizePath(p) // returns the error for a path with ".."
	}
	return workspace.NormalizePath(strings.TrimPrefix(path.Clean("/"+p), "/"))
}

func (s *session) readAndLog(ctx context.Context, name string) (f workspace.File, data []byte, err error) {
	if name, err = normalizePath(name); err != nil {
		return f, nil, err
	}
	if !s.canRead(name) {
		return f, nil, problem.New(problem.Forbidden, "%s is denied: the agent may read only %s", name, strings.Join(s.folders, ", "))
	}
	if f, data, err = s.Files.Read(ctx, s.workspaceRef, name); err == nil {
		s.logAccess(task.LogRead, &f)
	}
	return f, data, err
}

func (s *session) canRead(path string) bool {
	return len(s.folders) == 0 || slices.ContainsFunc(s.folders, func(dir string) bool { return locks.IsWithin(path, dir) })
}

func (s *session) logAccess(t task.LogType, f *workspace.File) {
	s.knownHashes.Store(f.Path, f.Hash)
	s.turn.Log(t, task.LogData{Path: redact(f.Path), Size: &f.Size, Hash: f.Hash})
}

func (s *session) logBlocked(path, reason string) {
	if normalized, err := normalizePath(path); err == nil {
		path = normalized
	}
	s.turn.Log(task.LogBlocked, task.LogData{Path: redact(path), Reason: redact(reason)})
}

// redactCandidate matches the parts of a text that redact checks one by one, because a long path
// would look like a secret. Task ids are not redacted.
var redactCandidate = regexp.MustCompile(`\btask [0-9a-f]{32}\b|[^ /]+`)

func redact(text string) string {
	return redactCandidate.ReplaceAllStringFunc(substrate.Truncate(text, 2*workspace.MaxPathBytes), func(name string) string {
		if strings.HasPrefix(name, "task ") {
			return name
		}
		return substrate.Redact(name, len(name)+len("[redacted]"))
	})
}

// saveFile replaces the text of a file by the result of change. It retries if a lock or, in an
// edit, the file has changed concurrently.
func (s *session) saveFile(ctx context.Context, name string, isEdit bool, change func(text string) (string, error)) (string, error) {
	f, err := s.trySaveFile(ctx, name, isEdit, change)
	for try := 1; try < maxWriteTries && (locks.IsLockChange(err) || isEdit && problem.Is(err, problem.PreconditionFailed)); try++ {
		if s.Locks.Store.Backoff(ctx, try) != nil {
			break
		}
		f, err = s.trySaveFile(ctx, name, isEdit, change)
	}
	if err != nil {
		s.logBlocked(name, problem.AsError(err).Text())
		return "", err
	}
	s.logAccess(task.LogWrite, &f)
	return fmt.Sprintf("wrote %d bytes to %s", f.Size, f.Path), nil
}

func (s *session) trySaveFile(ctx context.Context, name string, isEdit bool, change func(text string) (string, error)) (f workspace.File, err error) {
	if name, err = normalizePath(name); err != nil {
		return f, err
	}
	var oldData []byte
	knownHash, _ := s.knownHashes.Load(name)
	hash, _ := knownHash.(string)
	if isEdit {
		if f, oldData, err = s.readAndLog(ctx, name); err != nil {
			return f, err
		}
		hash = f.Hash
	}
	text, err := change(string(oldData))
	if err != nil {
		return f, problem.WithPlace(problem.AsError(err).Kind, name, err)
	}
	if err := call.RecheckCredential(ctx); err != nil {
		return f, err
	}
	f, err = s.Files.Write(ctx, s.workspaceRef, workspace.Change{
		Path: name, Data: []byte(text), Condition: workspace.Condition{Absent: hash == "", Hash: hash}, Task: s.turn.Ref.ID,
		AddWrites: func(ctx context.Context, tx *store.Tx) error {
			return s.Locks.CheckWrite(ctx, tx, s.workspaceRef, s.turn.Ref, name)
		},
	})
	if !isEdit && problem.Is(err, problem.PreconditionFailed) {
		err = problem.New(problem.PreconditionFailed, "%s exists, or was changed by others since you read it; read it before you replace it, or use Edit", name)
	}
	return f, err
}

type target struct {
	Path string `json:"file_path" canon:"required" jsonschema:"the path of the file in the workspace, for example .vault/report.md"`
}

func (s *session) writeFile(ctx context.Context, in struct {
	target
	Content string `json:"content" canon:"required" jsonschema:"the text of the file"`
}) (string, error) {
	return s.saveFile(ctx, in.Path, false, func(string) (string, error) { return in.Content, nil })
}

type replacement struct {
	Old string `json:"old_string" canon:"required" jsonschema:"the text to replace, which occurs once unless replace_all is true"`
	New string `json:"new_string" canon:"required" jsonschema:"the new text"`
	All bool   `json:"replace_all,omitempty" jsonschema:"replace each occurrence"`
}

// replaceIn replaces the text. Its errors must not contain contents of the file, because they are
// logged.
func (r *replacement) replaceIn(text string) (string, error) {
	n := strings.Count(text, r.Old)
	switch {
	case r.Old == "" || r.Old == r.New:
		return "", problem.Invalid("old_string", "a text that differs from new_string", "the same text or none")
	case n == 0:
		return "", problem.Invalid("old_string", "a text of the file", "a text that is not in the file")
	case n > 1 && !r.All:
		return "", problem.Invalid("old_string", "a text that occurs once, or replace_all", fmt.Sprintf("a text that occurs %d times", n))
	case len(text)+n*(len(r.New)-len(r.Old)) > workspace.MaxFileBytes:
		return "", problem.New(problem.TooLarge, "expected at most %d bytes in a file, got more", workspace.MaxFileBytes)
	}
	return strings.ReplaceAll(text, r.Old, r.New), nil
}

func (s *session) editFile(ctx context.Context, in struct {
	target
	replacement
}) (string, error) {
	return s.saveFile(ctx, in.Path, true, in.replaceIn)
}

func (s *session) editFileRepeatedly(ctx context.Context, in struct {
	target
	Edits []replacement `json:"edits" canon:"required" jsonschema:"the replacements"`
}) (string, error) {
	if len(in.Edits) == 0 {
		return "", problem.Invalid("edits", "at least one replacement", "none")
	}
	return s.saveFile(ctx, in.Path, true, func(text string) (_ string, err error) {
		for i := range in.Edits {
			if text, err = in.Edits[i].replaceIn(text); err != nil {
				return "", problem.WithPlace(problem.AsError(err).Kind, fmt.Sprintf("edits[%d]", i), err)
			}
		}
		return text, nil
	})
}
