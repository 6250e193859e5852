package interop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/tests/installed"
)

// painter is a program that asks for a color, and answers with the message that follows.
func painter(t *testing.T) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct{ Message string }
		_ = json.NewDecoder(r.Body).Decode(&q) // the host sends JSON
		w.Header().Set("Content-Type", "application/json")
		if q.Message == "paint" {
			fmt.Fprint(w, `{"text":"which color?","state":"input-required"}`)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]string{"text": "painted " + q.Message})
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// teamHost serves the agents writer, painter and sleeper of the tenant acme.
type teamHost struct {
	url     string
	program string            // vacancy
	secrets map[string]string // of a client that manages the team: a key, and a token of a provider
	owner   string            // a key that creates agents
}

func openTeamHost(t *testing.T) *teamHost {
	t.Helper()
	p := startProvider(t, "node", filepath.Join(installed.Node(t, files, "provider", "oidc-provider"), "provider.mjs"))
	h, caller := &teamHost{secrets: map[string]string{}}, ""
	h.url = hostIn(t, filepath.Join(t.TempDir(), "host"), nil, func(host *standalone.Host) {
		ctx := t.Context()
		a, key := openAcme(t, host, money.Dollar)
		caller = key
		makeKey := func(scopes ...billing.Scope) string {
			_, key, err := host.Billing.MakeKey(ctx, a.ID, billing.KeyOptions{Scopes: scopes})
			must(t, err)
			return key
		}
		scopes := []billing.Scope{billing.ScopeCall, billing.ScopeAgents, billing.ScopeRead} // read is for programs, which ask the API
		h.secrets["key"], h.owner = makeKey(scopes...), makeKey(billing.ScopeVacants)
		_, err := host.Billing.AddIssuer(ctx, a.ID, p.URL, billing.IssuerOptions{RequiredClaims: map[string]string{"org": "acme"}, SubjectDailyCap: money.Dollar, TotalDailyCap: money.Dollar, Scopes: scopes})
		must(t, err)
		for _, s := range []vacants.CreateSpec{
			{Name: "writer", Capability: "writes", Substrate: "echo"},
			{Name: "sleeper", Capability: "sleeps", Substrate: "slower"},
			{Name: "painter", Capability: "paints", Agent: &definition.Agent{Provider: substrate.KindHTTP, BaseURL: painter(t)}},
		} {
			s.Asker, s.Tenant = vacants.OperatorAsker(), "acme"
			must(t, errorOf(host.Vacants.Create(ctx, s)))
		}
	})
	h.secrets["token"] = p.token(t, "robot", h.url+"/mcp")
	h.program = mcpProgram(t, h.url, caller)
	return h
}

// seenByTeam are the scenarios, and what each client sees.
var seenByTeam = map[string]string{
	"tool list_agents":     "List Available Agents () readOnlyHint idempotentHint",
	"tool dispatch_agent":  "Dispatch Sub-Agent (agent task)",
	"tool get_task_status": "Get Task Status (task_id) readOnlyHint idempotentHint",
	"tool cancel_task":     "Cancel Task (task_id) destructiveHint idempotentHint",
	"tool answer_task":     "Answer Task (task_id text)",
	"tool get_locks":       "Get Active Locks () readOnlyHint idempotentHint",
	"agents":               "painter UNKNOWN paints, sleeper UNKNOWN sleeps, writer UNKNOWN writes",
	"resources":            "agents://painter agents://sleeper agents://writer",
	"templates":            "agents://{name}", "read": "read-write", "read unknown": "error",
	"dispatch": "working writer read-only", "result": "completed hi",
	"question": "input_required which color?", "answer": "painter", "answered": "completed painted blue",
	"cancel": "cancelled", "cancel again": "cancelled", "locks": "0", "refused": "Agent 'nobody' not found.",
}

