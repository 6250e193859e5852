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
	argv        []string
	envFlags    []string       // variables as NAME or NAME=VALUE, like --env
	sessionMeta map[string]any // extension members of the new session
	approval    string
	readOnly    bool
	cleanUp     func() // removes the program's temporary files
}

// provider builds the command line of an ACP agent from the agent's file.
type provider struct {
	envNames            []string // variables with keys and addresses, passed to the program if they are set
	unsupportedSettings []string // settings that the program does not support
	build               func(context.Context, *kit.App, *agentfile.File) (agentProgram, error)
}

// providers contains a provider for each value of --provider.
var providers = map[string]provider{
	agentfile.Gemini: {
		build: geminiProgram,
		envNames: []string{
			"GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION",
			"GOOGLE_APPLICATION_CREDENTIALS",
		},
		unsupportedSettings: []string{"max_turns", "budget", "disallowed_tools", "effort", "fallback_model"},
	},
	agentfile.Claude: {
		build:               claudeProgram,
		envNames:            []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CONFIG_DIR"},
		unsupportedSettings: []string{"approval_mode"},
	},
}

// findAgentFile returns the file of an agent below the root, or "".
func findAgentFile(root, name string) string {
	for _, location := range []string{".vaultspec/agents/" + name, "agents/" + name, name, "agent"} {
		file := filepath.Join(root, location+".md")
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
			return file
		}
	}
	return ""
}

// buildProgram returns argv, or the command line that --provider builds from the agent's file. It
// warns about each setting in the file that is not passed to the agent.
func (f *workerFlags) buildProgram(ctx context.Context, a *kit.App, name string, argv []string) (p agentProgram, err error) {
	p = agentProgram{argv: argv, cleanUp: func() {}}
	path := cmp.Or(f.agentFile, findAgentFile(f.acpFlags.root, name))
	switch {
	case path == "" && f.provider == "":
		return p, nil
	case path == "":
		err := problem.New(problem.NotFound, "no agent file for %s below %s", name, f.acpFlags.root)
		return p, kit.WithHint(err, "vacancy worker %s --provider %s --from FILE", name, f.provider)
	}
	file, err := agentfile.Read(path, agentfile.Options{Root: f.acpFlags.root, Program: cmp.Or(f.provider, agentfile.OtherProgram)})
	if err != nil {
		return p, err
	}
	for _, w := range file.Agent.Warnings {
		a.PrintNote("warning: %s", kit.EscapeLine(w))
	}
	if file.Agent.System != "" {
		file.Settings = append(file.Settings, "the text of the file")
	}
	selected := providers[f.provider]
	for _, key := range file.Settings {
		switch {
		case slices.Contains(selected.unsupportedSettings, key):
			a.PrintNote("warning: %s: this setting is ignored, because %s does not support it", key, f.provider)
		case f.provider == "" && key != "mode" && key != "approval_mode": // this command itself applies these two settings
			a.PrintNote("warning: %s: this setting is not passed to %s, because the given command is not changed", key, kit.EscapeLine(argv[0]))
		}
	}
	if f.provider != "" {
		catalog := models.BuiltinTable()
		if err := file.Agent.ResolveTier(&catalog); err != nil {
			return p, err
		}
		if p, err = selected.build(ctx, a, &file); err != nil {
			return p, err
		}
		for _, v := range selected.envNames {
			if a.Env[v] != "" {
				p.envFlags = append(p.envFlags, v)
			}
		}
	}
	p.approval, p.readOnly = file.ApprovalMode, file.Agent.Mode == definition.ReadOnly
	return p, nil
}

// Versions of Gemini CLI. The suffix -0 also admits previews, which sort before their release.
const (
	minVersionOnWindows = "v0.9.0-0"
	firstVersionWithACP = "v0.33.0-0" // first version with the flag --acp
	recommendedVersion  = "v0.27.0-0"
)

