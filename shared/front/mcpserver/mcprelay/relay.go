// Package mcprelay connects an MCP client to an MCP server of a host. It is for clients that start
// a program and exchange lines with it: each line is an MCP message. The relay sends the client's
// requests to the server by HTTP.
//
// Each request gets one answer, unless the client cancels it. The relay passes the answers to
// questions on unchanged, because they may contain a signed message.
package mcprelay

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/mcpserver/mcptool"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/network/sse"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

const (
	// maxLineBytes limits a message of the client. Servers have the same limit.
	maxLineBytes   = 512 << 10
	maxAnswerBytes = 16 << 20
	// maxRequests limits the concurrent requests.
	maxRequests = 128
	// requestTimeout is longer than the longest call of an agent, 14 minutes.
	requestTimeout = 15 * time.Minute
	// drainTimeout limits the wait for the answers to pending requests after the input has ended.
	drainTimeout = 10 * time.Second
	stopTimeout  = 5 * time.Second
)

const (
	codeParse          = -32700
	codeInvalidRequest = -32600
	codeInvalidParams  = -32602
)

type Transport interface {
	Open(ctx context.Context, r outbound.Request) (*http.Response, error)
}

// Relay passes the messages of a client on to a server.
type Relay struct {
	URL       string
	Key       string
	Transport Transport
	// StopTasks makes the relay stop the task of a question that the client cancels. The server
	// must report the tasks of questions (mcptool.MetaTaskID).
	StopTasks bool
	// Team answers requests about the client's own agents and tasks. It may be nil.
	Team *Team
	// Logf prints a message for the user.
	Logf func(format string, args ...any)
}

// Serve serves one client until the input ends, writing to the output fails, or ctx is canceled.
// Its error is an error of the input or the output.
func (r *Relay) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	s := &session{Relay: r, out: out, calls: map[string]*pendingCall{}, writeFailed: make(chan struct{})}
	watchCtx, stopWatching := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	if r.Team != nil {
		watcher.Go(func() { s.watchAgents(watchCtx) })
	}
	defer stopWatching()
	readDone := make(chan error, 1)
	go func() {
		defer stopWatching()
		readDone <- s.readLines(context.WithoutCancel(ctx), in)
	}()
	var err error
	select {
	case err = <-readDone:
		drained := make(chan struct{})
		go func() { s.pending.Wait(); close(drained) }()
		timer := time.NewTimer(drainTimeout)
		defer timer.Stop()
		select {
		case <-drained:
		case <-timer.C:
		case <-ctx.Done():
		case <-s.writeFailed:
		}
	case <-ctx.Done():
	case <-s.writeFailed:
	}
	s.mu.Lock()
	s.closed = true
	calls := slices.Collect(maps.Values(s.calls))
	s.mu.Unlock()
	for _, c := range calls {
		s.stopCall(c)
	}
	s.pending.Wait()
	stopWatching()
	watcher.Wait()
	return errors.Join(err, s.outErr)
}

type session struct {
	*Relay
	pending     sync.WaitGroup
	writeFailed chan struct{} // closed when writing to out has failed

	// outMu is separate from mu, so that a client that does not read its answers cannot stop the
	// relay from reading.
	outMu  sync.Mutex
	out    io.Writer
	outErr error

	mu      sync.Mutex
	closed  bool
	version string // version negotiated by initialize
	calls   map[string]*pendingCall
	// subscriptions contains the ids of the requests that subscribed to changes of the agents.
	subscriptions []json.RawMessage
}

type pendingCall struct {
	id            json.RawMessage
	key           string
	method        string
	cancel        context.CancelFunc
	agent         json.RawMessage // argument "agent" of ask_agent
	isQuestion    bool            // the server reports the question's task
	forTeam       bool
	wantsProgress bool
	taskKnown     chan struct{}
	done          chan struct{}

	mu       sync.Mutex
	task     string
	canceled bool
}

