// Package openaiwire defines the forms of OpenAI's chat completions and Responses APIs: the members
// of requests, and the answers, events, models and errors that clients read.
//
// The package strictly parses the members that determine the question, refuses members that request
// a feature which an agent cannot guarantee, and ignores all other members. System messages of a
// caller reach the agent as words of the caller, never as instructions of the agent's owner.
package openaiwire

import (
	"net/http"
	"strings"

	"github.com/vacancy-host/vacancy/shared/problem"
)

type API uint8

const (
	Chat      API = iota // chat completions
	Responses            // Responses without stored answers
)

func (api API) messagesMember() string {
	if api == Responses {
		return "input"
	}
	return "messages"
}

const (
	BasePath        = "/v1" // prefix of the base URLs that clients get
	CompletionsPath = BasePath + "/chat/completions"
	ResponsesPath   = BasePath + "/responses"
	ModelsPath      = BasePath + "/models"
)

func APIOf(path string) (api API, ok bool) {
	switch path {
	case CompletionsPath:
		return Chat, true
	case ResponsesPath:
		return Responses, true
	}
	return 0, false
}

// The host answers all paths in these groups in the form of OpenAI's API, even paths that it does
// not serve.
var pathGroups = []string{"/chat", "/responses", "/models", "/completions", "/embeddings", "/audio", "/images", "/files", "/moderations"}

// Clients whose base URL lacks BasePath request unversionedPaths.
var unversionedPaths = []string{"/chat/completions", "/responses", "/models", "/completions", "/embeddings"}

// IsPath reports whether a path, below a vacant or at the host, belongs to OpenAI's API. It also
// accepts the paths that clients with a slightly wrong base URL request.
func IsPath(path string) bool {
	rest := path
	for {
		tail, ok := strings.CutPrefix(rest, BasePath+"/")
		if !ok {
			break
		}
		rest = "/" + tail
	}
	if rest == path {
		for _, p := range unversionedPaths {
			if path == p {
				return true
			}
		}
		return false
	}
	for _, p := range pathGroups {
		if tail, ok := strings.CutPrefix(rest, p); ok && (tail == "" || tail[0] == '/') {
			return true
		}
	}
	return false
}

type codedError struct {
	error
	code string
}

func (c codedError) Unwrap() error { return c.error }

// NotFound returns the error for a path of OpenAI's API that the host does not serve. base is the
// host's base URL.
func NotFound(method, path, base string) error {
	_, isAPIPath := APIOf(path)
	switch {
	case strings.HasPrefix(path, ResponsesPath+"/"):
		return codedError{problem.New(problem.NotFound, "no answer has this id, because answers are not stored; they come with POST %s", ResponsesPath), "not_found"}
	case isAPIPath || path == ModelsPath || strings.HasPrefix(path, ModelsPath+"/"):
		return problem.New(problem.NotFound, "no such vacant or path; a message is POST /v/NAME%s, or POST %s with the vacant's name as model", CompletionsPath, CompletionsPath)
	}
	if method != http.MethodGet && method != http.MethodPost {
		method = "the request"
	}
	return codedError{problem.New(problem.NotFound, "unknown request URL: %s %.80q; clients of OpenAI's API have the base URL %s%s, or %s/v/NAME%s for one vacant, and append /chat/completions, /responses or /models", method, path, base, BasePath, base, BasePath), "unknown_url"}
}
