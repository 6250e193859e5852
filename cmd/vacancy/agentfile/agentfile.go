// Package agentfile reads agents from Markdown files. The front matter of a file contains the
// settings of the agent, and the body contains its instructions. The package never reads a file
// outside the root and the folder of the agent's file, even if a file includes it.
package agentfile

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vacancy-host/vacancy/cmd/vacancy/nearest"
	"github.com/vacancy-host/vacancy/cmd/vacancy/yamldoc"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/models"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// Options contains settings that are not in the file.
type Options struct {
	// Root is the folder with instructions and rules for all agents, or "".
	Root string
	// Substrate replaces the file's provider, base_url and model, unless it is "".
	Substrate string
	// Program is the program on this machine that runs the agent, or "" if a host runs the agent.
	Program string
}

// The programs on this machine.
const (
	Gemini       = "gemini"
	Claude       = "claude"
	OtherProgram = "other"
)

type File struct {
	Name  string // file name without its extension
	Agent definition.Agent
	// Settings contains the sorted names of the file's settings that Options.Program supports.
	// ApprovalMode is the value of approval_mode, a setting that hosts do not support.
	Settings     []string
	ApprovalMode string
}

// Read reads an agent's file. If PROVIDER/NAME.md exists in the folder of the file, Read reads
// PROVIDER/NAME.md instead. Options.Program takes precedence over the provider in the file.
func Read(file string, o Options) (File, error) {
	dir, name := filepath.Split(file)
	agentFile, err := o.readAgent(filepath.Join(dir, "."), name)
	if err == nil {
		providerFile := filepath.Join(cmp.Or(o.Program, agentFile.Agent.Provider, "."), name)
		if providerFile != name && isRegularFile(filepath.Join(dir, providerFile)) {
			agentFile, err = o.readAgent(filepath.Join(dir, "."), providerFile)
		}
	}
	if err != nil {
		return agentFile, problem.WithPlace(errorKind(err), file, err)
	}
	agentFile.Name = strings.TrimSuffix(filepath.Base(name), filepath.Ext(name))
	return agentFile, nil
}

func errorKind(err error) problem.Kind {
	if errors.Is(err, fs.ErrNotExist) {
		return problem.NotFound
	}
	if k := problem.AsError(err).Kind; k != problem.Internal {
		return k
	}
	return problem.Usage
}

func isRegularFile(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular()
}

type reader struct {
	agentDir, root    *os.Root // folder of the agent's file, and Options.Root or nil
	program           string
	warnings          []string
	supportedSettings []string
	approvalMode      string
}

func (o Options) readAgent(dir, name string) (f File, err error) {
	r := &reader{program: o.Program}
	if r.agentDir, err = os.OpenRoot(dir); err != nil {
		return f, unwrapPathError(err)
	}
	defer r.agentDir.Close()
	if o.Root != "" {
		if r.root, err = os.OpenRoot(o.Root); err != nil {
			return f, unwrapPathError(err)
		}
		defer r.root.Close()
	}
	doc, err := readText(r.agentDir, filepath.ToSlash(name))
	if err != nil {
		return f, unwrapPathError(err)
	}
	front, body, err := splitFrontMatter(doc)
	if err != nil {
		return f, err
	}
	settings, err := yamldoc.ToJSON(front)
	if err != nil {
		return f, err
	}
	a, err := r.parseSettings(settings, o.Substrate)
	if err != nil {
		return f, err
	}
	a.System = r.joinInstructions(cmp.Or(o.Program, a.Provider), filepath.ToSlash(name), body)
	a.Warnings = r.warnings
	return File{Agent: a, Settings: r.supportedSettings, ApprovalMode: r.approvalMode}, a.Check()
}

// unwrapPathError removes the path from an error message, because the caller adds it.
func unwrapPathError(err error) error {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		return &problem.Error{Kind: errorKind(err), Detail: pathError.Err.Error(), Err: err}
	}
	return err
}

func splitFrontMatter(doc []byte) (front, body []byte, err error) {
	doc = bytes.ReplaceAll(canon.TrimByteOrderMark(doc), []byte("\r\n"), []byte("\n"))
	rest, ok := bytes.CutPrefix(doc, []byte("---\n"))
	if ok {
		// The closing line may be the first or the last line after the opening one.
		front, body, ok = bytes.Cut(append([]byte("\n"), rest...), []byte("\n---\n"))
		if !ok {
			front, ok = bytes.CutSuffix(append([]byte("\n"), bytes.TrimRight(rest, "\n")...), []byte("\n---"))
		}
	}
	if !ok {
		return nil, nil, problem.New(problem.Usage, "expected front matter before the text: a line ---, settings such as model: NAME, and a line ---")
	}
	return front, body, nil
}

