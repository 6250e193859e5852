package interop

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/tests/installed"
)

// mcpTools is an install of the Inspector and of the conformance suite, with the Node that they need.
func mcpTools(t *testing.T) (node string, at func(...string) string) {
	t.Helper()
	dir := installed.Node(t, files, "mcptools", "inspector-plain")
	at = func(path ...string) string { return filepath.Join(append([]string{dir, "node_modules"}, path...)...) }
	node = at("node-linux-"+map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH], "bin", "node")
	if _, err := exec.LookPath(node); err != nil {
		t.Skipf("there is no Node 24 for this system: %v", err)
	}
	return node, at
}

func output(t *testing.T, command ...string) string {
	t.Helper()
	out, _ := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput() // it fails with a check that fails
	return string(out)
}

// The Inspector of 0.15 sends no header to a URL, the one of 2.12 does.
func TestMCPInspector(t *testing.T) {
	needsLocalHost(t)
	node, at := mcpTools(t)
	t.Parallel()
	url, key := mcpHost(t)
	program := mcpProgram(t, url, key)
	plain := []string{node, at("inspector-plain", "cli", "build", "cli.js"), "--cli"}
	bearer := []string{node, at("inspector-bearer", "clients", "launcher", "build", "index.js"), "--cli"}
	// A program is given with its arguments, or as an entry that "vacancy mcp config" wrote.
	started := append(slices.Clone(plain), program, "mcp", "VACANT", "--host", url)
	signed := append(slices.Clone(started), "--as", "payer")
	entry := output(t, program, "mcp", "config", "--host", url, "--client", "claude-desktop")
	self, err := os.Executable()
	must(t, err)
	entry = strings.Replace(entry, self, program, 1) // which needs a variable to be vacancy
	file := filepath.Join(t.TempDir(), "claude_desktop_config.json")
	must(t, os.WriteFile(file, []byte(entry[strings.Index(entry, "{"):]), 0o600))
	configured := append(slices.Clone(plain), "--config", file, "--server", "vacancy")
	auth := "Authorization: Bearer " + key
	for _, tt := range []struct {
		name, path, want string
		command          []string
		more             []string
	}{
		{"list", "/v/echo/mcp", `"name": "ask"`, plain, []string{"--method", "tools/list"}},
		{"ask", "/v/echo/mcp", `"finish": "stop"`, plain, []string{"--method", "tools/call", "--tool-name", "ask", "--tool-arg", "message=hi"}},
		{"refused", "/v/failing/mcp", `"code": "substrate_busy"`, plain, []string{"--method", "tools/call", "--tool-name", "ask", "--tool-arg", "message=hi"}},
		{"unpaid", "/v/priced/mcp", `"code": "payment_required"`, plain, []string{"--method", "tools/call", "--tool-name", "ask", "--tool-arg", "message=hi"}},
		{"search", "/mcp", `"agent": "priced"`, plain, []string{"--method", "tools/call", "--tool-name", "search_agents", "--tool-arg", "query=Netz"}},
		{"resources", "/v/echo/mcp", `/halo"`, plain, []string{"--method", "resources/list"}},
		{"list with a key", "/mcp", `"name": "ask_agent"`, bearer, []string{"--header", auth, "--method", "tools/list"}},
		{"paid", "/v/priced/mcp", `"price": 2000`, bearer, []string{"--header", auth, "--method", "tools/call", "--tool-name", "ask", "--tool-arg", "message=hi"}},
		{"paid at the host's", "/mcp", `"price": 2000`, bearer, []string{"--header", auth, "--method", "tools/call", "--tool-name", "ask_agent", "--tool-arg", "agent=priced", "--tool-arg", "message=hi"}},
		{"list by a program", "echo", `"name": "ask"`, started, []string{"--method", "tools/list"}},
		{"ask by a program", "echo", `"finish": "stop"`, started, []string{"--method", "tools/call", "--tool-name", "ask", "--tool-arg", "message=hi"}},
		{"refused by a program", "failing", `"code": "substrate_busy"`, started, []string{"--method", "tools/call", "--tool-name", "ask", "--tool-arg", "message=hi"}},
		{"unpaid by a program", "priced", `"code": "payment_required"`, started, []string{"--method", "tools/call", "--tool-name", "ask", "--tool-arg", "message=hi"}},
		{"paid by a program", "priced", `"price": 2000`, signed, []string{"--method", "tools/call", "--tool-name", "ask", "--tool-arg", "message=hi"}},
		{"search by a program", "", `"agent": "priced"`, configured, []string{"--method", "tools/call", "--tool-name", "search_agents", "--tool-arg", "query=Netz"}},
	} {
		command := append(append([]string{}, tt.command...), url+tt.path, "--transport", "http")
		if !strings.HasPrefix(tt.path, "/") {
			command = append([]string{}, tt.command...)
			for i := range command {
				command[i] = strings.ReplaceAll(command[i], "VACANT", tt.path)
			}
		}
		command = append(command, tt.more...)
		if got := output(t, command...); !strings.Contains(got, tt.want) {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// lacking matches why checks of the conformance suite fail at a vacant: they need tools, prompts and resources
// of the suite's own server, or a part of MCP that a vacant does not declare.
var lacking = regexp.MustCompile(strings.Join([]string{
	`unknown tool "`, `^Tool '\w+' not found`, `^Not testable: `, `^Prerequisite failed: `, `fixture from Check 2 unavailable`,
	`method "(prompts/list|prompts/get|completion/complete|resources/subscribe)" does not exist`, `^Failed: Resource not found`,
	`capabilities.extensions MUST be advertised`, `tasks/get MUST return -32021; got -32601`, `expected -32602; got -32601`, // the extension for tasks
	`returned error code -32602; spec requires -32021`, `^Expected InputRequiredResult`,
}, "|"))

// The whole conformance suite: its totals, and no check that fails for another reason than lacking.
func TestMCPConformanceSuite(t *testing.T) {
	needsLocalHost(t)
	node, at := mcpTools(t)
	t.Parallel()
	url, _ := mcpHost(t)
	results := t.TempDir()
	out := output(t, node, at("@modelcontextprotocol", "conformance", "dist", "index.js"), "server", "--url", url+"/v/echo/mcp", "--suite", "all", "-o", results)
	if want := "Total: 117 passed, 73 failed"; !strings.Contains(out, want) {
		t.Errorf("want %s, got\n%s", want, out[strings.LastIndex(out, "=== SUMMARY")+1:])
	}
	scenarios, err := filepath.Glob(filepath.Join(results, "*", "checks.json"))
	must(t, err)
	for _, file := range scenarios {
		b, err := os.ReadFile(file)
		must(t, err)
		var checks []struct{ ID, Status, ErrorMessage string }
		must(t, json.Unmarshal(b, &checks))
		for _, c := range checks {
			if c.Status == "FAILURE" && !lacking.MatchString(c.ErrorMessage) {
				t.Errorf("%s: %s: %s", filepath.Base(filepath.Dir(file)), c.ID, c.ErrorMessage)
			}
		}
	}
	if len(scenarios) != 65 {
		t.Errorf("%d scenarios ran, want 65", len(scenarios))
	}
}

// The scenarios of the conformance suite that need no tools of its own, with the checks that pass.
// Without prompts one check of caching cannot; server-stateless has four for its own tools.
func TestMCPConformance(t *testing.T) {
	needsLocalHost(t)
	node, at := mcpTools(t)
	t.Parallel()
	url, _ := mcpHost(t)
	passed := regexp.MustCompile(`Passed: (\d+/\d+)`)
	want := map[string]string{
		"2026-07-28 tools-list": "4/4", "2026-07-28 resources-list": "2/2", "2026-07-28 caching": "7/8", "2026-07-28 http-header-validation": "14/14",
		"2026-07-28 sep-2164-resource-not-found": "4/4", "2026-07-28 dns-rebinding-protection": "2/2", "2026-07-28 server-stateless": "21/25",
		"2025-11-25 server-initialize": "2/2", "2025-11-25 ping": "2/2", "2025-11-25 tools-list": "3/3", "2025-11-25 resources-list": "2/2", "2025-11-25 dns-rebinding-protection": "2/2",
	}
	got := map[string]string{}
	for name := range want {
		version, scenario, _ := strings.Cut(name, " ")
		out := output(t, node, at("@modelcontextprotocol", "conformance", "dist", "index.js"), "server", "--url", url+"/v/echo/mcp", "--spec-version", version, "--scenario", scenario)
		if m := passed.FindStringSubmatch(out); m != nil {
			got[name] = m[1]
		} else {
			got[name] = out
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("checks that passed (-want +got):\n%s", diff)
	}
}
