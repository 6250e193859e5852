// Package sessionlog writes the log of an ACP session below the root of the session: one JSON object per line, in
// .vaultspec/logs/SESSION.log, which only its owner may read. It imports nothing of the host.
//
// The invariant: a log has names, sizes and states, and neither texts nor arguments.
package sessionlog

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"strings"
	"sync"
	"time"
)

// Dir is the folder of the logs below a root.
const Dir = ".vaultspec/logs"

// The types of entries.
const (
	PermissionRequest = "permission_request" // tool_call_id, outcome
	SessionUpdate     = "session_update"     // update, tool_call_id and status if there are any
	ReadTextFile      = "read_text_file"     // path
	WriteTextFile     = "write_text_file"    // path, size
	WriteBlocked      = "write_blocked"      // path, reason
	CreateTerminal    = "create_terminal"    // terminal_id, command: the program's name
	truncated         = "truncated"          // the log is full
)

// maxSize limits a log in bytes. maxValue limits a text in it.
const (
	maxSize  = 8 << 20
	maxValue = 1 << 10
)

// Log is the log of one session. A nil Log has no entries.
type Log struct {
	now func() time.Time

	mu   sync.Mutex
	file *os.File
	size int64
	err  error
}

// Open opens the log of a session below a root. It appends to the log of an earlier run.
func Open(root, session string, now func() time.Time) (*Log, error) {
	r, err := os.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if err := r.MkdirAll(Dir, 0o700); err != nil {
		return nil, err
	}
	f, err := r.OpenFile(path.Join(Dir, fileName(session)), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: expected a file", f.Name())
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &Log{now: now, file: f, size: info.Size()}, nil
}

// fileName returns the name of a session's log. An id of another program may not be a file's name, so the log then
// has its hash.
func fileName(session string) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
	if session == "" || len(session) > 128 || strings.Trim(session, letters) != "" {
		session = fmt.Sprintf("%x", sha256.Sum256([]byte(session)))
	}
	return session + ".log"
}

// entry is a line of a log.
type entry struct {
	Timestamp string         `json:"timestamp"`
	Type      string         `json:"type"`
	Data      map[string]any `json:"data"`
}

// Write appends an entry of a type. The texts in data are shortened to maxValue bytes. After an error or a full log
// Write does nothing.
func (l *Log) Write(kind string, data map[string]any) {
	if l == nil {
		return
	}
	for name, value := range data {
		if text, ok := value.(string); ok && len(text) > maxValue {
			data[name] = strings.ToValidUTF8(text[:maxValue], "")
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil || l.size >= maxSize {
		return
	}
	l.append(kind, data)
	if l.size >= maxSize {
		l.append(truncated, map[string]any{})
	}
}

func (l *Log) append(kind string, data map[string]any) {
	line, err := json.Marshal(entry{l.now().UTC().Format(time.RFC3339Nano), kind, data})
	if err == nil {
		_, err = l.file.Write(append(line, '\n'))
	}
	l.size += int64(len(line)) + 1
	l.err = err
}

// Close closes the log and returns the first error of a Write.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.file.Close()
	if l.err != nil {
		err = l.err
	}
	return err
}
