package substrate

import (
	"slices"
	"strings"
)

// optional are the members of requests to models that an agent can do without, each with the words
// by which servers name it besides its own name.
var optional = []struct {
	member string
	words  []string
}{
	// OpenAI's chat completions.
	{"response_format", []string{"json_object", "json mode"}},
	{"stream_options", []string{"include_usage"}},
	{"reasoning_effort", []string{"reasoning effort"}},
	{"tool_choice", nil},
	// Anthropic's messages.
	{"output_config", []string{"effort"}},
	// Gemini.
	{"responseMimeType", []string{"json mode", "response mime type"}},
	{"thinkingConfig", []string{"thinking"}},
	// Bedrock.
	{"outputConfig", []string{"effort"}},
}

// OptionalMembers returns the members of requests to models that an agent can do without.
func OptionalMembers() []string {
	names := make([]string, len(optional))
	for i, o := range optional {
		names[i] = o.member
	}
	return names
}

// NamedMembers returns the optional members that an error of a server names.
func NamedMembers(said string) (names []string) {
	said = strings.ToLower(said)
	for _, o := range optional {
		isNamed := func(word string) bool { return strings.Contains(said, strings.ToLower(word)) }
		if isNamed(o.member) || slices.ContainsFunc(o.words, isNamed) {
			names = append(names, o.member)
		}
	}
	return names
}

// Omits reports whether the request to the model leaves out an optional member.
func (r *Request) Omits(member string) bool { return slices.Contains(r.Omit, member) }
