// Package openaiwire has the forms of OpenAI's chat completions and Responses: what a request's members mean
// here, and the answers, events, models and errors that clients of these APIs read.
//
// It knows no vacant and makes no call. The invariants: members that decide what is asked are read
// strictly, a member that asks for something an agent cannot promise is refused, and every other
// member is ignored. A text of the caller never becomes a text of the agent's owner.
package openaiwire

import (
	"net/http"
	"strings"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// API is a form of requests and answers.
type API uint8

// The APIs.
const (
	Chat      API = iota // chat completions
	Responses            // Responses, without stored answers
)

// messages returns the name of the member with the messages.
func (api API) messages() string {
	if api == Responses {
		return "input"
	}
	return "messages"
}

// The paths, below a vacant or at the host.
const (
	Base          = "/v1" // of the URLs that clients are given
	Completions   = Base + "/chat/completions"
	ResponsesPath = Base + "/responses"
	Models        = Base + "/models"
)

// Of returns the API whose requests are sent to a path.
func Of(path string) (api API, ok bool) {
	switch path {
	case Completions:
		return Chat, true
	case ResponsesPath:
		return Responses, true
	}
	return 0, false
}

// groups are the first segments of the paths of OpenAI's API. This host answers paths that it does not
// serve as OpenAI answers an unknown path.
var groups = []string{"/chat", "/responses", "/models", "/completions", "/embeddings", "/audio", "/images", "/files", "/moderations"}

// unversioned are the paths that a client with a base URL without Base sends its requests to.
var unversioned = []string{"/chat/completions", "/responses", "/models", "/completions", "/embeddings"}

// IsPath reports whether a path, below a vacant or at the host, is one of OpenAI's, or one that a client
// with a slightly wrong base URL uses.
func IsPath(path string) bool {
	rest := path
	for {
		below, ok := strings.CutPrefix(rest, Base+"/")
		if !ok {
			break
		}
		rest = "/" + below
	}
	if rest == path {
		for _, p := range unversioned {
			if path == p {
				return true
			}
		}
		return false
	}
	for _, p := range groups {
		if below, ok := strings.CutPrefix(rest, p); ok && (below == "" || below[0] == '/') {
			return true
		}
	}
	return false
}

// coded is an error with a code of OpenAI's.
type coded struct {
	error
	code string
}

// Unwrap returns the problem.
func (c coded) Unwrap() error { return c.error }

// NotFound is the error for a request whose path IsPath reports and nothing serves. It does not depend on
// whether a vacant is there. base is the URL of the host.
func NotFound(method, path, base string) error {
	_, asked := Of(path)
	switch {
	case strings.HasPrefix(path, ResponsesPath+"/"):
		return coded{problem.New(problem.NotFound, "no answer has this id, because answers are not stored; they come with POST %s", ResponsesPath), "not_found"}
	case asked || path == Models || strings.HasPrefix(path, Models+"/"):
		return problem.New(problem.NotFound, "no such vacant or path; a message is POST /v/NAME%s, or POST %s with the vacant's name as model", Completions, Completions)
	}
	if method != http.MethodGet && method != http.MethodPost {
		method = "the request"
	}
	return coded{problem.New(problem.NotFound, "unknown request URL: %s %.80q; clients of OpenAI's API have the base URL %s%s, or %s/v/NAME%s for one vacant, and append /chat/completions, /responses or /models", method, path, base, Base, base, Base), "unknown_url"}
}
