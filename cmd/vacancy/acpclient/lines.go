package acpclient

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"sync"

	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/problem"
)

const (
	maxLineBytes    = 10 << 20  // the library has the same limit
	maxOutputBytes  = 256 << 20 // limit for one prompt
	maxInvalidLines = 100       // limit for a session
	maxToolCalls    = 1000
)

// lineReader handles session updates itself, so that all updates of a prompt are handled before its
// answer. The library would end the connection at 1,024 waiting updates.
type lineReader struct {
	*Agent
	scanner      *bufio.Scanner
	readMu       sync.Mutex // held until the library has its logger
	pending      []byte     // unread part of a line for the library
	invalidLines int
}

func newLineReader(a *Agent, stdout io.Reader) *lineReader {
	scanner := bufio.NewScanner(stdout)
	scanner.Buffer(make([]byte, 64<<10), maxLineBytes)
	return &lineReader{Agent: a, scanner: scanner}
}

func (l *lineReader) Read(p []byte) (int, error) {
	l.readMu.Lock()
	defer l.readMu.Unlock()
	for len(l.pending) == 0 {
		if !l.scanner.Scan() {
			if errors.Is(l.scanner.Err(), bufio.ErrTooLong) {
				l.abort(problem.New(problem.SubstrateTooLarge, "the agent wrote a line of 10 MiB or more"))
			}
			return 0, io.EOF
		}
		forward, err := l.handleLine(bytes.TrimSpace(l.scanner.Bytes()))
		if err != nil {
			l.abort(err)
			return 0, io.EOF
		}
		if forward {
			l.pending = append(bytes.Clone(l.scanner.Bytes()), '\n')
		}
	}
	n := copy(p, l.pending)
	l.pending = l.pending[n:]
	return n, nil
}

// handleLine handles a line. forward is true if the library must get the line.
func (l *lineReader) handleLine(line []byte) (forward bool, err error) {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	isMessage := json.Unmarshal(line, &m) == nil
	isForLibrary := m.Method == "" || m.ID != nil && string(m.ID) != "null" || m.Method == "$/cancel_request"
	switch {
	case len(line) == 0:
	case !l.addOutputBytes(len(line)):
		return false, problem.New(problem.SubstrateTooLarge, "the agent wrote more than %d MiB for one prompt", maxOutputBytes>>20)
	case isMessage && isForLibrary:
		return true, nil
	case isMessage && (m.Method != "session/update" || l.handleUpdate(m.Params)): // other notifications are ignored
	default:
		if l.invalidLines++; l.invalidLines == 1 {
			l.opts.Logf("warning: the agent writes lines that are not ACP messages; these lines are skipped")
		}
		if l.invalidLines > maxInvalidLines {
			return false, problem.New(problem.SubstrateMisconfigured, "the agent wrote more than %d lines that are not ACP messages", maxInvalidLines)
		}
	}
	return false, nil
}

func (a *Agent) addOutputBytes(n int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.turn == nil {
		return true
	}
	a.turn.outputBytes += n
	return a.turn.outputBytes <= maxOutputBytes
}

type toolCall struct {
	kind, title string
	paths       []string
}

func (a *Agent) handleUpdate(params json.RawMessage) bool {
	var m struct {
		SessionID string          `json:"sessionId"`
		Update    json.RawMessage `json:"update"`
	}
	var u struct {
		Update    string          `json:"sessionUpdate"`
		Content   json.RawMessage `json:"content"`
		Call      string          `json:"toolCallId"`
		Title     string          `json:"title"`
		Kind      string          `json:"kind"`
		Status    string          `json:"status"`
		Locations []struct {
			Path string `json:"path"`
		} `json:"locations"`
	}
	if json.Unmarshal(params, &m) != nil || json.Unmarshal(m.Update, &u) != nil || u.Update == "" {
		return false
	}
	t := a.currentTurn()
	if t == nil || m.SessionID != string(a.session) {
		return true
	}
	a.log.Load().WriteUpdate(m.Update)
	var e Event
	switch u.Update {
	case "agent_message_chunk", "agent_thought_chunk":
		var block struct{ Type, Text string }
		if json.Unmarshal(u.Content, &block) != nil || block.Type != "text" || block.Text == "" {
			return true
		}
		if e.Thought = block.Text; u.Update == "agent_message_chunk" {
			e.Text, e.Thought = block.Text, ""
		}
	case "tool_call", "tool_call_update":
		a.mu.Lock()
		c := a.toolCalls[u.Call]
		c.title, c.kind = cmp.Or(u.Title, c.title), cmp.Or(u.Kind, c.kind)
		if u.Locations != nil {
			c.paths = nil
		}
		for _, location := range u.Locations {
			c.paths = append(c.paths, location.Path)
		}
		if u.Status == "completed" || u.Status == "failed" {
			delete(a.toolCalls, u.Call)
		} else if len(a.toolCalls) < maxToolCalls {
			a.toolCalls[u.Call] = c
		}
		a.mu.Unlock()
		if u.Status == "" && u.Update == "tool_call_update" {
			return true // the update changes only the contents of the call
		}
		e = Event{ToolCallID: u.Call, Title: c.title, Status: cmp.Or(u.Status, "pending")}
	default:
		return true
	}
	if t.text.Len()+len(e.Text) > substrate.MaxText {
		t.fail(substrate.TooLargeError(t.text.Len() + len(e.Text)))
		return true
	}
	a.mu.Lock()
	t.text.WriteString(e.Text)
	a.mu.Unlock()
	if err := t.emit(e); err != nil {
		t.fail(err)
	}
	return true
}
