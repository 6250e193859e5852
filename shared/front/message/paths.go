package message

import "strings"

// TextPath is the path below a vacant that answers a plain text with a plain text.
const TextPath = "/text"

// MCPPath is the path of MCP below a vacant and at the host's own address.
const MCPPath = "/mcp"

// SplitPath splits a request path into the vacant that it names and the path below the vacant.
// Several slashes between the vacant and the rest count as one, because clients append a path to a
// base URL that ends with a slash. isVacantPath is false if the path names no vacant; rest is then
// the complete path.
func SplitPath(path string) (name, rest string, isVacantPath bool) {
	if name, isVacantPath = strings.CutPrefix(path, "/v/"); !isVacantPath {
		return "", path, false
	}
	name, rest, _ = strings.Cut(name, "/")
	return name, "/" + strings.TrimLeft(rest, "/"), true
}
