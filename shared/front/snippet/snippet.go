// Package snippet creates the instructions that a host gives to callers of a vacant. A person will
// run a snippet, so it contains only the vacant's id, its valid name and the host's URL, quoted for
// the language.
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

type Handout struct {
	// Address is the vacant's short URL, or "". It ends with a slash, because some clients resolve
	// paths against it.
	Address string `json:"address,omitempty"`
	// Curl is "" if the vacant answers only signed calls.
	Curl string `json:"curl,omitempty"`

	name   string // id if the vacant's name is invalid
	keyUse KeyUse
}

type KeyUse uint8

const (
	KeyNotNeeded KeyUse = iota
	KeyOptional         // a limited number of calls is free
	KeyRequired
)

const KeyEnv = "VACANCY_KEY"

func HandoutForCard(host, name string, c *agents.Card) Handout {
	keyUse := KeyNotNeeded
	switch {
	case !c.AcceptsGuests:
		keyUse = KeyRequired
	case c.MaxCharge > 0:
		keyUse = KeyOptional
	}
	return NewHandout(host, name, c.VacantID, keyUse, c.RequiresSignature)
}

// The answer may lack a final newline, so curl prints one.
const curlPrefix = `curl -w '\n' `

func CurlCommand(url string) string { return curlPrefix + "-d hi " + ShellWord(url) }

func NewHandout(host, name string, id identity.ID, keyUse KeyUse, signedOnly bool) Handout {
	h := Handout{name: id.String(), keyUse: keyUse}
	if registry.CheckNewName(name) == nil { // an older name may be a word that is now reserved
		h.name = name
	}
	h.Address = host + "/v/" + h.name + "/"
	if signedOnly {
		return h
	}
	authHeader := ""
	if keyUse == KeyRequired {
		authHeader = `-H "Authorization: Bearer $` + KeyEnv + `" `
	}
	h.Curl = curlPrefix + authHeader + "-d hi " + ShellWord(h.TextURL())
	return h
}

func (h Handout) NameOrID() string { return h.name }

func (h Handout) Key() KeyUse { return h.keyUse }

func (h Handout) TextURL() string { return h.Address + "text" }

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

func (h Handout) Print(w io.Writer) {
	for _, line := range h.Lines() {
		fmt.Fprintln(w, line)
	}
}

func ShellWord(s string) string {
	if s != "" && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./:@%+=,") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

type Language struct {
	Name string
	// Install is the command that installs the program's dependencies, or "".
	Install         string
	runInstructions string
	quote           func(string) string
}

func Languages() []Language { return slices.Clone(languages) }

var languages = []Language{
	{"curl", "curl", `Save it as call.sh, then: sh call.sh "hello"`, ShellWord},
	{"python", "pip install a2a-sdk==1.3.0", `Save it as call.py, then: python3 call.py "hello"`, strconv.QuoteToASCII},
	{"js", "npm install @a2a-js/sdk@1.3.0", `Save it as call.mjs, then: node call.mjs "hello"`, strconv.QuoteToASCII},
	{"go", "go mod init call && go get github.com/a2aproject/a2a-go/v2@v2.4.0 && go mod tidy", `Save it as main.go in a folder of its own, install, then: go run . "hello"`, strconv.QuoteToASCII},
	{"openai", "pip install openai==3.57.0", `Save it as call.py, then: python3 call.py "hello"`, strconv.QuoteToASCII},
	{"mcp", "", "", func(s string) string { return string(canon.AppendString(nil, s)) }},
}

// programFiles contains a template for each language. A file has the name of its language.
//
//go:embed programs
var programFiles embed.FS

var programs = template.Must(template.ParseFS(programFiles, "programs/*"))

// Program returns a program that calls the vacant of a handout. Some MCP clients fail if a variable
// is not set, so their configuration uses KeyEnv only if calls cost money.
func (l Language) Program(h Handout) (string, error) {
	values := struct {
		Name, Install, Run, Key, Address, Text, OpenAI, MCP string
		Paid                                                bool
	}{h.NameOrID(), l.Install, l.runInstructions, KeyEnv, l.quote(h.Address), l.quote(h.TextURL()), l.quote(h.Address + "v1"), l.quote(strings.TrimSuffix(h.Address, "/") + message.MCPPath), h.Key() != KeyNotNeeded}
	var b strings.Builder
	err := programs.ExecuteTemplate(&b, l.Name, values)
	return b.String(), err
}
