// Package mcpclients writes the entry of an MCP server into the configuration files of clients: editors and
// assistants. A client is a row of a table.
//
// The invariants: a file keeps its comments, its other content and its mode. A file that does not
// parse, and a symbolic link, is refused and left as it is. A crash leaves the old file or the new
// one. No secret is written: an entry names the environment variable that has the key.
package mcpclients

import (
	"path/filepath"
	"regexp"
	"strings"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// Entry describes a server.
type Entry struct {
	// Name is the entry's name in the file (see NameOf).
	Name string
	// URL is the server over HTTP. It is "" for a server that must be started.
	URL string
	// Command and Args start the server on standard input and output.
	Command string
	Args    []string
	// Variable is the environment variable with the key of an account, or "".
	Variable string
	// Env are other variables of a server that is started, and their values.
	Env []Variable
}

// Variable is a variable of the environment.
type Variable struct{ Name, Value string }

// NameOf returns the name of a server's entry: some clients take only letters, digits, _ and -.
func NameOf(server string) string {
	return regexp.MustCompile(`[^A-Za-z0-9_-]+`).ReplaceAllString(server, "-")
}

// Place tells where files are.
type Place struct {
	OS   string            // as runtime.GOOS
	Dir  string            // the working directory
	Env  map[string]string // HOME, APPDATA, …
	Home string            // the user's home directory
}

// Client is a client of MCP. Its row is from its own documentation.
type Client struct {
	Name string
	// Table is the path of the table of servers in the file.
	Table []string
	// TOML: the file is TOML. Otherwise it is JSON with comments.
	TOML bool
	// file returns the path of the file.
	file func(Place) string
	// http returns the entry of a server over HTTP, or nil if the client starts servers only.
	http func(url string) []field
	// bearer returns the member by which a request has the key in a variable, or nil if the client
	// cannot name a variable there.
	bearer func(variable string) field
	// started begins the entry of a server that is started.
	started []field
	// inherits returns the member by which a started server gets a variable of the client's
	// environment. With nil, it gets the variable without it, or not at all.
	inherits func(variable string) field
	// Scope says for what the file counts.
	Scope string
}

// field is a member of an entry. Its value is a string, a []string or a []field.
type field struct {
	name  string
	value any
}

func one(name string, value any) func(string) []field {
	return func(url string) []field { return append(asFields(value), field{name, url}) }
}

func asFields(v any) []field {
	f, _ := v.([]field)
	return f
}

func header(before, after string) func(string) field {
	return func(variable string) field {
		return field{"headers", []field{{"Authorization", "Bearer " + before + variable + after}}}
	}
}

func env(before, after string) func(string) field {
	return func(variable string) field { return field{"env", []field{{variable, before + variable + after}}} }
}

// clients are the known clients, by name. Checked in November 2026 against the documentation of each; the
// forms that documentation leaves open are from the client's issues.
var clients = []Client{
	{
		Name: "claude-code", Table: []string{"mcpServers"}, Scope: "the project in this folder",
		file: func(p Place) string { return filepath.Join(p.Dir, ".mcp.json") },
		http: one("url", []field{{"type", "http"}}), bearer: header("${", "}"), started: []field{{"type", "stdio"}}, inherits: env("${", "}"),
	},
	{
		Name: "claude-desktop", Table: []string{"mcpServers"}, Scope: "you",
		file: func(p Place) string { return p.application("Claude", "claude_desktop_config.json") },
	},
	{
		Name: "cursor", Table: []string{"mcpServers"}, Scope: "all your projects",
		file: func(p Place) string { return filepath.Join(p.Home, ".cursor", "mcp.json") },
		http: one("url", nil), bearer: header("${env:", "}"), started: []field{{"type", "stdio"}}, inherits: env("${env:", "}"),
	},
	{
		// Its headers take no variables of the environment (microsoft/vscode#336232).
		Name: "vscode", Table: []string{"servers"}, Scope: "your default profile",
		file: func(p Place) string { return p.application("Code", "User", "mcp.json") },
		http: one("url", []field{{"type", "http"}}), started: []field{{"type", "stdio"}}, inherits: env("${env:", "}"),
	},
	{
		Name: "gemini", Table: []string{"mcpServers"}, Scope: "all your projects",
		file: func(p Place) string { return filepath.Join(p.Home, ".gemini", "settings.json") },
		http: one("httpUrl", nil), bearer: header("$", ""), inherits: env("$", ""), // it hides variables with such names otherwise
	},
	{
		Name: "codex", Table: []string{"mcp_servers"}, TOML: true, Scope: "all your projects",
		file: func(p Place) string {
			if home := p.Env["CODEX_HOME"]; home != "" {
				return filepath.Join(home, "config.toml")
			}
			return filepath.Join(p.Home, ".codex", "config.toml")
		},
		http: one("url", nil), bearer: func(v string) field { return field{"bearer_token_env_var", v} },
		inherits: func(v string) field { return field{"env_vars", []string{v}} },
	},
	{
		// Its headers take no variables (zed-industries/zed#60459).
		Name: "zed", Table: []string{"context_servers"}, Scope: "you",
		file: func(p Place) string {
			switch config := p.Env["XDG_CONFIG_HOME"]; {
			case p.OS == "windows":
				return filepath.Join(p.Env["APPDATA"], "Zed", "settings.json")
			case p.OS == "linux" && config != "":
				return filepath.Join(config, "zed", "settings.json")
			}
			return filepath.Join(p.Home, ".config", "zed", "settings.json")
		},
		http: one("url", nil),
	},
}

// application is a file of an application in the folder of the user's settings.
func (p Place) application(path ...string) string {
	root := []string{p.Home, ".config"}
	switch config := p.Env["XDG_CONFIG_HOME"]; {
	case p.OS == "darwin":
		root = []string{p.Home, "Library", "Application Support"}
	case p.OS == "windows":
		root = []string{p.Env["APPDATA"]}
	case config != "":
		root = []string{config}
	}
	return filepath.Join(append(root, path...)...)
}

// Names lists the clients' names.
func Names() (names []string) {
	for i := range clients {
		names = append(names, clients[i].Name)
	}
	return names
}

// Find returns a client by its name.
func Find(name string) (Client, error) {
	for i := range clients {
		if clients[i].Name == name {
			return clients[i], nil
		}
	}
	return Client{}, &problem.Error{Kind: problem.Usage, Field: "--client", Want: strings.Join(Names(), ", "), Got: name}
}

// File returns the path of the client's file.
func (c *Client) File(p Place) string { return c.file(p) }

// Starts reports whether the client starts the server of an entry, instead of asking it by HTTP.
func (c *Client) Starts(e Entry) bool {
	return e.URL == "" || c.http == nil || e.Variable != "" && c.bearer == nil
}

// NamesVariable reports whether the client's entry names the variable with the key. Otherwise the client
// must itself be started with the variable.
func (c *Client) NamesVariable(e Entry) bool {
	if c.Starts(e) {
		return c.inherits != nil
	}
	return c.bearer != nil
}

// fields are the members of an entry.
func (c *Client) fields(e Entry) []field {
	if !c.Starts(e) {
		all := c.http(e.URL)
		if e.Variable != "" {
			all = append(all, c.bearer(e.Variable))
		}
		return all
	}
	all := append(append([]field{}, c.started...), field{"command", e.Command}, field{"args", e.Args})
	var variables []field
	for _, v := range e.Env {
		variables = append(variables, field{v.Name, v.Value})
	}
	if e.Variable != "" && c.inherits != nil {
		f := c.inherits(e.Variable)
		if f.name == "env" {
			variables = append(variables, asFields(f.value)...)
		} else {
			all = append(all, f)
		}
	}
	if variables != nil {
		all = append(all, field{"env", variables})
	}
	return all
}

// Text returns a whole file that has only the entry.
func (c *Client) Text(e Entry) string {
	if c.TOML {
		return c.table(e)
	}
	return string(c.document(e))
}

// Merge returns a file with the entry in place of an entry of the same name. replaced tells whether there was
// one. The error is of kind Usage, and names the line that it is about.
// A byte order mark stays.
func (c *Client) Merge(whole []byte, e Entry) (merged []byte, replaced bool, err error) {
	old := canon.TrimMark(whole)
	if len(strings.TrimSpace(string(old))) == 0 {
		return []byte(c.Text(e)), false, nil
	}
	if err := checkDepth(old); err != nil {
		return nil, false, err
	}
	merge := c.mergeJSON
	if c.TOML {
		merge = c.mergeTOML
	}
	if merged, replaced, err = merge(old, e); err != nil {
		return nil, false, err
	}
	mark := whole[: len(whole)-len(old) : len(whole)-len(old)]
	return append(mark, merged...), replaced, nil
}

// maxDepth bounds the brackets that are open in a file, because parsers are recursive.
const maxDepth = 1000

// checkDepth counts brackets in texts and comments, too: no configuration has so many.
func checkDepth(b []byte) error {
	depth := 0
	for i, c := range b {
		switch c {
		case '[', '{':
			if depth++; depth > maxDepth {
				return atLine(b, i, "more than %d brackets are open", maxDepth)
			}
		case ']', '}':
			depth--
		}
	}
	return nil
}

// atLine is an error about a place in a file.
func atLine(file []byte, offset int, format string, args ...any) error {
	line := 1 + strings.Count(string(file[:min(offset, len(file))]), "\n")
	return problem.New(problem.Usage, "line %d: "+format, append([]any{line}, args...)...)
}
