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
include_dirs: [src, .., missing, file, link]
memory: on
---
@note.md
`,
		"note.md": "A note.", "src/a": "", "file": "", "gemini/owl.md": "---\ntier: LOW\n---\nGemini's owl.", "owl.md": "---\ntier: LOW\n---\nAn owl.",
	})
	_ = os.Symlink(t.TempDir(), filepath.Join(root, "link"))
	got, err := ReadLocal(filepath.Join(root, "fox.md"), "gemini", root)
	if err != nil {
		t.Fatal(err)
	}
	budget := money.Amount(250_000)
	want := Local{
		Model: "gemini-2.5-pro", Tier: models.Low, Mode: definition.ReadOnly, MaxTurns: 4, Budget: &budget, AllowedTools: []string{"Grep", "Read"}, DisallowedTools: []string{"Bash"},
		Effort: "high", OutputFormat: definition.JSON, ApprovalMode: "plan", FallbackModel: "other", IncludeDirs: []string{"src"}, System: "A note.",
		Warnings: []string{
			"include_dirs: .. is not a folder below the root; it is left out", "include_dirs: missing is not a folder below the root; it is left out",
			"include_dirs: file is not a folder below the root; it is left out", "include_dirs: link is not a folder below the root; it is left out",
			"memory: not used, because a program on this machine does the turns",
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ReadLocal (-want +got):\n%s", diff)
	}
	for provider, want := range map[string]string{"gemini": "Gemini's owl.", "claude": "An owl."} {
		if l, err := ReadLocal(filepath.Join(root, "owl.md"), provider, root); err != nil || l.System != want {
			t.Errorf("%s: ReadLocal = %q, %v", provider, l.System, err)
		}
	}
}

func TestWhatIsWrongInALocalFileIsNamed(t *testing.T) {
	for settings, want := range map[string]string{
		"mode: often": "mode: expected one of read-only, read-write", "effort: huge": "effort: expected one of low, medium, high", "approval_mode: maybe": "approval_mode: expected one of",
		"output_format: xml": "output_format: expected one of", "max_turns: 99": "max_turns: expected 1 to 64, got 99", "max_turns: many": "a setting has another form than expected",
		"budget: much": "budget: expected dollars", "modle: x": "did you mean model?", "model: [a]": "a setting has another form than expected",
	} {
		root := folder(t, map[string]string{"a.md": "---\n" + settings + "\n---\n"})
		if _, err := ReadLocal(filepath.Join(root, "a.md"), "claude", root); !problem.Is(err, problem.Usage) || !strings.Contains(problem.Of(err).Text(), want) {
			t.Errorf("%s: ReadLocal = %v, want %s", settings, err, want)
		}
	}
	if _, err := ReadLocal(filepath.Join(t.TempDir(), "none.md"), "claude", ""); !problem.Is(err, problem.NotFound) {
		t.Errorf("a missing file: ReadLocal = %v", err)
	}
}
