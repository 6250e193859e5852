package acpclient

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/vacancy-host/vacancy/cmd/vacancy/sessionlog"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Limits of the program's output.
const (
	maxLine   = 10<<20 - 1 // bytes; the library reads lines below 10 MiB
	maxOutput = 256 << 20  // bytes during one prompt
	maxNoise  = 100        // lines in a session that are not JSON
	maxCalls  = 1000       // tool calls under way
)

// pump reads the program's lines until the output ends. It handles updates of the session itself, and passes requests
// and answers on to the library. Therefore the answer to a prompt follows all of its updates, and the program waits while
// an update is being handled: the library would end the connection after 1,024 updates that wait.
func (a *Agent) pump(stdout io.Reader, library *io.PipeWriter) {
	defer library.Close()
	in := bufio.NewReaderSize(stdout, 64<<10)
	noise := 0
	for {
		line, err := readLine(in)
		if errors.Is(err, errLongLine) {
			a.abort(problem.SubstrateTooLarge, "the agent wrote a line of 10 MiB or more")
			return
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			var m message
			switch {
			case !a.mayWrite(len(line)):
				a.abort(problem.SubstrateTooLarge, "the agent wrote more than %d MiB for one prompt", maxOutput>>20)
				return
			case json.Unmarshal(line, &m) != nil, m.isUpdate() && !a.update(m.Params):
				if noise++; noise == 1 {
					a.o.Note("warning: the agent writes lines that are not messages of ACP; they are skipped")
				}
				if noise > maxNoise {
					a.abort(problem.SubstrateMisconfigured, "the agent wrote more than %d lines that are not messages of ACP", maxNoise)
					return
				}
			case m.isNotification() && m.Method != "$/cancel_request": // none of the others asks for something
			default:
				if _, err := library.Write(append(line, '\n')); err != nil {
					return
				}
			}
		}
		if err != nil {
			return
		}
	}
}

// message has the members of a message of JSON-RPC that decide where it goes.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

func (m *message) isNotification() bool {
	return m.Method != "" && (m.ID == nil || string(m.ID) == "null")
}

func (m *message) isUpdate() bool { return m.isNotification() && m.Method == "session/update" }

var errLongLine = errors.New("line too long")

// readLine reads a line of at most maxLine bytes. The error of the last line is returned with it.
func readLine(in *bufio.Reader) (line []byte, err error) {
	for {
		piece, err := in.ReadSlice('\n')
		if len(line)+len(bytes.TrimSuffix(piece, []byte("\n"))) > maxLine {
			return nil, errLongLine
		}
		line = append(line, piece...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// mayWrite counts the bytes of a line, and reports whether the prompt under way may have them.
func (a *Agent) mayWrite(n int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.turn == nil {
		return true
	}
	a.turn.bytes += n
	return a.turn.bytes <= maxOutput
}

// call is a tool call of the agent.
type call struct {
	kind, title string
	paths       []string
}

// update handles an update of the session, and reports whether it has the form of one.
func (a *Agent) update(params json.RawMessage) bool {
	var m struct {
		SessionID string `json:"sessionId"`
		Update    struct {
			Update    string          `json:"sessionUpdate"`
			Content   json.RawMessage `json:"content"`
			Call      string          `json:"toolCallId"`
			Title     string          `json:"title"`
			Kind      string          `json:"kind"`
			Status    string          `json:"status"`
			Locations []struct {
				Path string `json:"path"`
			} `json:"locations"`
		} `json:"update"`
	}
	if json.Unmarshal(params, &m) != nil || m.Update.Update == "" {
		return false
	}
	t, u := a.current(), m.Update
	if t == nil || m.SessionID != string(a.session) {
		return true
	}
	var e Event
	switch u.Update {
	case "agent_message_chunk", "agent_thought_chunk":
		a.record(sessionlog.SessionUpdate, map[string]any{"update": u.Update})
		var block struct{ Type, Text string }
		if json.Unmarshal(u.Content, &block) != nil || block.Type != "text" || block.Text == "" {
			return true
		}
		if e.Thought = block.Text; u.Update == "agent_message_chunk" {
			e.Text, e.Thought = block.Text, ""
		}
	case "tool_call", "tool_call_update":
		a.record(sessionlog.SessionUpdate, map[string]any{"update": u.Update, "tool_call_id": u.Call, "status": u.Status})
		a.mu.Lock()
		c := a.calls[u.Call]
		if u.Title != "" {
			c.title = u.Title
		}
		if u.Kind != "" {
			c.kind = u.Kind
		}
		if u.Locations != nil {
			c.paths = nil
		}
		for _, at := range u.Locations {
			c.paths = append(c.paths, at.Path)
		}
		if u.Status == "completed" || u.Status == "failed" {
			delete(a.calls, u.Call)
		} else if len(a.calls) < maxCalls {
			a.calls[u.Call] = c
		}
		a.mu.Unlock()
		if e = (Event{Call: u.Call, Title: c.title, Status: u.Status}); e.Status == "" {
			if u.Update == "tool_call_update" {
				return true // it has only contents
			}
			e.Status = "pending"
		}
	default:
		a.record(sessionlog.SessionUpdate, map[string]any{"update": u.Update})
		return true
	}
	if t.text.Len()+len(e.Text) > substrate.MaxText {
		t.fail(substrate.TooLarge(t.text.Len() + len(e.Text)))
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
