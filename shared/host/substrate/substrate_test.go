package substrate_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
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

type fixed struct {
	asked *substrate.Question
	err   error
}

func (f fixed) Answer(_ context.Context, q substrate.Question) (string, error) {
	*f.asked = q
	return "text", f.err
}

func TestASubstrateSeesTheQuestionAndNothingOfTheEnvelope(t *testing.T) {
	var asked substrate.Question
	id := "ctx"
	e := envelope.Envelope{From: identity.ID{1}, To: identity.ID{2}, Seq: 7, Signature: []byte{9}, IdempotencyKey: "k",
		Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{"a", "b"}, ContextID: &id}}
	m, err := substrate.Behaviour(fixed{asked: &asked})(context.Background(), nil, e)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(substrate.Question{Text: "a b", Caller: e.From, Vacant: e.To, ContextID: &id}, asked); diff != "" {
		t.Errorf("question (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(envelope.Message{Role: envelope.RoleAgent, Parts: []string{"text"}}, m); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	want := errors.New("failed")
	if _, err := substrate.Behaviour(fixed{asked: &asked, err: want})(context.Background(), nil, e); !errors.Is(err, want) {
		t.Errorf("Behaviour() = %v, want the substrate's error", err)
	}
}

func TestAKindThatTheHomeDoesNotOfferIsNamed(t *testing.T) {
	k := substrate.Kinds{"b": nil, "a": nil}
	_, err := k.Open(substrate.Spec{Kind: "c"})
	if diff := cmp.Diff(`substrate: expected one of a, b, got "c"`, problem.Of(err).Text()); diff != "" {
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
