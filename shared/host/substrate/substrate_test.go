package substrate_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func TestSpecsAreReadAndWritten(t *testing.T) {
	for _, c := range []struct {
		in   string
		want substrate.Spec
		text string
	}{
		{"echo", substrate.Spec{Kind: "echo"}, "echo"},
		{"http:https://example.com/a?b=c", substrate.Spec{Kind: "http", Argument: "https://example.com/a?b=c"}, "http:https://example.com/a?b=c"},
		{"http:http://127.0.0.1:9000/", substrate.Spec{Kind: "http", Argument: "http://127.0.0.1:9000/"}, "http:http://127.0.0.1:9000/"},
		{"https://example.com/a", substrate.Spec{Kind: "http", Argument: "https://example.com/a"}, "http:https://example.com/a"},
		{"http://example.com/a", substrate.Spec{Kind: "http", Argument: "http://example.com/a"}, "http:http://example.com/a"},
	} {
		got, err := substrate.Parse(c.in)
		if err != nil {
			t.Errorf("Parse(%q) = %v", c.in, err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("Parse(%q) (-want +got):\n%s", c.in, diff)
		}
		if got.String() != c.text {
			t.Errorf("String() = %q, want %q", got.String(), c.text)
		}
		if again, err := substrate.Parse(got.String()); err != nil || again != got {
			t.Errorf("Parse(String()) = %v, %v, want %v", again, err, got)
		}
	}
	for _, in := range []string{"", ":", ":x", "Echo", "two words", "ftp//x", "ec\x00ho"} {
		if got, err := substrate.Parse(in); !problem.Is(err, problem.Malformed) {
			t.Errorf("Parse(%q) = %v, %v, want a refusal", in, got, err)
		}
	}
}

func fixed(asked *substrate.Request, err error) substrate.Substrate {
	return substrate.Func(func(_ context.Context, r substrate.Request) (string, error) {
		*asked = r
		return "text", err
	})
}

func TestASubstrateSeesTheQuestionAndNothingOfTheEnvelope(t *testing.T) {
	var asked substrate.Request
	id := "ctx"
	e := envelope.Envelope{From: identity.ID{1}, To: identity.ID{2}, Seq: 7, Signature: []byte{9}, IdempotencyKey: "k",
		Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{"a", "b"}, ContextID: &id}}
	m, err := substrate.Behaviour(fixed(&asked, nil))(context.Background(), nil, e)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(substrate.Request{Caller: e.From, Vacant: e.To, ContextID: &id, Turns: []substrate.Turn{{Role: substrate.RoleCaller, Text: "a b"}}}, asked, cmpopts.IgnoreUnexported(substrate.Request{}, substrate.Secret{})); diff != "" || asked.ID() != e.Hash() {
		t.Errorf("question (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(envelope.Message{Role: envelope.RoleAgent, Parts: []string{"text"}}, m); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	want := errors.New("failed")
	if _, err := substrate.Behaviour(fixed(&asked, want))(context.Background(), nil, e); !errors.Is(err, want) {
		t.Errorf("Behaviour() = %v, want the substrate's error", err)
	}
}

func TestAKindThatTheHomeDoesNotOfferIsNamed(t *testing.T) {
	k := substrate.Kinds{"b": nil, "a": nil}
	_, err := k.Open(substrate.Spec{Kind: "c"})
	if diff := cmp.Diff(`substrate: expected one of a, b, got "c"`, problem.AsError(err).Text()); diff != "" {
		t.Errorf("Open() (-want +got):\n%s", diff)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"echo", "http:https://example.com", "https://example.com", ":", "a:b:c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		s, err := substrate.Parse(in)
		if err != nil {
			return
		}
		if again, err := substrate.Parse(s.String()); err != nil || again != s {
			t.Errorf("Parse(%q) = %v, but its text %q reads as %v, %v", in, s, s, again, err)
		}
	})
}

// events are a script of events.
func events(all ...any) func(func(substrate.Event, error) bool) {
	return func(yield func(substrate.Event, error) bool) {
		for _, one := range all {
			e, _ := one.(substrate.Event)
			err, _ := one.(error)
			if !yield(e, err) {
				return
			}
		}
	}
}

func TestFoldTakesTheTextAndTheLastUsage(t *testing.T) {
	got, err := substrate.ReadAnswer(events(substrate.Thought("hm"), substrate.Text("a"), substrate.Usage{InputTokens: 1}, substrate.Text("b"), substrate.Usage{InputTokens: 2, OutputTokens: 3}, substrate.FinishLength))
	want := substrate.Answer{Text: "ab", Usage: &substrate.Usage{InputTokens: 2, OutputTokens: 3}, Reason: substrate.FinishLength}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("Fold() = %v (-want +got):\n%s", err, diff)
	}
	failure := errors.New("failed")
	if got, err := substrate.ReadAnswer(events(substrate.Text("a"), failure)); !errors.Is(err, failure) || got.Text != "" {
		t.Errorf("Fold() = %q, %v; want the failure and no text", got.Text, err)
	}
	if _, err := substrate.ReadAnswer(events(substrate.Text("a"))); !problem.Is(err, problem.SubstrateUnavailable) {
		t.Errorf("Fold() without Done = %v, want SubstrateUnavailable", err)
	}
	if got, err := substrate.ReadAnswer(events(substrate.Usage{OutputTokens: 3}, substrate.FinishLength)); !problem.Is(err, problem.SubstrateMisconfigured) || got.Usage == nil {
		t.Errorf("Fold() of nothing that was cut off = %+v, %v, want SubstrateMisconfigured and the usage", got, err)
	}
	half := substrate.Text(strings.Repeat("x", substrate.MaxText/2+1))
	if _, err := substrate.ReadAnswer(events(half, half, substrate.FinishStop)); !problem.Is(err, problem.SubstrateTooLarge) {
		t.Errorf("Fold() of much = %v, want SubstrateTooLarge", err)
	}
}

