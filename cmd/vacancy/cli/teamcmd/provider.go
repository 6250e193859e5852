package teamcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/cmd/vacancy/acpclient"
	"github.com/vacancy-host/vacancy/cmd/vacancy/agentfile"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/models"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// agentProgram is the program of an agent, with what its file asks for.
type agentProgram struct {
	words    []string
	env      []string       // names and values, as of --env
	meta     map[string]any // extension members of the new session
	approval string
	readOnly bool
	remove   func() // removes the program's temporary files
}

// provider makes the program of an agent's file.
type provider struct {
	kind    string   // of the models in the host's table
	prefix  string   // of the names of its models
	env     []string // variables with keys and addresses
	unused  []string // settings that its program does not have
	program func(ctx context.Context, a *kit.App, l *agentfile.Local) (agentProgram, error)
}

// providers are the programs that --provider names.
var providers = map[string]provider{
	"gemini": {
		kind: substrate.KindGemini, prefix: "gemini-", program: geminiProgram,
		env: []string{
			"GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION",
			"GOOGLE_APPLICATION_CREDENTIALS",
		},
		unused: []string{"max_turns", "budget", "disallowed_tools", "effort", "fallback_model"},
	},
	"claude": {
		kind: substrate.KindAnthropic, prefix: "claude-", program: claudeProgram,
		env:    []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CONFIG_DIR"},
		unused: []string{"approval_mode"},
	},
}

// agentFiles are the places of an agent's file below the root, for a name.
var agentFiles = []string{".vaultspec/agents/%s.md", "agents/%s.md", "%s.md", "agent.md"}

// findAgentFile returns the file of an agent, or "".
func findAgentFile(root, name string) string {
	for _, form := range agentFiles {
		if strings.Contains(form, "%") {
			form = fmt.Sprintf(form, name)
		}
		file := filepath.Join(root, form)
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
			return file
		}
	}
	return ""
}

// program returns the program of the worker: of a provider, or the command as it was given. It warns of each setting
// of the agent's file that the program does not get.
func (f *workerFlags) program(ctx context.Context, a *kit.App, name string, words []string) (p agentProgram, err error) {
	file := cmp.Or(f.from, findAgentFile(f.acp.root, name))
	if len(words) > 0 && file == "" {
		return agentProgram{words: words, remove: func() {}}, nil
	}
	if file == "" {
		err := problem.New(problem.NotFound, "there is no agent's file of %s below %s", name, f.acp.root)
		return p, kit.WithHint(err, "vacancy worker %s --provider %s --from FILE", name, f.provider)
	}
	l, err := agentfile.ReadLocal(file, f.provider, f.acp.root)
	if err != nil {
		return p, err
	}
	for _, w := range l.Warnings {
		a.Note("warning: %s", kit.Printable(w))
	}
	if len(words) > 0 {
		p = agentProgram{words: words, remove: func() {}}
		for _, key := range settingsOf(&l) {
			if key != "mode" && key != "approval_mode" { // which this program applies
				a.Note("warning: %s: not passed to %s, which runs as given", key, kit.Printable(words[0]))
			}
		}
	} else {
		of := providers[f.provider]
		of.chooseModel(a, &l)
		for _, key := range settingsOf(&l) {
			if slices.Contains(of.unused, key) {
				a.Note("warning: %s: not supported by %s; it is not used", key, f.provider)
			}
		}
		if p, err = of.program(ctx, a, &l); err != nil {
			return p, err
		}
		for _, v := range of.env {
			if a.Env[v] != "" {
				p.env = append(p.env, v)
			}
		}
	}
	p.approval, p.readOnly = l.ApprovalMode, l.Mode == definition.ReadOnly
	return p, nil
}

// settingsOf returns the keys of the settings that a file has, sorted.
func settingsOf(l *agentfile.Local) (names []string) {
	for key, is := range map[string]bool{
		"model": l.Model != "", "tier": l.Tier != "", "fallback_model": l.FallbackModel != "", "mode": l.Mode != "", "max_turns": l.MaxTurns != 0,
		"budget": l.Budget != nil, "effort": l.Effort != "", "output_format": l.OutputFormat != "", "approval_mode": l.ApprovalMode != "",
		"allowed_tools": len(l.AllowedTools) > 0, "disallowed_tools": len(l.DisallowedTools) > 0, "include_dirs": len(l.IncludeDirs) > 0,
		"the text of the file": l.System != "",
	} {
		if is {
			names = append(names, key)
		}
	}
	slices.Sort(names)
	return names
}

// chooseModel sets the model of a file that has only a tier, or the model of another provider. The default tier is
// MEDIUM.
func (p provider) chooseModel(a *kit.App, l *agentfile.Local) {
	if l.Model != "" && !strings.Contains(l.Model, p.prefix) {
		a.Note("warning: model: expected a name with %s, got %s; the model of the tier is used", p.prefix, kit.Printable(l.Model))
		l.Model = ""
	}
	if l.Model == "" {
		known := models.Known()
		m, _ := known.OfTier(p.kind, cmp.Or(l.Tier, models.Medium))
		l.Model = m.Name
	}
}

// Versions of Gemini CLI.
var (
	leastOnWindows = [3]int{0, 9, 0}
	firstWithACP   = [3]int{0, 33, 0} // its flag is --acp
	recommended    = [3]int{0, 27, 0}
)

