// Package snippet creates the instructions that a host gives to callers of a vacant: its address, a
// command and complete programs.
//
// A snippet contains only the vacant's id, its name if the name is valid, and the URL of its host,
// quoted for the language. It contains no other text of the vacant, because a person will run it.
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

// Handout contains the instructions for callers without an identity.
type Handout struct {
	// Address is the vacant's short URL. It ends with a slash, because some clients resolve paths
	// against it. It is "" if the vacant has no public address.
	Address string `json:"address,omitempty"`
	// Curl is a shell command that calls the vacant, or "" if the vacant answers only signed calls.
	Curl string `json:"curl,omitempty"`

	name   string // name of the vacant, or its id if the name is invalid
	keyUse KeyUse
}

// KeyUse specifies whether callers without an identity need a key of an account.
type KeyUse uint8

const (
	KeyNotNeeded KeyUse = iota // calls are free
	KeyOptional                // a limited number of calls is free; further calls need a key
	KeyRequired                // calls without a key are refused
)

// KeyEnv is the environment variable that contains an account key.
const KeyEnv = "VACANCY_KEY"

func HandoutForCard(host, name string, c *agents.Card) Handout {
	use := KeyNotNeeded
	switch {
	case !c.AcceptsGuests:
		use = KeyRequired
	case c.Price > 0:
		use = KeyOptional
	}
	return NewHandout(host, name, c.VacantID, use, c.RequiresSignature)
}

// curlPrefix is the start of a curl command that prints the answer and a newline. The body of an
// answer is exactly the vacant's text, which may lack a final newline.
const curlPrefix = `curl -w '\n' `

func CurlCommand(url string) string { return curlPrefix + "-d hi " + ShellWord(url) }

func NewHandout(host, name string, id identity.ID, use KeyUse, signedOnly bool) Handout {
	h := Handout{name: id.String(), keyUse: use}
	if registry.CheckNewName(name) == nil { // an older name may be a word that is now reserved
		h.name = name
	}
	h.Address = host + "/v/" + h.name + "/"
	if signedOnly {
		return h
	}
	authHeader := ""
	if use == KeyRequired {
		authHeader = `-H "Authorization: Bearer $` + KeyEnv + `" `
	}
	h.Curl = curlPrefix + authHeader + "-d hi " + ShellWord(h.TextURL())
	return h
}

// NameOrID returns the vacant's name if it is valid, or otherwise its id. Address ends with the
// same string and a slash.
func (h Handout) NameOrID() string { return h.name }

func (h Handout) Key() KeyUse { return h.keyUse }

func (h Handout) TextURL() string { return h.Address + "text" }

// Lines returns the handout for people: a sentence with the address, and the command.
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

// Language is a programming language or client for which Program creates a program.
type Language struct {
	Name string
	// Install is the command that installs the program's dependencies, in the versions with which
	// tests/interop runs the program. It is "curl" for curl, and "" for the configuration of an MCP
	// client.
	Install         string
	runInstructions string // instructions to save and run the program
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

// Program returns a program that calls the vacant of a handout. Programs always use the key in
// KeyEnv, because the vacant may get a price later. The configuration of an MCP client uses the key
// only if calls cost money, because some clients fail if a variable is not set.
func (l Language) Program(h Handout) (string, error) {
	values := struct {
		Name, Install, Run, Key, Address, Text, OpenAI, MCP string
		Paid                                                bool
	}{h.NameOrID(), l.Install, l.runInstructions, KeyEnv, l.quote(h.Address), l.quote(h.TextURL()), l.quote(h.Address + "v1"), l.quote(strings.TrimSuffix(h.Address, "/") + message.MCPPath), h.Key() != KeyNotNeeded}
	var b strings.Builder
	err := programs.ExecuteTemplate(&b, l.Name, values)
	return b.String(), err
}