// settingParsers maps each setting of a front matter to the function that parses it. If the
// function is nil, the value becomes the member of definition.Agent that has the same name.
var settingParsers = map[string]func(r *reader, a jsonObject, key string, value json.RawMessage) error{
	"description": nil, "provider": nil, "base_url": nil, "model": nil, "fallback_model": nil, "max_tokens": nil, "max_turns": nil,
	"timeout": nil, "mode": nil, "tool_log": nil, "secret": nil, "workspace": nil,
	"effort": (*reader).parseEffort, "output_format": (*reader).parseOutputFormat, "memory": (*reader).parseOnOff, "ask": (*reader).parseOnOff,
	"tools": (*reader).parseTools, "allowed_tools": (*reader).parseTools, "disallowed_tools": (*reader).parseList, "vacants": (*reader).parseList,
	"tier":          (*reader).parseTier,
	"include_dirs":  (*reader).parseFolders,
	"lock_paths":    (*reader).parseFolders,
	"approval_mode": (*reader).parseApprovalMode, "budget": (*reader).parseBudget, "daily_budget": (*reader).parseBudget, "price": (*reader).parsePrice,
	"name": (*reader).warnName, "color": (*reader).warnUnused,
	"mcp_servers": (*reader).parseServers,
	"allow":       (*reader).parseList,
	"input":       (*reader).parseInput,
	"omit":        (*reader).parseList,
}

type jsonObject map[string]json.RawMessage

func (r *reader) parseSettings(doc json.RawMessage, override string) (a definition.Agent, err error) {
	var front jsonObject
	if err := json.Unmarshal(doc, &front); err != nil {
		return a, problem.New(problem.Usage, "expected settings such as model: NAME before the text")
	}
	agent := jsonObject{}
	names := make([]string, 0, len(front))
	for key := range front {
		names = append(names, key)
	}
	slices.Sort(names) // warnings have a stable order
	if unknown := slices.DeleteFunc(slices.Clone(names), isSettingName); len(unknown) > 0 {
		return a, unknownKeysError(unknown)
	}
	for _, key := range names {
		parse, isForProgram := settingParsers[key], slices.Contains(programSettings, key)
		if r.program != "" && isForProgram {
			r.supportedSettings = append(r.supportedSettings, key)
		}
		switch {
		case string(front[key]) == "null":
		case r.program != "" && !isForProgram:
			if key != "description" && key != "provider" {
				r.warn("%s: not used, because a program on this machine runs the agent", key)
			}
		case parse == nil:
			agent[key] = front[key]
		default:
			if err := parse(r, agent, key, front[key]); err != nil {
				return a, err
			}
		}
	}
	if override != "" {
		if err := agent.setSubstrate(override); err != nil {
			return a, err
		}
	}
	if r.program != "" {
		r.setProvider(agent)
	}
	if err := agent.chooseTier(); err != nil {
		return a, err
	}
	r.dropUnusedBudgets(agent)
	b, err := json.Marshal(agent)
	if err != nil {
		return a, problem.Wrap(problem.Usage, err, "the settings cannot be encoded as JSON")
	}
	a, err = definition.Parse(b)
	if err != nil {
		return a, problem.WithPlace(problem.Usage, "settings", err)
	}
	if a.Tier != "" {
		return a, nil
	}
	spec, err := a.Spec()
	a.Provider = spec.Kind
	return a, err
}

var programSettings = []string{
	"model", "fallback_model", "tier", "mode", "max_turns", "budget", "effort", "output_format", "approval_mode", "allowed_tools", "tools",
	"disallowed_tools", "include_dirs",
}

// setProvider sets the provider of the program's models, and removes a model of another provider.
func (r *reader) setProvider(m jsonObject) {
	provider, prefix := substrate.KindAnthropic, "claude-"
	switch r.program {
	case Gemini:
		provider, prefix = substrate.KindGemini, "gemini-"
	case OtherProgram:
		prefix = ""
	}
	var model string
	if err := json.Unmarshal(m["model"], &model); err == nil && !strings.Contains(model, prefix) {
		r.warn("model: expected a name with %s, got %.40q; the model of the tier is used", prefix, model)
		delete(m, "model")
	}
	m.set("provider", provider)
}

