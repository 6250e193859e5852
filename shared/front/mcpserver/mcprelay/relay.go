// Package mcprelay connects an MCP client to an MCP server of a host. It is for clients that start
// a program and exchange lines with it: each input line is a message of the client, and each output
// line is a message of the server. The relay sends requests to the server by HTTP.
//
// The output contains only MCP messages. Each request gets one answer, unless the client cancels
// it. If Relay.StopsTasks is true and the client cancels a question, the relay stops the question's
// task. The relay passes the answers to questions on unchanged, because they may contain a signed
// message.
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

// Limits.
const (
	// maxLine limits a message of the client, in bytes. Servers have the same limit.
	maxLine = 512 << 10
	// maxAnswer limits a message of the server, in bytes.
	maxAnswer = 16 << 20
	// maxRequests limits the concurrent requests.
	maxRequests = 128
	// requestTime limits a request. Calls of agents end after at most 14 minutes.
	requestTime = 15 * time.Minute
	// endTime limits the wait for the answers to pending requests after the input has ended.
	endTime = 10 * time.Second
	// stopTime limits the time in which the task of a canceled question is stopped.
	stopTime = 5 * time.Second
)

// Error codes of JSON-RPC.
const (
	codeParse   = -32700
	codeInvalid = -32600
	codeParams  = -32602
)

// HTTP sends requests. *dispatch.HTTP implements it.
type HTTP interface {
	Open(ctx context.Context, r outbound.Request) (*http.Response, error)
}

// Relay passes the messages of a client on to a server.
type Relay struct {
	URL string
	// Key is the bearer token of each request. It may be "".
	Key  string
	HTTP HTTP
	// StopsTasks is true if the server reports the tasks of questions (mcptool.MetaTask). The relay
	// then stops the task of a question that the client cancels.
	StopsTasks bool
	// Team answers requests about the client's own agents and tasks. Team may be nil.
	Team *Team
	// Note prints a message for the user. The client does not get these messages.
	Note func(format string, args ...any)
}

// Serve serves one client until the input ends, writing to the output fails, or ctx is canceled. It
// waits until canceled questions are stopped. Its error is an error of the input or the output.
func (r *Relay) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	s := &session{Relay: r, out: out, calls: map[string]*call{}, broken: make(chan struct{})}
	watching, end := context.WithCancel(ctx)
	var watch sync.WaitGroup
	if r.Team != nil {
		watch.Go(func() { s.watch(watching) })
	}
	defer end()
	lines := make(chan error, 1)
	go func() {
		defer end()
		lines <- s.read(context.WithoutCancel(ctx), in)
	}()
	var err error
	select {
	case err = <-lines:
		answered := make(chan struct{})
		go func() { s.wait.Wait(); close(answered) }()
		timer := time.NewTimer(endTime)
		defer timer.Stop()
		select {
		case <-answered:
		case <-timer.C:
		case <-ctx.Done():
		case <-s.broken:
		}
	case <-ctx.Done():
	case <-s.broken:
	}
	s.mu.Lock()
	s.ended = true
	calls := slices.Collect(maps.Values(s.calls))
	s.mu.Unlock()
	for _, c := range calls {
		s.stop(c)
	}
	s.wait.Wait()
	end()
	watch.Wait()
	return errors.Join(err, s.outErr)
}

// session is a connection with one client.
type session struct {
	*Relay
	wait   sync.WaitGroup
	broken chan struct{} // closed when writing to out has failed

	// outMu is separate from mu, so that a client that does not read its answers cannot stop the
	// relay from reading.
	outMu  sync.Mutex
	out    io.Writer
	outErr error

	mu      sync.Mutex
	ended   bool
	version string           // version negotiated by initialize
	calls   map[string]*call // pending requests by key
	// subscriptions contains the ids of the requests that subscribed to changes of the agents.
	subscriptions []json.RawMessage
}

// call is a pending request.
type call struct {
	id     json.RawMessage
	key    string // key in session.calls
	method string
	cancel context.CancelFunc
	agent  json.RawMessage // argument "agent" of ask_agent
	stream bool            // true if the request is a question, whose task the server reports
	team   bool            // true if the team answers the request
	shown  bool            // true if the client wants progress notifications
	told   chan struct{}   // closed when task is known
	done   chan struct{}   // closed when the call has ended

	mu       sync.Mutex
	task     string
	canceled bool
}

