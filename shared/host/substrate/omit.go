package substrate

import (
	"slices"
	"strings"
)

// optional lists the members of model requests that are omitted if a server rejects them. words are
// other terms for the member in the error messages of servers.
var optional = []struct {
	member string
	words  []string
}{
	// OpenAI chat completions
	{"response_format", []string{"json_object", "json mode"}},
	{"stream_options", []string{"include_usage"}},
	{"reasoning_effort", []string{"reasoning effort"}},
	{"tool_choice", nil},
	// Anthropic messages
	{"output_config", []string{"effort"}},
	// Gemini
	{"responseMimeType", []string{"json mode", "response mime type"}},
	{"thinkingConfig", []string{"thinking"}},
	// Bedrock
	{"outputConfig", []string{"effort"}},
}

func OptionalMembers() []string {
	names := make([]string, len(optional))
	for i, o := range optional {
		names[i] = o.member
	}
	return names
}

// NamedMembers returns the optional members that the error message of a server names.
func NamedMembers(text string) (names []string) {
	text = strings.ToLower(text)
	for _, o := range optional {
		isNamed := func(word string) bool { return strings.Contains(text, strings.ToLower(word)) }
		if isNamed(o.member) || slices.ContainsFunc(o.words, isNamed) {
			names = append(names, o.member)
		}
	}
	return names
}

func (r *Request) Omits(member string) bool { return slices.Contains(r.Omit, member) }
