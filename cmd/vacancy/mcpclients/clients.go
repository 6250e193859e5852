// Package mcpclients adds an MCP server or an ACP agent to the configuration files of clients, such as
// editors and assistants. Each client is a row of a table.
//
// A file keeps its comments, its other content and its mode. The package refuses files that do not
// parse and symbolic links, and leaves them unchanged. After a crash, either the old or the new
// file exists. No secret is written: an entry names the environment variable that contains the key.
package mcpclients

import (
	"path/filepath"
	"regexp"
	"strings"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

type Entry struct {
	// Name is the entry's name in the file (see NameOf).
	Name string
	// URL is the server's URL. It is "" if the server must be started.
	URL string
	// Command and Args start the server on standard input and output.
	Command string
	Args    []string
	// Variable is the environment variable that contains an account key, or "".
	Variable string
	// Env contains further environment variables of a started server.
	Env []Variable
	// Value, if not nil, is the complete value of the entry, and replaces the other fields except
	// Name. For example, it is a bool if the entry is a setting instead of a server.
	Value any
}

// Variable is an environment variable.
type Variable struct{ Name, Value string }

func NameOf(server string) string {
	// Some clients accept only letters, digits, _ and - in names.
	return regexp.MustCompile(`[^A-Za-z0-9_-]+`).ReplaceAllString(server, "-")
}

// Place contains the values from which the path of a client's file is derived.
type Place struct {
	OS   string            // runtime.GOOS
	Dir  string            // working directory
	Env  map[string]string // HOME, APPDATA and others
	Home string            // home directory of the user
	Name string            // name of the entry, for clients that have a file for each entry
}

// Client is a client of MCP or ACP. Its row is based on the client's own documentation.
type Client struct {
	Name string
	// Table is the path of the table of servers in the file.
	Table []string
	// TOML is true if the file is TOML. Lua is true if the file is Lua and contains only the entry.
	// Otherwise the file is JSON with comments.
	TOML, Lua bool
	file      func(Place) string
	// http returns the entry of a server with a URL. It is nil if the client can only start
	// servers.
	http func(url string) []field
	// bearer returns the member that makes the client send the key from an environment variable. It
	// is nil if the client cannot use a variable in a header.
	bearer func(variable string) field
	// started contains the first members of the entry of a started server.
	started []field
	// inherits returns the member that passes a variable of the client's environment to a started
	// server. It is nil if the client passes its whole environment, or cannot pass a variable.
	inherits func(variable string) field
	// Scope describes where the file applies.
	Scope string
}

// field is a member of an entry. Its value is a bool, a string, a []string or a []field.
type field struct {
	name  string
	value any
}

func entry(name string, value any) func(string) []field {
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

// MCP lists the known clients of MCP. The rows were checked in November 2026 against each
// client's documentation. Details that the documentation omits come from the client's issues.
var MCP = Clients{
	{
		Name: "claude-code", Table: []string{"mcpServers"}, Scope: "the project in this folder",
		file: func(p Place) string { return filepath.Join(p.Dir, ".mcp.json") },
		http: entry("url", []field{{"type", "http"}}), bearer: header("${", "}"), started: []field{{"type", "stdio"}}, inherits: env("${", "}"),
	},
	{
		Name: "claude-desktop", Table: []string{"mcpServers"}, Scope: "you",
		file: func(p Place) string { return p.application("Claude", "claude_desktop_config.json") },
	},
	{
		Name: "cursor", Table: []string{"mcpServers"}, Scope: "all your projects",
		file: func(p Place) string { return filepath.Join(p.Home, ".cursor", "mcp.json") },
		http: entry("url", nil), bearer: header("${env:", "}"), started: []field{{"type", "stdio"}}, inherits: env("${env:", "}"),
	},
	{
		// The client's headers cannot contain environment variables (microsoft/vscode#336232).
		Name: "vscode", Table: []string{"servers"}, Scope: "your default profile",
		file: func(p Place) string { return p.application("Code", "User", "mcp.json") },
		http: entry("url", []field{{"type", "http"}}), started: []field{{"type", "stdio"}}, inherits: env("${env:", "}"),
	},
	{
		Name: "gemini", Table: []string{"mcpServers"}, Scope: "all your projects",
		file: func(p Place) string { return filepath.Join(p.Home, ".gemini", "settings.json") },
		// The entry must name the variable, because the client hides variables whose names suggest
		// a secret.
		http: entry("httpUrl", nil), bearer: header("$", ""), inherits: env("$", ""),
	},
	{
		Name: "codex", Table: []string{"mcp_servers"}, TOML: true, Scope: "all your projects",
		file: func(p Place) string {
			if home := p.Env["CODEX_HOME"]; home != "" {
				return filepath.Join(home, "config.toml")
			}
			return filepath.Join(p.Home, ".codex", "config.toml")
		},
		http: entry("url", nil), bearer: func(v string) field { return field{"bearer_token_env_var", v} },
		inherits: func(v string) field { return field{"env_vars", []string{v}} },
	},
	{
		// The client's headers cannot contain variables (zed-industries/zed#60459).
		Name: "zed", Table: []string{"context_servers"}, Scope: "you",
		file: zedFile, http: entry("url", nil),
	},
}

// ACP lists the known clients of ACP. Each client starts its agents itself.
var ACP = Clients{
	{Name: "zed", Table: []string{"agent_servers"}, Scope: "you", file: zedFile, started: []field{{"type", "custom"}}},
	{
		Name: "jetbrains", Table: []string{"agent_servers"}, Scope: "you, in each IDE with AI Assistant",
		file: func(p Place) string { return filepath.Join(p.Home, ".jetbrains", "acp.json") },
	},
	{
		Name: "neovim", Lua: true, Scope: "you, in avante.nvim",
		file: func(p Place) string {
			config := p.Env["XDG_CONFIG_HOME"]
			switch {
			case p.OS == "windows":
				config = p.Env["LOCALAPPDATA"]
			case config == "":
				config = filepath.Join(p.Home, ".config")
			}
			return filepath.Join(config, "nvim", "lua", "vacancy", p.Name+".lua")
		},
		inherits: env("", ""),
	},
}

// GeminiAgents is the setting of Gemini CLI that lets it load agents.
var GeminiAgents = Client{Name: "gemini", Table: []string{"experimental"}}

func zedFile(p Place) string {
	switch config := p.Env["XDG_CONFIG_HOME"]; {
	case p.OS == "windows":
		return filepath.Join(p.Env["APPDATA"], "Zed", "settings.json")
	case p.OS == "linux" && config != "":
		return filepath.Join(config, "zed", "settings.json")
	}
	return filepath.Join(p.Home, ".config", "zed", "settings.json")
}

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

// Clients lists the known clients of one protocol.
type Clients []Client

func (c Clients) Names() (names []string) {
	for i := range c {
		names = append(names, c[i].Name)
	}
	return names
}

func (c Clients) Find(name string) (Client, error) {
	for i := range c {
		if c[i].Name == name {
			return c[i], nil
		}
	}
	return Client{}, &problem.Error{Kind: problem.Usage, Field: "--client", Want: strings.Join(c.Names(), ", "), Got: name}
}

func (c *Client) File(p Place) string { return c.file(p) }

// Starts reports whether the client starts the entry's server instead of connecting to its URL.
func (c *Client) Starts(e Entry) bool {
	return e.URL == "" || c.http == nil || e.Variable != "" && c.bearer == nil
}

// NamesVariable reports whether the client's entry contains the variable with the key. Otherwise
// the client itself must be started with the variable.
func (c *Client) NamesVariable(e Entry) bool {
	if c.Starts(e) {
		return c.inherits != nil
	}
	return c.bearer != nil
}

func (c *Client) fields(e Entry) []field {
	if !c.Starts(e) {
		members := c.http(e.URL)
		if e.Variable != "" {
			members = append(members, c.bearer(e.Variable))
		}
		return members
	}
	members := append(append([]field{}, c.started...), field{"command", e.Command}, field{"args", e.Args})
	var variables []field
	for _, v := range e.Env {
		variables = append(variables, field{v.Name, v.Value})
	}
	if e.Variable != "" && c.inherits != nil {
		f := c.inherits(e.Variable)
		if f.name == "env" {
			variables = append(variables, asFields(f.value)...)
		} else {
			members = append(members, f)
		}
	}
	if variables != nil {
		members = append(members, field{"env", variables})
	}
	return members
}

// value returns the value of an entry.
func (c *Client) value(e Entry) any {
	if e.Value != nil {
		return e.Value
	}
	return c.fields(e)
}

func (c *Client) Text(e Entry) string {
	switch {
	case c.TOML:
		return c.table(e)
	case c.Lua:
		return c.module(e)
	}
	return string(c.document(e))
}

// Merge adds the entry to the content of a file. The entry replaces an entry with the same name;
// replaced reports whether such an entry existed. The error is of kind Usage and names the line of
// the problem. Merge preserves a byte order mark.
func (c *Client) Merge(whole []byte, e Entry) (merged []byte, replaced bool, err error) {
	old := canon.TrimByteOrderMark(whole)
	if len(strings.TrimSpace(string(old))) == 0 {
		return []byte(c.Text(e)), false, nil
	}
	if err := checkDepth(old); err != nil {
		return nil, false, err
	}
	merge := c.mergeJSON
	switch {
	case c.TOML:
		merge = c.mergeTOML
	case c.Lua:
		merge = c.mergeLua
	}
	if merged, replaced, err = merge(old, e); err != nil {
		return nil, false, err
	}
	mark := whole[: len(whole)-len(old) : len(whole)-len(old)]
	return append(mark, merged...), replaced, nil
}

// maxDepth limits the open brackets in a file, because the parsers are recursive.
const maxDepth = 1000

func checkDepth(b []byte) error {
	// Brackets in strings and comments also count. No real configuration has so many.
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

func atLine(file []byte, offset int, format string, args ...any) error {
	line := 1 + strings.Count(string(file[:min(offset, len(file))]), "\n")
	return problem.New(problem.Usage, "line %d: "+format, append([]any{line}, args...)...)
}
