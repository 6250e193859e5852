// Package definition describes an agent without its vacant's key: the model, the instructions, the
// tools and the limits. A person writes them into an agent's file.
//
// The operator pays for models in Bedrock and for models that are called with a secret. A tenant
// can write its agents, so the price for its vacants comes from the operator's table of models. An
// agent's Price can only raise that price. [Agent.Prices] implements these rules.
package definition

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/vacancy-host/vacancy/shared/host/keys/secrets"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/models"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Agent is the definition of an agent. The zero value of a member means its default.
type Agent struct {
	// Callers see the vacant's capability instead of Description.
	Description string `json:"description,omitempty"`
	// Provider is the kind of the substrate.
	Provider string `json:"provider,omitempty"`
	BaseURL  string `json:"base_url,omitempty"`
	// Model may also be the name of an MCP tool or the ARN of a Lambda function.
	Model string `json:"model,omitempty"`
	// ResolveTier replaces Tier with Model.
	Tier models.Tier `json:"tier,omitempty"`
	// Secret is the name of the secret for the server.
	Secret string `json:"secret,omitempty"`
	// Budget limits the cost of a call, and DailyBudget the cost of a UTC day.
	Budget      *money.Amount `json:"budget,omitempty"`
	DailyBudget *money.Amount `json:"daily_budget,omitempty"`
	Price       *models.Price `json:"price,omitempty"`
	// FallbackModel answers, at the same provider, if Model is overloaded or unavailable.
	FallbackModel string `json:"fallback_model,omitempty"`
	System        string `json:"system,omitempty"`
	MaxTokens     int    `json:"max_tokens,omitempty" canon:"min=1"`
	MaxTurns      int    `json:"max_turns,omitempty" canon:"min=1"`
	// Timeout is in seconds.
	Timeout      int              `json:"timeout,omitempty" canon:"min=1"`
	Effort       substrate.Effort `json:"effort,omitempty" canon:"min=1"`
	OutputFormat Format           `json:"output_format,omitempty" canon:"min=1"`
	// Omit lists the optional members that the model's server rejects.
	Omit   []string `json:"omit,omitempty"`
	Memory bool     `json:"memory,omitempty"`
	// Ask gives the model a tool with which it asks the caller a question.
	Ask bool `json:"ask,omitempty"`
	// Input lists the media types of files that the agent accepts.
	Input   []string `json:"input,omitempty"`
	Mode    Mode     `json:"mode,omitempty" canon:"min=1"`
	ToolLog ToolLog  `json:"tool_log,omitempty" canon:"min=1"`
	// If AllowedTools is empty, all offered tools are allowed. DisallowedTools are always excluded.
	AllowedTools    []string `json:"allowed_tools,omitempty"`
	DisallowedTools []string `json:"disallowed_tools,omitempty"`
	Workspace       string   `json:"workspace,omitempty"`
	// IncludeDirs lists the folders that the agent may read in addition to .vault and LockPaths. If
	// it is empty, all folders are allowed.
	IncludeDirs []string `json:"include_dirs,omitempty"`
	// LockPaths lists the files and folders that the agent's tasks lock. "." is the entire
	// workspace.
	LockPaths []string `json:"lock_paths,omitempty"`
	// Vacants lists the ids of the vacants that the agent may ask. A new agent may also use names.
	Vacants    []string `json:"vacants,omitempty"`
	MCPServers []Server `json:"mcp_servers,omitempty"`
	// Allow lists the substrates that may ever answer, as KIND or KIND:MODEL.
	Allow []string `json:"allow,omitempty"`
	// Warnings lists the settings in the agent's file that this host does not support.
	Warnings []string `json:"warnings,omitempty"`
}

type Server struct {
	// Name has at most 32 characters from a-z A-Z 0-9 _ -.
	Name string `json:"name"`
	URL  string `json:"url"`
	// Required makes a call fail if the server is not available.
	Required bool `json:"required,omitempty"`
}

type Format string

const (
	Text Format = "text"
	JSON Format = "json"
)

type Mode string

const (
	ReadOnly  Mode = "read-only"
	ReadWrite Mode = "read-write"
)

type ToolLog string

// ToolNames stores the names, times and outcomes of tool calls in the log. ToolTexts also stores the
// sealed arguments and results.
const (
	ToolNames ToolLog = "names"
	ToolTexts ToolLog = "texts"
)