// chooseTier sets or removes an agent's tier, which selects one of the provider's models. A model
// or base_url in the file overrides the tier.
func (m jsonObject) chooseTier() error {
	provider := ""
	_ = json.Unmarshal(m["provider"], &provider)
	hasTiers := substrate.ProviderHost(provider) != ""
	switch {
	case m["model"] != nil || m["base_url"] != nil || provider != "" && !hasTiers:
		delete(m, "tier")
	case m["tier"] != nil && !hasTiers:
		return &problem.Error{Kind: problem.Usage, Field: "tier", Want: "a model, or a provider (--substrate anthropic, or provider: anthropic)", Got: "only a tier"}
	case m["tier"] == nil && hasTiers:
		m.set("tier", models.Medium)
	}
	return nil
}

func (r *reader) parseTier(a jsonObject, key string, value json.RawMessage) error {
	var text string
	if json.Unmarshal(value, &text) != nil {
		return &problem.Error{Kind: problem.Usage, Field: key, Want: "HIGH, MEDIUM or LOW", Got: fmt.Sprintf("%.40s", value)}
	}
	t := models.Tier(strings.ToUpper(text))
	if !t.IsValid() {
		r.warn("tier: %.40q is unknown; MEDIUM is used", text)
		t = models.Medium
	}
	a.set(key, t)
	return nil
}

func (r *reader) dropUnusedBudgets(m jsonObject) {
	var a definition.Agent
	b, err := json.Marshal(m)
	if err != nil || json.Unmarshal(b, &a) != nil || a.Tier != "" || a.HasCost("") {
		return // definition.Parse reports errors
	}
	for _, key := range []string{"budget", "daily_budget"} {
		if m[key] != nil {
			r.warn("%s: not used, because the model is free", key)
			delete(m, key)
		}
	}
}

func (m jsonObject) setSubstrate(override string) error {
	spec, err := substrate.Parse(override)
	if err != nil {
		return err
	}
	if spec.Argument == "" && substrate.ProviderHost(spec.Kind) != "" { // the tier selects the model
		m.set("provider", spec.Kind)
		delete(m, "base_url")
		delete(m, "model")
		delete(m, "fallback_model")
		return nil
	}
	agent, ok := definition.DefaultAgent(spec)
	if !ok {
		return problem.Invalid("substrate", "the substrate of an agent, as KIND:MODEL", fmt.Sprintf("%.80q", override))
	}
	for key, value := range map[string]string{"provider": agent.Provider, "base_url": agent.BaseURL, "model": agent.Model} {
		if delete(m, key); value != "" {
			m.set(key, value)
		}
	}
	if !spec.IsModel() { // these settings are only for models
		for _, key := range []string{"fallback_model", "max_tokens", "effort", "omit", "budget", "daily_budget", "price"} {
			delete(m, key)
		}
	}
	if spec.DescribeInputs() == "" {
		delete(m, "input")
	}
	if !spec.TakesSecret() {
		delete(m, "secret")
	}
	return nil
}

func (m jsonObject) set(key string, value any) {
	b, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	m[key] = b
}

func (r *reader) warn(format string, args ...any) {
	r.warnings = append(r.warnings, fmt.Sprintf(format, args...))
}

func (r *reader) warnUnused(_ jsonObject, key string, _ json.RawMessage) error {
	r.warn("%s: not used, because no provider of this host supports it", key)
	return nil
}

func (r *reader) parseApprovalMode(_ jsonObject, key string, value json.RawMessage) error {
	if r.program == "" {
		return r.warnUnused(nil, key, value)
	}
	modes := []string{"default", "auto_edit", "yolo", "plan"}
	if json.Unmarshal(value, &r.approvalMode) != nil || !slices.Contains(modes, r.approvalMode) {
		return &problem.Error{Kind: problem.Usage, Field: key, Want: "one of " + strings.Join(modes, ", "), Got: fmt.Sprintf("%.40s", value)}
	}
	return nil
}

// warnName warns about a name in the front matter, which files for other programs contain.
func (r *reader) warnName(_ jsonObject, key string, _ json.RawMessage) error {
	r.warn("%s: not used, because the name of the file is the name of the agent", key)
	return nil
}

func (r *reader) parseBudget(a jsonObject, key string, value json.RawMessage) error {
	m, err := money.Parse(strings.Trim(string(value), `"`))
	if err != nil {
		return &problem.Error{Kind: problem.Usage, Field: key, Want: "dollars with at most six decimals", Got: fmt.Sprintf("%.40s", value)}
	}
	a.set(key, m)
	return nil
}

