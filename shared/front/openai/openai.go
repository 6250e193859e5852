// Package openai has the forms of OpenAI's chat completions: what a request's members mean here,
// and the completions, chunks, models and errors that clients of that API read.
//
// It knows no vacant and makes no call. The invariants: members that decide what is asked are read
// strictly, a member that asks for something an agent cannot promise is refused, and every other
// member is ignored. A text of the caller never becomes a text of the agent's owner.
package openai

import (
	"strings"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// The paths, below a vacant or at the host.
const (
	Base        = "/v1" // of the URLs that clients are given
	Completions = Base + "/chat/completions"
	Models      = "/v1/models"

	responses = "/v1/responses"
)

// others are further paths of OpenAI's API, which this host answers as OpenAI answers an unknown path.
var others = []string{"/v1/chat", responses, "/v1/completions", "/v1/embeddings", "/v1/audio", "/v1/images", "/v1/files", "/v1/moderations"}

// IsPath reports whether a path, below a vacant or at the host, is one of OpenAI's.
func IsPath(path string) bool {
	for _, p := range append([]string{Completions, Models}, others...) {
		if rest, ok := strings.CutPrefix(path, p); ok && (rest == "" || rest[0] == '/') {
			return true
		}
	}
	return false
}

// NotFound is the error for a path that IsPath reports and nothing serves. It does not depend on
// whether a vacant is there.
func NotFound(path string) error {
	if path == responses || strings.HasPrefix(path, responses+"/") {
		return problem.New(problem.NotFound, "this host does not serve the Responses API; send chat completions to …%s", Completions)
	}
	return problem.New(problem.NotFound, "no such vacant or path; a message is POST /v/NAME%s, or POST %s with the vacant's name as model", Completions, Completions)
}
