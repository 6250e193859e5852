package openaiwire

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// Rule specifies how Decode treats a member.
type Rule string

const (
	Used    Rule = "used"
	Ignored Rule = "ignored"
	Refused Rule = "refused"
)

type Member struct {
	Name string
	Rule Rule
	// Note is the effect of the member, or the reason why the member is ignored or refused.
	Note string
	// Allowed lists values of a refused member that are accepted, because they request no feature.
	Allowed []string
}

// Members returns all members of an API that OpenAI documents. Decode ignores members that are not
// in the table.
func (api API) Members() []Member {
	if api == Responses {
		return responsesMembers()
	}
	return []Member{
		{Name: "messages", Rule: Used, Note: "the last message, of the role `user`, is the question; the agent gets the others as words of the caller; it gets images of the last message if it declares them, and only a line for each image of the others"},
		{Name: "model", Rule: Used, Note: "the vacant's name or id at the host's address; any string at a vacant's address"},
		{Name: "stream", Rule: Used, Note: "the answer is a stream of chunks"},
		{Name: "stream_options", Rule: Used, Note: "`include_usage` adds a chunk with the usage"},

		{Name: "temperature", Rule: Ignored, Note: ownerSets},
		{Name: "top_p", Rule: Ignored, Note: ownerSets},
		{Name: "seed", Rule: Ignored, Note: ownerSets},
		{Name: "max_tokens", Rule: Ignored, Note: ownerSets + "; `max_price` bounds the price"},
		{Name: "max_completion_tokens", Rule: Ignored, Note: ownerSets + "; `max_price` bounds the price"},
		{Name: "stop", Rule: Ignored, Note: agentSetsEnd + ", which `vacancy.warnings` reports"},
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
		{Name: "response_format", Rule: Refused, Note: ownerSetsFormat, Allowed: []string{textFormat}},
		{Name: "logprobs", Rule: Refused, Note: "agents report none", Allowed: []string{"false"}},
		{Name: "top_logprobs", Rule: Refused, Note: "agents report none", Allowed: []string{"0"}},
	}
}

func responsesMembers() []Member {
	members := []Member{
		{Name: "input", Rule: Used, Note: "a string, or a list of messages, which are read as in a completion; earlier tool calls are passed on as texts"},
		{Name: "instructions", Rule: Used, Note: "passed on as a message of the system"},
		{Name: "model", Rule: Used, Note: "the vacant's name or id at the host's address; any string at a vacant's address"},
		{Name: "stream", Rule: Used, Note: "the answer is a stream of events"},
		{Name: "text", Rule: Used, Note: "`format` is refused, because " + ownerSetsFormat + "; allowed: `" + textFormat + "`"},
		{Name: "previous_response_id", Rule: Refused, Note: "answers cannot be found by id; send the earlier messages in `input`"},
		{Name: "conversation", Rule: Refused, Note: "conversations are not stored; send the earlier messages in `input`"},
		{Name: "background", Rule: Refused, Note: "the answer comes with the request", Allowed: []string{"false"}},
		{Name: "prompt", Rule: Refused, Note: "the agent has its own prompt"},
	}
	for _, name := range []string{"tools", "tool_choice", "top_logprobs"} {
		members = append(members, Chat.member(name))
	}
	for _, name := range []string{"store", "metadata", "temperature", "top_p", "parallel_tool_calls", "service_tier", "prompt_cache_key", "user", "safety_identifier"} {
		members = append(members, Chat.member(name))
	}
	return append(members,
		Member{Name: "max_output_tokens", Rule: Ignored, Note: ownerSets + "; `max_price` bounds the price"},
		Member{Name: "reasoning", Rule: Ignored, Note: ownerSets},
		Member{Name: "include", Rule: Ignored, Note: "an answer has its text only"},
		Member{Name: "truncation", Rule: Ignored, Note: "the oldest messages are omitted"},
	)
}

func (api API) member(name string) Member {
	members := api.Members()
	return members[slices.IndexFunc(members, func(m Member) bool { return m.Name == name })]
}

const (
	ownerSets       = "the agent's owner sets it"
	notStored       = "it is not stored"
	onlyText        = "the answer is text"
	ownerSetsFormat = "the agent's owner sets the form of its answers"
	agentSetsEnd    = "an answer ends where the agent ends it"
	textFormat      = `{"type":"text"}`
)

func (api API) MembersTable() string {
	var b strings.Builder
	b.WriteString("| Member | Rule | |\n|---|---|---|\n")
	for _, m := range api.Members() {
		note := m.Note
		if len(m.Allowed) > 0 {
			note += "; allowed: `" + strings.Join(m.Allowed, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", m.Name, m.Rule, note)
	}
	return b.String()
}

// checkRefused returns an error unless the value of a refused member is null or in Allowed.
func (m Member) checkRefused(d *canon.Decoder) error {
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
