// Package agentfile reads agents from Markdown files. The front matter of a file contains the
// settings of the agent, and the body contains its instructions.
//
// The package never reads a file outside the root and the folder of the agent's file, even if a
// file includes it. It rejects unknown keys. A requested feature that the host does not support
// becomes a warning of the agent.
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
	// Program is the program on this machine that runs the agent: Gemini, Claude or OtherProgram. It is "" if a host
	// runs the agent.
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
	// If Options.Program is set, Settings contains the sorted names of the file's settings that a program on this machine
	// supports. ApprovalMode is the value of approval_mode, a setting that hosts do not support.
	Settings     []string
	ApprovalMode string
}

// Read reads an agent's file. If the file names a provider and PROVIDER/NAME.md exists in its
// folder, or PROGRAM/NAME.md for a program, Read reads that file instead. Errors name the file and
// the invalid key.
func Read(file string, o Options) (File, error) {
	dir, name := filepath.Split(file)
	f, err := o.read(filepath.Join(dir, "."), name)
	if err == nil {
		own := filepath.Join(cmp.Or(o.Program, f.Agent.Provider, "."), name)
		if own != name && exists(filepath.Join(dir, own)) {
			f, err = o.read(filepath.Join(dir, "."), own)
		}
	}
	if err != nil {
		return f, problem.WithPlace(kindOf(err), file, err)
	}
	f.Name = strings.TrimSuffix(filepath.Base(name), filepath.Ext(name))
	return f, nil
}

func kindOf(err error) problem.Kind {
	if errors.Is(err, fs.ErrNotExist) {
		return problem.NotFound
	}
	if k := problem.AsError(err).Kind; k != problem.Internal {
		return k
	}
	return problem.Usage
}

func exists(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular()
}

type reader struct {
	beside, root *os.Root // folder of the agent's file, and Options.Root (nil if it is empty)
	program      string
	warnings     []string
	settingNames []string // names of the settings for a program
	approval     string   // value of approval_mode
}

func (o Options) read(dir, name string) (f File, err error) {
	r := &reader{program: o.Program}
	if r.beside, err = os.OpenRoot(dir); err != nil {
		return f, unwrapPathError(err)
	}
	defer r.beside.Close()
	if o.Root != "" {
		if r.root, err = os.OpenRoot(o.Root); err != nil {
			return f, unwrapPathError(err)
		}
		defer r.root.Close()
	}
	doc, err := readText(r.beside, filepath.ToSlash(name))
	if err != nil {
		return f, unwrapPathError(err)
	}
	front, persona, err := split(doc)
	if err != nil {
		return f, err
	}
	settings, err := yamldoc.JSON(front)
	if err != nil {
		return f, err
	}
	a, err := r.settings(settings, o.Substrate)
	if err != nil {
		return f, err
	}
	a.System = r.prompt(cmp.Or(o.Program, a.Provider), filepath.ToSlash(name), persona)
	a.Warnings = r.warnings
	return File{Agent: a, Settings: r.settingNames, ApprovalMode: r.approval}, a.Check()
}

// unwrapPathError unwraps the error of a failed file operation, so that the message does not repeat the
// path.
func unwrapPathError(err error) error {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		return &problem.Error{Kind: kindOf(err), Detail: pathError.Err.Error(), Err: err}
	}
	return err
}

func split(doc []byte) (front, body []byte, err error) {
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
		return nil, nil, problem.New(problem.Usage, "expected a line of ---, settings such as model: NAME, and another line of --- before the text")
	}
	return front, body, nil
}

