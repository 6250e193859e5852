package mcprelay

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/mcpserver/mcptool"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
)

// Team is a server in this process, whose tools and resources the relay adds to those of the host's server.
type Team struct {
	HTTP
	// Session makes the idempotency keys of this program's requests differ from those of others.
	Session string
	// Agents returns the present agents in a form that can be compared.
	Agents func(ctx context.Context) (string, error)
	// Poll is the interval at which the agents are compared. The default is 5 s.
	Poll time.Duration
}

// ofTeam reports whether only the team answers a request, by its tool or resource.
func ofTeam(method, tool, uri string) bool {
	return method == "tools/call" && mcptool.IsTeamTool(tool) || method == "resources/read" && mcptool.IsAgent(uri)
}

// withKey returns the parameters of a tool call with an idempotency key of the request, unless they have one.
func (t *Team) withKey(params, id json.RawMessage, meta map[string]json.RawMessage) json.RawMessage {
	var all map[string]json.RawMessage
	if meta[mcptool.MetaKey] != nil || json.Unmarshal(params, &all) != nil {
		return params
	}
	with := map[string]json.RawMessage{}
	for name, value := range meta {
		with[name] = value
	}
	sum := sha256.Sum256(id) // 1 and "1" are two requests
	with[mcptool.MetaKey], _ = json.Marshal(t.Session + "-" + hex.EncodeToString(sum[:8]))
	all["_meta"], _ = json.Marshal(with)
	if out, err := json.Marshal(all); err == nil {
		return out
	}
	return params
}

// lists are the lists that the host and the team have together: the member of the result, and the member that names
// an item.
var lists = map[string][2]string{
	"tools/list": {"tools", "name"}, "resources/list": {"resources", "uri"}, "resources/templates/list": {"resourceTemplates", "uriTemplate"},
}

// merge adds the team's part to an answer of the host.
func (s *session) merge(ctx context.Context, c *call, header http.Header, message, answer []byte) []byte {
	var all struct {
		Version string                     `json:"jsonrpc"`
		ID      json.RawMessage            `json:"id"`
		Result  map[string]json.RawMessage `json:"result"`
	}
	if json.Unmarshal(answer, &all) != nil || all.Result == nil {
		return answer
	}
	if c.method == "initialize" {
		capabilities := map[string]json.RawMessage{}
		_ = json.Unmarshal(all.Result["capabilities"], &capabilities)
		capabilities["resources"] = json.RawMessage(`{"listChanged":true}`)
		all.Result["capabilities"], _ = json.Marshal(capabilities)
	} else {
		list := lists[c.method]
		own := s.ask(ctx, s.Team, header, message)
		var items, others []map[string]json.RawMessage
		if json.Unmarshal(own[list[0]], &items) != nil || json.Unmarshal(all.Result[list[0]], &others) != nil {
			return answer
		}
		for _, other := range others {
			if !slices.ContainsFunc(items, func(item map[string]json.RawMessage) bool { return bytes.Equal(item[list[1]], other[list[1]]) }) {
				items = append(items, other)
			}
		}
		all.Result[list[0]], _ = json.Marshal(items)
	}
	if merged, err := json.Marshal(all); err == nil {
		return merged
	}
	return answer
}

// ask returns the members of a server's result, or none.
func (s *session) ask(ctx context.Context, to HTTP, header http.Header, message []byte) (result map[string]json.RawMessage) {
	res, err := to.Open(ctx, outbound.Request{Method: http.MethodPost, URL: s.URL, Header: header.Clone(), Body: message})
	if err != nil {
		return nil
	}
	defer res.Body.Close()
	var reply struct{ Result map[string]json.RawMessage }
	_ = json.NewDecoder(res.Body).Decode(&reply)
	return reply.Result
}

// watch tells the client when the agents of the team change, until ctx ends.
func (s *session) watch(ctx context.Context) {
	before, err := s.Team.Agents(ctx)
	tick := time.NewTicker(cmp.Or(s.Team.Poll, 5*time.Second))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.broken:
			return
		case <-tick.C:
		}
		now, failed := s.Team.Agents(ctx)
		if failed != nil {
			continue
		}
		if err == nil && now != before {
			s.write([]byte(`{"jsonrpc":"2.0","method":"notifications/resources/list_changed"}`))
		}
		before, err = now, nil
	}
}