// parsePrice parses dollars per million tokens, in the form IN/OUT, IN/OUT/CACHED or 0.
func (r *reader) parsePrice(a jsonObject, key string, value json.RawMessage) error {
	parts := strings.Split(strings.Trim(string(value), `"`), "/")
	if len(parts) == 1 && parts[0] == "0" {
		parts = []string{"0", "0"}
	}
	var amounts []money.Amount
	for _, part := range parts {
		m, err := money.Parse(strings.TrimSpace(part))
		if err != nil || len(parts) < 2 || len(parts) > 3 {
			return &problem.Error{Kind: problem.Usage, Field: key, Want: "dollars per million tokens as IN/OUT or IN/OUT/CACHED, such as 3/15/0.3, or 0", Got: fmt.Sprintf("%.40s", value)}
		}
		amounts = append(amounts, m)
	}
	p := models.Price{InputPrice: amounts[0], OutputPrice: amounts[1], CachedPrice: amounts[0]}
	if len(amounts) == 3 {
		p.CachedPrice = amounts[2]
	}
	a.set(key, p)
	return nil
}

func (r *reader) parseEffort(a jsonObject, key string, value json.RawMessage) error {
	if string(value) == `"max"` {
		r.warn("effort: high is used, because the providers of this host do not support max")
		value = json.RawMessage(`"high"`)
	}
	a[key] = value
	return nil
}

func (r *reader) parseOutputFormat(a jsonObject, key string, value json.RawMessage) error {
	if string(value) == `"stream-json"` {
		r.warn("output_format: not used, because stream-json applies to commands and not to answers")
		return nil
	}
	a[key] = value
	return nil
}

func (r *reader) parseOnOff(a jsonObject, key string, value json.RawMessage) error {
	switch string(value) {
	case `"on"`, "true": // the YAML parser treats on and off as strings
		a[key] = json.RawMessage("true")
	case `"off"`, "false":
	default:
		return &problem.Error{Kind: problem.Usage, Field: key, Want: "on or off", Got: fmt.Sprintf("%.40s", value)}
	}
	return nil
}

func (r *reader) parseList(a jsonObject, key string, value json.RawMessage) error {
	items, err := parseItems(key, value)
	if err == nil && len(items) > 0 {
		a.set(key, items)
	}
	return err
}

// parseInput parses media types. It drops "text", because every agent reads the text of messages.
func (r *reader) parseInput(a jsonObject, key string, value json.RawMessage) error {
	mediaTypes, err := parseItems(key, value)
	for i := range mediaTypes {
		mediaTypes[i] = strings.ToLower(mediaTypes[i])
	}
	if mediaTypes = slices.DeleteFunc(mediaTypes, func(s string) bool { return s == "text" }); err == nil && len(mediaTypes) > 0 {
		a.set(key, mediaTypes)
	}
	return err
}

// parseTools parses tools and allowed_tools, which have the same meaning.
func (r *reader) parseTools(a jsonObject, key string, value json.RawMessage) error {
	tools, err := parseItems(key, value)
	if err != nil {
		return err
	}
	var allowed []string
	_ = json.Unmarshal(a["allowed_tools"], &allowed)
	if slices.Contains(tools, "Bash") && r.program == "" {
		r.warn("%s: Bash is not available, because a host does not run commands", key)
	}
	for _, tool := range tools {
		if !slices.Contains(allowed, tool) {
			allowed = append(allowed, tool)
		}
	}
	if len(allowed) > 0 {
		a.set("allowed_tools", allowed)
	}
	return nil
}

// parseServers parses MCP servers by name. A server is a URL, or an object with a URL.
func (r *reader) parseServers(a jsonObject, key string, value json.RawMessage) error {
	var byName jsonObject
	if json.Unmarshal(value, &byName) != nil {
		return &problem.Error{Kind: problem.Usage, Field: key, Want: "servers by name, as NAME: URL", Got: fmt.Sprintf("%.40s", value)}
	}
	var servers []definition.Server
	for name, rawServer := range byName {
		s := definition.Server{Name: name}
		if json.Unmarshal(rawServer, &s.URL) != nil {
			var object jsonObject
			_ = json.Unmarshal(rawServer, &object)
			for member := range object {
				if member != "url" && member != "type" && member != "required" {
					return &problem.Error{Kind: problem.Usage, Field: fmt.Sprintf("%s.%.40s", key, name), Want: "only url and required, because a host does not start programs or send headers", Got: fmt.Sprintf("%.40q", member)}
				}
			}
			_ = json.Unmarshal(object["url"], &s.URL)
			if required := object["required"]; required != nil && json.Unmarshal(required, &s.Required) != nil {
				return &problem.Error{Kind: problem.Usage, Field: fmt.Sprintf("%s.%.40s.required", key, name), Want: "true or false", Got: fmt.Sprintf("%.40s", required)}
			}
		}
		if s.URL == "" {
			return &problem.Error{Kind: problem.Usage, Field: fmt.Sprintf("%s.%.40s", key, name), Want: "a URL", Got: fmt.Sprintf("%.40s", rawServer)}
		}
		servers = append(servers, s)
	}
	slices.SortFunc(servers, func(a, b definition.Server) int { return strings.Compare(a.Name, b.Name) })
	if len(servers) > 0 {
		a.set(key, servers)
	}
	return nil
}

