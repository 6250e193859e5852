package message

import "strings"

// TextPath answers plain text with plain text.
const TextPath = "/text"

const MCPPath = "/mcp"

// SplitPath splits a request path into the vacant that it names and the rest. Several slashes count
// as one, because clients append a path to a base URL that ends with a slash.
func SplitPath(path string) (name, rest string, isVacantPath bool) {
	if name, isVacantPath = strings.CutPrefix(path, "/v/"); !isVacantPath {
		return "", path, false
	}
	name, rest, _ = strings.Cut(name, "/")
	return name, "/" + strings.TrimLeft(rest, "/"), true
}
