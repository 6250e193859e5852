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

var maxBodyBytes = protocol.MCP.MaxBody

const maxBatch = 8

// Error codes of JSON-RPC and MCP.
const (
	codeParse              = -32700
	codeInvalidRequest     = -32600
	codeMethodNotFound     = -32601
	codeUnsupportedVersion = -32022
)

const (
	latestVersion = "2026-07-28"
	// batchVersion is the only revision with batches, and the default of a request without a version.
	batchVersion  = "2025-03-26"
	versionHeader = "Mcp-Protocol-Version"
)

const (
	mediaJSON   = "application/json"
	mediaEvents = "text/event-stream"
)

var versions = []string{latestVersion, "2025-11-25", "2025-06-18", batchVersion, "2024-11-05"}

var supportedMethods = []string{
	"initialize", "ping", "server/discover", "tools/list", "tools/call", "resources/list", "resources/templates/list", "resources/read",
}

// earlierMethods lists methods that clients of earlier revisions call on every server, even if the
// server does not declare the feature.
var earlierMethods = []string{"prompts/list", "logging/setLevel"}

// postedBody contains the parts of a POST that determine the form of its answer.
type postedBody struct {
	version       string
	isBatch       bool
	messages      []rpcMessage
	originalIDs   []json.RawMessage // original ids of the messages that the library answers
	acceptsJSON   bool
	acceptsStream bool
}

type rpcMessage struct {
	raw           json.RawMessage
	method        string
	id            json.RawMessage // nil if the message is a notification
	tool          string          // tool of a tools/call
	progressToken json.RawMessage // nil if the client wants no progress
	isResponse    bool
}

func (p *postedBody) id() json.RawMessage {
	if p.isBatch || len(p.messages) != 1 || p.messages[0].id == nil {
		return nullID
	}
	return p.messages[0].id
}

func (p *postedBody) logName() string {
	if len(p.messages) == 0 {
		return ""
	}
	m := p.messages[0]
	name := m.method
	if m.tool != "" {
		name += " " + m.tool
	}
	if len(p.messages) > 1 {
		name += fmt.Sprintf(" and %d more", len(p.messages)-1)
	}
	return name[:min(len(name), 60)]
}

var progressTools = []string{"ask", "ask_agent", "get_task"}

func (p *postedBody) usesStream() bool {
	wantsProgress := p.progressToken() != nil && slices.Contains(progressTools, p.messages[0].tool)
	return p.acceptsStream && (wantsProgress || !p.acceptsJSON)
}

func (p *postedBody) progressToken() json.RawMessage {
	if p.isBatch {
		return nil
	}
	return p.messages[0].progressToken
}

// splitForLibrary returns the body that the library must answer, and the errors for requests with
// unknown methods. One unknown method or notification would make the library refuse the complete
// body.
func (p *postedBody) splitForLibrary() (body []byte, refusals []httpapi.RPCRefusal) {
	var supported [][]byte
	for i := range p.messages {
		switch m := &p.messages[i]; {
		case m.method == "" || m.id == nil: // no answer is expected
		case slices.Contains(supportedMethods, m.method), p.version != latestVersion && slices.Contains(earlierMethods, m.method):
			supported = append(supported, m.raw)
		default:
			refusals = append(refusals, httpapi.RPCRefusal{Version: "2.0", ID: m.id, Error: httpapi.RPCError{
				Code: codeMethodNotFound, Message: "method " + httpapi.QuoteTruncated(m.method) + " does not exist",
			}})
		}
	}
	switch {
	case supported == nil:
		return nil, refusals
	case p.isBatch:
		return slices.Concat([]byte("["), bytes.Join(supported, []byte(",")), []byte("]")), refusals
	}
	return supported[0], refusals
}

