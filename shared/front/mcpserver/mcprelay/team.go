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

// Team is a server in this process. The relay offers the tools and resources of both the Team and
// the host.
type Team struct {
	Transport
	// Session distinguishes this program's idempotency keys from other programs' keys.
	Session string
	Agents  func(context.Context) ([]team.Agent, error)
	// PollInterval is the interval at which the relay checks the agents for changes. The default is
	// 4 s.
	PollInterval time.Duration
}

func isTeamRequest(method, tool, uri string) bool {
	return method == "tools/call" && mcptool.IsTeamTool(tool) || method == "resources/read" && mcptool.IsAgentURI(uri)
}

func (t *Team) idempotencyKey(id json.RawMessage) json.RawMessage {
	// The ids 1 and "1" are different requests, so the hash covers the JSON form.
	sum := sha256.Sum256(id)
	return fmt.Appendf(nil, `"%s-%x"`, t.Session, sum[:8])
}

// listNames maps the methods whose results are lists to the names of the lists.
var listNames = map[string]string{"tools/list": "tools", "resources/list": "resources", "resources/templates/list": "resourceTemplates"}

// mergeAnswer adds the team's items to the host's lists, and the team's instructions to the answers
// of initialize and server/discover.
func (s *session) mergeAnswer(ctx context.Context, method string, header http.Header, message, answer []byte) ([]byte, error) {
	var hostAnswer, teamAnswer struct {
		Result map[string]json.RawMessage `json:"result"`
	}
	list, isList := listNames[method]
	if !isList && method != "initialize" && method != "server/discover" || json.Unmarshal(answer, &hostAnswer) != nil || hostAnswer.Result == nil {
		return answer, nil
	}
	if !isList {
		capabilities := map[string]json.RawMessage{}
		_ = json.Unmarshal(hostAnswer.Result["capabilities"], &capabilities)
		capabilities["resources"] = json.RawMessage(`{"listChanged":true}`)
		hostAnswer.Result["capabilities"], _ = json.Marshal(capabilities)
		var instructions string
		_ = json.Unmarshal(hostAnswer.Result["instructions"], &instructions)
		hostAnswer.Result["instructions"], _ = json.Marshal(instructions + mcptool.TeamInstructions)
		return json.Marshal(hostAnswer)
	}
	res, err := s.postTo(ctx, s.Team, header, message)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil || json.Unmarshal(b, &teamAnswer) != nil || teamAnswer.Result == nil {
		return b, err // the team's error, because the client would otherwise miss tools
	}
	var teamItems, hostItems []map[string]json.RawMessage
	_, _ = json.Unmarshal(teamAnswer.Result[list], &teamItems), json.Unmarshal(hostAnswer.Result[list], &hostItems)
	for _, other := range hostItems {
		if !slices.ContainsFunc(teamItems, func(item map[string]json.RawMessage) bool { return string(item["name"]) == string(other["name"]) }) {
			teamItems = append(teamItems, other)
		}
	}
	teamAnswer.Result[list], _ = json.Marshal(teamItems)
	return json.Marshal(teamAnswer)
}

// watchAgents notifies the client of changes of the team's agents until ctx ends.
func (s *session) watchAgents(ctx context.Context) {
	previous, lastErr := s.Team.Agents(ctx)
	tick := time.NewTicker(cmp.Or(s.Team.PollInterval, 4*time.Second))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		current, err := s.Team.Agents(ctx)
		if err != nil {
			continue
		}
		if lastErr == nil && !reflect.DeepEqual(current, previous) {
			s.mu.Lock()
			subscriptions, isLegacy := slices.Clone(s.subscriptions), s.version != ""
			s.mu.Unlock()
			// Clients of revisions before 2026-07-28 cannot subscribe.
			if isLegacy {
				s.writeLine([]byte(`{"jsonrpc":"2.0","method":"notifications/resources/list_changed"}`))
			}
			for _, id := range subscriptions {
				s.notify("resources/list_changed", id, "")
			}
		}
		previous, lastErr = current, nil
	}
}

// subscribe adds a subscription and returns true if a subscriptions/listen request asks for changes
// of the agents.
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

func (s *session) notify(method string, id json.RawMessage, extraParams string) {
	s.writeLine(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/%s","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s}%s}}`, method, id, extraParams))
}
