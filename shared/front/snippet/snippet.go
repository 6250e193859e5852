// Package snippet makes what a host hands out to callers of a vacant: its address, a command and whole
// programs.
//
// The invariant: a snippet has only the vacant's id, its name if that is valid, and the URL of its host,
// quoted for its language. None of the vacant's own texts get into it, because a person runs it.
package snippet

import (
	"embed"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"github.com/vacancy-host/vacancy/shared/front/message"
	"github.com/vacancy-host/vacancy/shared/host/client/agents"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
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

// KeyEnv is the environment variable with the key of an account.
const KeyEnv = "VACANCY_KEY"

// OfCard returns the handout of the vacant with an agent card, at a host.
func OfCard(host, name string, c *agents.Card) Handout {
	use := KeyNever
	switch {
	case !c.Guests:
		use = KeyAlways
	case c.Price > 0:
		use = KeyMay
	}
	return Of(host, name, c.VacantID, use, c.SignedOnly)
}

// curlText begins a command of curl that prints a text on a line of its own: the body of an answer
// is exactly the text of the vacant, which need not end with a newline.
const curlText = `curl -w '\n' `

// CurlText is the command of a shell that sends a text to a URL.
func CurlText(url string) string { return curlText + "-d hi " + ShellWord(url) }

// Of returns the handout of a vacant at a host.
func Of(host, name string, id identity.ID, use KeyUse, signedOnly bool) Handout {
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
		key = `-H "Authorization: Bearer $` + KeyEnv + `" `
	}
	h.Curl = curlText + key + "-d hi " + ShellWord(h.TextURL())
	return h
}

// NameOrID returns the vacant's name in its address: its own, or its id.
func (h Handout) NameOrID() string { return h.name }

// Key returns how callers use a key of an account.
func (h Handout) Key() KeyUse { return h.key }

// TextURL returns the URL that answers a text with a text.
func (h Handout) TextURL() string { return h.Address + "text" }

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

// ShellWord quotes s for a shell, if it needs that.
func ShellWord(s string) string {
	if s != "" && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./:@%+=,") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// Language is a language of programs that call a vacant.
type Language struct {
	Name    string
	Install string // what a program needs; tests/interop runs it with this version. An entry of MCP needs nothing
	run     string // how a person saves and runs it
	quote   func(string) string
}

// Languages returns the languages of programs.
func Languages() []Language { return slices.Clone(languages) }

var languages = []Language{
	{"curl", "curl", `Save it as call.sh, then: sh call.sh "hello"`, ShellWord},
	{"python", "pip install a2a-sdk==1.3.0", `Save it as call.py, then: python3 call.py "hello"`, strconv.QuoteToASCII},
	{"js", "npm install @a2a-js/sdk@1.3.0", `Save it as call.mjs, then: node call.mjs "hello"`, strconv.QuoteToASCII},
	{"go", "go mod init call && go get github.com/a2aproject/a2a-go/v2@v2.4.0 && go mod tidy", `Save it as main.go in a folder of its own, install, then: go run . "hello"`, strconv.QuoteToASCII},
	{"openai", "pip install openai==3.57.0", `Save it as call.py, then: python3 call.py "hello"`, strconv.QuoteToASCII},
	{"mcp", "", "", func(s string) string { return string(canon.AppendString(nil, s)) }},
}

// Each file is the template of a language, by the language's name.
//
//go:embed programs
var programFiles embed.FS

var programs = template.Must(template.ParseFS(programFiles, "programs/*"))

// Program returns a program that calls the vacant of a handout. A program always uses the key in
// KeyEnv, because the vacant may get a price later. An entry of MCP names the key only if calls
// cost money: some clients fail if a variable is not set.
func (l Language) Program(h Handout) (string, error) {
	values := struct {
		Name, Install, Run, Key, Address, Text, OpenAI, MCP string
		Paid                                                bool
	}{h.NameOrID(), l.Install, l.run, KeyEnv, l.quote(h.Address), l.quote(h.TextURL()), l.quote(h.Address + "v1"), l.quote(strings.TrimSuffix(h.Address, "/") + message.MCPPath), h.Key() != KeyNever}
	var b strings.Builder
	err := programs.ExecuteTemplate(&b, l.Name, values)
	return b.String(), err
}
