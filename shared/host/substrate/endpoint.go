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

// KindHTTP is an agent at a URL. A substrate string that consists only of a URL also has this kind.
const KindHTTP = "http"

// These kinds are models. The argument is MODEL for the provider's own server, or URL#MODEL for
// another server with the same API.
const (
	KindAnthropic = "anthropic"
	KindBedrock   = "bedrock" // only MODEL, called with the host's AWS credentials
	KindGemini    = "gemini"
	KindMistral   = "mistral"
	KindOllama    = "ollama" // only MODEL, on the host's own machine
	KindOpenAI    = "openai" // with a URL, any server with the API of OpenAI's chat completions
)

func providerURL(kind string) string {
	switch kind {
	case KindAnthropic:
		return "https://api.anthropic.com/v1"
	case KindBedrock:
		// The URL is the same in all Regions, because the manifests of closed children contain it.
		// The AWS SDK sends the requests to the host's own Region.
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

// ProviderHost returns the host of a provider's public API if it requires a secret, or "" for other
// kinds.
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

// KindMCP is a tool of an MCP server. The argument is URL#TOOL.
const KindMCP = "mcp"

// KindMock answers with a script instead of a model. The argument is an optional model name.
const KindMock = "mock"

// KindWorker is a separate program that leases turns from the host. The argument is empty, or
// redo=1 if another worker may repeat a turn that a lost worker had started.
const KindWorker = "worker"

// KindLambda is an AWS Lambda function that follows the agent contract. The argument is its ARN.
const KindLambda = "lambda"

func (s Spec) IsModel() bool {
	_, _, ok := s.Model()
	return ok || s.Kind == KindMock
}

// OllamaURL is the address on which Ollama listens on the host's own machine.
const OllamaURL = "http://127.0.0.1:11434/v1"

// Model splits the argument of a model into the base URL of its server and the model's name. If the
// kind is not a model or a part is missing, ok is false.
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

// NeedsSecret reports whether the server rejects requests without a secret.
func (s Spec) NeedsSecret() bool {
	return s.Kind == KindAnthropic || s.Kind == KindGemini || s.Kind == KindMistral || s.Kind == KindOpenAI && !s.hasURL()
}

// IsPaid reports whether the model costs money unless its agent states another price.
func (s Spec) IsPaid() bool { return s.NeedsSecret() || s.Kind == KindBedrock }

func (s Spec) TakesSecret() bool {
	return s.Kind == KindHTTP || s.Kind != KindOllama && s.Kind != KindBedrock && providerURL(s.Kind) != ""
}

// Endpoint returns the only URL to which the substrate sends requests, or "" if it sends no
// requests. A vacant's guard checks the URL, and the manifest of a closed child contains it.
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
		return "" // opening the substrate reports the error
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

// versionSuffix matches the version suffix of a model's name.
var versionSuffix = regexp.MustCompile(`-(latest|0[0-9]{2}|[0-9]{4}|[0-9]{8}|[0-9]{4}-[0-9]{2}-[0-9]{2})$`)

// bedrockModelID matches the id of a model in Bedrock: an optional area of an inference profile,
// the vendor, the model, and an optional version such as -v1:0.
var bedrockModelID = regexp.MustCompile(`^(?:([a-z]{2,6}(?:-[a-z]{3})?)\.)?([a-z0-9]+)\.([a-z0-9][a-z0-9.-]*?)(?:-v[0-9]+(?::[0-9]+)?|:[0-9]+)?$`)

// bedrockVendors lists the vendors in the ids of Bedrock models.
var bedrockVendors = []string{"ai21", "amazon", "anthropic", "cohere", "deepseek", "google", "meta", "minimax", "mistral", "moonshot", "moonshotai", "nvidia", "openai", "qwen", "writer", "zai"}

func IsBedrockModel(name string) bool {
	m := bedrockModelID.FindStringSubmatch(name)
	return m != nil && slices.Contains(bedrockVendors, m[2])
}

// FoundationModel returns the id of the model behind a Bedrock inference profile. If id is already
// the id of a model, isProfile is false.
func FoundationModel(id string) (model string, isProfile bool) {
	if m := bedrockModelID.FindStringSubmatch(id); m != nil && m[1] != "" && slices.Contains(bedrockVendors, m[2]) {
		return strings.TrimPrefix(id, m[1]+"."), true
	}
	return id, false
}

// BaseModel returns a model's name in lower case without a version suffix such as -latest, -001,
// -2411 or -20260401. For a Bedrock id it returns the name that the vendor uses.
func BaseModel(name string) string {
	name = strings.ToLower(name)
	if m := bedrockModelID.FindStringSubmatch(name); m != nil && slices.Contains(bedrockVendors, m[2]) {
		name = m[3]
	}
	return versionSuffix.ReplaceAllString(name, "")
}

// functionARN matches the ARN of a Lambda function with an optional alias or version.
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
// evidence of collusion. A model's family is its BaseModel, because one model may run on many
// servers. The family of an agent at a URL is the URL's host, because one agent may have many paths
// and ports. Family returns "" for a worker, which may be any program, and for an invalid URL.
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
	maxModelName = 256 // limit for a model's name in bytes
	maxToolName  = 128 // limit for the name of an MCP tool in bytes
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
