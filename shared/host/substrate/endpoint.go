package substrate

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Kinds whose answers come from a URL.
const (
	KindHTTP   = "http"   // also of a bare URL
	KindOpenAI = "openai" // URL#MODEL: a server of one's own that speaks OpenAI's chat completions
	KindOllama = "ollama" // MODEL: OpenAI at OllamaURL
)

// KindMCP is a tool of an MCP server, named by URL#TOOL.
const KindMCP = "mcp"

// KindMock answers by a script instead of a model, whose name may be its argument.
const KindMock = "mock"

// IsModel reports whether the substrate is a model, or plays one.
func (s Spec) IsModel() bool {
	_, _, ok := s.Model()
	return ok || s.Kind == KindMock
}

// OllamaURL is where Ollama listens on the host's own machine.
const OllamaURL = "http://127.0.0.1:11434/v1"

// Model splits the argument of a model's kind into the base URL of its server and
// the model's name. ok is false for another kind, or if a part is missing.
func (s Spec) Model() (base, model string, ok bool) {
	switch s.Kind {
	case KindOpenAI:
		base, model, _ = strings.Cut(s.Argument, "#")
	case KindOllama:
		base, model = OllamaURL, s.Argument
	}
	return base, model, base != "" && model != ""
}

// Endpoint is the one URL that the substrate sends requests to, for the vacant's
// guard and the manifest of a closed child; "" if it sends none.
func (s Spec) Endpoint() string {
	switch s.Kind {
	case KindHTTP:
		return s.Argument
	case KindMCP:
		url, _, _ := strings.Cut(s.Argument, "#")
		return url
	}
	base, _, ok := s.Model()
	if !ok {
		return ""
	}
	u, err := url.Parse(base)
	if err != nil {
		return "" // opening the substrate reports what is wrong
	}
	return u.JoinPath("chat/completions").String()
}

// Family is the name by which substrates are compared as evidence: of a model its
// name, because one model may be at many servers; of another URL its host, because
// one agent may have many paths and ports. "" is unknown.
func (s Spec) Family() string {
	if _, model, ok := s.Model(); ok {
		return "model:" + strings.ToLower(model)
	}
	if s.Kind != KindHTTP && s.Kind != KindMCP {
		return s.String()
	}
	u, err := url.Parse(s.Argument)
	if err != nil {
		return ""
	}
	host := hostOf(u.Hostname())
	if host == "" {
		return ""
	}
	return s.Kind + ":" + host
}

// hostOf is the normal form of a host name; "" if it is not ASCII, which no
// substrate has.
func hostOf(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return ""
	}
	name = strings.TrimSuffix(strings.ToLower(name), ".")
	if a, err := netip.ParseAddr(name); err == nil {
		return a.Unmap().String()
	}
	return name
}

// CheckURL checks the URL of a substrate. The error names the field substrate.
func CheckURL(text string) error {
	u, err := outbound.ParseURL(text)
	if err != nil {
		p := problem.Of(err)
		return &problem.Error{Kind: p.Kind, Field: "substrate", Want: p.Want, Got: p.Got, Err: p.Err}
	}
	if strings.ContainsFunc(u.Hostname(), func(r rune) bool { return r >= utf8.RuneSelf }) {
		// A host must have one spelling, because substrates are compared as
		// evidence.
		return problem.Invalid("substrate", "a host in ASCII, as in xn--bcher-kva.example", fmt.Sprintf("%.80q", u.Hostname()))
	}
	return nil
}