// keys maps each setting of a front matter to the function that parses it. If the function is nil,
// the value becomes the member of definition.Agent that has the same name.
var keys = map[string]func(r *reader, a members, key string, value json.RawMessage) error{
	"description": nil, "provider": nil, "base_url": nil, "model": nil, "fallback_model": nil, "max_tokens": nil, "max_turns": nil,
	"timeout": nil, "mode": nil, "tool_log": nil, "secret": nil, "workspace": nil,
	"effort": (*reader).effort, "output_format": (*reader).format, "memory": (*reader).parseOnOff, "ask": (*reader).parseOnOff,
	"tools": (*reader).parseTools, "allowed_tools": (*reader).parseTools, "disallowed_tools": (*reader).list, "vacants": (*reader).list,
	"tier":          (*reader).tier,
	"include_dirs":  (*reader).folders,
	"lock_paths":    (*reader).folders,
	"approval_mode": (*reader).approvalMode, "budget": (*reader).budget, "daily_budget": (*reader).budget, "price": (*reader).price,
	"name": (*reader).name, "color": (*reader).warnUnused,
	"mcp_servers": (*reader).servers,
	"allow":       (*reader).list,
	"input":       (*reader).input,
	"omit":        (*reader).list,
}

// members maps the names of an agent's JSON members to their values.
type members map[string]json.RawMessage