func (r *reader) parseFolders(a jsonObject, key string, value json.RawMessage) error {
	folders, err := parseItems(key, value)
	var usable []string
	for _, folder := range folders {
		isUsable := definition.IsWorkspacePath(folder)
		if isUsable && r.program != "" && r.root != nil {
			_, statErr := r.root.Stat(folder) // also fails if a link leads out of the root
			isUsable = statErr == nil
		}
		if isUsable {
			usable = append(usable, folder)
		} else {
			r.warn("%s: path %s is not used, because it is not below the root", key, folder)
		}
	}
	if len(folders) > 0 && len(usable) == 0 && r.program == "" && key == "include_dirs" && err == nil {
		usable = []string{definition.SharedFolder} // without this folder the agent could read all folders
	}
	if len(usable) > 0 {
		a.set(key, usable)
	}
	return err
}

func parseItems(key string, value json.RawMessage) (items []string, err error) {
	var text string
	if json.Unmarshal(value, &text) == nil {
		for item := range strings.SplitSeq(text, ",") {
			if item = strings.TrimSpace(item); item != "" {
				items = append(items, item)
			}
		}
		return items, nil
	}
	if json.Unmarshal(value, &items) != nil {
		return nil, &problem.Error{Kind: problem.Usage, Field: key, Want: "a list of strings, or one string with commas", Got: fmt.Sprintf("%.40s", value)}
	}
	return items, nil
}

func SettingNames() []string { return slices.Sorted(maps.Keys(settingParsers)) }

func isSettingName(key string) bool {
	_, ok := settingParsers[key]
	return ok
}

const maxUnknownKeys = 10

func unknownKeysError(unknown []string) error {
	quoted, suggestions := make([]string, 0, len(unknown)), []string{}
	for _, key := range unknown[:min(len(unknown), maxUnknownKeys)] {
		quoted = append(quoted, fmt.Sprintf("%.40q", key))
		if suggestion := nearest.Name(key, SettingNames()); suggestion != "" {
			suggestions = append(suggestions, suggestion)
		}
	}
	text := strings.Join(quoted, ", ") + " is not a setting of an agent"
	if len(unknown) > 1 {
		text = strings.Join(quoted, ", ") + " are not settings of an agent"
	}
	if len(suggestions) > 0 {
		text += "; did you mean " + strings.Join(suggestions, ", ") + "?"
	} else {
		text += "; \"vacancy help agent-files\" lists them"
	}
	return &problem.Error{Kind: problem.Usage, Field: fmt.Sprintf("%.40s", unknown[0]), Detail: text}
}

func rootInstructionPaths(provider string) (file, rules string) {
	if provider == "gemini" {
		return ".gemini/SYSTEM.md", ".gemini/rules"
	}
	return ".claude/CLAUDE.md", ".claude/rules"
}

// joinInstructions joins the root's instructions, the agent's own text and the root's rules.
func (r *reader) joinInstructions(provider, name string, body []byte) string {
	var parts []string
	add := func(text string) {
		if text = strings.TrimSpace(text); text != "" {
			parts = append(parts, text)
		}
	}
	file, rules := rootInstructionPaths(provider)
	if r.root != nil {
		if doc, err := readText(r.root, file); err == nil {
			add(r.expandIncludes(r.root, path.Dir(file), doc, []string{file}))
		}
	}
	add(r.expandIncludes(r.agentDir, path.Dir(name), body, []string{name}))
	if r.root != nil {
		ruleFiles, _ := fs.Glob(r.root.FS(), rules+"/*.md") // the pattern is valid
		for _, file := range ruleFiles {
			if doc, err := readText(r.root, file); err == nil {
				add(r.expandIncludes(r.root, rules, doc, []string{file}))
			}
		}
	}
	return strings.Join(parts, "\n\n")
}

