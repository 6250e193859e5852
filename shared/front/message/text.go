package message

import (
	"net/http"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/openai/openaiwire"
)

// TextPath is the path below a vacant that answers a text with a text.
const TextPath = "/text"

// MCPPath is the path of MCP, below a vacant and at the host's own address.
const MCPPath = "/mcp"

// IsMCP reports whether a path is of MCP: the host's server, or a vacant's and its server card.
func IsMCP(path string) bool {
	_, rest, _ := Split(path)
	return rest == MCPPath || strings.HasPrefix(rest, MCPPath+"/")
}

// Split splits the path of a request into the vacant that it names and the path below the
// vacant. The slashes between the two are read as one, because clients append a path to a base
// URL that ends with a slash. below is false for a path that names no vacant.
func Split(path string) (name, rest string, below bool) {
	if name, below = strings.CutPrefix(path, "/v/"); !below {
		return "", path, false
	}
	name, rest, _ = strings.Cut(name, "/")
	return name, "/" + strings.TrimLeft(rest, "/"), true
}

// Refuse answers with an error in the form of the request's address: a line of text at
// TextPath, an error of JSON-RPC at MCPPath, OpenAI's form at a path of its API, else JSON. The
// form does not depend on whether the vacant exists.
func Refuse(w http.ResponseWriter, r *http.Request, err error) {
	_, rest, _ := Split(r.URL.Path)
	rest = strings.TrimSuffix(rest, "/")
	switch {
	case rest == TextPath:
		httpapi.FailLine(w, err)
	case openaiwire.IsPath(rest):
		openaiwire.Fail(w, err)
	case IsMCP(r.URL.Path):
		httpapi.FailRPC(w, nil, err)
	default:
		httpapi.Fail(w, err)
	}
}