// parsePost parses the headers and the outer form of a body. It refuses requests that the library
// would accept although this package does not support them.
func parsePost(h http.Header, body []byte) (p postedBody, err error) {
	accept := strings.ToLower(strings.Join(h.Values("Accept"), ","))
	// A client without Accept accepts all forms (RFC 9110 §12.5.1).
	p.acceptsJSON = strings.TrimSpace(accept) == ""
	p.acceptsStream = p.acceptsJSON
	for part := range strings.SplitSeq(accept, ",") {
		media, parameters, _ := strings.Cut(part, ";")
		if zeroWeight.MatchString(parameters) {
			continue
		}
		switch strings.TrimSpace(media) {
		case "*/*":
			p.acceptsJSON, p.acceptsStream = true, true
		case "application/json", "application/*":
			p.acceptsJSON = true
		case "text/event-stream", "text/*":
			p.acceptsStream = true
		}
	}
	if !p.acceptsJSON && !p.acceptsStream {
		return p, &problem.Error{Kind: problem.NotAcceptable, Field: "Accept", Want: "application/json, text/event-stream", Got: httpapi.QuoteTruncated(strings.Join(h.Values("Accept"), ", "))}
	}
	d := canon.NewDecoder(body, httpapi.ProtocolLimits(maxBodyBytes))
	if err := errors.Join(d.Skip(), d.End()); err != nil {
		return p, refusal{problem.New(problem.Malformed, "the body does not decode: %s", problem.AsError(err).Text()), codeParse, nil}
	}
	d = canon.NewDecoder(body, httpapi.ProtocolLimits(maxBodyBytes))
	if p.isBatch = d.Kind() == canon.Array; p.isBatch {
		err = d.Array(func(int) error {
			if len(p.messages) == maxBatch {
				return problem.Invalid("the body", fmt.Sprintf("at most %d requests", maxBatch), "more")
			}
			raw, err := d.SkipRaw()
			if err != nil {
				return err
			}
			return p.addMessage(raw)
		})
	} else {
		err = p.addMessage(body)
	}
	if err != nil {
		return p, err
	}
	if len(p.messages) == 0 {
		return p, problem.Invalid("the body", "one or more requests", "none")
	}
	// An unknown version in the header of an initialize request is ignored, because the body
	// negotiates the version.
	headerVersions := h.Values(versionHeader)
	switch {
	case !p.isBatch && p.messages[0].method == "initialize" && (len(headerVersions) > 1 || len(headerVersions) == 1 && !slices.Contains(versions, headerVersions[0])):
		p.version = batchVersion
		h.Del(versionHeader)
	case len(headerVersions) > 1:
		return p, problem.Invalid(versionHeader, "one header", "several")
	case len(headerVersions) == 0:
		p.version = batchVersion
	default:
		p.version = headerVersions[0]
	}
	if !slices.Contains(versions, p.version) {
		return p, refusal{
			problem.Invalid(versionHeader, "one of "+strings.Join(versions, ", "), httpapi.QuoteTruncated(p.version)), codeUnsupportedVersion,
			map[string]any{"supported": versions, "requested": strings.ToValidUTF8(p.version[:min(len(p.version), 80)], "")},
		}
	}
	if p.isBatch && p.version != batchVersion {
		return p, problem.Invalid("the body", "one request, because only version "+batchVersion+" has batches", fmt.Sprintf("%d of version %s", len(p.messages), p.version))
	}
	return p, nil
}

func (p *postedBody) encodeErrors(refusals []httpapi.RPCRefusal) []byte {
	messages := make([][]byte, len(refusals))
	for i := range refusals {
		messages[i], _ = httpapi.Encode(refusals[i]) // strings always encode
		messages[i] = bytes.TrimSpace(messages[i])
		if p.usesStream() && p.version != latestVersion {
			messages[i] = slices.Concat([]byte("event: message\ndata: "), messages[i], []byte("\n\n"))
		}
	}
	if p.isBatch && !p.usesStream() {
		return slices.Concat([]byte("["), bytes.Join(messages, []byte(",")), []byte("]"))
	}
	return bytes.Join(messages, nil)
}

func (p *postedBody) addMessage(raw []byte) error {
	d := canon.NewDecoder(raw, httpapi.ProtocolLimits(maxBodyBytes))
	if d.Kind() != canon.Object {
		return problem.Invalid("the body", "a request of JSON-RPC", d.Kind().String())
	}
	m, version := rpcMessage{raw: raw}, ""
	err := d.Object(func(key string) (err error) {
		switch key {
		case "jsonrpc":
			version, err = readString(d)
		case "id":
			switch d.Kind() {
			case canon.String, canon.Int, canon.Float:
				m.id, err = d.SkipRaw()
			default:
				err = problem.Invalid("id", "a text or a number", d.Kind().String())
			}
		case "method":
			m.method, err = readString(d)
		case "params":
			err = m.readParams(d)
		case "result", "error":
			m.isResponse = true
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
		return problem.Invalid("jsonrpc", `"2.0"`, httpapi.QuoteTruncated(version))
	case m.method == "" && !m.isResponse:
		return problem.Invalid("method", "a text", "none")
	}
	if m.method != "tools/call" {
		m.tool = ""
	}
	p.messages = append(p.messages, m)
	return nil
}

func (m *rpcMessage) readParams(d *canon.Decoder) error {
	if d.Kind() != canon.Object {
		return d.Skip()
	}
	return d.Object(func(key string) (err error) {
		switch {
		case key == "name" && d.Kind() == canon.String:
			m.tool, err = d.String()
			return err
		case key == "_meta" && d.Kind() == canon.Object:
			return d.Object(func(key string) (err error) {
				if k := d.Kind(); key == "progressToken" && (k == canon.String || k == canon.Int || k == canon.Float) {
					m.progressToken, err = d.SkipRaw()
					return err
				}
				return d.Skip()
			})
		}
		return d.Skip()
	})
}

func readString(d *canon.Decoder) (string, error) {
	if d.Kind() != canon.String {
		return "", d.Skip()
	}
	return d.String()
}

// zeroWeight matches q=0 in Accept, by which a client refuses a media type.
var zeroWeight = regexp.MustCompile(`(^|;)\s*q=0(\.0*)?\s*(;|$)`)

// refusal is an error with a JSON-RPC code and its own data.
type refusal struct {
	error
	code int
	data any
}

func (r refusal) Unwrap() error { return r.error }

func (r refusal) RPC() (code int, data any) { return r.code, r.data }