func (s *session) readLines(ctx context.Context, in io.Reader) error {
	lines := bufio.NewReaderSize(in, 64<<10)
	for {
		line, isComplete, err := readLine(lines)
		if len(bytes.TrimSpace(line)) > 0 || !isComplete {
			if isComplete {
				s.handleLine(ctx, bytes.TrimSpace(line))
			} else {
				s.writeError(nil, codeInvalidRequest, fmt.Sprintf("expected a message of at most %d bytes, got more", maxLineBytes))
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// readLine reads a line. If the line is longer than maxLineBytes, line is nil and isComplete is
// false.
func readLine(in *bufio.Reader) (line []byte, isComplete bool, err error) {
	isComplete = true
	for {
		piece, err := in.ReadSlice('\n')
		if isComplete = isComplete && len(line)+len(piece) <= maxLineBytes+1; isComplete {
			line = append(line, piece...)
		} else {
			line = nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, isComplete, err
		}
	}
}

type rpcMessage struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

func (s *session) handleLine(ctx context.Context, line []byte) {
	d := canon.NewDecoder(line, httpapi.ProtocolLimits(maxLineBytes))
	if err := errors.Join(d.Skip(), d.End()); err != nil {
		s.writeError(nil, codeParse, "the message cannot be decoded: "+problem.AsError(err).Text())
		return
	}
	if line[0] == '[' {
		s.startCall(ctx, &pendingCall{}, http.Header{}, line)
		return
	}
	var m rpcMessage
	d = canon.NewDecoder(line, httpapi.ProtocolLimits(maxLineBytes))
	err := d.Object(func(key string) (err error) {
		switch key {
		case "id":
			m.ID, err = d.SkipRaw()
		case "method":
			m.Method, err = d.String()
		case "params":
			m.Params, err = d.SkipRaw()
		default:
			err = d.Skip()
		}
		return err
	})
	if err != nil {
		s.writeError(nil, codeInvalidRequest, "expected a message of JSON-RPC: "+problem.AsError(err).Text())
		return
	}
	switch {
	case m.Method == "notifications/cancelled":
		s.handleCancel(m.Params)
		return
	// Servers over HTTP accept neither responses nor other notifications.
	case m.Method == "" || m.ID == nil:
		return
	case m.ID[0] != '"' && m.ID[0] != '-' && (m.ID[0] < '0' || m.ID[0] > '9'):
		s.writeError(nil, codeInvalidRequest, "id: expected a text or a number")
		return
	case s.Team != nil && m.Method == "subscriptions/listen" && s.subscribe(m.ID, m.Params):
		return
	}
	c := &pendingCall{id: m.ID, method: m.Method}
	var p struct {
		Name, URI string
		Arguments struct {
			Agent json.RawMessage `json:"agent"`
		} `json:"arguments"`
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	_ = json.Unmarshal(m.Params, &p) // the server rejects other forms
	if s.StopTasks && m.Method == "tools/call" && (p.Name == "ask" || p.Name == "ask_agent") {
		c.agent, c.isQuestion = p.Arguments.Agent, true
		addedMeta := map[string]json.RawMessage{mcptool.MetaTaskID: json.RawMessage("true")}
		if c.wantsProgress = p.Meta["progressToken"] != nil; !c.wantsProgress {
			addedMeta["progressToken"] = json.RawMessage(`"vacancy"`)
		}
		m.Params = addMeta(m.Params, p.Meta, addedMeta)
	}
	if c.forTeam = s.Team != nil && isTeamRequest(m.Method, p.Name, p.URI); c.forTeam && p.Meta[mcptool.MetaIdempotencyKey] == nil {
		m.Params = addMeta(m.Params, p.Meta, map[string]json.RawMessage{mcptool.MetaIdempotencyKey: s.Team.idempotencyKey(m.ID)})
	}
	header := http.Header{}
	version := ""
	if json.Unmarshal(p.Meta["io.modelcontextprotocol/protocolVersion"], &version) == nil {
		header.Set("Mcp-Method", m.Method)
		if name := p.Name + p.URI; name != "" {
			if strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' }) {
				s.writeError(m.ID, codeInvalidParams, fmt.Sprintf("params: unknown name %.80q", name))
				return
			}
			header.Set("Mcp-Name", name)
		}
	} else {
		s.mu.Lock()
		version = s.version
		s.mu.Unlock()
	}
	if version != "" {
		header.Set("Mcp-Protocol-Version", version)
	}
	s.startCall(ctx, c, header, encodeRequest(m.ID, m.Method, m.Params))
}

func encodeRequest(id json.RawMessage, method string, params json.RawMessage) []byte {
	b := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	b = append(append(b, `,"method":`...), canon.AppendString(nil, method)...)
	if params != nil {
		b = append(append(b, `,"params":`...), params...)
	}
	return append(b, '}')
}

func addMeta(params json.RawMessage, meta, additions map[string]json.RawMessage) json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(params, &members) != nil {
		return params
	}
	merged := map[string]json.RawMessage{}
	maps.Copy(merged, meta)
	maps.Copy(merged, additions)
	// Decoded JSON always encodes.
	members["_meta"], _ = json.Marshal(merged)
	out, _ := json.Marshal(members)
	return out
}

func (s *session) startCall(ctx context.Context, c *pendingCall, header http.Header, message []byte) {
	ctx, c.cancel = context.WithTimeout(ctx, requestTimeout)
	c.taskKnown, c.done = make(chan struct{}), make(chan struct{})
	if c.key = string(c.id); c.id == nil {
		c.key = fmt.Sprintf("batch %p", c)
	}
	s.mu.Lock()
	refusal := ""
	switch {
	case s.closed:
		refusal = "the program is exiting"
	case len(s.calls) >= maxRequests:
		refusal = fmt.Sprintf("%d requests are pending; try again when one is answered", maxRequests)
	case s.calls[c.key] != nil:
		refusal = "id: expected an id that no pending request has"
	default:
		s.calls[c.key] = c
		s.pending.Add(1)
	}
	s.mu.Unlock()
	if refusal != "" {
		c.cancel()
		s.writeError(c.id, codeInvalidRequest, refusal)
		return
	}
	go func() {
		defer s.pending.Done()
		answer := s.send(ctx, c, header, message)
		close(c.done)
		c.cancel()
		s.mu.Lock()
		delete(s.calls, c.key)
		s.mu.Unlock()
		if !c.isCanceled() {
			s.writeLine(answer)
		}
	}()
}

func (c *pendingCall) isCanceled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.canceled
}

func (s *session) send(ctx context.Context, c *pendingCall, header http.Header, message []byte) []byte {
	var res *http.Response
	var err error
	if c.forTeam {
		res, err = s.postTo(ctx, s.Team, header, message)
	} else {
		res, err = s.post(ctx, header, message)
	}
	if err != nil {
		return encodeError(c.id, httpapi.RPCCode(problem.AsError(err).Kind), problem.AsError(err).Text())
	}
	defer res.Body.Close()
	if media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); media == "text/event-stream" {
		return s.readStream(c, res.Body)
	}
	b, err := io.ReadAll(io.LimitReader(res.Body, maxAnswerBytes))
	if err != nil {
		return encodeError(c.id, httpapi.RPCCode(problem.Unavailable), "the host's answer was interrupted; send the request again")
	}
	if s.Team != nil {
		if b, err = s.mergeAnswer(ctx, c.method, header, message, b); err != nil {
			return encodeError(c.id, httpapi.RPCCode(problem.AsError(err).Kind), problem.AsError(err).Text())
		}
	}
	if answer := s.parseAnswer(c, b); answer != nil {
		return answer
	}
	return encodeError(c.id, httpapi.RPCCode(problem.Unavailable), fmt.Sprintf("the host answered %d without a message of MCP: %.200q", res.StatusCode, b))
}

func (s *session) post(ctx context.Context, header http.Header, message []byte) (*http.Response, error) {
	if s.Key != "" {
		header.Set("Authorization", "Bearer "+s.Key)
	}
	return s.postTo(ctx, s.Transport, header, message)
}

func (s *session) postTo(ctx context.Context, transport Transport, header http.Header, message []byte) (*http.Response, error) {
	header.Set("Content-Type", "application/json")
	header.Set("Accept", "application/json, text/event-stream")
	return transport.Open(ctx, outbound.Request{Method: http.MethodPost, URL: s.URL, Header: header, Body: message})
}

// readStream records the task of a question, and passes other progress on if the client wants
// progress.
func (s *session) readStream(c *pendingCall, stream io.Reader) []byte {
	for e, err := range sse.Events(stream, maxAnswerBytes) {
		if err != nil {
			break
		}
		if e.IsNoise() {
			continue
		}
		if answer := s.parseAnswer(c, e.Data); answer != nil {
			return answer
		}
		var m struct {
			Method string
			Params struct {
				Meta map[string]json.RawMessage `json:"_meta"`
			} `json:"params"`
		}
		task := ""
		if json.Unmarshal(e.Data, &m) == nil && json.Unmarshal(m.Params.Meta[mcptool.MetaTaskID], &task) == nil {
			c.mu.Lock()
			hasTask := c.task != ""
			c.task = task
			c.mu.Unlock()
			if !hasTask {
				close(c.taskKnown)
			}
			continue
		}
		var line bytes.Buffer
		if c.wantsProgress && m.Method != "" && !c.isCanceled() && json.Compact(&line, e.Data) == nil {
			s.writeLine(line.Bytes())
		}
	}
	return encodeError(c.id, httpapi.RPCCode(problem.Unavailable), "the host's answer was interrupted; send the request again")
}

func (s *session) parseAnswer(c *pendingCall, b []byte) []byte {
	b = bytes.TrimSpace(b)
	var line bytes.Buffer
	if c.id == nil && bytes.HasPrefix(b, []byte("[")) && json.Compact(&line, b) == nil {
		return line.Bytes()
	}
	var m rpcMessage
	if json.Unmarshal(b, &m) != nil || m.Method != "" || m.Result == nil && m.Error == nil {
		return nil
	}
	if c.method == "initialize" {
		var result struct{ ProtocolVersion string }
		if json.Unmarshal(m.Result, &result) == nil {
			s.mu.Lock()
			s.version = result.ProtocolVersion
			s.mu.Unlock()
		}
	}
	// The answer gets the id of the request, because a server that refuses a request before reading it
	// answers without an id.
	name, value := "result", m.Result
	if m.Error != nil {
		name, value = "error", m.Error
	}
	line.WriteString(`{"jsonrpc":"2.0","id":`)
	line.Write(idOrNull(c.id))
	line.WriteString(`,"` + name + `":`)
	if json.Compact(&line, value) != nil {
		return nil
	}
	line.WriteByte('}')
	return line.Bytes()
}

func idOrNull(id json.RawMessage) []byte {
	if id == nil {
		return []byte("null")
	}
	return id
}

func (s *session) handleCancel(params json.RawMessage) {
	var p struct {
		ID json.RawMessage `json:"requestId"`
	}
	_ = json.Unmarshal(params, &p)
	s.mu.Lock()
	c := s.calls[string(p.ID)]
	s.subscriptions = slices.DeleteFunc(s.subscriptions, func(id json.RawMessage) bool { return bytes.Equal(id, p.ID) })
	s.mu.Unlock()
	if c != nil && p.ID != nil {
		s.stopCall(c)
	}
}

// stopCall cancels a request, which then gets no answer. For a question, it waits in the background
// until the task is known and then stops the task on the host.
func (s *session) stopCall(c *pendingCall) {
	c.mu.Lock()
	wasCanceled := c.canceled
	c.canceled = true
	c.mu.Unlock()
	switch {
	case wasCanceled:
		return
	case !c.isQuestion:
		c.cancel()
		return
	}
	s.mu.Lock()
	isPending := s.calls[c.key] == c
	if isPending {
		s.pending.Add(1)
	}
	s.mu.Unlock()
	if !isPending {
		return
	}
	go func() {
		defer s.pending.Done()
		defer c.cancel()
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		select {
		case <-c.done:
			return
		case <-ctx.Done():
			return
		case <-c.taskKnown:
		}
		select {
		case <-c.done: // the answer arrived first
			return
		default:
		}
		if err := s.stopTask(ctx, c); err != nil {
			s.Logf("the question was canceled, but its call may continue: %s", problem.AsError(err).Text())
		}
	}()
}

func (s *session) stopTask(ctx context.Context, c *pendingCall) error {
	arguments := map[string]any{"task": c.task}
	if c.agent != nil {
		arguments["agent"] = c.agent
	}
	params, err := json.Marshal(map[string]any{"name": "stop_task", "arguments": arguments})
	if err != nil {
		return err
	}
	res, err := s.post(ctx, http.Header{}, encodeRequest(json.RawMessage("1"), "tools/call", params))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return problem.New(problem.Unavailable, "the host answered with status %d", res.StatusCode)
	}
	_, err = io.Copy(io.Discard, io.LimitReader(res.Body, maxAnswerBytes))
	return err
}

func (s *session) writeError(id json.RawMessage, code int, message string) {
	s.writeLine(encodeError(id, code, message))
}

func encodeError(id json.RawMessage, code int, message string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`, idOrNull(id), code, canon.AppendString(nil, message))
}

func (s *session) writeLine(line []byte) {
	s.outMu.Lock()
	defer s.outMu.Unlock()
	if s.outErr != nil {
		return
	}
	if _, s.outErr = s.out.Write(append(slices.Clip(line), '\n')); s.outErr != nil {
		close(s.writeFailed)
	}
}

func (r *Relay) ListTools(ctx context.Context) ([]string, error) {
	s := &session{Relay: r}
	c := &pendingCall{id: json.RawMessage("1")}
	var m struct {
		Result struct {
			Tools []struct{ Name string }
		}
		Error *struct{ Message string }
	}
	if err := json.Unmarshal(s.send(ctx, c, http.Header{}, encodeRequest(c.id, "tools/list", nil)), &m); err != nil {
		return nil, err
	}
	if m.Error != nil {
		return nil, problem.New(problem.NotFound, "%s: %.300s", r.URL, m.Error.Message)
	}
	var names []string
	for _, t := range m.Result.Tools {
		names = append(names, t.Name)
	}
	return names, nil
}
