package substrate

import (
	"slices"
	"strings"
)

// memberTerms lists the optional members of model requests, and other words that servers use for
// them in errors.
var memberTerms = []struct {
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
	names := make([]string, len(memberTerms))
	for i, o := range memberTerms {
		names[i] = o.member
	}
	return names
}

func FindNamedMembers(text string) (names []string) {
	text = strings.ToLower(text)
	for _, o := range memberTerms {
		isNamed := func(word string) bool { return strings.Contains(text, strings.ToLower(word)) }
		if isNamed(o.member) || slices.ContainsFunc(o.words, isNamed) {
			names = append(names, o.member)
		}
	}
	return names
}

func (r *Request) Omits(member string) bool { return slices.Contains(r.Omit, member) }
