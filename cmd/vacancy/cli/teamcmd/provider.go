package teamcmd

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/semver"

	"github.com/vacancy-host/vacancy/cmd/vacancy/acpclient"
	"github.com/vacancy-host/vacancy/cmd/vacancy/agentfile"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/models"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// agentProgram is the command line of an ACP agent, with the settings from the agent's file.
type agentProgram struct {
	words    []string
	env      []string       // variables as NAME or NAME=VALUE, like --env
	meta     map[string]any // extension members of the new session
	approval string
	readOnly bool
	remove   func() // removes the program's temporary files
}

// provider builds the command line of an ACP agent from the agent's file.
type provider struct {
	env    []string // variables with keys and addresses, passed to the program if they are set
	unused []string // settings that the program does not support
	// program builds the command line with the settings of an agent's file.
	program func(context.Context, *kit.App, *agentfile.File) (agentProgram, error)
}

// providers contains a provider for each value of --provider.
var providers = map[string]provider{
	agentfile.Gemini: {
		program: geminiProgram,
		env: []string{
			"GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION",
			"GOOGLE_APPLICATION_CREDENTIALS",
		},
		unused: []string{"max_turns", "budget", "disallowed_tools", "effort", "fallback_model"},
	},
	agentfile.Claude: {
		program: claudeProgram,
		env:     []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CONFIG_DIR"},
		unused:  []string{"approval_mode"},
	},
}

// findAgentFile returns the file of an agent below the root, or "".
func findAgentFile(root, name string) string {
	for _, place := range []string{".vaultspec/agents/" + name, "agents/" + name, name, "agent"} {
		file := filepath.Join(root, place+".md")
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
			return file
		}
	}
	return ""
}

// program returns the command line of the worker's agent. If --provider is set, the provider builds
// it, and otherwise it consists of words. program warns about each setting in the agent's file that
// is not passed to the agent.
func (f *workerFlags) program(ctx context.Context, a *kit.App, name string, words []string) (p agentProgram, err error) {
	p = agentProgram{words: words, remove: func() {}}
	file := cmp.Or(f.from, findAgentFile(f.acp.root, name))
	switch {
	case file == "" && f.provider == "":
		return p, nil
	case file == "":
		err := problem.New(problem.NotFound, "there is no agent's file of %s below %s", name, f.acp.root)
		return p, kit.WithHint(err, "vacancy worker %s --provider %s --from FILE", name, f.provider)
	}
	l, err := agentfile.Read(file, agentfile.Options{Root: f.acp.root, Program: cmp.Or(f.provider, agentfile.OtherProgram)})
	if err != nil {
		return p, err
	}
	for _, w := range l.Agent.Warnings {
		a.Note("warning: %s", kit.Printable(w))
	}
	if l.Agent.System != "" {
		l.Settings = append(l.Settings, "the text of the file")
	}
	builder := providers[f.provider]
	for _, key := range l.Settings {
		switch {
		case slices.Contains(builder.unused, key):
			a.Note("warning: %s: not supported by %s; it is not used", key, f.provider)
		case f.provider == "" && key != "mode" && key != "approval_mode": // this command itself applies these two settings
			a.Note("warning: %s: not passed to %s, which runs as given", key, kit.Printable(words[0]))
		}
	}
	if f.provider != "" {
		catalog := models.BuiltinTable()
		if err := l.Agent.ResolveTier(&catalog); err != nil {
			return p, err
		}
		if p, err = builder.program(ctx, a, &l); err != nil {
			return p, err
		}
		for _, v := range builder.env {
			if a.Env[v] != "" {
				p.env = append(p.env, v)
			}
		}
	}
	p.approval, p.readOnly = l.ApprovalMode, l.Agent.Mode == definition.ReadOnly
	return p, nil
}

// Versions of Gemini CLI. The suffix -0 also admits previews, which sort before their release.
const (
	leastOnWindows = "v0.9.0-0"
	firstWithACP   = "v0.33.0-0" // first version with the flag --acp
	recommended    = "v0.27.0-0"
)

// versionTime limits the run that prints a program's version.
const versionTime = 30 * time.Second