func (r *reader) settings(doc json.RawMessage, override string) (a definition.Agent, err error) {
	var front members
	if err := json.Unmarshal(doc, &front); err != nil {
		return a, problem.New(problem.Usage, "expected settings such as model: NAME before the text")
	}
	agent := members{}
	names := make([]string, 0, len(front))
	for key := range front {
		names = append(names, key)
	}
	slices.Sort(names) // warnings have a stable order
	if unknown := slices.DeleteFunc(slices.Clone(names), isKey); len(unknown) > 0 {
		return a, unknownKeys(unknown)
	}
	for _, key := range names {
		take, forProgram := keys[key], slices.Contains(programKeys, key)
		if r.program != "" && forProgram {
			r.settingNames = append(r.settingNames, key)
		}
		switch {
		case string(front[key]) == "null":
		case r.program != "" && !forProgram:
			if key != "description" && key != "provider" {
				r.warn("%s: not used, because a program on this machine does the turns", key)
			}
		case take == nil:
			agent[key] = front[key]
		default:
			if err := take(r, agent, key, front[key]); err != nil {
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
	r.dropBudgets(agent)
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

// programKeys lists the settings that a program on this machine supports.
var programKeys = []string{
	"model", "fallback_model", "tier", "mode", "max_turns", "budget", "effort", "output_format", "approval_mode", "allowed_tools", "tools",
	"disallowed_tools", "include_dirs",
}

// setProvider sets the provider whose models a program uses. It removes a model of another provider, so that the tier
// selects the model.
func (r *reader) setProvider(m members) {
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

// chooseTier removes the tier of an agent with a model. A tier (HIGH, MEDIUM or LOW) selects one of
// the provider's models. If the agent has neither a model nor a tier, chooseTier sets MEDIUM for a
// provider with tiers.
func (m members) chooseTier() error {
	provider := ""
	_ = json.Unmarshal(m["provider"], &provider)
	tiered := substrate.ProviderHost(provider) != ""
	switch {
	case m["model"] != nil || m["base_url"] != nil || provider != "" && !tiered:
		delete(m, "tier")
	case m["tier"] != nil && !tiered:
		return &problem.Error{Kind: problem.Usage, Field: "tier", Want: "a model, or a provider (--substrate anthropic, or provider: anthropic)", Got: "only a tier"}
	case m["tier"] == nil && tiered:
		m.set("tier", models.Medium)
	}
	return nil
}

func (r *reader) tier(a members, key string, value json.RawMessage) error {
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

func (r *reader) dropBudgets(m members) {
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

func (m members) setSubstrate(text string) error {
	spec, err := substrate.Parse(text)
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
		return problem.Invalid("substrate", "one of an agent, as KIND:MODEL", fmt.Sprintf("%.80q", text))
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
	if spec.Inputs() == "" {
		delete(m, "input")
	}
	if !spec.TakesSecret() {
		delete(m, "secret")
	}
	return nil
}

func (m members) set(key string, value any) {
	b, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	m[key] = b
}

func (r *reader) warn(format string, args ...any) {
	r.warnings = append(r.warnings, fmt.Sprintf(format, args...))
}

func (r *reader) warnUnused(_ members, key string, _ json.RawMessage) error {
	r.warn("%s: not used, because no provider of this host supports it", key)
	return nil
}

func (r *reader) approvalMode(_ members, key string, value json.RawMessage) error {
	if r.program == "" {
		return r.warnUnused(nil, key, value)
	}
	modes := []string{"default", "auto_edit", "yolo", "plan"}
	if json.Unmarshal(value, &r.approval) != nil || !slices.Contains(modes, r.approval) {
		return &problem.Error{Kind: problem.Usage, Field: key, Want: "one of " + strings.Join(modes, ", "), Got: fmt.Sprintf("%.40s", value)}
	}
	return nil
}

// name warns that the name in the front matter is not used. Files for other programs contain one.
func (r *reader) name(_ members, key string, _ json.RawMessage) error {
	r.warn("%s: not used, because an agent is named by its file", key)
	return nil
}

func (r *reader) budget(a members, key string, value json.RawMessage) error {
	m, err := money.Parse(strings.Trim(string(value), `"`))
	if err != nil {
		return &problem.Error{Kind: problem.Usage, Field: key, Want: "dollars with at most six decimals", Got: fmt.Sprintf("%.40s", value)}
	}
	a.set(key, m)
	return nil
}

// price parses dollars per million tokens, in the form IN/OUT, IN/OUT/CACHED or 0.
func (r *reader) price(a members, key string, value json.RawMessage) error {
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
	p := models.Price{In: amounts[0], Out: amounts[1], Cached: amounts[0]}
	if len(amounts) == 3 {
		p.Cached = amounts[2]
	}
	a.set(key, p)
	return nil
}

func (r *reader) effort(a members, key string, value json.RawMessage) error {
	if string(value) == `"max"` {
		r.warn("effort: high is used, because the providers of this host do not support max")
		value = json.RawMessage(`"high"`)
	}
	a[key] = value
	return nil
}

func (r *reader) format(a members, key string, value json.RawMessage) error {
	if string(value) == `"stream-json"` {
		r.warn("output_format: not used, because stream-json applies to commands and not to answers")
		return nil
	}
	a[key] = value
	return nil
}

func (r *reader) parseOnOff(a members, key string, value json.RawMessage) error {
	switch string(value) {
	case `"on"`, "true": // the YAML parser treats on and off as strings
		a[key] = json.RawMessage("true")
	case `"off"`, "false":
	default:
		return &problem.Error{Kind: problem.Usage, Field: key, Want: "on or off", Got: fmt.Sprintf("%.40s", value)}
	}
	return nil
}

func (r *reader) list(a members, key string, value json.RawMessage) error {
	items, err := listOf(key, value)
	if err == nil && len(items) > 0 {
		a.set(key, items)
	}
	return err
}

// input parses media types. It drops "text", because every agent reads the text of messages.
func (r *reader) input(a members, key string, value json.RawMessage) error {
	kinds, err := listOf(key, value)
	for i := range kinds {
		kinds[i] = strings.ToLower(kinds[i])
	}
	if kinds = slices.DeleteFunc(kinds, func(s string) bool { return s == "text" }); err == nil && len(kinds) > 0 {
		a.set(key, kinds)
	}
	return err
}

// parseTools parses tools and allowed_tools, which have the same meaning.
func (r *reader) parseTools(a members, key string, value json.RawMessage) error {
	tools, err := listOf(key, value)
	if err != nil {
		return err
	}
	var before []string
	_ = json.Unmarshal(a["allowed_tools"], &before)
	if slices.Contains(tools, "Bash") && r.program == "" {
		r.warn("%s: Bash is not offered, because a host runs no commands", key)
	}
	for _, tool := range tools {
		if !slices.Contains(before, tool) {
			before = append(before, tool)
		}
	}
	if len(before) > 0 {
		a.set("allowed_tools", before)
	}
	return nil
}

// servers parses MCP servers by name. Each is a URL, or an object with a URL.
func (r *reader) servers(a members, key string, value json.RawMessage) error {
	var byName members
	if json.Unmarshal(value, &byName) != nil {
		return &problem.Error{Kind: problem.Usage, Field: key, Want: "servers by name, as NAME: URL", Got: fmt.Sprintf("%.40s", value)}
	}
	var servers []definition.Server
	for name, what := range byName {
		s := definition.Server{Name: name}
		if json.Unmarshal(what, &s.URL) != nil {
			var object members
			_ = json.Unmarshal(what, &object)
			for member := range object {
				if member != "url" && member != "type" && member != "required" {
					return &problem.Error{Kind: problem.Usage, Field: fmt.Sprintf("%s.%.40s", key, name), Want: "only url and required: a host starts no programs, and sends no headers yet", Got: fmt.Sprintf("%.40q", member)}
				}
			}
			_ = json.Unmarshal(object["url"], &s.URL)
			if required := object["required"]; required != nil && json.Unmarshal(required, &s.Required) != nil {
				return &problem.Error{Kind: problem.Usage, Field: fmt.Sprintf("%s.%.40s.required", key, name), Want: "true or false", Got: fmt.Sprintf("%.40s", required)}
			}
		}
		if s.URL == "" {
			return &problem.Error{Kind: problem.Usage, Field: fmt.Sprintf("%s.%.40s", key, name), Want: "a URL", Got: fmt.Sprintf("%.40s", what)}
		}
		servers = append(servers, s)
	}
	slices.SortFunc(servers, func(a, b definition.Server) int { return strings.Compare(a.Name, b.Name) })
	if len(servers) > 0 {
		a.set(key, servers)
	}
	return nil
}

func (r *reader) folders(a members, key string, value json.RawMessage) error {
	folders, err := listOf(key, value)
	var kept []string
	for _, folder := range folders {
		isBelow := definition.IsPath(folder)
		if isBelow && r.program != "" && r.root != nil {
			_, missing := r.root.Stat(folder) // also fails if a link leads out of the root
			isBelow = missing == nil
		}
		if isBelow {
			kept = append(kept, folder)
		} else {
			r.warn("%s: %s is not below the root; it is not used", key, folder)
		}
	}
	if len(folders) > 0 && len(kept) == 0 && r.program == "" && key == "include_dirs" && err == nil {
		kept = []string{definition.SharedFolder} // without this folder the agent could read all folders
	}
	if len(kept) > 0 {
		a.set(key, kept)
	}
	return err
}

func listOf(key string, value json.RawMessage) (items []string, err error) {
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
		return nil, &problem.Error{Kind: problem.Usage, Field: key, Want: "a list of texts, or a text with commas", Got: fmt.Sprintf("%.40s", value)}
	}
	return items, nil
}

func Keys() []string { return slices.Sorted(maps.Keys(keys)) }

func isKey(key string) bool {
	_, ok := keys[key]
	return ok
}

// maxUnknown limits the keys that an error names.
const maxUnknown = 10

func unknownKeys(unknown []string) error {
	named, near := make([]string, 0, len(unknown)), []string{}
	for _, key := range unknown[:min(len(unknown), maxUnknown)] {
		named = append(named, fmt.Sprintf("%.40q", key))
		if suggestion := nearest.Name(key, Keys()); suggestion != "" {
			near = append(near, suggestion)
		}
	}
	text := strings.Join(named, ", ") + " is not a setting of an agent"
	if len(unknown) > 1 {
		text = strings.Join(named, ", ") + " are not settings of an agent"
	}
	if len(near) > 0 {
		text += "; did you mean " + strings.Join(near, ", ") + "?"
	} else {
		text += "; \"vacancy help agent-files\" lists them"
	}
	return &problem.Error{Kind: problem.Usage, Field: fmt.Sprintf("%.40s", unknown[0]), Detail: text}
}

func instructions(provider string) (file, rules string) {
	if provider == "gemini" {
		return ".gemini/SYSTEM.md", ".gemini/rules"
	}
	return ".claude/CLAUDE.md", ".claude/rules"
}

// prompt returns the model's instructions: the root's instructions, the agent's own text and the
// root's rules. It omits blank parts.
func (r *reader) prompt(provider, name string, persona []byte) string {
	var parts []string
	add := func(text string) {
		if text = strings.TrimSpace(text); text != "" {
			parts = append(parts, text)
		}
	}
	file, rules := instructions(provider)
	if r.root != nil {
		if doc, err := readText(r.root, file); err == nil {
			add(r.include(r.root, path.Dir(file), doc, []string{file}))
		}
	}
	add(r.include(r.beside, path.Dir(name), persona, []string{name}))
	if r.root != nil {
		ruleFiles, _ := fs.Glob(r.root.FS(), rules+"/*.md") // the pattern is valid
		for _, file := range ruleFiles {
			if doc, err := readText(r.root, file); err == nil {
				add(r.include(r.root, rules, doc, []string{file}))
			}
		}
	}
	return strings.Join(parts, "\n\n")
}

// maxIncludes limits the depth of nested includes.
const maxIncludes = 8

// include replaces each line of the form @PATH by the content of that file. It searches the folder
// of the including file and then the root. If the file cannot be included, a comment gives the
// reason. within lists the files that are being included, to detect a file that includes itself.
func (r *reader) include(in *os.Root, dir string, doc []byte, within []string) string {
	var out strings.Builder
	for line := range strings.Lines(string(doc)) {
		name, ok := strings.CutPrefix(strings.TrimSpace(line), "@")
		if !ok || name == "" || strings.ContainsAny(name, " \t") || strings.Contains(name, "://") || !strings.HasPrefix(line, "@") {
			out.WriteString(line)
			continue
		}
		out.WriteString(r.readInclude(in, dir, name, within) + "\n")
	}
	return out.String()
}

func (r *reader) readInclude(in *os.Root, dir, name string, within []string) string {
	skipped := func(why string) string { return "<!-- @" + strings.ReplaceAll(name, "--", "- -") + ": " + why + " -->" }
	places := []struct {
		root *os.Root
		file string
	}{{in, path.Join(dir, name)}, {r.root, path.Clean(name)}}
	why := "not found"
	for _, place := range places {
		switch {
		case place.root == nil:
			continue
		case path.IsAbs(name) || !filepath.IsLocal(place.file):
			why = "outside of the root"
			continue
		case slices.Contains(within, place.file):
			return skipped("it includes itself")
		}
		doc, err := readText(place.root, place.file)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return skipped("not readable")
		case len(within) > maxIncludes:
			return skipped(fmt.Sprintf("more than %d files deep", maxIncludes))
		}
		return strings.TrimRight(r.include(place.root, path.Dir(place.file), doc, append(slices.Clone(within), place.file)), "\n")
	}
	return skipped(why)
}

func readText(root *os.Root, name string) ([]byte, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, yamldoc.Max+1))
	if err == nil && len(b) > yamldoc.Max {
		err = problem.New(problem.TooLarge, "%s: expected at most %d bytes", name, yamldoc.Max)
	}
	return b, err
}

// Set changes settings of an agent in JSON and returns the agent's next version. Each setting has
// the form KEY=VALUE. Lists are separated by commas, and an empty value resets the setting to its
// default.
func Set(agent []byte, settings []string) ([]byte, error) {
	m := members{}
	if err := json.Unmarshal(agent, &m); err != nil {
		return nil, problem.Wrap(problem.Untrusted, err, "the host's answer is not an agent")
	}
	r := &reader{}
	var unknown []string
	for _, s := range settings {
		if key, value, _ := strings.Cut(s, "="); !isKey(key) && key != "system" || key == "mcp_servers" && value != "" {
			unknown = append(unknown, key)
		}
	}
	if len(unknown) > 0 {
		return nil, unknownKeys(unknown)
	}
	for _, s := range settings {
		key, value, _ := strings.Cut(s, "=")
		take := keys[key]
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
		case take != nil:
			if err := take(r, m, key, text); err != nil {
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

func IsSetting(key string) bool {
	_, ok := keys[key]
	return ok && key != "name" || key == "system"
}