func (s *session) read(ctx context.Context, in io.Reader) error {
	lines := bufio.NewReaderSize(in, 64<<10)
	for {
		line, whole, err := readLine(lines)
		if len(bytes.TrimSpace(line)) > 0 || !whole {
			if whole {
				s.handle(ctx, bytes.TrimSpace(line))
			} else {
				s.fail(nil, codeInvalid, fmt.Sprintf("expected a message of at most %d bytes, got more", maxLine))
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

// readLine reads a line. isComplete is false if the line is longer than maxLine; line is then nil.
func readLine(in *bufio.Reader) (line []byte, whole bool, err error) {
	whole = true
	for {
		piece, err := in.ReadSlice('\n')
		if whole = whole && len(line)+len(piece) <= maxLine+1; whole {
			line = append(line, piece...)
		} else {
			line = nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, whole, err
		}
	}
}

// envelope contains the members of a JSON-RPC message.
type envelope struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

func (s *session) handle(ctx context.Context, line []byte) {
	d := canon.NewDecoder(line, httpapi.ProtocolLimits(maxLine))
	if err := errors.Join(d.Skip(), d.End()); err != nil {
		s.fail(nil, codeParse, "the message cannot be decoded: "+problem.AsError(err).Text())
		return
	}
	if line[0] == '[' {
		s.start(ctx, &call{}, http.Header{}, line)
		return
	}
	var m envelope
	d = canon.NewDecoder(line, httpapi.ProtocolLimits(maxLine))
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
		s.fail(nil, codeInvalid, "expected a message of JSON-RPC: "+problem.AsError(err).Text())
		return
	}
	switch {
	case m.Method == "notifications/cancelled":
		s.cancel(m.Params)
		return
	// Servers over HTTP accept neither responses nor other notifications.
	case m.Method == "" || m.ID == nil:
		return
	case m.ID[0] != '"' && m.ID[0] != '-' && (m.ID[0] < '0' || m.ID[0] > '9'):
		s.fail(nil, codeInvalid, "id: expected a text or a number")
		return
	case s.Team != nil && m.Method == "subscriptions/listen" && s.subscribe(m.ID, m.Params):
		return
	}
	c := &call{id: m.ID, method: m.Method}
	var p struct {
		Name, URI string
		Arguments struct {
			Agent json.RawMessage `json:"agent"`
		} `json:"arguments"`
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	_ = json.Unmarshal(m.Params, &p) // the server rejects other forms
	if s.StopsTasks && m.Method == "tools/call" && (p.Name == "ask" || p.Name == "ask_agent") {
		c.agent, c.stream = p.Arguments.Agent, true
		added := map[string]json.RawMessage{mcptool.MetaTask: json.RawMessage("true")}
		if c.shown = p.Meta["progressToken"] != nil; !c.shown {
			added["progressToken"] = json.RawMessage(`"vacancy"`)
		}
		m.Params = withMeta(m.Params, p.Meta, added)
	}
	if c.team = s.Team != nil && ofTeam(m.Method, p.Name, p.URI); c.team && p.Meta[mcptool.MetaKey] == nil {
		m.Params = withMeta(m.Params, p.Meta, map[string]json.RawMessage{mcptool.MetaKey: s.Team.idempotencyKey(m.ID)})
	}
	header := http.Header{}
	version := ""
	if json.Unmarshal(p.Meta["io.modelcontextprotocol/protocolVersion"], &version) == nil {
		header.Set("Mcp-Method", m.Method)
		if name := p.Name + p.URI; name != "" {
			if strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' }) {
				s.fail(m.ID, codeParams, fmt.Sprintf("params: unknown name %.80q", name))
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
	s.start(ctx, c, header, encodeRequest(m.ID, m.Method, m.Params))
}

func encodeRequest(id json.RawMessage, method string, params json.RawMessage) []byte {
	b := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	b = append(append(b, `,"method":`...), canon.AppendString(nil, method)...)
	if params != nil {
		b = append(append(b, `,"params":`...), params...)
	}
	return append(b, '}')
}

// withMeta returns the parameters of a request with additional members in _meta.
func withMeta(params json.RawMessage, meta, added map[string]json.RawMessage) json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(params, &members) != nil {
		return params
	}
	with := map[string]json.RawMessage{}
	maps.Copy(with, meta)
	maps.Copy(with, added)
	// Decoded JSON always encodes.
	members["_meta"], _ = json.Marshal(with)
	out, _ := json.Marshal(members)
	return out
}

func (s *session) start(ctx context.Context, c *call, header http.Header, message []byte) {
	ctx, c.cancel = context.WithTimeout(ctx, requestTime)
	c.told, c.done = make(chan struct{}), make(chan struct{})
	if c.key = string(c.id); c.id == nil {
		c.key = fmt.Sprintf("batch %p", c)
	}
	s.mu.Lock()
	refused := ""
	switch {
	case s.ended:
		refused = "the program is exiting"
	case len(s.calls) >= maxRequests:
		refused = fmt.Sprintf("%d requests are pending; try again when one is answered", maxRequests)
	case s.calls[c.key] != nil:
		refused = "id: expected an id that no pending request has"
	default:
		s.calls[c.key] = c
		s.wait.Add(1)
	}
	s.mu.Unlock()
	if refused != "" {
		c.cancel()
		s.fail(c.id, codeInvalid, refused)
		return
	}
	go func() {
		defer s.wait.Done()
		answer := s.send(ctx, c, header, message)
		close(c.done)
		c.cancel()
		s.mu.Lock()
		delete(s.calls, c.key)
		s.mu.Unlock()
		if !c.isCanceled() {
			s.write(answer)
		}
	}()
}

func (c *call) isCanceled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.canceled
}

func (s *session) send(ctx context.Context, c *call, header http.Header, message []byte) []byte {
	var res *http.Response
	var err error
	if c.team {
		res, err = s.postTo(ctx, s.Team, header, message)
	} else {
		res, err = s.post(ctx, header, message)
	}
	if err != nil {
		return failure(c.id, httpapi.RPCCode(problem.AsError(err).Kind), problem.AsError(err).Text())
	}
	defer res.Body.Close()
	if media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); media == "text/event-stream" {
		return s.follow(c, res.Body)
	}
	b, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return failure(c.id, httpapi.RPCCode(problem.Unavailable), "the host's answer was interrupted; send the request again")
	}
	if s.Team != nil {
		if b, err = s.merge(ctx, c.method, header, message, b); err != nil {
			return failure(c.id, httpapi.RPCCode(problem.AsError(err).Kind), problem.AsError(err).Text())
		}
	}
	if answer := s.answer(c, b); answer != nil {
		return answer
	}
	return failure(c.id, httpapi.RPCCode(problem.Unavailable), fmt.Sprintf("the host answered %d without a message of MCP: %.200q", res.StatusCode, b))
}

func (s *session) post(ctx context.Context, header http.Header, message []byte) (*http.Response, error) {
	if s.Key != "" {
		header.Set("Authorization", "Bearer "+s.Key)
	}
	return s.postTo(ctx, s.HTTP, header, message)
}

func (s *session) postTo(ctx context.Context, to HTTP, header http.Header, message []byte) (*http.Response, error) {
	header.Set("Content-Type", "application/json")
	header.Set("Accept", "application/json, text/event-stream")
	return to.Open(ctx, outbound.Request{Method: http.MethodPost, URL: s.URL, Header: header, Body: message})
}

// follow reads an answer that is a stream. It records the task of a question, and passes other
// progress on if the client wants progress.
func (s *session) follow(c *call, stream io.Reader) []byte {
	for e, err := range sse.Events(stream, maxAnswer) {
		if err != nil {
			break
		}
		if e.IsNoise() {
			continue
		}
		if answer := s.answer(c, e.Data); answer != nil {
			return answer
		}
		var m struct {
			Method string
			Params struct {
				Meta map[string]json.RawMessage `json:"_meta"`
			} `json:"params"`
		}
		task := ""
		if json.Unmarshal(e.Data, &m) == nil && json.Unmarshal(m.Params.Meta[mcptool.MetaTask], &task) == nil {
			c.mu.Lock()
			hasTask := c.task != ""
			c.task = task
			c.mu.Unlock()
			if !hasTask {
				close(c.told)
			}
			continue
		}
		var line bytes.Buffer
		if c.shown && m.Method != "" && !c.isCanceled() && json.Compact(&line, e.Data) == nil {
			s.write(line.Bytes())
		}
	}
	return failure(c.id, httpapi.RPCCode(problem.Unavailable), "the host's answer was interrupted; send the request again")
}

// answer returns an answer of the server as a line, or nil if b is not an answer.
func (s *session) answer(c *call, b []byte) []byte {
	b = bytes.TrimSpace(b)
	var line bytes.Buffer
	if c.id == nil && bytes.HasPrefix(b, []byte("[")) && json.Compact(&line, b) == nil {
		return line.Bytes()
	}
	var m envelope
	if json.Unmarshal(b, &m) != nil || m.Method != "" || m.Result == nil && m.Error == nil {
		return nil
	}
	if c.method == "initialize" {
		var about struct{ ProtocolVersion string }
		if json.Unmarshal(m.Result, &about) == nil {
			s.mu.Lock()
			s.version = about.ProtocolVersion
			s.mu.Unlock()
		}
	}
	// The answer gets the id of the request, because the error of a server that refused the request
	// before reading it has no id.
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

func (s *session) cancel(params json.RawMessage) {
	var p struct {
		ID json.RawMessage `json:"requestId"`
	}
	_ = json.Unmarshal(params, &p)
	s.mu.Lock()
	c := s.calls[string(p.ID)]
	s.subscriptions = slices.DeleteFunc(s.subscriptions, func(id json.RawMessage) bool { return bytes.Equal(id, p.ID) })
	s.mu.Unlock()
	if c != nil && p.ID != nil {
		s.stop(c)
	}
}

// stop cancels a request, which then gets no answer. If the request is a question, stopCall
// starts a goroutine that waits until the question's task is known and then stops the task on the
// host, all within stopTime.
func (s *session) stop(c *call) {
	c.mu.Lock()
	again := c.canceled
	c.canceled = true
	c.mu.Unlock()
	switch {
	case again:
		return
	case !c.stream:
		c.cancel()
		return
	}
	s.mu.Lock()
	underWay := s.calls[c.key] == c
	if underWay {
		s.wait.Add(1)
	}
	s.mu.Unlock()
	if !underWay {
		return
	}
	go func() {
		defer s.wait.Done()
		defer c.cancel()
		ctx, cancel := context.WithTimeout(context.Background(), stopTime)
		defer cancel()
		select {
		case <-c.done:
			return
		case <-ctx.Done():
			return
		case <-c.told:
		}
		select {
		case <-c.done: // the answer arrived first
			return
		default:
		}
		if err := s.stopTask(ctx, c); err != nil {
			s.Note("the question was canceled, but its call may continue: %s", problem.AsError(err).Text())
		}
	}()
}

func (s *session) stopTask(ctx context.Context, c *call) error {
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
		return problem.New(problem.Unavailable, "the host answers %d", res.StatusCode)
	}
	_, err = io.Copy(io.Discard, io.LimitReader(res.Body, maxAnswer))
	return err
}

func (s *session) fail(id json.RawMessage, code int, message string) {
	s.write(failure(id, code, message))
}

func failure(id json.RawMessage, code int, message string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`, idOrNull(id), code, canon.AppendString(nil, message))
}

func (s *session) write(line []byte) {
	s.outMu.Lock()
	defer s.outMu.Unlock()
	if s.outErr != nil {
		return
	}
	if _, s.outErr = s.out.Write(append(slices.Clip(line), '\n')); s.outErr != nil {
		close(s.broken)
	}
}

func (r *Relay) Tools(ctx context.Context) ([]string, error) {
	s := &session{Relay: r}
	c := &call{id: json.RawMessage("1")}
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
