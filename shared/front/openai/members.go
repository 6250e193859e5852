package openai

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// Rule tells how Decode treats a member.
type Rule string

// The rules.
const (
	Counts  Rule = "counts"
	Ignored Rule = "ignored"
	Refused Rule = "refused"
)

// Member is a member of a request for a completion.
type Member struct {
	Name string
	Rule Rule
	// Note says what the member does here, or why it does nothing.
	Note string
	// Allowed are the values of a refused member, in JSON, that ask for nothing and are ignored.
	Allowed []string
}

// Members returns the members that OpenAI documents, by their rules. Members that are not in the table
// are ignored.
func Members() []Member {
	return []Member{
		{Name: "messages", Rule: Counts, Note: "the last one, of the `user`, is asked; the others are told to the agent as the caller's words; images of the last message reach an agent that declares them, of the others only their names and sizes"},
		{Name: "model", Rule: Counts, Note: "the vacant's name or id at the host's own address; a text at a vacant's address"},
		{Name: "stream", Rule: Counts, Note: "the answer comes in chunks"},
		{Name: "stream_options", Rule: Counts, Note: "`include_usage` adds a chunk with the usage"},

		{Name: "temperature", Rule: Ignored, Note: ownerSets},
		{Name: "top_p", Rule: Ignored, Note: ownerSets},
		{Name: "seed", Rule: Ignored, Note: ownerSets},
		{Name: "max_tokens", Rule: Ignored, Note: ownerSets + "; `max_price` bounds the price"},
		{Name: "max_completion_tokens", Rule: Ignored, Note: ownerSets + "; `max_price` bounds the price"},
		{Name: "presence_penalty", Rule: Ignored, Note: ownerSets},
		{Name: "frequency_penalty", Rule: Ignored, Note: ownerSets},
		{Name: "logit_bias", Rule: Ignored, Note: ownerSets},
		{Name: "reasoning_effort", Rule: Ignored, Note: ownerSets},
		{Name: "verbosity", Rule: Ignored, Note: ownerSets},
		{Name: "parallel_tool_calls", Rule: Ignored, Note: "the agent's tools are its own"},
		{Name: "prediction", Rule: Ignored, Note: "a hint"},
		{Name: "service_tier", Rule: Ignored, Note: "there is one tier"},
		{Name: "prompt_cache_key", Rule: Ignored, Note: "a hint"},
		{Name: "metadata", Rule: Ignored, Note: notStored},
		{Name: "store", Rule: Ignored, Note: notStored},
		{Name: "user", Rule: Ignored, Note: "the payer is known by its key or its address"},
		{Name: "safety_identifier", Rule: Ignored, Note: "the payer is known by its key or its address"},

		{Name: "n", Rule: Refused, Note: "a call has one answer", Allowed: []string{"1"}},
		{Name: "tools", Rule: Refused, Note: "the agent runs its own tools", Allowed: []string{"[]"}},
		{Name: "tool_choice", Rule: Refused, Note: "the agent runs its own tools", Allowed: []string{`"none"`, `"auto"`}},
		{Name: "functions", Rule: Refused, Note: "the agent runs its own tools", Allowed: []string{"[]"}},
		{Name: "function_call", Rule: Refused, Note: "the agent runs its own tools", Allowed: []string{`"none"`, `"auto"`}},
		{Name: "web_search_options", Rule: Refused, Note: "the agent runs its own tools"},
		{Name: "audio", Rule: Refused, Note: onlyText},
		{Name: "modalities", Rule: Refused, Note: onlyText, Allowed: []string{`["text"]`}},
		{Name: "response_format", Rule: Refused, Note: "the agent's owner sets the form of its answers", Allowed: []string{`{"type":"text"}`}},
		{Name: "stop", Rule: Refused, Note: "an answer ends where the agent ends it", Allowed: []string{"[]"}},
		{Name: "logprobs", Rule: Refused, Note: "agents report none", Allowed: []string{"false"}},
		{Name: "top_logprobs", Rule: Refused, Note: "agents report none", Allowed: []string{"0"}},
	}
}

const (
	ownerSets = "the agent's owner sets it"
	notStored = "it is not stored"
	onlyText  = "the answer is text"
)

// Table returns Members as a table in Markdown.
func Table() string {
	var b strings.Builder
	b.WriteString("| Member | Rule | |\n|---|---|---|\n")
	for _, m := range Members() {
		note := m.Note
		if len(m.Allowed) > 0 {
			note += "; allowed: `" + strings.Join(m.Allowed, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", m.Name, m.Rule, note)
	}
	return b.String()
}

// check refuses the value of a refused member, unless it asks for nothing.
func (m Member) check(d *canon.Decoder) error {
	v, err := d.Value()
	if err != nil || v.Kind() == canon.Null {
		return err
	}
	got := string(v.AppendCJ(nil))
	if slices.Contains(m.Allowed, got) {
		return nil
	}
	want := "none"
	if len(m.Allowed) > 0 {
		want += " or " + strings.Join(m.Allowed, " or ")
	}
	return problem.Invalid(m.Name, want+", because "+m.Note, fmt.Sprintf("%.80s", got))
}
