package mcpserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/protocol"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// maxBody limits a body in bytes, and maxBatch the number of requests in a body.
var maxBody = protocol.MCP.MaxBody

const maxBatch = 8

// Error codes of JSON-RPC and MCP.
const (
	codeParse    = -32700
	codeInvalid  = -32600
	codeNoMethod = -32601
	codeVersion  = -32022
)

// Revisions of MCP by the names that clients send.
const (
	modern = "2026-07-28"
	// withBatch is the only revision with batches, and the default of a request without a version.
	withBatch  = "2025-03-26"
	headerName = "Mcp-Protocol-Version"
)

const (
	mediaJSON   = "application/json"
	mediaEvents = "text/event-stream"
)

// versions lists the supported revisions, from the newest to the oldest.
var versions = []string{modern, "2025-11-25", "2025-06-18", withBatch, "2024-11-05"}

var methods = []string{
	"initialize", "ping", "server/discover", "tools/list", "tools/call", "resources/list", "resources/templates/list", "resources/read",
}

// earlierMethods lists methods that clients of earlier revisions call on every server, even if the
// server does not declare the feature. The library answers that there are no prompts, and ignores
// the log level.
var earlierMethods = []string{"prompts/list", "logging/setLevel"}

// posted contains the parts of a POST that determine the form of its answer.
type posted struct {
	version  string
	batch    bool
	messages []rpc
	ids      []json.RawMessage // original ids of the messages that the library answers
	whole    bool              // the client accepts a JSON answer
	stream   bool              // the client accepts server-sent events
}

type rpc struct {
	raw    json.RawMessage
	method string
	id     json.RawMessage // nil if the message is a notification
	tool   string          // tool of a tools/call
	token  json.RawMessage // progress token, or nil if the client wants no progress
	answer bool            // the message is a response
}

func (p *posted) id() json.RawMessage {
	if p.batch || len(p.messages) != 1 || p.messages[0].id == nil {
		return nullID
	}
	return p.messages[0].id
}

// what returns the method and tool of the first message, and the number of further messages, for
// the log.
func (p *posted) what() string {
	if len(p.messages) == 0 {
		return ""
	}
	m := p.messages[0]
	what := m.method
	if m.tool != "" {
		what += " " + m.tool
	}
	if len(p.messages) > 1 {
		what += fmt.Sprintf(" and %d more", len(p.messages)-1)
	}
	return what[:min(len(what), 60)]
}

// streamed lists the tools that report progress.
var streamed = []string{"ask", "ask_agent", "get_task"}

// streams reports whether the answer is a stream. This is the case if the client accepts only
// streams, or if it accepts streams and requests progress of a tool that reports progress.
func (p *posted) streams() bool {
	progress := p.token() != nil && slices.Contains(streamed, p.messages[0].tool)
	return p.stream && (progress || !p.whole)
}

func (p *posted) token() json.RawMessage {
	if p.batch {
		return nil
	}
	return p.messages[0].token
}

// forLibrary returns the body that the library must answer, or nil if there is none, and the errors
// for requests with unknown methods. The library would refuse the complete body because of one
// unknown method or notification. Notifications have no effect, because the server has no sessions.
func (p *posted) forLibrary() (body []byte, unknown []httpapi.RPCRefusal) {
	var served [][]byte
	for i := range p.messages {
		switch m := &p.messages[i]; {
		case m.method == "" || m.id == nil: // no answer is expected
		case slices.Contains(methods, m.method), p.version != modern && slices.Contains(earlierMethods, m.method):
			served = append(served, m.raw)
		default:
			unknown = append(unknown, httpapi.RPCRefusal{Version: "2.0", ID: m.id, Error: httpapi.RPCError{
				Code: codeNoMethod, Message: "method " + httpapi.Clip(m.method) + " does not exist",
			}})
		}
	}
	switch {
	case served == nil:
		return nil, unknown
	case p.batch:
		return slices.Concat([]byte("["), bytes.Join(served, []byte(",")), []byte("]")), unknown
	}
	return served[0], unknown
}

