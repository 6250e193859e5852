package mcprelay

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/mcpserver/mcptool"
	"github.com/vacancy-host/vacancy/shared/host/team"
)

// Team is a server in this process, whose tools and resources the relay adds to the host's own.
type Team struct {
	HTTP
	// Session makes the idempotency keys of this program's requests differ from the requests of others.
	Session string
	// Agents returns the present agents.
	Agents func(context.Context) ([]team.Agent, error)
	// Poll is the interval at which the agents are read, to tell the client of changes. The default is 4 s, which
	// leaves a second of five for the request.
	Poll time.Duration
}

// ofTeam reports whether only the team answers a request, by its tool or resource.
func ofTeam(method, tool, uri string) bool {
	return method == "tools/call" && mcptool.IsTeamTool(tool) || method == "resources/read" && mcptool.IsAgent(uri)
}

// idempotencyKey returns the idempotency key of a request by its id, in JSON: 1 and "1" are two requests.
func (t *Team) idempotencyKey(id json.RawMessage) json.RawMessage {
	sum := sha256.Sum256(id)
	return fmt.Appendf(nil, `"%s-%x"`, t.Session, sum[:8])
}

// lists maps the lists that the host and the team have together to their members in results.
var lists = map[string]string{"tools/list": "tools", "resources/list": "resources", "resources/templates/list": "resourceTemplates"}

// merge adds the team's part to the host's answer to a request: the items of a list, or, to a client that
// begins, the instructions of the team and the capability of a list of resources that changes.
func (s *session) merge(ctx context.Context, method string, header http.Header, message, answer []byte) ([]byte, error) {
	var host, own struct {
		Result map[string]json.RawMessage `json:"result"`
	}
	list, isList := lists[method]
	if !isList && method != "initialize" && method != "server/discover" || json.Unmarshal(answer, &host) != nil || host.Result == nil {
		return answer, nil
	}
	if !isList {
		capabilities := map[string]json.RawMessage{}
		_ = json.Unmarshal(host.Result["capabilities"], &capabilities)
		capabilities["resources"] = json.RawMessage(`{"listChanged":true}`)
		host.Result["capabilities"], _ = json.Marshal(capabilities)
		var instructions string
		_ = json.Unmarshal(host.Result["instructions"], &instructions)
		host.Result["instructions"], _ = json.Marshal(instructions + mcptool.TeamInstructions)
		return json.Marshal(host)
	}
	res, err := s.postTo(ctx, s.Team, header, message)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil || json.Unmarshal(b, &own) != nil || own.Result == nil {
		return b, err // the team's error, without which the client would miss tools
	}
	var items, others []map[string]json.RawMessage
	_, _ = json.Unmarshal(own.Result[list], &items), json.Unmarshal(host.Result[list], &others)
	for _, other := range others {
		if !slices.ContainsFunc(items, func(item map[string]json.RawMessage) bool { return string(item["name"]) == string(other["name"]) }) {
			items = append(items, other)
		}
	}
	own.Result[list], _ = json.Marshal(items)
	return json.Marshal(own)
}

// watch tells the client when the agents of the team change, until ctx ends.
func (s *session) watch(ctx context.Context) {
	before, failed := s.Team.Agents(ctx)
	tick := time.NewTicker(cmp.Or(s.Team.Poll, 4*time.Second))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now, err := s.Team.Agents(ctx)
		if err != nil {
			continue
		}
		if failed == nil && !reflect.DeepEqual(now, before) {
			s.mu.Lock()
			subscriptions, isLegacy := slices.Clone(s.subscriptions), s.version != ""
			s.mu.Unlock()
			if isLegacy { // clients of earlier revisions than 2026-07-28 do not subscribe
				s.write([]byte(`{"jsonrpc":"2.0","method":"notifications/resources/list_changed"}`))
			}
			for _, id := range subscriptions {
				s.notify("resources/list_changed", id, "")
			}
		}
		before, failed = now, nil
	}
}

// subscribe lets the client hear of changes of the agents, if a request of subscriptions/listen asks for them.
func (s *session) subscribe(id, params json.RawMessage) bool {
	var p struct {
		Notifications struct{ ResourcesListChanged bool }
	}
	if json.Unmarshal(params, &p) != nil || !p.Notifications.ResourcesListChanged {
		return false
	}
	s.mu.Lock()
	s.subscriptions = append(s.subscriptions, id)
	s.mu.Unlock()
	s.notify("subscriptions/acknowledged", id, `,"notifications":{"resourcesListChanged":true}`)
	return true
}

// notify sends a notification in a subscription.
func (s *session) notify(method string, id json.RawMessage, more string) {
	s.write(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/%s","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s}%s}}`, method, id, more))
}