const (
	DefaultMaxTurns = 16
	MaxTurns        = 64
	MaxBlobBytes    = 64 << 10 // bytes of the JSON form
	MaxTokens       = 1 << 20
	// DefaultPaidTokens is the default of Agent.MaxTokens if a turn has a cost, because a
	// reservation of money requires a limit.
	DefaultPaidTokens   = 8192
	MaxTimeoutSeconds   = 900 // seconds
	MaxVacants          = 32
	MaxServers          = 8
	MaxInputTypes       = 16
	maxServerNameLength = 32
	maxListLength       = 128 // elements of each other list
	maxPaths            = 16
	maxPathBytes        = 400 // bytes
	maxTextBytes        = 1 << 10
)

// Parse parses and checks the JSON form. It rejects unknown members.
func Parse(data []byte) (a Agent, err error) {
	if len(data) > MaxBlobBytes {
		return a, &problem.Error{Kind: problem.TooLarge, Field: "agent", Want: fmt.Sprintf("at most %d bytes", MaxBlobBytes), Got: strconv.Itoa(len(data))}
	}
	err = canon.Unmarshal(data, &a, canon.Limits{Bytes: MaxBlobBytes, Depth: 3, Keys: 64})
	if err == nil {
		err = a.Check()
	}
	return a, err
}

func (a *Agent) checkMembers() error {
	for _, number := range []struct {
		field   string
		is, max int
	}{{"max_tokens", a.MaxTokens, MaxTokens}, {"max_turns", a.MaxTurns, MaxTurns}, {"timeout", a.Timeout, MaxTimeoutSeconds}} {
		if number.is < 0 || number.is > number.max {
			return problem.Invalid(number.field, fmt.Sprintf("1 to %d", number.max), strconv.Itoa(number.is))
		}
	}
	for _, err := range []error{checkOneOf("effort", a.Effort, substrate.Efforts()...), checkOneOf("output_format", a.OutputFormat, Text, JSON), checkOneOf("mode", a.Mode, ReadOnly, ReadWrite), checkOneOf("tool_log", a.ToolLog, ToolNames, ToolTexts)} {
		if err != nil {
			return err
		}
	}
	for _, list := range []struct {
		field string
		is    []string
		max   int
	}{
		{"allowed_tools", a.AllowedTools, maxListLength}, {"disallowed_tools", a.DisallowedTools, maxListLength}, {"vacants", a.Vacants, MaxVacants},
		{"allow", a.Allow, maxListLength}, {"warnings", a.Warnings, maxListLength}, {"input", a.Input, MaxInputTypes}, {"omit", a.Omit, maxListLength},
		{"include_dirs", a.IncludeDirs, maxPaths}, {"lock_paths", a.LockPaths, maxPaths},
	} {
		if n := len(list.is); n > list.max {
			return problem.Invalid(list.field, fmt.Sprintf("at most %d", list.max), strconv.Itoa(n))
		}
		for i, s := range list.is {
			if canon.IsBlank(s) || len(s) > maxTextBytes || slices.Contains(list.is[:i], s) {
				return problem.Invalid(fmt.Sprintf("%s[%d]", list.field, i), fmt.Sprintf("a unique text of 1 to %d bytes", maxTextBytes), quoteTruncated(s))
			}
		}
	}
	if !workspacePattern.MatchString(a.Workspace) {
		return problem.Invalid("workspace", "1 to 32 of a-z, 0-9, - and _, for example main", quoteTruncated(a.Workspace))
	}
	for i, path := range slices.Concat(a.IncludeDirs, a.LockPaths) {
		if !IsWorkspacePath(path) {
			field := fmt.Sprintf("include_dirs[%d]", i)
			if n := len(a.IncludeDirs); i >= n {
				field = fmt.Sprintf("lock_paths[%d]", i-n)
			}
			return problem.Invalid(field, fmt.Sprintf("a path of at most %d bytes below the workspace, for example src/", maxPathBytes), quoteTruncated(path))
		}
	}
	for i, member := range a.Omit {
		if err := checkOneOf(fmt.Sprintf("omit[%d]", i), member, substrate.OptionalMembers()...); err != nil {
			return err
		}
	}
	if n := len(a.MCPServers); n > MaxServers {
		return problem.Invalid("mcp_servers", fmt.Sprintf("at most %d", MaxServers), strconv.Itoa(n))
	}
	return nil
}

// SharedFolder is the folder that all agents may read and that read-only agents may write to.
const SharedFolder = ".vault/"