// Stock clients manage a team over HTTP and by "vacancy mcp", with a key and with a token. Those that listen to a program
// hear of a new agent within six seconds.
func TestTeamByMCP(t *testing.T) {
	needsLocalHost(t)
	t.Parallel()
	h := openTeamHost(t)
	node := filepath.Join(installed.Node(t, files, "mcpnode", "@modelcontextprotocol", "sdk"), "node_modules")
	dir := t.TempDir() // programs of Node find packages in a folder above
	must(t, os.Symlink(node, filepath.Join(dir, "node_modules")))
	script, err := files.ReadFile("testdata/team/client.mjs")
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "client.mjs"), script, 0o600))
	python := func(packages, script string) []string {
		return []string{filepath.Join(installed.Python(t, files, packages), "env", "bin", "python"), filepath.Join("testdata", "team", script)}
	}
	for name, tt := range map[string]struct {
		command []string
		hears   bool
	}{
		"Node":                  {[]string{"node", filepath.Join(dir, "client.mjs"), "sdk"}, true},
		"Node of two revisions": {[]string{"node", filepath.Join(dir, "client.mjs"), "client"}, false},
		"Python 1":              {python("mcppython1", "client1.py"), false},
		"Python 2":              {python("mcppython2", "client2.py"), true},
	} {
		for _, way := range []string{"http", "stdio"} {
			for secret := range h.secrets {
				t.Run(name+" by "+way+" with a "+secret, func(t *testing.T) {
					t.Parallel()
					cmd := exec.CommandContext(t.Context(), tt.command[0], append(slices.Clone(tt.command[1:]), h.url, h.secrets[secret], way, h.program, h.owner)...)
					var problems bytes.Buffer
					cmd.Stderr = &problems
					out, err := cmd.Output()
					var got map[string]string
					if err != nil || json.Unmarshal(out, &got) != nil {
						t.Fatalf("%v: %v\n%s%s", tt.command, err, out, problems.Bytes())
					}
					want := maps.Clone(seenByTeam)
					if tt.hears && way == "stdio" {
						want["changed"], want["listed then"] = "told", "true"
					}
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("scenarios (-want +got):\n%s\n%s", diff, problems.Bytes())
					}
				})
			}
		}
	}
}

// The Inspector calls each tool and reads each resource: over HTTP the one of 2.12, which sends a header, and by a
// program the one of 0.15.
func TestTeamByTheInspector(t *testing.T) {
	needsLocalHost(t)
	node, at := mcpTools(t)
	t.Parallel()
	h := openTeamHost(t)
	for secret, value := range h.secrets {
		started := filepath.Join(t.TempDir(), "vacancy")
		must(t, os.WriteFile(started, fmt.Appendf(nil, "#!/bin/sh\nVACANCY_KEY='%s' exec '%s' \"$@\"\n", value, h.program), 0o700))
		for way, command := range map[string][]string{
			"http":  {node, at("inspector-bearer", "clients", "launcher", "build", "index.js"), "--cli", h.url + "/mcp", "--transport", "http", "--header", "Authorization: Bearer " + value},
			"stdio": {node, at("inspector-plain", "cli", "build", "cli.js"), "--cli", started, "mcp", "--host", h.url},
		} {
			t.Run(way+" with a "+secret, func(t *testing.T) {
				t.Parallel()
				call := func(tool string, arguments ...string) []string {
					all := []string{"--method", "tools/call", "--tool-name", tool}
					for _, a := range arguments {
						all = append(all, "--tool-arg", a)
					}
					return all
				}
				task := ""
				for _, tt := range []struct {
					arguments []string
					want      string
				}{
					{[]string{"--method", "tools/list"}, `"name": "dispatch_agent"`},
					{[]string{"--method", "resources/list"}, `"uri": "agents://writer"`},
					{[]string{"--method", "resources/templates/list"}, `"uriTemplate": "agents://{name}"`},
					{[]string{"--method", "resources/read", "--uri", "agents://writer"}, `default_mode`},
					{call("list_agents"), `"name": "painter"`},
					{call("dispatch_agent", "agent=sleeper", "task=hi", "max_turns=3"), `"status": "working"`},
					{call("get_task_status", "task_id=TASK"), `"agent": "sleeper"`},
					{call("answer_task", "task_id=TASK", "text=hi"), `does not wait for an answer`},
					{call("cancel_task", "task_id=TASK"), `"status": "cancelled"`},
					{call("get_locks"), `"count": 0`},
				} {
					arguments := slices.Concat(command, tt.arguments)
					for i := range arguments {
						arguments[i] = strings.ReplaceAll(arguments[i], "=TASK", "="+task)
					}
					got := output(t, arguments...)
					if !strings.Contains(got, tt.want) {
						t.Errorf("%v: %s, want %s", tt.arguments, got, tt.want)
					}
					if m := regexp.MustCompile(`"taskId": "([0-9a-f]{32})"`).FindStringSubmatch(got); m != nil {
						task = m[1]
					}
				}
			})
		}
	}
}
