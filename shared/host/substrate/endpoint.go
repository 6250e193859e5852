package substrate

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// KindHTTP is also the kind of a substrate string that consists only of a URL.
const KindHTTP = "http"

// A model's argument is MODEL, or URL#MODEL for another server with the same API.
const (
	KindAnthropic = "anthropic"
	KindBedrock   = "bedrock" // only MODEL
	KindGemini    = "gemini"
	KindMistral   = "mistral"
	KindOllama    = "ollama" // only MODEL
	KindOpenAI    = "openai"
)

func providerURL(kind string) string {
	switch kind {
	case KindAnthropic:
		return "https://api.anthropic.com/v1"
	case KindBedrock:
		// The manifests of closed children contain the URL, so it must be the same in all Regions.
		return "https://bedrock-runtime.amazonaws.com"
	case KindGemini:
		return "https://generativelanguage.googleapis.com/v1beta"
	case KindMistral:
		return "https://api.mistral.ai/v1"
	case KindOllama:
		return OllamaURL
	case KindOpenAI:
		return "https://api.openai.com/v1"
	}
	return ""
}

func ProviderHost(kind string) string {
	if !(Spec{Kind: kind}).NeedsSecret() {
		return ""
	}
	u, err := url.Parse(providerURL(kind))
	if err != nil {
		return ""
	}
	return u.Host
}

// KindMCP has the argument URL#TOOL.
const KindMCP = "mcp"

const KindMock = "mock"

// KindWorker is a separate program. The argument redo=1 permits another worker to repeat a lost
// turn.
const KindWorker = "worker"

const KindLambda = "lambda"

func (s Spec) IsModel() bool {
	_, _, ok := s.Model()
	return ok || s.Kind == KindMock
}

const OllamaURL = "http://127.0.0.1:11434/v1"

// Model returns the base URL of a model's server and the model's name.
func (s Spec) Model() (base, model string, ok bool) {
	base, model = providerURL(s.Kind), s.Argument
	if s.hasURL() {
		base, model, _ = strings.Cut(s.Argument, "#")
	}
	return base, model, base != "" && model != ""
}

func (s Spec) hasURL() bool {
	return s.Kind != KindOllama && s.Kind != KindBedrock && providerURL(s.Kind) != "" && (strings.Contains(s.Argument, "://") || strings.Contains(s.Argument, "#"))
}

func (s Spec) NeedsSecret() bool {
	return s.Kind == KindAnthropic || s.Kind == KindGemini || s.Kind == KindMistral || s.Kind == KindOpenAI && !s.hasURL()
}

// IsPaid reports whether the model costs money unless its agent states another price.
func (s Spec) IsPaid() bool { return s.NeedsSecret() || s.Kind == KindBedrock }

func (s Spec) TakesSecret() bool {
	return s.Kind == KindHTTP || s.Kind != KindOllama && s.Kind != KindBedrock && providerURL(s.Kind) != ""
}

// Endpoint returns the only URL to which the substrate sends requests, or "".
func (s Spec) Endpoint() string {
	switch s.Kind {
	case KindHTTP:
		return s.Argument
	case KindMCP:
		url, _, _ := strings.Cut(s.Argument, "#")
		return url
	case KindLambda:
		m := functionARN.FindStringSubmatch(s.Argument)
		if m == nil {
			return ""
		}
		return "https://lambda." + m[1] + ".amazonaws.com/2015-03-31/functions/" + s.Argument + "/invocations"
	}
	base, model, ok := s.Model()
	if !ok {
		return ""
	}
	u, err := url.Parse(base)
	if err != nil {
		return "" // the constructor of the substrate reports the error
	}
	switch s.Kind {
	case KindAnthropic:
		return u.JoinPath("messages").String()
	case KindBedrock:
		return u.JoinPath("model", model, "converse-stream").String()
	case KindGemini:
		return u.JoinPath("models", model+":streamGenerateContent").String() + "?alt=sse"
	}
	return u.JoinPath("chat/completions").String()
}

var versionSuffix = regexp.MustCompile(`-(latest|0[0-9]{2}|[0-9]{4}|[0-9]{8}|[0-9]{4}-[0-9]{2}-[0-9]{2})$`)

var bedrockModelID = regexp.MustCompile(`^(?:([a-z]{2,6}(?:-[a-z]{3})?)\.)?([a-z0-9]+)\.([a-z0-9][a-z0-9.-]*?)(?:-v[0-9]+(?::[0-9]+)?|:[0-9]+)?$`)

var bedrockVendors = []string{"ai21", "amazon", "anthropic", "cohere", "deepseek", "google", "meta", "minimax", "mistral", "moonshot", "moonshotai", "nvidia", "openai", "qwen", "writer", "zai"}

