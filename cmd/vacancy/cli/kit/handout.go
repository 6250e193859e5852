package kit

import (
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/message"
	"github.com/vacancy-host/vacancy/shared/host/client/agents"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Handout tells callers without an identity how they call a vacant.
type Handout struct {
	// Address is the vacant's short URL. It ends with a slash, because some clients resolve
	// paths against it. It is "" for a vacant that answers at no public address.
	Address string `json:"address,omitempty"`
	// Curl is a command of a shell that calls the vacant, or "" if it answers only signed calls.
	Curl string `json:"curl,omitempty"`

	name string
	key  KeyUse
}

// KeyUse tells whether callers without an identity need a key of an account.
type KeyUse uint8

const (
	KeyNever  KeyUse = iota // calls are free
	KeyMay                  // a key pays after the free calls
	KeyAlways               // calls without a key are refused
)

// HandoutOf returns the handout of a vacant. The vacant may be of a foreign host, so the
// handout has only its id, its name if the name is valid, and its host's URL, quoted.
func HandoutOf(v *admin.Vacant) Handout {
	host := hostOfEndpoint(v)
	if host == "" || v.Closed || v.Deleted != "" || v.State.Closed() {
		return Handout{}
	}
	use := KeyNever
	switch {
	case !v.Price.AdmitsGuests():
		use = KeyAlways
	case !v.Price.IsFree():
		use = KeyMay
	}
	return handout(host, v.Name, v.ID, use, v.Plain == string(vacants.PlainOff))
}

// HandoutOfCard returns the handout of the vacant whose card was fetched at a URL that a person
// typed. It has the host of that URL, whatever the card says.
func HandoutOfCard(at string, c *agents.Card) Handout {
	_, name, _ := strings.Cut(strings.TrimRight(at, "/"), "/v/")
	use := KeyNever
	switch {
	case !c.Guests:
		use = KeyAlways
	case c.Price > 0:
		use = KeyMay
	}
	return handout(HostOf(at), name, c.VacantID, use, c.SignedOnly)
}

// curlText begins a command of curl that prints a text on a line of its own: the body of an answer
// is exactly the text of the vacant, which need not end with a newline.
const curlText = `curl -w '\n' `

// CurlText is the command of a shell that sends a text to a URL.
func CurlText(url string) string { return curlText + "-d hi " + ShellWord(url) }

func handout(host, name string, id identity.ID, use KeyUse, signedOnly bool) Handout {
	h := Handout{name: id.String(), key: use}
	if registry.CheckNewName(name) == nil { // an older name may be a reserved word
		h.name = name
	}
	h.Address = host + "/v/" + h.name + "/"
	if signedOnly {
		return h
	}
	key := ""
	if use == KeyAlways {
		key = `-H "Authorization: Bearer $` + AccountKeyEnv + `" `
	}
	h.Curl = curlText + key + "-d hi " + ShellWord(h.TextURL())
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

// Key returns how callers use a key of an account.
func (h Handout) Key() KeyUse { return h.key }

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