const versionTimeout = 30 * time.Second

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
	agent, isOlder := &f.Agent, func(minVersion string) bool {
		return semver.IsValid(version) && semver.Compare(version, minVersion) < 0
	}
	flag := "--acp"
	switch {
	case isOlder(minVersionOnWindows) && runtime.GOOS == "windows":
		return p, problem.New(problem.SubstrateMisconfigured, "gemini: expected version %.6s or later on Windows, got %.40q", minVersionOnWindows, version)
	case isOlder(recommendedVersion):
		a.PrintNote("warning: gemini %.7s or later is recommended", recommendedVersion)
	}
	if isOlder(firstVersionWithACP) {
		flag = "--experimental-acp"
	}
	a.PrintNote("gemini %s", kit.EscapeLine(version))
	p = agentProgram{argv: []string{path, flag, "--model", agent.Model}, cleanUp: func() {}}
	if agent.Mode == definition.ReadOnly {
		p.argv = append(p.argv, "--sandbox")
	}
	for _, tool := range agent.AllowedTools {
		p.argv = append(p.argv, "--allowed-tools", tool)
	}
	for _, dir := range agent.IncludeDirs {
		p.argv = append(p.argv, "--include-directories", dir)
	}
	if agent.OutputFormat == definition.JSON {
		p.argv = append(p.argv, "--output-format", string(agent.OutputFormat))
	}
	if f.ApprovalMode != "" && f.ApprovalMode != string(acpclient.ApprovalDefault) {
		p.argv = append(p.argv, "--approval-mode", f.ApprovalMode)
	}
	if agent.System == "" {
		return p, nil
	}
	dir, err := os.MkdirTemp("", "vacancy-*") // the directory has the mode 0700
	if err != nil {
		return p, err
	}
	p.cleanUp = func() { _ = os.RemoveAll(dir) }
	file := filepath.Join(dir, "system.md")
	if err := os.WriteFile(file, []byte(agent.System), 0o600); err != nil {
		p.cleanUp()
		return p, err
	}
	p.envFlags = append(p.envFlags, "GEMINI_SYSTEM_MD="+file)
	return p, nil
}

func geminiVersion(ctx context.Context, a *kit.App, path string) (string, error) {
	environ, err := acpclient.Environ(a.Env, nil)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.Env, cmd.WaitDelay = environ, time.Second
	out, err := cmd.Output()
	if err != nil {
		return "", problem.Wrap(problem.SubstrateMisconfigured, err, "gemini --version fails: %s", problem.PlainMessage(err))
	}
	return "v" + strings.TrimPrefix(strings.TrimSpace(string(out)), "v"), nil
}

// claudeAdapters lists the names of the adapter that connects Claude Code to ACP, the newest first.
var claudeAdapters = []string{"claude-agent-acp", "claude-code-acp"}

// claudeProgram returns the command line of Claude Code. The settings of the agent's file are
// passed in the request for a new session.
func claudeProgram(_ context.Context, _ *kit.App, f *agentfile.File) (p agentProgram, err error) {
	for _, name := range slices.Backward(claudeAdapters) {
		if path, err := exec.LookPath(name); err == nil {
			p.argv = []string{path}
		}
	}
	if p.argv == nil {
		err := problem.New(problem.NotFound, "there is no program %s in $PATH", strings.Join(claudeAdapters, " or "))
		return p, kit.WithHint(err, "npm install -g @agentclientprotocol/claude-agent-acp")
	}
	agent := &f.Agent
	options := claudeOptions{
		Model: agent.Model, AllowedTools: agent.AllowedTools, DisallowedTools: agent.DisallowedTools, Dirs: agent.IncludeDirs, MaxTurns: agent.MaxTurns, Effort: agent.Effort, Fallback: agent.FallbackModel,
	}
	if agent.Mode == definition.ReadOnly && !slices.Contains(options.DisallowedTools, "Bash") {
		options.DisallowedTools = append(options.DisallowedTools, "Bash") // Bash can write files
	}
	if agent.Budget != nil {
		options.Budget = new(float64(*agent.Budget) / 1e6)
	}
	system := agent.System
	if agent.OutputFormat == definition.JSON {
		system = strings.TrimSpace(system + "\n\nAnswer with one JSON document, and with nothing else.")
	}
	p.sessionMeta, p.cleanUp = map[string]any{"claudeCode": map[string]any{"options": options}}, func() {}
	if system != "" {
		p.sessionMeta["systemPrompt"] = system
	}
	return p, nil
}

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
