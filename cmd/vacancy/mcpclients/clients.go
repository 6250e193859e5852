// Package mcpclients adds an MCP server or an ACP agent to the configuration files of clients, such
// as editors. A file keeps its comments, its other content and its mode. Symbolic links and files
// that do not parse are refused. No secret is written: an entry names the environment variable that
// contains the key.
package mcpclients

import (
	"path/filepath"
	"regexp"
	"strings"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

type Entry struct {
	Name string
	// URL is "" if the client must start the server.
	URL     string
	Command string
	Args    []string
	// KeyVariable is the environment variable that contains an account key, or "".
	KeyVariable string
	Env         []Variable
	// Value, if not nil, replaces the other fields except Name.
	Value any
}

type Variable struct{ Name, Value string }

func SafeEntryName(serverName string) string {
	// Some clients accept only letters, digits, _ and - in names.
	return regexp.MustCompile(`[^A-Za-z0-9_-]+`).ReplaceAllString(serverName, "-")
}

// PathParams contains the values that determine the path of a client's file.
type PathParams struct {
	OS         string // runtime.GOOS
	WorkingDir string
	Env        map[string]string
	HomeDir    string
	EntryName  string
}

// Client is a client of MCP or ACP.
type Client struct {
	Name string
	// TablePath is the path of the table of servers in the file.
	TablePath []string
	// The file is JSON with comments unless TOML or Lua is true.
	TOML, Lua bool
	filePath  func(PathParams) string
	// urlMembers is nil if the client can only start servers.
	urlMembers func(url string) []member
	// bearerMember returns the member that sends the key from a variable. It is nil if the client
	// has no such member.
	bearerMember func(variable string) member
	// stdioMembers contains the first members of a started server's entry.
	stdioMembers []member
	// inheritMember returns the member that passes a variable to a started server. It may be nil.
	inheritMember func(variable string) member
	// Scope describes where the file applies, for example "all your projects".
	Scope string
}

// member is a member of an entry. Its value is a bool, a string, a []string or a []member.
type member struct {
	name  string
	value any
}

func membersWithURL(urlMember string, otherMembers any) func(string) []member {
	return func(url string) []member { return append(asMembers(otherMembers), member{urlMember, url}) }
}

func asMembers(v any) []member {
	members, _ := v.([]member)
	return members
}

func bearerHeader(prefix, suffix string) func(string) member {
	return func(variable string) member {
		return member{"headers", []member{{"Authorization", "Bearer " + prefix + variable + suffix}}}
	}
}

func envMember(prefix, suffix string) func(string) member {
	return func(variable string) member { return member{"env", []member{{variable, prefix + variable + suffix}}} }
}

// MCP lists the known clients of MCP. The rows were checked in November 2026 against each client's
// documentation.
var MCP = Clients{
	{
		Name: "claude-code", TablePath: []string{"mcpServers"}, Scope: "the project in this folder",
		filePath:   func(p PathParams) string { return filepath.Join(p.WorkingDir, ".mcp.json") },
		urlMembers: membersWithURL("url", []member{{"type", "http"}}), bearerMember: bearerHeader("${", "}"), stdioMembers: []member{{"type", "stdio"}}, inheritMember: envMember("${", "}"),
	},
	{
		Name: "claude-desktop", TablePath: []string{"mcpServers"}, Scope: "you",
		filePath: func(p PathParams) string { return p.appConfigPath("Claude", "claude_desktop_config.json") },
	},
	{
		Name: "cursor", TablePath: []string{"mcpServers"}, Scope: "all your projects",
		filePath:   func(p PathParams) string { return filepath.Join(p.HomeDir, ".cursor", "mcp.json") },
		urlMembers: membersWithURL("url", nil), bearerMember: bearerHeader("${env:", "}"), stdioMembers: []member{{"type", "stdio"}}, inheritMember: envMember("${env:", "}"),
	},
	{
		// The client's headers cannot contain environment variables (microsoft/vscode#336232).
		Name: "vscode", TablePath: []string{"servers"}, Scope: "your default profile",
		filePath:   func(p PathParams) string { return p.appConfigPath("Code", "User", "mcp.json") },
		urlMembers: membersWithURL("url", []member{{"type", "http"}}), stdioMembers: []member{{"type", "stdio"}}, inheritMember: envMember("${env:", "}"),
	},
	{
		Name: "gemini", TablePath: []string{"mcpServers"}, Scope: "all your projects",
		filePath: func(p PathParams) string { return filepath.Join(p.HomeDir, ".gemini", "settings.json") },
		// The entry must name the variable, because the client hides variables whose names suggest
		// a secret.
		urlMembers: membersWithURL("httpUrl", nil), bearerMember: bearerHeader("$", ""), inheritMember: envMember("$", ""),
	},
	{
		Name: "codex", TablePath: []string{"mcp_servers"}, TOML: true, Scope: "all your projects",
		filePath: func(p PathParams) string {
			if home := p.Env["CODEX_HOME"]; home != "" {
				return filepath.Join(home, "config.toml")
			}
			return filepath.Join(p.HomeDir, ".codex", "config.toml")
		},
		urlMembers: membersWithURL("url", nil), bearerMember: func(v string) member { return member{"bearer_token_env_var", v} },
		inheritMember: func(v string) member { return member{"env_vars", []string{v}} },
	},
	{
		// The client's headers cannot contain variables (zed-industries/zed#60459).
		Name: "zed", TablePath: []string{"context_servers"}, Scope: "you",
		filePath: zedConfigPath, urlMembers: membersWithURL("url", nil),
	},
}

var ACP = Clients{
	{Name: "zed", TablePath: []string{"agent_servers"}, Scope: "you", filePath: zedConfigPath, stdioMembers: []member{{"type", "custom"}}},
	{
		Name: "jetbrains", TablePath: []string{"agent_servers"}, Scope: "you, in each IDE with AI Assistant",
		filePath: func(p PathParams) string { return filepath.Join(p.HomeDir, ".jetbrains", "acp.json") },
	},
	{
		Name: "neovim", Lua: true, Scope: "you, in avante.nvim",
		filePath: func(p PathParams) string {
			config := p.Env["XDG_CONFIG_HOME"]
			switch {
			case p.OS == "windows":
				config = p.Env["LOCALAPPDATA"]
			case config == "":
				config = filepath.Join(p.HomeDir, ".config")
			}
			return filepath.Join(config, "nvim", "lua", "vacancy", p.EntryName+".lua")
		},
		inheritMember: envMember("", ""),
	},
}

// GeminiAgents is the setting of Gemini CLI that lets it load agents.
var GeminiAgents = Client{Name: "gemini", TablePath: []string{"experimental"}}

func zedConfigPath(p PathParams) string {
	switch config := p.Env["XDG_CONFIG_HOME"]; {
	case p.OS == "windows":
		return filepath.Join(p.Env["APPDATA"], "Zed", "settings.json")
	case p.OS == "linux" && config != "":
		return filepath.Join(config, "zed", "settings.json")
	}
	return filepath.Join(p.HomeDir, ".config", "zed", "settings.json")
}

func (p PathParams) appConfigPath(path ...string) string {
	configRoot := []string{p.HomeDir, ".config"}
	switch config := p.Env["XDG_CONFIG_HOME"]; {
	case p.OS == "darwin":
		configRoot = []string{p.HomeDir, "Library", "Application Support"}
	case p.OS == "windows":
		configRoot = []string{p.Env["APPDATA"]}
	case config != "":
		configRoot = []string{config}
	}
	return filepath.Join(append(configRoot, path...)...)
}

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

func (c *Client) Path(p PathParams) string { return c.filePath(p) }

// StartsServer reports whether the client starts the server instead of connecting to its URL.
func (c *Client) StartsServer(e Entry) bool {
	return e.URL == "" || c.urlMembers == nil || e.KeyVariable != "" && c.bearerMember == nil
}

// NamesVariable reports whether the entry contains the variable with the key. Otherwise the client
// itself needs the variable.
func (c *Client) NamesVariable(e Entry) bool {
	if c.StartsServer(e) {
		return c.inheritMember != nil
	}
	return c.bearerMember != nil
}

func (c *Client) entryMembers(e Entry) []member {
	if !c.StartsServer(e) {
		members := c.urlMembers(e.URL)
		if e.KeyVariable != "" {
			members = append(members, c.bearerMember(e.KeyVariable))
		}
		return members
	}
	members := append(append([]member{}, c.stdioMembers...), member{"command", e.Command}, member{"args", e.Args})
	var variables []member
	for _, v := range e.Env {
		variables = append(variables, member{v.Name, v.Value})
	}
	if e.KeyVariable != "" && c.inheritMember != nil {
		inheritedMember := c.inheritMember(e.KeyVariable)
		if inheritedMember.name == "env" {
			variables = append(variables, asMembers(inheritedMember.value)...)
		} else {
			members = append(members, inheritedMember)
		}
	}
	if variables != nil {
		members = append(members, member{"env", variables})
	}
	return members
}

func (c *Client) entryValue(e Entry) any {
	if e.Value != nil {
		return e.Value
	}
	return c.entryMembers(e)
}

func (c *Client) FormatFile(e Entry) string {
	switch {
	case c.TOML:
		return c.formatTOML(e)
	case c.Lua:
		return c.formatLua(e)
	}
	return string(c.formatJSON(e))
}

// Merge adds the entry to the content of a file, or replaces the entry with the same name. The
// error is of kind Usage and names the line.
func (c *Client) Merge(file []byte, e Entry) (merged []byte, replaced bool, err error) {
	content := canon.TrimByteOrderMark(file)
	if len(strings.TrimSpace(string(content))) == 0 {
		return []byte(c.FormatFile(e)), false, nil
	}
	if err := checkDepth(content); err != nil {
		return nil, false, err
	}
	merge := c.mergeJSON
	switch {
	case c.TOML:
		merge = c.mergeTOML
	case c.Lua:
		merge = c.mergeLua
	}
	if merged, replaced, err = merge(content, e); err != nil {
		return nil, false, err
	}
	byteOrderMark := file[: len(file)-len(content) : len(file)-len(content)]
	return append(byteOrderMark, merged...), replaced, nil
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
				return errorAtLine(b, i, "more than %d brackets are open", maxDepth)
			}
		case ']', '}':
			depth--
		}
	}
	return nil
}

func errorAtLine(file []byte, offset int, format string, args ...any) error {
	line := 1 + strings.Count(string(file[:min(offset, len(file))]), "\n")
	return problem.New(problem.Usage, "line %d: "+format, append([]any{line}, args...)...)
}
