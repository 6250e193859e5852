package mcp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/network/sse"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// asked is a request that the library has sent. The library parses responses strictly, so mend repairs
// each response before the library reads it: mend sets the id of the request, whichever id the server
// sent, and removes or replaces messages, tools and parts of a result that are invalid.
type asked struct {
	ID     json.RawMessage
	Method string
}

func requestOf(r *http.Request) (q asked) {
	if r.Method != http.MethodPost || r.GetBody == nil {
		return q
	}
	body, err := r.GetBody()
	if err == nil {
		_ = json.NewDecoder(body).Decode(&q) // the library encoded the request
		body.Close()
	}
	return q
}

func (q asked) mend(reply *http.Response) {
	body := reply.Body
	r, w := io.Pipe()
	switch media := reply.Header.Get("Content-Type"); {
	case strings.HasPrefix(media, "text/event-stream"):
		go func() { w.CloseWithError(q.copyEvents(w, body)) }()
	case strings.HasPrefix(media, "application/json"):
		go func() {
			data, err := io.ReadAll(body)
			if message := q.message(canon.TrimByteOrderMark(data)); err == nil && message != nil {
				data = message
			}
			_, failed := w.Write(data)
			w.CloseWithError(cmp.Or(err, failed))
		}()
	default:
		return
	}
	reply.Body = mended{r, body}
}

// mended is the body of a repaired response. Close also closes the original body.
type mended struct {
	*io.PipeReader
	from io.Closer
}

func (m mended) Close() error { return errors.Join(m.PipeReader.Close(), m.from.Close()) }

func (q asked) copyEvents(w io.Writer, from io.Reader) error {
	for e, err := range sse.Events(from, outbound.MaxStream) {
		if err != nil {
			return err
		}
		event := ""
		if e.ID != "" {
			event = "id: " + e.ID + "\n"
		}
		if !e.IsNoise() && (e.Name == "" || e.Name == "message") {
			if message := q.message(e.Data); message != nil {
				event += "data: " + string(message) + "\n"
			}
		}
		if event == "" {
			continue
		}
		if _, err := io.WriteString(w, event+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// message returns the repaired message of the server in one line, or nil if the message has no
// method, error or result. Data that is not JSON is returned unchanged, because it may be
// truncated.
func (q asked) message(data []byte) []byte {
	var m struct{ Method, Result, Error json.RawMessage }
	if json.Unmarshal(data, &m) != nil {
		return data
	}
	hasError := m.Error != nil && string(m.Error) != "null"
	switch {
	case m.Method != nil:
	case hasError:
		var is struct {
			Code    float64
			Message string
		}
		if json.Unmarshal(m.Error, &is) != nil || is.Message == "" {
			is.Message = string(m.Error)
		}
		data = encodeJSON(map[string]any{"jsonrpc": "2.0", "id": q.ID, "error": map[string]any{"code": int64(is.Code), "message": is.Message}})
	case m.Result != nil:
		data = encodeJSON(map[string]any{"jsonrpc": "2.0", "id": q.ID, "result": q.result(m.Result)})
	default:
		return nil
	}
	var line bytes.Buffer
	_ = json.Compact(&line, data) // data is valid JSON
	return line.Bytes()
}

func encodeJSON(v any) []byte {
	b, _ := json.Marshal(v)
	return b
}

func (q asked) result(raw json.RawMessage) json.RawMessage {
	switch q.Method {
	case "tools/list":
		return mendList(raw, "tools", new(sdk.ListToolsResult), func(element json.RawMessage) json.RawMessage {
			var tool sdk.Tool
			if element = mendMembers(element, &tool); tool.Name == "" {
				return nil
			}
			return element
		})
	case "tools/call":
		return mendList(raw, "content", new(sdk.CallToolResult), func(element json.RawMessage) json.RawMessage {
			if json.Unmarshal(encodeJSON(map[string]any{"content": []any{element}}), new(sdk.CallToolResult)) != nil {
				return json.RawMessage(`{"type":"text","text":"[content that is not text]"}`)
			}
			return element
		})
	}
	return raw
}

func mendList(raw json.RawMessage, member string, is any, mend func(json.RawMessage) json.RawMessage) json.RawMessage {
	var members map[string]json.RawMessage
	var elements, good []json.RawMessage
	if json.Unmarshal(raw, is) == nil || json.Unmarshal(raw, &members) != nil || json.Unmarshal(members[member], &elements) != nil {
		return raw
	}
	for _, element := range elements {
		if element = mend(element); element != nil {
			good = append(good, element)
		}
	}
	members[member] = encodeJSON(good)
	return mendMembers(encodeJSON(members), is)
}

// mendMembers removes the members that prevent an object from being decoded into is. If the rest cannot
// be decoded either, mendMembers returns nil.
func mendMembers(raw json.RawMessage, is any) json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, is) == nil {
		return raw
	}
	if json.Unmarshal(raw, &members) != nil {
		return nil
	}
	for name, value := range members {
		if json.Unmarshal(encodeJSON(map[string]any{name: value}), is) != nil {
			delete(members, name)
		}
	}
	if raw = encodeJSON(members); json.Unmarshal(raw, is) != nil {
		return nil
	}
	return raw
}