// geminiProgram returns the command line of Gemini CLI with the settings of an agent's file. It
// writes the system prompt to a temporary file.
func geminiProgram(ctx context.Context, a *kit.App, f *agentfile.File) (p agentProgram, err error) {
	path, err := exec.LookPath("gemini")
	if err != nil {
		return p, kit.WithHint(problem.New(problem.NotFound, "there is no program gemini in $PATH"), "npm install -g @google/gemini-cli")
	}
	version, err := geminiVersion(ctx, a, path)
	if err != nil {
		return p, err
	}
	l, isOlder := &f.Agent, func(than string) bool { return semver.IsValid(version) && semver.Compare(version, than) < 0 }
	flag := "--acp"
	switch {
	case isOlder(leastOnWindows) && runtime.GOOS == "windows":
		return p, problem.New(problem.SubstrateMisconfigured, "gemini: expected version %.6s or later on Windows, got %.40q", leastOnWindows, version)
	case isOlder(recommended):
		a.Note("warning: gemini %.7s or later is recommended", recommended)
	}
	if isOlder(firstWithACP) {
		flag = "--experimental-acp"
	}
	a.Note("gemini %s", kit.Printable(version))
	p = agentProgram{words: []string{path, flag, "--model", l.Model}, remove: func() {}}
	if l.Mode == definition.ReadOnly {
		p.words = append(p.words, "--sandbox")
	}
	for _, tool := range l.AllowedTools {
		p.words = append(p.words, "--allowed-tools", tool)
	}
	for _, dir := range l.IncludeDirs {
		p.words = append(p.words, "--include-directories", dir)
	}
	if l.OutputFormat == definition.JSON {
		p.words = append(p.words, "--output-format", string(l.OutputFormat))
	}
	if f.ApprovalMode != "" && f.ApprovalMode != string(acpclient.Default) {
		p.words = append(p.words, "--approval-mode", f.ApprovalMode)
	}
	if l.System == "" {
		return p, nil
	}
	dir, err := os.MkdirTemp("", "vacancy-*") // the directory has the mode 0700
	if err != nil {
		return p, err
	}
	p.remove = func() { _ = os.RemoveAll(dir) }
	file := filepath.Join(dir, "system.md")
	if err := os.WriteFile(file, []byte(l.System), 0o600); err != nil {
		p.remove()
		return p, err
	}
	p.env = append(p.env, "GEMINI_SYSTEM_MD="+file)
	return p, nil
}

// geminiVersion returns the version that Gemini CLI prints.
func geminiVersion(ctx context.Context, a *kit.App, path string) (string, error) {
	environ, err := acpclient.Environ(a.Env, nil)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, versionTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.Env, cmd.WaitDelay = environ, time.Second
	out, err := cmd.Output()
	if err != nil {
		return "", problem.Wrap(problem.SubstrateMisconfigured, err, "gemini --version fails: %s", problem.PlainMessage(err))
	}
	return "v" + strings.TrimPrefix(strings.TrimSpace(string(out)), "v"), nil
}

// claudePrograms lists the names of the adapter that connects Claude Code to ACP, the newest first.
var claudePrograms = []string{"claude-agent-acp", "claude-code-acp"}

// claudeProgram returns the command line of Claude Code. The settings of the agent's file are
// passed in the request for a new session.
func claudeProgram(_ context.Context, _ *kit.App, f *agentfile.File) (p agentProgram, err error) {
	for _, name := range slices.Backward(claudePrograms) {
		if path, err := exec.LookPath(name); err == nil {
			p.words = []string{path}
		}
	}
	if p.words == nil {
		err := problem.New(problem.NotFound, "there is no program %s in $PATH", strings.Join(claudePrograms, " or "))
		return p, kit.WithHint(err, "npm install -g @agentclientprotocol/claude-agent-acp")
	}
	l := &f.Agent
	options := claudeOptions{
		Model: l.Model, AllowedTools: l.AllowedTools, DisallowedTools: l.DisallowedTools, Dirs: l.IncludeDirs, MaxTurns: l.MaxTurns, Effort: l.Effort, Fallback: l.FallbackModel,
	}
	if l.Mode == definition.ReadOnly && !slices.Contains(options.DisallowedTools, "Bash") {
		options.DisallowedTools = append(options.DisallowedTools, "Bash") // Bash can write files
	}
	if l.Budget != nil {
		options.Budget = new(float64(*l.Budget) / 1e6)
	}
	system := l.System
	if l.OutputFormat == definition.JSON {
		system = strings.TrimSpace(system + "\n\nAnswer with one JSON document, and with nothing else.")
	}
	p.meta, p.remove = map[string]any{"claudeCode": map[string]any{"options": options}}, func() {}
	if system != "" {
		p.meta["systemPrompt"] = system
	}
	return p, nil
}

// claudeOptions contains the options of Claude Code in the request for a new session.
type claudeOptions struct {
	Model           string           `json:"model"`
	Fallback        string           `json:"fallbackModel,omitempty"`
	AllowedTools    []string         `json:"allowedTools,omitempty"`
	DisallowedTools []string         `json:"disallowedTools,omitempty"`
	Dirs            []string         `json:"additionalDirectories,omitempty"`
	MaxTurns        int              `json:"maxTurns,omitempty"`
	Budget          *float64         `json:"maxBudgetUsd,omitempty"`
	Effort          substrate.Effort `json:"effort,omitempty"`
}
