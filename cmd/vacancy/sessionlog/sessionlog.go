// Package sessionlog writes the log of an ACP session below the root of the session: one JSON
// object per line, in .vaultspec/logs/SESSION.log, which only its owner may read. It imports no
// packages of the host.
//
// A log must contain only names, sizes and states, and neither file contents nor tool arguments.
package sessionlog

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path"
	"strings"
	"time"
)

const Dir = ".vaultspec/logs"

// Types of entries. The comments list their attributes.
const (
	PermissionRequest = "permission_request" // tool_call_id, outcome
	SessionUpdate     = "session_update"     // update, size, and tool_call_id and status if they are set
	ReadTextFile      = "read_text_file"     // path
	WriteTextFile     = "write_text_file"    // path, size
	WriteBlocked      = "write_blocked"      // path, reason
	CreateTerminal    = "create_terminal"    // terminal_id, command (the program's name)
)

const maxValueBytes = 1 << 10

// Log is the log of one session. A nil Log discards all entries.
type Log struct {
	*slog.Logger
	io.Closer
}

// Open opens the log of a session below a root. It appends to the log of an earlier run.
func Open(root, session string, now func() time.Time) (*Log, error) {
	rootDir, err := os.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	defer rootDir.Close()
	if err := rootDir.MkdirAll(Dir, 0o700); err != nil {
		return nil, err
	}
	file := path.Join(Dir, fileName(session))
	if info, err := rootDir.Lstat(file); err == nil && !info.Mode().IsRegular() { // opening a pipe would hang
		return nil, fmt.Errorf("%s: expected a file", file)
	}
	f, err := rootDir.OpenFile(file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	replaceAttr := func(groups []string, a slog.Attr) slog.Attr {
		switch {
		case len(groups) > 0 && a.Value.Kind() == slog.KindString && len(a.Value.String()) > maxValueBytes:
			return slog.String(a.Key, strings.ToValidUTF8(a.Value.String()[:maxValueBytes], ""))
		case len(groups) > 0:
			return a
		case a.Key == slog.TimeKey:
			return slog.String("timestamp", now().UTC().Format(time.RFC3339Nano))
		case a.Key == slog.MessageKey:
			return slog.Attr{Key: "type", Value: a.Value}
		}
		return slog.Attr{} // no level
	}
	return &Log{slog.New(slog.NewJSONHandler(f, &slog.HandlerOptions{ReplaceAttr: replaceAttr})), f}, nil
}

// fileName replaces an id that is not a safe file name by its hash, because the id comes from
// another program.
func fileName(session string) string {
	const safeCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
	if session == "" || len(session) > 128 || strings.Trim(session, safeCharacters) != "" {
		session = fmt.Sprintf("%x", sha256.Sum256([]byte(session)))
	}
	return session + ".log"
}

// Write appends an entry. attrs contains alternating names and values. Strings are truncated to
// maxValueBytes bytes.
func (l *Log) Write(entryType string, attrs ...any) {
	if l != nil {
		l.Info(entryType, slog.Group("data", attrs...))
	}
}

// WriteUpdate appends an entry for a session update. It ignores invalid JSON.
func (l *Log) WriteUpdate(update []byte) {
	var u struct {
		Update  string          `json:"sessionUpdate"`
		Call    string          `json:"toolCallId"`
		Status  string          `json:"status"`
		Content json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal(update, &u); err != nil {
		return
	}
	attrs := []any{"update", u.Update, "size", len(u.Content)}
	if u.Call != "" {
		attrs = append(attrs, "tool_call_id", u.Call, "status", u.Status)
	}
	l.Write(SessionUpdate, attrs...)
}

func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	return l.Closer.Close()
}
