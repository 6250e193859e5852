package agentfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/models"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// folder writes files into a new folder.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestAFileForAProgramOnThisMachine(t *testing.T) {
	root := folder(t, map[string]string{
		"fox.md": `---
description: writes
name: fox
provider: anthropic
model: gemini-2.5-pro
tier: low
mode: read-only
max_turns: 4
budget: 0.25
tools: Read
allowed_tools: [Grep, Read]
disallowed_tools: Bash
effort: high
output_format: json
approval_mode: plan
fallback_model: other
include_dirs: [src, .., missing, link]
memory: on
---
@note.md
`,
		"note.md": "A note.", "src/a": "", "gemini/owl.md": "---\ntier: LOW\n---\nGemini's owl.", "owl.md": "---\ntier: LOW\n---\nAn owl.",
	})
	_ = os.Symlink(t.TempDir(), filepath.Join(root, "link"))
	got, err := Read(filepath.Join(root, "fox.md"), Options{Root: root, Program: Gemini})
	if err != nil {
		t.Fatal(err)
	}
	budget := money.Amount(250_000)
	want := File{
		Name: "fox", ApprovalMode: "plan",
		Settings: []string{
			"allowed_tools", "approval_mode", "budget", "disallowed_tools", "effort", "fallback_model", "include_dirs", "max_turns", "mode", "model", "output_format", "tier", "tools",
		},
		Agent: definition.Agent{
			Provider: "gemini", Model: "gemini-2.5-pro", Mode: definition.ReadOnly, MaxTurns: 4, Budget: &budget, AllowedTools: []string{"Grep", "Read"}, DisallowedTools: []string{"Bash"},
			Effort: "high", OutputFormat: definition.JSON, FallbackModel: "other", IncludeDirs: []string{"src"}, System: "A note.",
			Warnings: []string{
				"include_dirs: path .. is not used, because it is not below the root", "include_dirs: path missing is not used, because it is not below the root", "include_dirs: path link is not used, because it is not below the root",
				"memory: not used, because a program on this machine runs the agent", "name: not used, because a program on this machine runs the agent",
			},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Read (-want +got):\n%s", diff)
	}
	for provider, want := range map[string]string{"gemini": "Gemini's owl.", "claude": "An owl."} {
		if l, err := Read(filepath.Join(root, "owl.md"), Options{Root: root, Program: provider}); err != nil || l.Agent.System != want || l.Agent.Tier != models.Low {
			t.Errorf("%s: Read = %q, %v", provider, l.Agent.System, err)
		}
	}
}

func TestWhatIsWrongInAFileForAProgramIsNamed(t *testing.T) {
	for settings, want := range map[string]string{
		"mode: often": "mode: expected one of read-only, read-write", "effort: huge": "effort: expected one of low, medium, high", "approval_mode: maybe": "approval_mode: expected one of",
		"output_format: xml": "output_format: expected one of", "max_turns: 99": "max_turns: expected 1 to 64, got 99", "max_turns: many": "max_turns: expected",
		"budget: much": "budget: expected dollars", "modle: x": "did you mean model?", "model: [a]": "model: expected",
	} {
		root := folder(t, map[string]string{"a.md": "---\n" + settings + "\n---\n"})
		if _, err := Read(filepath.Join(root, "a.md"), Options{Root: root, Program: Claude}); !problem.Is(err, problem.Usage) || !strings.Contains(problem.AsError(err).Text(), want) {
			t.Errorf("%s: Read = %v, want %s", settings, err, want)
		}
	}
	if _, err := Read(filepath.Join(t.TempDir(), "none.md"), Options{Program: Claude}); !problem.Is(err, problem.NotFound) {
		t.Errorf("a missing file: Read = %v", err)
	}
}
