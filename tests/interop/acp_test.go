package interop

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/tests/installed"
)

// openEditorHost serves the agents writer and sleeper of the tenant acme, and returns a key of acme and the program.
func openEditorHost(t *testing.T) (url, key, program string) {
	t.Helper()
	caller := ""
	url = hostIn(t, filepath.Join(t.TempDir(), "host"), nil, func(host *standalone.Host) {
		a, made := openAcme(t, host, money.Dollar)
		_, secret, err := host.Billing.MakeKey(t.Context(), a.ID, billing.KeyOptions{Scopes: []billing.Scope{billing.ScopeCall, billing.ScopeAgents, billing.ScopeRead}})
		must(t, err)
		caller, key = made, secret
		for name, kind := range map[string]string{"writer": "echo", "sleeper": "slower"} {
			must(t, errorOf(host.Vacants.Create(t.Context(), vacants.CreateSpec{Asker: vacants.OperatorAsker(), Name: name, Capability: "works", Substrate: kind, Tenant: "acme"})))
		}
	})
	return url, key, mcpProgram(t, url, caller)
}

var seenByEditors = map[string]string{
	"initialize": "1 vacant-acp true fork list resume", "modes": "read-write of read-write read-only", "prompt": "end_turn hi", "mode": "told", "wrong mode": "-32602",
	"model": "large", "unknown": "-32601", "verify": "true", "no session": "-32002", "list": "true", "load": "hi hi", "fork": "true", "foreign": "-32002", "cancel": "cancelled",
}

// Stock clients of ACP, as editors have them, drive "vacancy acp".
func TestEditorsByACP(t *testing.T) {
	needsLocalHost(t)
	t.Parallel()
	url, key, program := openEditorHost(t)
	python := installed.Python(t, files, "pythonacp")
	for name, command := range map[string][]string{
		"TypeScript": {"node", filepath.Join(installed.Node(t, files, "nodeacp", "@agentclientprotocol", "sdk"), "client.mjs")},
		"Python":     {filepath.Join(python, "env", "bin", "python"), filepath.Join(python, "client.py")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), command[0], append(command[1:], url, key, program, t.TempDir())...)
			var problems bytes.Buffer
			cmd.Stderr = &problems
			out, err := cmd.Output()
			var got map[string]string
			if err != nil || json.Unmarshal(out, &got) != nil {
				t.Fatalf("%v: %v\n%s%s", command, err, out, problems.Bytes())
			}
			if diff := cmp.Diff(seenByEditors, got); diff != "" {
				t.Errorf("scenarios (-want +got):\n%s\n%s", diff, problems.Bytes())
			}
		})
	}
}

// Gemini CLI loads the file that "vacancy discover gemini" writes.
func TestGeminiLoadsADiscoveryFile(t *testing.T) {
	needsLocalHost(t)
	t.Parallel()
	url, _, program := openEditorHost(t)
	load := filepath.Join(installed.Node(t, files, "nodegemini", "@google", "gemini-cli-core"), "load.mjs")
	for variable, want := range map[string]map[string]string{"": nil, "VACANCY_KEY": {"type": "http", "scheme": "Bearer", "token": "$VACANCY_KEY"}} {
		root := t.TempDir()
		args := []string{"discover", "gemini", url + "/v/writer", "--root", root}
		if variable != "" {
			args = append(args, "--auth-env", variable)
		}
		if out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput(); err != nil {
			t.Fatalf("vacancy %v: %v\n%s", args, err, out)
		}
		cmd := exec.CommandContext(t.Context(), "node", load, filepath.Join(root, ".gemini", "agents"))
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		var got struct {
			Agents []struct {
				Kind, Name, AgentCardURL string
				Auth                     map[string]string
			}
			Errors []string
		}
		if err != nil || json.Unmarshal(out, &got) != nil || len(got.Errors) > 0 || len(got.Agents) != 1 {
			t.Fatalf("loadAgentsFromDirectory = %s, %v", out, err)
		}
		a := got.Agents[0]
		if diff := cmp.Diff(want, a.Auth); a.Kind != "remote" || a.Name != "writer" || a.AgentCardURL != url+"/v/writer/.well-known/agent-card.json" || diff != "" {
			t.Errorf("the agent is %+v (auth: -want +got)\n%s", a, diff)
		}
	}
}