func IsBedrockModel(name string) bool {
	m := bedrockModelID.FindStringSubmatch(name)
	return m != nil && slices.Contains(bedrockVendors, m[2])
}

func FoundationModel(id string) (model string, isProfile bool) {
	if m := bedrockModelID.FindStringSubmatch(id); m != nil && m[1] != "" && slices.Contains(bedrockVendors, m[2]) {
		return strings.TrimPrefix(id, m[1]+"."), true
	}
	return id, false
}

func BaseModel(name string) string {
	name = strings.ToLower(name)
	if m := bedrockModelID.FindStringSubmatch(name); m != nil && slices.Contains(bedrockVendors, m[2]) {
		name = m[3]
	}
	return versionSuffix.ReplaceAllString(name, "")
}

var functionARN = regexp.MustCompile(`^arn:aws[a-z-]*:lambda:([a-z]{2}(?:-[a-z]+)+-[0-9]+):[0-9]{12}:function:[A-Za-z0-9_-]{1,64}(?::[A-Za-z0-9_$-]{1,128})?$`)

func CheckFunction(arn string) error {
	if !functionARN.MatchString(arn) {
		return problem.Invalid("substrate", "lambda:ARN, such as lambda:arn:aws:lambda:us-east-1:123456789012:function:answers", fmt.Sprintf("%.80q", arn))
	}
	return nil
}

func CheckMCP(argument string) error {
	url, tool, _ := strings.Cut(argument, "#")
	if url == "" || tool == "" || len(tool) > maxToolName {
		return problem.Invalid("substrate", "mcp:URL#TOOL, such as mcp:http://127.0.0.1:8000/mcp#answer", fmt.Sprintf("%.80q", argument))
	}
	return CheckURL(url)
}

// Family returns a name that substrates share if they may give the same answers. Equal families are
// evidence of collusion.
func (s Spec) Family() string {
	if s.Kind == KindWorker {
		return ""
	}
	if _, model, ok := s.Model(); ok {
		return "model:" + BaseModel(model)
	}
	if s.Kind != KindHTTP && s.Kind != KindMCP {
		return s.String()
	}
	u, err := url.Parse(s.Argument)
	if err != nil {
		return ""
	}
	host := outbound.NormalizeHost(u.Hostname())
	if host == "" {
		return ""
	}
	return s.Kind + ":" + host
}

const (
	maxModelName = 256
	maxToolName  = 128
)

func (s Spec) CheckModel() error {
	base, model, ok := s.Model()
	if !ok {
		want := s.Kind + ":MODEL"
		if s.Kind != KindOllama && s.Kind != KindBedrock {
			want += ", or " + s.Kind + ":URL#MODEL, such as " + s.Kind + ":http://127.0.0.1:8000/v1#qwen3"
		}
		return problem.Invalid("substrate", want, fmt.Sprintf("%.80q", s))
	}
	if err := CheckURL(base); err != nil {
		return err
	}
	if strings.Contains(base, "?") {
		return problem.Invalid("substrate", "a URL without a query", fmt.Sprintf("%.80q", base))
	}
	unprintable := func(c rune) bool { return !unicode.IsGraphic(c) || unicode.IsSpace(c) || c == utf8.RuneError }
	if len(model) > maxModelName || strings.ContainsFunc(model, unprintable) {
		return problem.Invalid("substrate", fmt.Sprintf("a model's name of 1 to %d bytes without blanks", maxModelName), fmt.Sprintf("%.80q", model))
	}
	if s.Kind == KindBedrock && !IsBedrockModel(model) {
		return problem.Invalid("substrate", "the id of a model or inference profile at Bedrock, for example amazon.nova-lite-v1:0", fmt.Sprintf("%.80q", model))
	}
	if s.Kind == KindGemini && strings.ContainsAny(model, "/?#%:") { // the name is part of the path
		return problem.Invalid("substrate", "a model's name that is one path segment, for example gemini-2.5-flash", fmt.Sprintf("%.80q", model))
	}
	return nil
}

func CheckURL(text string) error {
	u, err := outbound.ParseURL(text)
	if err != nil {
		p := problem.AsError(err)
		return &problem.Error{Kind: p.Kind, Field: "substrate", Want: p.Want, Got: p.Got, Err: p.Err}
	}
	if strings.ContainsFunc(u.Hostname(), func(r rune) bool { return r >= utf8.RuneSelf }) {
		// A host must have only one spelling, because substrates are compared as evidence.
		return problem.Invalid("substrate", "a host in ASCII, for example xn--bcher-kva.example", fmt.Sprintf("%.80q", u.Hostname()))
	}
	return nil
}