const maxIncludeDepth = 8

// expandIncludes replaces each line of the form @PATH by the content of that file. If the file
// cannot be included, a comment gives the reason. includeStack detects a file that includes itself.
func (r *reader) expandIncludes(fromRoot *os.Root, dir string, doc []byte, includeStack []string) string {
	var out strings.Builder
	for line := range strings.Lines(string(doc)) {
		name, ok := strings.CutPrefix(strings.TrimSpace(line), "@")
		if !ok || name == "" || strings.ContainsAny(name, " \t") || strings.Contains(name, "://") || !strings.HasPrefix(line, "@") {
			out.WriteString(line)
			continue
		}
		out.WriteString(r.readInclude(fromRoot, dir, name, includeStack) + "\n")
	}
	return out.String()
}

func (r *reader) readInclude(fromRoot *os.Root, dir, name string, includeStack []string) string {
	skipComment := func(reason string) string {
		return "<!-- @" + strings.ReplaceAll(name, "--", "- -") + ": " + reason + " -->"
	}
	candidates := []struct {
		root *os.Root
		file string
	}{{fromRoot, path.Join(dir, name)}, {r.root, path.Clean(name)}}
	reason := "not found"
	for _, candidate := range candidates {
		switch {
		case candidate.root == nil:
			continue
		case path.IsAbs(name) || !filepath.IsLocal(candidate.file):
			reason = "outside of the root"
			continue
		case slices.Contains(includeStack, candidate.file):
			return skipComment("it includes itself")
		}
		doc, err := readText(candidate.root, candidate.file)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return skipComment("not readable")
		case len(includeStack) > maxIncludeDepth:
			return skipComment(fmt.Sprintf("more than %d files deep", maxIncludeDepth))
		}
		return strings.TrimRight(r.expandIncludes(candidate.root, path.Dir(candidate.file), doc, append(slices.Clone(includeStack), candidate.file)), "\n")
	}
	return skipComment(reason)
}

func readText(root *os.Root, name string) ([]byte, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, yamldoc.MaxBytes+1))
	if err == nil && len(b) > yamldoc.MaxBytes {
		err = problem.New(problem.TooLarge, "%s: expected at most %d bytes", name, yamldoc.MaxBytes)
	}
	return b, err
}

// ApplySettings changes an agent in JSON by settings of the form KEY=VALUE, and returns its next
// version. An empty value resets a setting to its default.
func ApplySettings(agent []byte, settings []string) ([]byte, error) {
	m := jsonObject{}
	if err := json.Unmarshal(agent, &m); err != nil {
		return nil, problem.Wrap(problem.Untrusted, err, "the host's answer is not an agent")
	}
	r := &reader{}
	var unknown []string
	for _, s := range settings {
		if key, value, _ := strings.Cut(s, "="); !isSettingName(key) && key != "system" || key == "mcp_servers" && value != "" {
			unknown = append(unknown, key)
		}
	}
	if len(unknown) > 0 {
		return nil, unknownKeysError(unknown)
	}
	for _, s := range settings {
		key, value, _ := strings.Cut(s, "=")
		parse := settingParsers[key]
		member := key
		if key == "tools" {
			member = "allowed_tools"
		}
		delete(m, member)
		if key == "tier" {
			delete(m, "model")
			delete(m, "base_url")
		}
		switch text, err := json.Marshal(value); {
		case err != nil:
			return nil, problem.Wrap(problem.Usage, err, "%s", key)
		case value == "":
		case parse != nil:
			if err := parse(r, m, key, text); err != nil {
				return nil, err
			}
		case slices.Contains([]string{"max_tokens", "max_turns", "timeout"}, key):
			if m[key] = json.RawMessage(value); !json.Valid(m[key]) {
				return nil, &problem.Error{Kind: problem.Usage, Field: key, Want: "a number", Got: fmt.Sprintf("%.40q", value)}
			}
		default:
			m[key] = text
		}
	}
	b, err := json.Marshal(m)
	if err != nil {
		return nil, problem.Wrap(problem.Usage, err, "the settings cannot be encoded as JSON")
	}
	a, err := definition.Parse(b)
	a.Warnings = append(a.Warnings, r.warnings...)
	return a.Blob(), err
}

func CanSet(key string) bool {
	_, ok := settingParsers[key]
	return ok && key != "name" || key == "system"
}
