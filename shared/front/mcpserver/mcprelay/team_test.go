package mcprelay

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/mcpserver/mcptool"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/team"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// methods answers each request with the result or the error of its method, and notes the last request.
type methods struct {
	answers map[string]string
	last    *[]byte
	err     error
}

func (m methods) Open(_ context.Context, r outbound.Request) (*http.Response, error) {
	var q struct{ Method string }
	if err := errors.Join(m.err, json.Unmarshal(r.Body, &q)); err != nil {
		return nil, err
	}
	*m.last = r.Body
	body := `{"jsonrpc":"2.0","id":1,` + m.answers[q.Method] + `}`
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body))}, nil
}

// teamed returns a relay to a host's server, with a team.
func teamed(t *testing.T) (r *Relay, toHost, toTeam *[]byte) {
	toHost, toTeam = new([]byte), new([]byte)
	return &Relay{
		URL: "http://localhost/mcp", Logf: t.Logf,
		Transport: methods{map[string]string{
			"initialize":      `"result":{"protocolVersion":"2025-11-25","instructions":"Finds agents.","capabilities":{"tools":{},"resources":{}}}`,
			"server/discover": `"result":{"capabilities":{"tools":{},"resources":{}}}`,
			"tools/list":      `"result":{"tools":[{"name":"search_agents"},{"name":"list_agents","title":"of the host"}],"ttlMs":60000}`,
			"resources/list":  `"result":{"resources":[]}`,
			"tools/call":      `"result":{"of":"host"}`,
		}, toHost, nil},
		Team: &Team{Session: "s", Agents: func(context.Context) ([]team.Agent, error) { return nil, nil }, Transport: methods{map[string]string{
			"tools/list":     `"result":{"tools":[{"name":"list_agents"},{"name":"dispatch_agent"}],"ttlMs":0}`,
			"resources/list": `"error":{"code":-32603,"message":"the host is away"}`,
			"tools/call":     `"result":{"of":"team"}`,
			"resources/read": `"result":{"of":"team"}`,
		}, toTeam, nil}},
	}, toHost, toTeam
}

func TestATeamIsPartOfTheHostsServer(t *testing.T) {
	r, _, _ := teamed(t)
	for request, want := range map[string]string{
		`"method":"initialize"`:                                             `"result":{"capabilities":{"resources":{"listChanged":true},"tools":{}},"instructions":"Finds agents.` + mcptool.TeamInstructions + `","protocolVersion":"2025-11-25"}`,
		`"method":"server/discover"`:                                        `"result":{"capabilities":{"resources":{"listChanged":true},"tools":{}},"instructions":"` + mcptool.TeamInstructions + `"}`,
		`"method":"tools/list"`:                                             `"result":{"tools":[{"name":"list_agents"},{"name":"dispatch_agent"},{"name":"search_agents"}],"ttlMs":0}`,
		`"method":"resources/list"`:                                         `"error":{"code":-32603,"message":"the host is away"}`,
		`"method":"tools/call","params":{"name":"ask_agent"}`:               `"result":{"of":"host"}`,
		`"method":"tools/call","params":{"name":"get_task_status"}`:         `"result":{"of":"team"}`,
		`"method":"resources/read","params":{"uri":"agents://writer"}`:      `"result":{"of":"team"}`,
		`"method":"subscriptions/listen","params":{"notifications":{}}`:     `"error":`,
		`"method":"subscriptions/listen","params":{"notifications":"none"}`: `"error":`,
	} {
		var out bytes.Buffer
		if err := r.Serve(t.Context(), strings.NewReader(`{"jsonrpc":"2.0","id":7,`+request+`}`), &out); err != nil || !strings.HasPrefix(out.String(), `{"jsonrpc":"2.0","id":7,`+want) {
			t.Errorf("%s = %s, %v; want %s", request, out.String(), err, want)
		}
	}
	r.Team.Transport = methods{err: problem.New(problem.Unavailable, "the team is away")}
	var out bytes.Buffer
	if err := r.Serve(t.Context(), strings.NewReader(`{"jsonrpc":"2.0","id":7,"method":"tools/list"}`), &out); err != nil || !strings.Contains(out.String(), `"message":"the team is away"`) {
		t.Errorf("tools/list without the team's server = %s, %v", out.String(), err)
	}
}

