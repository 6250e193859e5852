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

// sentRequest is a request that the library has sent. The library rejects a complete response if a
// part of it is invalid. Therefore, repairResponse removes or replaces invalid parts before the
// library reads them.
type sentRequest struct {
	ID     json.RawMessage
	Method string
}

func parseRequest(r *http.Request) (q sentRequest) {
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

func (q sentRequest) repairResponse(reply *http.Response) {
	body := reply.Body
	r, w := io.Pipe()
	switch mediaType := reply.Header.Get("Content-Type"); {
	case strings.HasPrefix(mediaType, "text/event-stream"):
		go func() { w.CloseWithError(q.copyEvents(w, body)) }()
	case strings.HasPrefix(mediaType, "application/json"):
		go func() {
			data, err := io.ReadAll(body)
			if message := q.repairMessage(canon.TrimByteOrderMark(data)); err == nil && message != nil {
				data = message
			}
			_, writeErr := w.Write(data)
			w.CloseWithError(cmp.Or(err, writeErr))
		}()
	default:
		return
	}
	reply.Body = repairedBody{r, body}
}

type repairedBody struct {
	*io.PipeReader
	original io.Closer
}

func (m repairedBody) Close() error { return errors.Join(m.PipeReader.Close(), m.original.Close()) }

func (q sentRequest) copyEvents(w io.Writer, body io.Reader) error {
	for e, err := range sse.Events(body, outbound.MaxStreamBytes) {
		if err != nil {
			return err
		}
		event := ""
		if e.ID != "" {
			event = "id: " + e.ID + "\n"
		}
		if !e.IsNoise() && (e.Name == "" || e.Name == "message") {
			if message := q.repairMessage(e.Data); message != nil {
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

// repairMessage returns the repaired message in one line, or nil if the message is empty. Data that
// is not JSON is returned unchanged, because it may be truncated.
func (q sentRequest) repairMessage(data []byte) []byte {
	var m struct{ Method, Result, Error json.RawMessage }
	if json.Unmarshal(data, &m) != nil {
		return data
	}
	hasError := m.Error != nil && string(m.Error) != "null"
	switch {
	case m.Method != nil:
	case hasError:
		var rpcErr struct {
			Code    float64
			Message string
		}
		if json.Unmarshal(m.Error, &rpcErr) != nil || rpcErr.Message == "" {
			rpcErr.Message = string(m.Error)
		}
		data = encodeJSON(map[string]any{"jsonrpc": "2.0", "id": q.ID, "error": map[string]any{"code": int64(rpcErr.Code), "message": rpcErr.Message}})
	case m.Result != nil:
		data = encodeJSON(map[string]any{"jsonrpc": "2.0", "id": q.ID, "result": q.repairResult(m.Result)})
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

func (q sentRequest) repairResult(raw json.RawMessage) json.RawMessage {
	switch q.Method {
	case "tools/list":
		return repairList(raw, "tools", new(sdk.ListToolsResult), func(element json.RawMessage) json.RawMessage {
			var tool sdk.Tool
			if element = repairMembers(element, &tool); tool.Name == "" {
				return nil
			}
			return element
		})
	case "tools/call":
		return repairList(raw, "content", new(sdk.CallToolResult), func(element json.RawMessage) json.RawMessage {
			if json.Unmarshal(encodeJSON(map[string]any{"content": []any{element}}), new(sdk.CallToolResult)) != nil {
				return json.RawMessage(`{"type":"text","text":"[content that is not text]"}`)
			}
			return element
		})
	}
	return raw
}

func repairList(raw json.RawMessage, member string, target any, repair func(json.RawMessage) json.RawMessage) json.RawMessage {
	var members map[string]json.RawMessage
	var elements, valid []json.RawMessage
	if json.Unmarshal(raw, target) == nil || json.Unmarshal(raw, &members) != nil || json.Unmarshal(members[member], &elements) != nil {
		return raw
	}
	for _, element := range elements {
		if element = repair(element); element != nil {
			valid = append(valid, element)
		}
	}
	members[member] = encodeJSON(valid)
	return repairMembers(encodeJSON(members), target)
}

// repairMembers removes the members that prevent an object from being decoded into target. It
// returns nil if the rest cannot be decoded either.
func repairMembers(raw json.RawMessage, target any) json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, target) == nil {
		return raw
	}
	if json.Unmarshal(raw, &members) != nil {
		return nil
	}
	for name, value := range members {
		if json.Unmarshal(encodeJSON(map[string]any{name: value}), target) != nil {
			delete(members, name)
		}
	}
	if raw = encodeJSON(members); json.Unmarshal(raw, target) != nil {
		return nil
	}
	return raw
}