var workspacePattern = regexp.MustCompile(`^([a-z0-9][a-z0-9_-]{0,31})?$`)

func IsWorkspacePath(text string) bool {
	// The path "." is the workspace.
	path := strings.TrimSuffix(text, "/")
	return fs.ValidPath(path) && len(path) <= maxPathBytes && !strings.Contains(path, `\`) && !strings.ContainsFunc(path, unicode.IsControl)
}

func checkOneOf[T ~string](field string, value T, choices ...T) error {
	if value == "" || slices.Contains(choices, value) {
		return nil
	}
	names := make([]string, len(choices))
	for i, choice := range choices {
		names[i] = string(choice)
	}
	return problem.Invalid(field, "one of "+strings.Join(names, ", "), quoteTruncated(string(value)))
}

func (a *Agent) checkMoney(spec substrate.Spec) error {
	for _, budget := range []struct {
		field string
		is    *money.Amount
	}{{"budget", a.Budget}, {"daily_budget", a.DailyBudget}} {
		switch {
		case budget.is == nil:
		case *budget.is < 0 || *budget.is > models.MaxBudget:
			return problem.Invalid(budget.field, fmt.Sprintf("0 to %d micro-dollars", models.MaxBudget), strconv.FormatInt(int64(*budget.is), 10))
		case !a.HasCost(""):
			return problem.Invalid(budget.field, "none, because "+spec.Kind+" is free", budget.is.String())
		}
	}
	if a.Price != nil {
		if !spec.IsModel() {
			return problem.Invalid("price", "none, because "+spec.Kind+" is not a model", a.Price.String())
		}
		if err := a.Price.Check(); err != nil {
			return problem.WithPlace(problem.Malformed, "price", err)
		}
	}
	return nil
}

// ResolveTier replaces the agent's tier with the model of that tier in t.
func (a *Agent) ResolveTier(t *models.Table) error {
	if a.Tier == "" {
		return nil
	}
	m, ok := t.FindByTier(a.Provider, a.Tier)
	if !ok {
		return problem.Invalid("tier", "a tier of a model of "+a.Provider+" in the host's table (vacancy models)", string(a.Tier))
	}
	a.Model, a.Tier = m.Name, ""
	return a.Check()
}

func (a *Agent) Check() error {
	if err := a.checkMembers(); err != nil {
		return err
	}
	for _, text := range []struct{ field, text string }{
		{"description", a.Description}, {"provider", a.Provider}, {"base_url", a.BaseURL}, {"model", a.Model}, {"secret", a.Secret}, {"fallback_model", a.FallbackModel}, {"system", a.System},
	} {
		if !utf8.ValidString(text.text) || strings.ContainsRune(text.text, 0) {
			return problem.Invalid(text.field, "UTF-8 without NUL", quoteTruncated(text.text))
		}
		if len(text.text) > maxTextBytes && text.field != "system" && text.field != "description" {
			return problem.Invalid(text.field, fmt.Sprintf("at most %d bytes", maxTextBytes), strconv.Itoa(len(text.text)))
		}
	}
	if err := a.checkServers(); err != nil {
		return err
	}
	if a.Tier != "" {
		if err := a.checkInput(substrate.Spec{Kind: a.Provider}); err != nil {
			return err
		}
		switch {
		case a.Model != "" || a.BaseURL != "":
			return problem.Invalid("tier", "no tier together with model or base_url", string(a.Tier))
		case !(substrate.Spec{Kind: a.Provider}).IsPaid():
			return problem.Invalid("provider", "anthropic, bedrock, gemini, mistral or openai together with a tier", quoteTruncated(a.Provider))
		case !a.Tier.IsValid():
			return problem.Invalid("tier", "HIGH, MEDIUM or LOW", quoteTruncated(string(a.Tier)))
		}
		return nil
	}
	spec, err := a.Spec()
	if err != nil {
		return err
	}
	if err := a.checkInput(spec); err != nil {
		return err
	}
	fallback, hasFallback := a.Fallback()
	for _, s := range []substrate.Spec{spec, fallback} {
		if (hasFallback || s != fallback) && !a.allows(s) {
			return problem.Invalid("allow", "a list that includes the agent's own substrate, for example "+s.Kind, strings.Join(a.Allow, ", "))
		}
	}
	for _, setting := range []struct {
		field string
		given bool
	}{{"fallback_model", a.FallbackModel != ""}, {"max_tokens", a.MaxTokens != 0}, {"effort", a.Effort != ""}, {"omit", len(a.Omit) > 0}, {"ask", a.Ask}} {
		if setting.given && !spec.IsModel() {
			return problem.Invalid(setting.field, "none, because "+spec.Kind+" is not a model", "one")
		}
	}
	if a.Secret != "" && !spec.TakesSecret() {
		return problem.Invalid("secret", "none, because "+spec.Kind+" uses no secret", quoteTruncated(a.Secret))
	}
	if a.Secret != "" {
		if err := secrets.CheckName(a.Secret); err != nil {
			return err
		}
	}
	if err := a.checkMoney(spec); err != nil {
		return err
	}
	if a.Effort != "" && spec.Kind == substrate.KindMistral {
		return problem.Invalid("effort", "none, because mistral has no such setting", string(a.Effort))
	}
	if fallback := providerOfModel(a.FallbackModel); a.Provider == "" && a.BaseURL == "" && hasFallback && fallback != spec.Kind && fallback != substrate.KindOllama {
		return problem.Invalid("fallback_model", "a model of "+spec.Kind+", the provider of model", quoteTruncated(a.FallbackModel))
	}
	if n := len(a.Blob()); n > MaxBlobBytes {
		return &problem.Error{Kind: problem.TooLarge, Field: "agent", Want: fmt.Sprintf("at most %d bytes", MaxBlobBytes), Got: strconv.Itoa(n)}
	}
	return nil
}

var mediaTypePattern = regexp.MustCompile(`^[a-z0-9!#$&^_.+-]{1,127}/[a-z0-9!#$&^_.+-]{1,127}$`)

func (a *Agent) checkInput(spec substrate.Spec) error {
	for i, media := range a.Input {
		field := fmt.Sprintf("input[%d]", i)
		switch accepted := spec.DescribeInputs(); {
		case accepted == "":
			return problem.Invalid(field, "text, because "+spec.Kind+" reads only text", quoteTruncated(media))
		case !mediaTypePattern.MatchString(media):
			return problem.Invalid(field, "a media type in lower case without parameters, such as image/png", quoteTruncated(media))
		case !spec.AcceptsMedia(media):
			return problem.Invalid(field, "a type that "+spec.Kind+" can read: "+accepted, quoteTruncated(media))
		}
	}
	return nil
}

func (a *Agent) allows(s substrate.Spec) bool {
	name := s.Argument
	if _, model, ok := s.Model(); ok {
		name = model
	}
	return len(a.Allow) == 0 || slices.Contains(a.Allow, s.Kind) || slices.Contains(a.Allow, s.Kind+":"+name)
}

func (a *Agent) checkServers() error {
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
	for i, s := range a.MCPServers {
		prefix := fmt.Sprintf("mcp_servers[%d].", i)
		isDuplicate := slices.ContainsFunc(a.MCPServers[:i], func(other Server) bool { return other.Name == s.Name })
		if s.Name == "" || len(s.Name) > maxServerNameLength || strings.Trim(s.Name, allowed) != "" || isDuplicate {
			return problem.Invalid(prefix+"name", fmt.Sprintf("1 to %d of a-z A-Z 0-9 _ -, each once", maxServerNameLength), quoteTruncated(s.Name))
		}
		if err := substrate.CheckURL(s.URL); err != nil {
			e := *problem.AsError(err)
			e.Field = prefix + "url"
			return &e
		}
	}
	return nil
}

func (a *Agent) Spec() (substrate.Spec, error) { return a.specOf(a.Model) }

func (a *Agent) Endpoints() []string {
	urls := a.SecretEndpoints()
	for _, s := range a.MCPServers {
		urls = append(urls, s.URL)
	}
	return urls
}

var SecretKind = secrets.Kind{Name: "secret", Prefix: "secret", DefaultHost: substrate.ProviderHost}

var SecretDocs = SecretKind.Docs()

func (a *Agent) SecretEndpoints() (urls []string) {
	spec, err := a.Spec()
	if err == nil && spec.Endpoint() != "" {
		urls = append(urls, spec.Endpoint())
	}
	if fallback, ok := a.Fallback(); ok && fallback.Endpoint() != spec.Endpoint() {
		urls = append(urls, fallback.Endpoint())
	}
	return urls
}

// SecretName returns the name of the agent's secret. Its default is the provider's name.
func (a *Agent) SecretName() string {
	if spec, err := a.Spec(); a.Secret == "" && err == nil && spec.NeedsSecret() {
		return spec.Kind
	}
	return a.Secret
}

func (a *Agent) Fallback() (s substrate.Spec, ok bool) {
	if a.FallbackModel == "" {
		return s, false
	}
	s, err := a.specOf(a.FallbackModel)
	return s, err == nil
}

func providerOfModel(name string) string {
	switch {
	case substrate.IsBedrockModel(name):
		return substrate.KindBedrock
	// A name with a tag, such as qwen3:8b, is a model of Ollama.
	case strings.Contains(name, ":"):
	case strings.Contains(name, "claude-"):
		return substrate.KindAnthropic
	case strings.Contains(name, "gemini-"):
		return substrate.KindGemini
	// The weights of gpt-oss are open, so it is a model of Ollama.
	case openAIPattern.MatchString(name) && !strings.HasPrefix(name, "gpt-oss"):
		return substrate.KindOpenAI
	case mistralPattern.MatchString(name):
		return substrate.KindMistral
	}
	return substrate.KindOllama
}

var (
	openAIPattern = regexp.MustCompile(`^(gpt-|o[1-9](-|$))`)
	// A name without a version may be a model of Ollama.
	mistralPattern = regexp.MustCompile(`^[a-z]+tral-.*-(latest|[0-9]{4})$`)
)

func (a *Agent) specOf(model string) (s substrate.Spec, err error) {
	s.Kind = a.Provider
	if s.Kind == "" {
		s.Kind = providerOfModel(a.Model)
		if a.BaseURL != "" {
			s.Kind = substrate.KindOpenAI
		}
	}
	required, optional := partsOfKind(s.Kind)
	for _, setting := range []struct {
		field, value string
		wanted, may  bool
	}{{"base_url", a.BaseURL, required.url, optional.url}, {"model", model, required.model, optional.model}} {
		switch {
		case setting.wanted && setting.value == "":
			return s, problem.Invalid(setting.field, "a value for the provider "+quoteTruncated(s.Kind), "none")
		case !setting.wanted && !setting.may && setting.value != "":
			return s, problem.Invalid(setting.field, "none for the provider "+quoteTruncated(s.Kind), quoteTruncated(setting.value))
		}
	}
	switch {
	case s.Kind == substrate.KindHTTP:
		s.Argument = a.BaseURL
	case a.BaseURL == "":
		s.Argument = model
		if (strings.Contains(model, "#") || strings.Contains(model, "://")) && required.model {
			return s, problem.Invalid("model", "a model's name without # and ://", quoteTruncated(model))
		}
	case strings.Contains(a.BaseURL, "#"):
		return s, problem.Invalid("base_url", "a URL without a fragment", quoteTruncated(a.BaseURL))
	default:
		s.Argument = a.BaseURL + "#" + model
	}
	return s, nil
}

type argumentParts struct{ url, model bool }

func partsOfKind(kind string) (required, optional argumentParts) {
	switch kind {
	case substrate.KindAnthropic, substrate.KindGemini, substrate.KindMistral, substrate.KindOpenAI:
		return argumentParts{model: true}, argumentParts{url: true}
	case substrate.KindOllama, substrate.KindBedrock, substrate.KindLambda:
		return argumentParts{model: true}, argumentParts{}
	case substrate.KindHTTP:
		return argumentParts{url: true}, argumentParts{}
	case substrate.KindMCP:
		return argumentParts{true, true}, argumentParts{}
	case substrate.KindMock, substrate.KindWorker:
		return argumentParts{}, argumentParts{model: true}
	}
	return argumentParts{}, argumentParts{}
}

// DefaultAgent returns ok false if no agent can have the substrate.
func DefaultAgent(s substrate.Spec) (a Agent, ok bool) {
	a.Provider = s.Kind
	switch base, model, isModel := s.Model(); {
	case isModel && s.Argument == model:
		a.Model = model
	case isModel:
		a.BaseURL, a.Model = base, model
	case s.Kind == substrate.KindHTTP:
		a.BaseURL = s.Argument
	case s.Kind == substrate.KindMCP:
		a.BaseURL, a.Model, _ = strings.Cut(s.Argument, "#")
	default:
		a.Model = s.Argument
	}
	parsed, err := a.Spec()
	return a, err == nil && parsed == s
}

func (a *Agent) Blob() []byte {
	b, err := json.Marshal(a)
	if err != nil {
		panic(err)
	}
	return b
}

func (a *Agent) Hash() identity.Hash { return identity.Sum(a.Blob()) }

func (a *Agent) TurnLimit() int {
	return cmp.Or(a.MaxTurns, DefaultMaxTurns)
}

func (a *Agent) TimeLimit() time.Duration { return time.Duration(a.Timeout) * time.Second }

const (
	OriginSet     = "set"
	OriginDefault = "default"
)

type Setting struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Origin string `json:"origin"`
}

// Settings returns the effective settings of an agent, except description and system.
func (a *Agent) Settings(tenant string) []Setting {
	spec, _ := a.Spec()
	var settings []Setting
	add := func(name, value, defaultValue string, isSet bool) {
		s := Setting{name, value, OriginSet}
		if !isSet {
			s.Value, s.Origin = defaultValue, OriginDefault
		}
		settings = append(settings, s)
	}
	add("provider", a.Provider, spec.Kind, a.Provider != "")
	if a.BaseURL != "" {
		add("base_url", a.BaseURL, "", true)
	}
	if spec.IsModel() {
		add("model", a.Model, "none", a.Model != "")
		add("fallback_model", a.FallbackModel, "none", a.FallbackModel != "")
		tokenLimit := "the server's"
		if a.HasCost(tenant) {
			tokenLimit = strconv.Itoa(DefaultPaidTokens)
		}
		add("max_tokens", strconv.Itoa(a.MaxTokens), tokenLimit, a.MaxTokens > 0)
		add("effort", string(a.Effort), "the model's", a.Effort != "")
		if len(a.Omit) > 0 {
			add("omit", strings.Join(a.Omit, ", "), "", true)
		}
	}
	if a.HasCost(tenant) {
		formatAmount := func(m *money.Amount) string {
			if m == nil {
				return ""
			}
			return m.String()
		}
		price := ""
		if a.Price != nil {
			price = a.Price.String() + " per million tokens in/out/cached"
			if a.UsesPriceTable(tenant) {
				price = "the host's table of models, at least " + a.Price.String()
			}
		}
		add("price", price, "the host's table of models", price != "")
		add("budget", formatAmount(a.Budget), "none", a.Budget != nil)
		add("daily_budget", formatAmount(a.DailyBudget), money.Dollar.String(), a.DailyBudget != nil)
	}
	if spec.TakesSecret() {
		add("secret", a.Secret, cmp.Or(a.SecretName(), "none"), a.Secret != "")
	}
	add("max_turns", strconv.Itoa(a.MaxTurns), strconv.Itoa(DefaultMaxTurns), a.MaxTurns > 0)
	add("timeout", strconv.Itoa(a.Timeout)+" s", "the host's", a.Timeout > 0)
	add("output_format", string(a.OutputFormat), string(Text), a.OutputFormat != "")
	add("memory", "on", "off", a.Memory)
	if len(a.Input) > 0 {
		add("input", "text, "+strings.Join(a.Input, ", "), "", true)
	}
	add("allow", strings.Join(a.Allow, ", "), spec.Kind, len(a.Allow) > 0)
	add("mode", string(a.Mode), string(ReadOnly), a.Mode != "")
	add("tool_log", string(a.ToolLog), string(ToolNames), a.ToolLog != "")
	add("allowed_tools", strings.Join(a.AllowedTools, ", "), "all", len(a.AllowedTools) > 0)
	add("disallowed_tools", strings.Join(a.DisallowedTools, ", "), "none", len(a.DisallowedTools) > 0)
	for _, list := range []struct {
		name string
		is   []string
	}{{"include_dirs", a.IncludeDirs}, {"lock_paths", a.LockPaths}} {
		if len(list.is) > 0 {
			add(list.name, strings.Join(list.is, ", "), "", true)
		}
	}
	if a.Workspace != "" {
		add("workspace", a.Workspace, "", true)
	}
	vacants := slices.Clone(a.Vacants)
	for i, vacant := range vacants {
		if id, err := identity.ParseID(vacant); err == nil {
			vacants[i] = id.Short()
		}
	}
	add("vacants", strings.Join(vacants, ", "), "none", len(a.Vacants) > 0)
	names := make([]string, len(a.MCPServers))
	for i, s := range a.MCPServers {
		names[i] = s.Name
		if s.Required {
			names[i] += " (required)"
		}
	}
	add("mcp_servers", strings.Join(names, ", "), "none", len(names) > 0)
	return settings
}

func quoteTruncated(s string) string { return fmt.Sprintf("%.80q", s) }