func TestEachRequestOfATeamHasAnIdempotencyKey(t *testing.T) {
	r, _, toTeam := teamed(t)
	seen := map[string]string{}
	for _, id := range []string{`1`, `"1"`, `"` + strings.Repeat("x", 600) + `"`} {
		call := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"dispatch_agent","arguments":{"task":"x"},"_meta":{"progressToken":9007199254740993}}}`, id)
		var keys []string
		for range 2 {
			if err := r.Serve(t.Context(), strings.NewReader(call), io.Discard); err != nil {
				t.Fatal(err)
			}
			var sent struct {
				Params struct {
					Arguments struct{ Task string }
					Meta      map[string]json.RawMessage `json:"_meta"`
				}
			}
			if err := json.Unmarshal(*toTeam, &sent); err != nil || sent.Params.Arguments.Task != "x" || string(sent.Params.Meta["progressToken"]) != "9007199254740993" {
				t.Fatalf("the team gets %s, %v", *toTeam, err)
			}
			keys = append(keys, string(sent.Params.Meta[mcptool.MetaIdempotencyKey]))
		}
		if keys[0] != keys[1] || !strings.HasPrefix(keys[0], `"s-`) || len(keys[0]) > 64 || seen[keys[0]] != "" {
			t.Errorf("the keys of two requests with the id %.10s are %v, which %.10s has, too", id, keys, seen[keys[0]])
		}
		seen[keys[0]] = id
	}
	own := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"dispatch_agent","_meta":{"` + mcptool.MetaIdempotencyKey + `":"mine"}}}`
	if err := r.Serve(t.Context(), strings.NewReader(own), io.Discard); err != nil || !bytes.Contains(*toTeam, []byte(`"`+mcptool.MetaIdempotencyKey+`":"mine"`)) {
		t.Errorf("a request with a key of its own = %s, %v", *toTeam, err)
	}
}

// changes lists other agents for each version.
type changes struct{ version atomic.Int64 }

func (c *changes) agents(context.Context) ([]team.Agent, error) {
	v := c.version.Load()
	if v < 0 {
		return nil, problem.New(problem.Unavailable, "the host is away")
	}
	return []team.Agent{{Name: "writer", Description: fmt.Sprint(v)}}, nil
}

func TestTheClientHearsOfChangesOfTheAgents(t *testing.T) {
	for name, tt := range map[string]struct{ request, answer, want string }{
		"since 2026-07-28": {`{"jsonrpc":"2.0","id":"listen-1","method":"subscriptions/listen","params":{"notifications":{"resourcesListChanged":true}}}`,
			`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"listen-1"},"notifications":{"resourcesListChanged":true}}}`,
			`{"jsonrpc":"2.0","method":"notifications/resources/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"listen-1"}}}`},
		"before": {`{"jsonrpc":"2.0","id":1,"method":"initialize"}`, `{"jsonrpc":"2.0","id":1,"result"`, `{"jsonrpc":"2.0","method":"notifications/resources/list_changed"}`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, _, _ := teamed(t)
				c := &changes{}
				r.Team.Agents = c.agents
				in, client := io.Pipe()
				seen, out := io.Pipe()
				ended := make(chan error, 1)
				go func() { ended <- r.Serve(t.Context(), in, out); out.Close() }()
				lines := bufio.NewReader(seen)
				line := func() string {
					s, err := lines.ReadString('\n')
					if err != nil {
						t.Error(err)
					}
					return strings.TrimSuffix(s, "\n")
				}
				fmt.Fprintln(client, tt.request)
				if got := line(); !strings.HasPrefix(got, tt.answer) {
					t.Errorf("%s = %s, want %s", tt.request, got, tt.answer)
				}
				for _, version := range []int64{1, 2} {
					time.Sleep(time.Minute)
					changed := time.Now()
					c.version.Store(version)
					if got := line(); got != tt.want || time.Since(changed) > 5*time.Second {
						t.Errorf("%s after a change: %s, want %s", time.Since(changed), got, tt.want)
					}
				}
				// An outage is not a change.
				c.version.Store(-1)
				time.Sleep(time.Minute)
				c.version.Store(2)
				time.Sleep(time.Minute)
				client.Close()
				if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 {
					t.Errorf("after an outage: %s, %v", rest, err)
				}
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestACanceledSubscriptionHearsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _, _ := teamed(t)
		c := &changes{}
		r.Team.Agents = c.agents
		in, client := io.Pipe()
		var out bytes.Buffer
		ended := make(chan error, 1)
		go func() { ended <- r.Serve(t.Context(), in, &out) }()
		fmt.Fprintln(client, `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"resourcesListChanged":true}}}`)
		fmt.Fprintln(client, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		time.Sleep(time.Minute)
		c.version.Store(1)
		time.Sleep(time.Minute)
		client.Close()
		if err := <-ended; err != nil || strings.Contains(out.String(), "list_changed") {
			t.Errorf("%s, %v", out.String(), err)
		}
	})
}

func TestTheEndOfTheInputEndsTheWatchAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _, _ := teamed(t)
		reading := make(chan struct{})
		r.Team.Agents = func(ctx context.Context) ([]team.Agent, error) {
			close(reading)
			<-ctx.Done()
			return nil, ctx.Err()
		}
		in, client := io.Pipe()
		ended := make(chan error, 1)
		go func() { ended <- r.Serve(t.Context(), in, io.Discard) }()
		<-reading
		began := time.Now()
		client.Close()
		if err := <-ended; err != nil || time.Since(began) > 0 {
			t.Errorf("Serve ended %s after the input, %v", time.Since(began), err)
		}
	})
}
