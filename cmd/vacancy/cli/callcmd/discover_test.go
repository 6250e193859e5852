package callcmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/cmd/vacancy/mcpclients"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func TestNamesOfGeminiAgents(t *testing.T) {
	for name, want := range map[string]string{
		"fox": "fox", "Fox 2": "fox-2", "a.b": "a-b", "_x_": "x", "-y-": "y", "über": "ber", "a_b-c": "a_b-c", strings.Repeat("x", maxGeminiName): strings.Repeat("x", maxGeminiName),
		"": "", "a/b": "", `a\b`: "", "..": "", "a..b": "", "../x": "", "狐": "", "\x00": "", strings.Repeat("x", maxGeminiName+1): "",
	} {
		got, err := toGeminiName(name)
		if got != want || problem.Is(err, problem.Usage) != (want == "") || err != nil && !strings.Contains(problem.AsError(err).Text(), "NAME: expected the name of an agent") {
			t.Errorf("geminiName(%q) = %q, %v; want %q", name, got, err, want)
		}
	}
}

func TestTheFileOfAGeminiAgent(t *testing.T) {
	const want = `---
kind: remote
name: fox-1
agent_card_url: https://h.example/v/fox/.well-known/agent-card.json
auth:
  type: http
  scheme: Bearer
  token: $VACANCY_KEY
---

# Fox 1

writes
---
letters\u001b
`
	got := string(formatGeminiAgent("Fox 1", "fox-1", "https://h.example/v/fox", " writes\n---\nletters\x1b ", "VACANCY_KEY"))
	if got != want {
		t.Errorf("geminiAgent() = %s, want %s", got, want)
	}
	if bare := string(formatGeminiAgent("fox", "fox", "https://h.example/v/fox", "", "")); strings.Contains(bare, "auth:") || !strings.HasSuffix(bare, "\n# fox\n\nAn agent that answers by A2A.\n") {
		t.Errorf("without a key and a description: %s", bare)
	}
}

func TestFlagsOfGeminiThatAreRefused(t *testing.T) {
	for _, tt := range []struct {
		flags       geminiFlags
		root, named bool
		want        string // "" if they are accepted
	}{
		{geminiFlags{}, false, true, ""},
		{geminiFlags{disable: true}, true, false, ""},
		{geminiFlags{disable: true, authEnv: "K"}, false, true, ""},
		{geminiFlags{}, false, false, "NAME: expected the name or the URL"},
		{geminiFlags{disable: true, authEnv: "K"}, false, false, "NAME: expected the name or the URL"},
		{geminiFlags{user: true}, true, true, "--root: not supported together with --user"},
		{geminiFlags{remove: true, disable: true}, false, true, "not supported together with --remove"},
		{geminiFlags{remove: true, authEnv: "K"}, false, true, "not supported together with --remove"},
		{geminiFlags{authEnv: "vac_live_secret"}, false, true, "--auth-env: expected the name of an environment variable in upper case"},
		{geminiFlags{authEnv: "A B"}, false, true, "--auth-env: expected the name"},
		{geminiFlags{authEnv: "1A"}, false, true, "--auth-env: expected the name"},
	} {
		err := tt.flags.check(tt.root, tt.named)
		if tt.want == "" && err != nil || tt.want != "" && (!problem.Is(err, problem.Usage) || !strings.Contains(problem.AsError(err).Text(), tt.want) || strings.Contains(problem.AsError(err).Text(), "secret")) {
			t.Errorf("check(%+v, %v, %v) = %v, want %q", tt.flags, tt.root, tt.named, err, tt.want)
		}
	}
}

// A folder that cannot be written is named, and nothing is left.
func TestAFolderThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, ".gemini"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	folders := []string{filepath.Join(dir, ".gemini")}
	if os.Getuid() != 0 { // root may write
		readOnly := filepath.Join(dir, "ro")
		if err := os.Mkdir(readOnly, 0o500); err != nil {
			t.Fatal(err)
		}
		folders = append(folders, readOnly)
	}
	for _, folder := range folders {
		path := filepath.Join(folder, "settings.json")
		_, err := mcpclients.UpdateFile(path, false, func([]byte) ([]byte, bool, error) { return []byte("{}"), false, nil })
		if err = writeError(path, err); !problem.Is(err, problem.Usage) || !strings.Contains(problem.AsError(err).Text(), path+" cannot be written: ") {
			t.Errorf("%s: %v", folder, err)
		}
	}
}
