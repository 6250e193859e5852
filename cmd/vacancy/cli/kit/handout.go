package kit

import (
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/message"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
)

// Handout tells callers without an identity how they call a vacant.
type Handout struct {
	// Address is the vacant's short URL. It ends with a slash, because some clients resolve
	// paths against it. It is "" for a vacant that answers at no public address.
	Address string `json:"address,omitempty"`
	// Curl is a command of a shell that calls the vacant, or "" if it answers only signed calls.
	Curl string `json:"curl,omitempty"`

	name  string
	keyed bool // callers need a key of an account
}

// HandoutOf returns the handout of a vacant. The vacant may be of a foreign host, so the
// handout has only its id, its name if the name is valid, and its host's URL, quoted.
func HandoutOf(v *admin.Vacant) Handout {
	host := hostOfEndpoint(v)
	if host == "" || v.Closed || v.Deleted != "" || v.State.Closed() {
		return Handout{}
	}
	h := Handout{name: v.ID.String(), keyed: !v.Price.AdmitsGuests()}
	if registry.CheckNewName(v.Name) == nil { // an older name may be a reserved word
		h.name = v.Name
	}
	h.Address = host + "/v/" + h.name + "/"
	if v.Plain == string(vacants.PlainOff) {
		return h
	}
	key := ""
	if h.keyed {
		key = `-H "Authorization: Bearer $` + AccountKeyEnv + `" `
	}
	h.Curl = "curl " + key + "-d hi " + ShellWord(h.TextURL())
	return h
}

// hostOfEndpoint returns the URL of the host that a vacant's endpoint names, in printable ASCII,
// or "" if the endpoint is not a URL of this vacant.
func hostOfEndpoint(v *admin.Vacant) string {
	base, ok := strings.CutSuffix(v.Endpoint, "/v/"+v.ID.String()+"/a2a/message/send")
	u, err := url.Parse(base)
	if !ok || err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return ""
	}
	if base = u.String(); strings.ContainsFunc(base, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return ""
	}
	return base
}

// NameOrID returns the vacant's name in its address: its own, or its id.
func (h Handout) NameOrID() string { return h.name }

// NeedsKey reports whether callers need a key of an account.
func (h Handout) NeedsKey() bool { return h.keyed }

// TextURL returns the URL that answers a text with a text.
func (h Handout) TextURL() string { return h.Address + "text" }

// OpenAIURL returns the base URL for clients of OpenAI's API.
func (h Handout) OpenAIURL() string { return h.Address + "v1" }

// MCPURL returns the URL of the MCP server.
func (h Handout) MCPURL() string { return strings.TrimSuffix(h.Address, "/") + message.MCPPath }

// Lines are the handout for people: a sentence with the address, and the command.
func (h Handout) Lines() (lines []string) {
	if h.Address == "" {
		return nil
	}
	lines = append(lines, fmt.Sprintf("Callers reach %s at %s", h.name, ShellWord(h.Address)))
	if h.Curl != "" {
		lines = append(lines, "  "+h.Curl)
	}
	return lines
}

// Print writes the lines.
func (h Handout) Print(w io.Writer) {
	for _, line := range h.Lines() {
		fmt.Fprintln(w, line)
	}
}