func TestVersionsOfAModelAreOneFamily(t *testing.T) {
	for name, want := range map[string]string{
		"claude-opus-4-6": "claude-opus-4-6", "claude-opus-4-6-20260205": "claude-opus-4-6", "GPT-5-2025-08-07": "gpt-5", "mistral-large-latest": "mistral-large",
		"mistral-large-2411": "mistral-large", "gemini-2.5-flash-001": "gemini-2.5-flash", "gpt-5-mini": "gpt-5-mini", "gpt-4o": "gpt-4o", "model-405": "model-405", "qwen3:8b": "qwen3:8b", "2411": "2411",
	} {
		if got := substrate.BaseModel(name); got != want {
			t.Errorf("BaseModel(%s) = %q, want %q", name, got, want)
		}
	}
}

func TestSpecsNameTheirEndpointAndFamily(t *testing.T) {
	for in, want := range map[string][2]string{
		"echo":                                 {"", "echo"},
		"composite":                            {"", "composite"},
		"https://Agent.Example.:8443/a?b=c":    {"https://Agent.Example.:8443/a?b=c", "http:agent.example"},
		"http:http://[::ffff:127.0.0.1]/":      {"http://[::ffff:127.0.0.1]/", "http:127.0.0.1"},
		"openai:http://10.0.0.7:8000/v1#Qwen":  {"http://10.0.0.7:8000/v1/chat/completions", "model:qwen"},
		"openai:http://127.0.0.1:8000/v1/#a#b": {"http://127.0.0.1:8000/v1/chat/completions", "model:a#b"},
		"ollama:qwen":                          {"http://127.0.0.1:11434/v1/chat/completions", "model:qwen"},
		"openai:http://127.0.0.1:8000/v1":      {"", "openai:http://127.0.0.1:8000/v1"},
		"ollama":                               {"", "ollama"},
		"mcp:https://Tools.example/mcp#answer": {"https://Tools.example/mcp", "mcp:tools.example"},
	} {
		s, err := substrate.Parse(in)
		if got := [2]string{s.Endpoint(), s.Family()}; err != nil || got != want {
			t.Errorf("%s: endpoint and family %q, %v; want %q", in, got, err, want)
		}
	}
}