// versionTime limits the question for a program's version.
const versionTime = 30 * time.Second

// geminiProgram returns Gemini CLI with the settings of a file. The texts of the file are in a temporary file.
func geminiProgram(ctx context.Context, a *kit.App, l *agentfile.Local) (p agentProgram, err error) {
	path, err := exec.LookPath("gemini")
	if err != nil {
		return p, kit.WithHint(problem.New(problem.NotFound, "there is no program gemini in $PATH"), "npm install -g @google/gemini-cli")
	}
	version, err := geminiVersion(ctx, a, path)
	if err != nil {
		return p, err
	}
	flag := "--acp"
	if version != [3]int{} {
		a.Note("gemini %d.%d.%d", version[0], version[1], version[2])
		if slices.Compare(version[:], firstWithACP[:]) < 0 {
			flag = "--experimental-acp"
		}
		if slices.Compare(version[:], recommended[:]) < 0 {
			a.Note("warning: gemini %d.%d.%d or later is recommended", recommended[0], recommended[1], recommended[2])
		}
	}
	p = agentProgram{words: []string{path, flag, "--model", l.Model}, remove: func() {}}
	if l.Mode == definition.ReadOnly {
		p.words = append(p.words, "--sandbox")
	}
	for _, each := range []struct {
		flag   string
		values []string
	}{{"--allowed-tools", l.AllowedTools}, {"--include-directories", l.IncludeDirs}} {
		for _, value := range each.values {
			p.words = append(p.words, each.flag, value)
		}
	}
	if l.OutputFormat != "" && l.OutputFormat != definition.Text {
		p.words = append(p.words, "--output-format", string(l.OutputFormat))
	}
	if l.ApprovalMode != "" && l.ApprovalMode != string(acpclient.Default) {
		p.words = append(p.words, "--approval-mode", l.ApprovalMode)
	}
	if l.System == "" {
		return p, nil
	}
	f, err := os.CreateTemp("", "vacancy-system-*.md") // with the mode 0600
	if err != nil {
		return p, err
	}
	_, err = f.WriteString(l.System)
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(f.Name())
		return p, err
	}
	p.env = append(p.env, "GEMINI_SYSTEM_MD="+f.Name())
	p.remove = func() { _ = os.Remove(f.Name()) }
	return p, nil
}

// geminiVersion returns the version of Gemini CLI, or zero if it is not known.
func geminiVersion(ctx context.Context, a *kit.App, path string) (v [3]int, err error) {
	environ, err := acpclient.Environ(a.Env, nil)
	if err != nil {
		return v, err
	}
	ctx, cancel := context.WithTimeout(ctx, versionTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.Env, cmd.WaitDelay = environ, time.Second
	out, err := cmd.Output()
	if err != nil {
		return v, problem.Wrap(problem.SubstrateMisconfigured, err, "gemini --version fails: %s", problem.Plain(err))
	}
	v = parseVersion(string(out))
	if runtime.GOOS == "windows" && v != [3]int{} && slices.Compare(v[:], leastOnWindows[:]) < 0 {
		return v, problem.New(problem.SubstrateMisconfigured, "gemini: expected version %d.%d.%d or later on Windows, got %.40q", leastOnWindows[0], leastOnWindows[1], leastOnWindows[2], strings.TrimSpace(string(out)))
	}
	return v, nil
}

// parseVersion returns the numbers of a version such as 0.61.0-nightly, or zero.
func parseVersion(text string) (v [3]int) {
	number, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(text), "v"), "-")
	parts := strings.Split(number, ".")
	if len(parts) != len(v) {
		return v
	}
	for i, part := range parts {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 {
			return [3]int{}
		}
		v[i] = n
	}
	return v
}

// claudePrograms are the names of the program by which Claude Code speaks ACP, the newest first.
var claudePrograms = []string{"claude-agent-acp", "claude-code-acp"}

// claudeProgram returns Claude Code with the settings of a file, which the new session carries.
func claudeProgram(_ context.Context, _ *kit.App, l *agentfile.Local) (p agentProgram, err error) {
	for _, name := range claudePrograms {
		if path, err := exec.LookPath(name); err == nil {
			p.words = []string{path}
			break
		}
	}
	if p.words == nil {
		err := problem.New(problem.NotFound, "there is no program %s in $PATH", strings.Join(claudePrograms, " or "))
		return p, kit.WithHint(err, "npm install -g @agentclientprotocol/claude-agent-acp")
	}
	options := map[string]any{"model": l.Model}
	disallowed := slices.Clone(l.DisallowedTools)
	if l.Mode == definition.ReadOnly && !slices.Contains(disallowed, "Bash") {
		disallowed = append(disallowed, "Bash") // it could write files
	}
	for _, each := range []struct {
		name   string
		values []string
	}{{"allowedTools", l.AllowedTools}, {"disallowedTools", disallowed}, {"additionalDirectories", l.IncludeDirs}} {
		if len(each.values) > 0 {
			options[each.name] = each.values
		}
	}
	if l.MaxTurns > 0 {
		options["maxTurns"] = l.MaxTurns
	}
	if l.Budget != nil {
		options["maxBudgetUsd"] = float64(*l.Budget) / 1e6
	}
	if l.Effort != "" {
		options["effort"] = l.Effort
	}
	if l.FallbackModel != "" {
		options["fallbackModel"] = l.FallbackModel
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
