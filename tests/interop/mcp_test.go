package interop

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/front/setting"
	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/registry/search/bleve"
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
		Host: setting.Host{Work: 5 * time.Minute},
		Dir:  filepath.Join(t.TempDir(), "host"), URL: url, New: true, AllowLoopback: true, OwnMachine: true, Log: slog.New(slog.DiscardHandler), Now: time.Now, Rand: rand.Reader,
		Substrates: substrate.Kinds{"slow": open(slow{500 * time.Millisecond}), "late": open(slow{27 * time.Second}), "failing": open(failing{})},
	})
	must(t, err)
	for name, agent := range map[string]string{"echo": "echo", "slow": "slow", "late": "late", "failing": "failing", "priced": "echo"} {
		r, err := h.Vacants.Create(t.Context(), vacants.Spec{Name: name, Capability: "Answers übers \"Netz\" 🦊", Substrate: agent})
		must(t, err)
		if name == "priced" {
			_, err = h.Vacants.SetPrice(t.Context(), r.ID, price.Price{Flat: 2000})
			must(t, err)
			_, _, err = h.Vacants.Publish(t.Context(), r.ID, vacants.PublishOptions{Listing: &vacants.ListingOptions{}})
			must(t, err)
		}
	}
	a, err := h.Billing.OpenAccount(t.Context(), "acme", 1)
	must(t, err)
	_, _, err = h.Billing.Credit(t.Context(), a.ID, money.Dollar, "first", "")
	must(t, err)
	_, key, err = h.Billing.MakeKey(t.Context(), a.ID, billing.KeyOptions{})
	must(t, err)
	index, err := bleve.Open(t.TempDir() + "/index")
	must(t, err)
	ctx, end := context.WithCancel(context.Background())
	ready, ended := make(chan bool), make(chan error, 1)
	go func() {
		ended <- h.Run(ctx, standalone.Running{Public: listener, Index: index, Grace: time.Second}, func(context.Context) error { close(ready); return nil })
	}()
	t.Cleanup(func() {
		end()
		if err := errors.Join(<-ended, h.Close()); err != nil {
			t.Error(err)
		}
	})
	<-ready
	return url, key
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// seenByMCP are the scenarios, and what each client sees.
var seenByMCP = map[string]string{
	"tools": "ask get_task stop_task vacant_call vacant_describe", "host": "ask_agent describe_agent get_task search_agents stop_task", "card": "echo",
	"ask": "hi", "follow": "again", "slow": "wait done", "pieces": "wait| done", "refused": "refused substrate_busy",
	"unpaid": "refused payment_required", "paid": "hi", "price": "2000", "search": "priced", "ask agent": "hi", "late": "working", "fetched": "wait done",
}

// asksByMCP runs a client. more are results that differ between clients.
func asksByMCP(t *testing.T, more map[string]string, command ...string) {
	t.Helper()
	t.Parallel()
	url, key := mcpHost(t)
	cmd := exec.CommandContext(t.Context(), command[0], append(command[1:], url, key)...)
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	var got map[string]string
	if err != nil || json.Unmarshal(out, &got) != nil {
		t.Fatalf("%v: %v\n%s%s", command, err, out, problems.Bytes())
	}
	want := maps.Clone(seenByMCP)
	maps.Copy(want, more)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("scenarios (-want +got):\n%s", diff)
	}
}

func TestMCPPython2(t *testing.T) {
	needsLocalHost(t)
	dir := installed.Python(t, files, "mcppython2")
	asksByMCP(t, map[string]string{"era": "2026-07-28", "bad key": "error Authorization: expected Bearer and a key of this host, such as vac_live_…", "unknown": "error no such server; an agent's is /v/NAME/mcp, the host's is /mcp"},
		filepath.Join(dir, "env", "bin", "python"), filepath.Join(dir, "client.py"))
}

func TestMCPPython1(t *testing.T) {
	needsLocalHost(t)
	dir := installed.Python(t, files, "mcppython1")
	asksByMCP(t, map[string]string{"era": "2025-11-25", "bad key": "error HTTPStatusError", "unknown": "error McpError"},
		filepath.Join(dir, "env", "bin", "python"), filepath.Join(dir, "client.py"))
}

func TestMCPNode(t *testing.T) {
	needsLocalHost(t)
	dir := installed.Node(t, files, "mcpnode", "@modelcontextprotocol", "sdk")
	for of, more := range map[string]map[string]string{
		"sdk":    {"era": "2025-11-25", "bad key": "error Authorization"},
		"client": {"era": "2026-07-28", "bad key": "error Version negotiation failed: the server requires authorization (HTTP 401)"},
	} {
		t.Run(of, func(t *testing.T) {
			more["unknown"] = "error no such server"
			asksByMCP(t, more, "node", filepath.Join(dir, "client.mjs"), of)
		})
	}
}
