package interop

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli"
	"github.com/vacancy-host/vacancy/shared/front/setting"
	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/front/standalone/standalonetest"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/tests/installed"
)

// mcpHost serves the vacants echo, slow, late, which takes longer than a response may, failing and
// priced, which is published. It returns the base URL and a key of an account that pays.
func mcpHost(t *testing.T) (url, key string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	url = "http://" + listener.Addr().String()
	open := func(s substrate.Substrate) func(string) (substrate.Substrate, error) {
		return func(string) (substrate.Substrate, error) { return s, nil }
	}
	h, err := standalone.Open(standalone.Config{
		Host: setting.Host{CallTimeout: 5 * time.Minute},
		Dir:  filepath.Join(t.TempDir(), "host"), URL: url, AllowNew: true, AllowLoopback: true, OwnMachine: true, Log: slog.New(slog.DiscardHandler), Now: time.Now, Rand: rand.Reader,
		Substrates: substrate.Kinds{"slow": open(slow{wait: 500 * time.Millisecond, end: 500 * time.Millisecond}), "late": open(slow{wait: 27 * time.Second}), "failing": open(failing{})},
	})
	must(t, err)
	for name, agent := range map[string]string{"echo": "echo", "slow": "slow", "late": "late", "failing": "failing", "priced": "echo"} {
		must(t, errorOf(h.Vacants.Create(t.Context(), vacants.CreateSpec{Name: name, Capability: "Answers übers \"Netz\" 🦊", Substrate: agent})))
	}
	_, _, err = h.Vacants.Publish(t.Context(), priced(t, h, "priced", 2000).ID, vacants.PublishOptions{Listing: &vacants.ListingOptions{}})
	must(t, err)
	_, key = openAcme(t, h, money.Dollar)
	standalonetest.Run(t, h, standalone.RunConfig{Public: listener})
	return url, key
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// errorOf returns the error of a call that returns a value, too.
func errorOf[T any](_ T, err error) error { return err }

// seenByMCP are the scenarios, and what each client sees.
var seenByMCP = map[string]string{
	"tools": "ask get_task stop_task vacant_call vacant_describe", "host": "ask_agent describe_agent get_task search_agents stop_task", "card": "echo",
	"ask": "hi", "follow": "again", "slow": "wait done", "pieces": "wait| done", "refused": "refused substrate_busy",
	"unpaid": "refused payment_required", "paid": "hi", "price": "2000", "search": "priced", "ask agent": "hi", "late": "working", "fetched": "wait done",
}

// seenBy returns what each client sees by a way: http, or stdio or signed by "vacancy mcp". more are results that
// differ between clients.
func seenBy(way string, more map[string]string) map[string]string {
	want := maps.Clone(seenByMCP)
	maps.Copy(want, more)
	if way == "signed" { // resources are of hosts, and answers come whole
		want["card"], want["pieces"] = "none", ""
		// All vacants of the host are slow, so a signed call learns by a resend that it is void, and not why.
		want["refused"] = "refused behaviour_failed"
		delete(want, "bad key")
		delete(want, "unknown")
	}
	return want
}

// asksByMCP runs a client by each way at once, at one host. more has the results by way that differ between
// clients.
func asksByMCP(t *testing.T, more map[string]map[string]string, command ...string) {
	t.Helper()
	url, key := mcpHost(t)
	program := mcpProgram(t, url, key)
	var all sync.WaitGroup
	for _, way := range []string{"http", "stdio", "signed"} {
		all.Go(func() {
			cmd := exec.CommandContext(t.Context(), command[0], append(command[1:len(command):len(command)], url, key, way, program)...)
			var problems bytes.Buffer
			cmd.Stderr = &problems
			out, err := cmd.Output()
			var got map[string]string
			if err != nil || json.Unmarshal(out, &got) != nil {
				t.Errorf("%v by %s: %v\n%s%s", command, way, err, out, problems.Bytes())
				return
			}
			if diff := cmp.Diff(seenBy(way, more[way]), got); diff != "" {
				t.Errorf("scenarios by %s (-want +got):\n%s\n%s", way, diff, problems.Bytes())
			}
		})
	}
	all.Wait()
}

// programVariable makes this test's binary the program vacancy.
const programVariable = "VACANCY_INTEROP_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(programVariable) != "" {
		os.Exit(cli.Run(context.Background(), cli.Seams{Program: os.Args[0]}, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ()))
	}
	os.Exit(m.Run())
}

// mcpProgram returns a program vacancy with the identities guest and payer, for whose calls the account of
// the key pays.
func mcpProgram(t *testing.T, url, key string) string {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	must(t, err)
	program := filepath.Join(dir, "vacancy")
	script := fmt.Sprintf("#!/bin/sh\n%s=1 VACANCY_HOME='%s' exec '%s' \"$@\"\n", programVariable, filepath.Join(dir, "home"), self)
	must(t, os.WriteFile(program, []byte(script), 0o700))
	for _, args := range [][]string{{"init", "guest"}, {"init", "payer"}, {"account", "link", "--host", url, "--as", "payer"}} {
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Env = append(os.Environ(), "VACANCY_KEY="+key)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("vacancy %v: %v\n%s", args, err, out)
		}
	}
	return program
}

func TestMCPPython2(t *testing.T) {
	needsLocalHost(t)
	t.Parallel()
	dir := installed.Python(t, files, "mcppython2")
	badKey, unknown := "error Authorization: expected Bearer and a key of this host, such as vac_live_…", "error no such server; an agent's server is at /v/NAME/mcp, the host's server is at /mcp"
	same := map[string]string{"era": "2026-07-28", "bad key": badKey, "unknown": unknown}
	asksByMCP(t, map[string]map[string]string{"http": same, "stdio": same, "signed": {"era": "2026-07-28"}}, filepath.Join(dir, "env", "bin", "python"), filepath.Join(dir, "client.py"))
}

func TestMCPPython1(t *testing.T) {
	needsLocalHost(t)
	t.Parallel()
	dir := installed.Python(t, files, "mcppython1")
	asksByMCP(t, map[string]map[string]string{
		"http":   {"era": "2025-11-25", "bad key": "error HTTPStatusError", "unknown": "error McpError"},
		"stdio":  {"era": "2025-11-25", "bad key": "error McpError", "unknown": "error McpError"},
		"signed": {"era": "2025-11-25"},
	}, filepath.Join(dir, "env", "bin", "python"), filepath.Join(dir, "client.py"))
}

func TestMCPNode(t *testing.T) {
	needsLocalHost(t)
	t.Parallel()
	dir := installed.Node(t, files, "mcpnode", "@modelcontextprotocol", "sdk")
	for of, era := range map[string]string{"sdk": "2025-11-25", "client": "2026-07-28"} {
		t.Run(of, func(t *testing.T) {
			t.Parallel()
			badKey := map[string]string{"sdk": "error Authorization", "client": "error Version negotiation failed: the server requires authorization (HTTP 401)"}[of]
			asksByMCP(t, map[string]map[string]string{
				"http":   {"era": era, "bad key": badKey, "unknown": "error no such server"},
				"stdio":  {"era": era, "bad key": "error Authorization", "unknown": "error no such server"},
				"signed": {"era": era},
			}, "node", filepath.Join(dir, "client.mjs"), of)
		})
	}
}