// parse parses the headers and the outer form of a body. It refuses requests that the library would
// accept although this package does not support them.
func parse(h http.Header, body []byte) (p posted, err error) {
	accept := strings.ToLower(strings.Join(h.Values("Accept"), ","))
	// A client without Accept accepts all forms (RFC 9110 §12.5.1).
	p.whole = strings.TrimSpace(accept) == ""
	p.stream = p.whole
	for part := range strings.SplitSeq(accept, ",") {
		media, parameters, _ := strings.Cut(part, ";")
		if refusedWeight.MatchString(parameters) {
			continue
		}
		switch strings.TrimSpace(media) {
		case "*/*":
			p.whole, p.stream = true, true
		case "application/json", "application/*":
			p.whole = true
		case "text/event-stream", "text/*":
			p.stream = true
		}
	}
	if !p.whole && !p.stream {
		return p, &problem.Error{Kind: problem.NotAcceptable, Field: "Accept", Want: "application/json, text/event-stream", Got: httpapi.Clip(strings.Join(h.Values("Accept"), ", "))}
	}
	d := canon.NewDecoder(body, httpapi.ProtocolLimits(maxBody))
	if err := errors.Join(d.Skip(), d.End()); err != nil {
		return p, refusal{problem.New(problem.Malformed, "the body does not decode: %s", problem.AsError(err).Text()), codeParse, nil}
	}
	d = canon.NewDecoder(body, httpapi.ProtocolLimits(maxBody))
	if p.batch = d.Kind() == canon.Array; p.batch {
		err = d.Array(func(int) error {
			if len(p.messages) == maxBatch {
				return problem.Invalid("the body", fmt.Sprintf("at most %d requests", maxBatch), "more")
			}
			raw, err := d.SkipRaw()
			if err != nil {
				return err
			}
			return p.message(raw)
		})
	} else {
		err = p.message(body)
	}
	if err != nil {
		return p, err
	}
	if len(p.messages) == 0 {
		return p, problem.Invalid("the body", "one or more requests", "none")
	}
	// An unknown version in the header of an initialize request is ignored, because the body
	// negotiates the version.
	given := h.Values(headerName)
	switch {
	case !p.batch && p.messages[0].method == "initialize" && (len(given) > 1 || len(given) == 1 && !slices.Contains(versions, given[0])):
		p.version = withBatch
		h.Del(headerName)
	case len(given) > 1:
		return p, problem.Invalid(headerName, "one header", "several")
	case len(given) == 0:
		p.version = withBatch
	default:
		p.version = given[0]
	}
	if !slices.Contains(versions, p.version) {
		return p, refusal{
			problem.Invalid(headerName, "one of "+strings.Join(versions, ", "), httpapi.Clip(p.version)), codeVersion,
			map[string]any{"supported": versions, "requested": strings.ToValidUTF8(p.version[:min(len(p.version), 80)], "")},
		}
	}
	if p.batch && p.version != withBatch {
		return p, problem.Invalid("the body", "one request, because only version "+withBatch+" has batches", fmt.Sprintf("%d of version %s", len(p.messages), p.version))
	}
	return p, nil
}

// encode returns errors in the form that the client expects: events for a stream, a list for a
// batch, or a single error.
func (p *posted) encode(errors []httpapi.RPCRefusal) []byte {
	messages := make([][]byte, len(errors))
	for i := range errors {
		messages[i], _ = httpapi.Encode(errors[i]) // strings always encode
		messages[i] = bytes.TrimSpace(messages[i])
		if p.streams() && p.version != modern {
			messages[i] = slices.Concat([]byte("event: message\ndata: "), messages[i], []byte("\n\n"))
		}
	}
	if p.batch && !p.streams() {
		return slices.Concat([]byte("["), bytes.Join(messages, []byte(",")), []byte("]"))
	}
	return bytes.Join(messages, nil)
}

func (p *posted) message(raw []byte) error {
	d := canon.NewDecoder(raw, httpapi.ProtocolLimits(maxBody))
	if d.Kind() != canon.Object {
		return problem.Invalid("the body", "a request of JSON-RPC", d.Kind().String())
	}
	m, version := rpc{raw: raw}, ""
	err := d.Object(func(key string) (err error) {
		switch key {
		case "jsonrpc":
			version, err = text(d)
		case "id":
			switch d.Kind() {
			case canon.String, canon.Int, canon.Float:
				m.id, err = d.SkipRaw()
			default:
				err = problem.Invalid("id", "a text or a number", d.Kind().String())
			}
		case "method":
			m.method, err = text(d)
		case "params":
			err = m.params(d)
		case "result", "error":
			m.answer = true
			err = d.Skip()
		default:
			err = d.Skip()
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case version != "2.0":
		return problem.Invalid("jsonrpc", `"2.0"`, httpapi.Clip(version))
	case m.method == "" && !m.answer:
		return problem.Invalid("method", "a text", "none")
	}
	if m.method != "tools/call" {
		m.tool = ""
	}
	p.messages = append(p.messages, m)
	return nil
}

// params reads the parameters that determine the form of the answer.
func (m *rpc) params(d *canon.Decoder) error {
	if d.Kind() != canon.Object {
		return d.Skip() // the library answers it
	}
	return d.Object(func(key string) (err error) {
		switch {
		case key == "name" && d.Kind() == canon.String:
			m.tool, err = d.String()
			return err
		case key == "_meta" && d.Kind() == canon.Object:
			return d.Object(func(key string) (err error) {
				if k := d.Kind(); key == "progressToken" && (k == canon.String || k == canon.Int || k == canon.Float) {
					m.token, err = d.SkipRaw()
					return err
				}
				return d.Skip()
			})
		}
		return d.Skip()
	})
}

func text(d *canon.Decoder) (string, error) {
	if d.Kind() != canon.String {
		return "", d.Skip()
	}
	return d.String()
}

// refusedWeight matches the parameter q=0 of a media type in Accept, by which a client refuses the
// type.
var refusedWeight = regexp.MustCompile(`(^|;)\s*q=0(\.0*)?\s*(;|$)`)

// refusal is an error with a JSON-RPC code and its own data.
type refusal struct {
	error
	code int
	data any
}

func (r refusal) Unwrap() error { return r.error }

func (r refusal) RPC() (code int, data any) { return r.code, r.data }
