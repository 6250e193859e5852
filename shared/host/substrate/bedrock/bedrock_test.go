package bedrock_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/bedrock"
	"github.com/vacancy-host/vacancy/shared/host/substrate/substratetest"
	"github.com/vacancy-host/vacancy/shared/problem"
)

const model = "eu.anthropic.claude-haiku-4-5-20251001-v1:0"

// frame is a message of an event stream: of an event, or of an exception if kind says so.
func frame(kind, name string, members map[string]any) string {
	payload, err := json.Marshal(members)
	if err != nil {
		panic(err)
	}
	m := eventstream.Message{Payload: payload}
	m.Headers.Set(":message-type", eventstream.StringValue(kind))
	m.Headers.Set(":"+kind+"-type", eventstream.StringValue(name))
	m.Headers.Set(":content-type", eventstream.StringValue("application/json"))
	var b bytes.Buffer
	if err := eventstream.NewEncoder().Encode(&b, m); err != nil {
		panic(err)
	}
	return b.String()
}

func event(name string, members map[string]any) string { return frame("event", name, members) }

func delta(index int, members map[string]any) string {
	return event("contentBlockDelta", map[string]any{"contentBlockIndex": index, "delta": members})
}

func text(s string) string { return delta(0, map[string]any{"text": s}) }

func use(index int, id string) string {
	return event("contentBlockStart", map[string]any{"contentBlockIndex": index, "start": map[string]any{"toolUse": map[string]any{"toolUseId": id, "name": "look"}}})
}

func input(index int, s string) string {
	return delta(index, map[string]any{"toolUse": map[string]any{"input": s}})
}

func ended(why string) string {
	return event("messageStop", map[string]any{"stopReason": why}) + event("metadata", map[string]any{
		"usage":   map[string]any{"inputTokens": 5, "outputTokens": 7, "totalTokens": 19, "cacheReadInputTokens": 4, "cacheWriteInputTokens": 3},
		"metrics": map[string]any{"latencyMs": 20}})
}

var (
	begin = event("messageStart", map[string]any{"role": "assistant"})
	stop  = event("contentBlockStop", map[string]any{"contentBlockIndex": 0})
)

// config returns the configuration of a host whose Bedrock is at a URL.
func config(url string) aws.Config {
	return aws.Config{Region: "eu-central-1", BaseEndpoint: &url, Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: "secret"}, nil
	})}
}

func anybody(context.Context, outbound.Actor, string) error { return nil }

func open(t testing.TB, cfg aws.Config, guard outbound.EndpointGuard) substrate.Substrate {
	t.Helper()
	s, err := bedrock.Kinds(outbound.New(outbound.Options{Guard: guard}), cfg).Open(substrate.Spec{Kind: substrate.KindBedrock, Argument: model})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func serve(t testing.TB, h http.HandlerFunc) substrate.Substrate {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return open(t, config(server.URL), anybody)
}

func stream(frames ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/vnd.amazon.eventstream")
		for _, f := range frames {
			_, _ = io.WriteString(w, f)
		}
	}
}

// refuse answers with an exception of the API.
func refuse(status int, name, message string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Amzn-ErrorType", name)
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"message":%q}`, message)
	}
}

func TestTheEnvironmentGivesNoKey(t *testing.T) {
	t.Setenv("AWS_BEARER_TOKEN_BEDROCK", "canary")
	got := ""
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Get("Authorization")
		refuse(400, "ValidationException", "no")(w, r)
	})
	_, _ = substrate.ReadAnswer(s.Infer(t.Context(), substratetest.Question()))
	if !strings.HasPrefix(got, "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/") {
		t.Errorf("the request is authorized by %q, want the host's credentials", got)
	}
}

func TestContract(t *testing.T) {
	substratetest.Run(t, func(t testing.TB, s substratetest.Script) substrate.Substrate {
		return serve(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // the server sees the client leave from here on
			select {
			case <-time.After(s.Delay):
			case <-r.Context().Done():
				return
			}
			if s.Status != 0 {
				refuse(s.Status, "SomeException", s.Text)(w, r)
				return
			}
			frames := []string{begin}
			for part := range slices.Chunk([]rune(s.Text), 1000) {
				frames = append(frames, text(string(part)))
			}
			if !s.IsTruncated {
				frames = append(frames, stop, ended("end_turn"))
			}
			stream(frames...)(w, r)
		})
	})
}

// The SDK reads the JSON of events, so a member of another type costs the answer.
func TestOddities(t *testing.T) {
	substratetest.Wire{
		Begin: begin, Text: text,
		Usage: func(n string) string {
			return event("metadata", map[string]any{"usage": map[string]any{"inputTokens": json.Number(n), "outputTokens": 1, "totalTokens": 1}})
		},
		End: func(why string) string {
			if why == "" {
				return stop
			}
			return stop + event("messageStop", map[string]any{"stopReason": why})
		},
		Call: func(at int, id, name string, arguments ...string) string {
			all := event("contentBlockStart", map[string]any{"contentBlockIndex": at, "start": map[string]any{"toolUse": map[string]any{"toolUseId": id, "name": name}}})
			for _, more := range arguments {
				all += input(at, more)
			}
			return all
		},
		ForeignPart: func(at int) string {
			begins := func(start map[string]any) string {
				return event("contentBlockStart", map[string]any{"contentBlockIndex": at, "start": start})
			}
			return stop + begins(map[string]any{"toolUse": map[string]any{"toolUseId": "s", "name": "look", "type": "server_tool_use"}}) + input(at, `{"query":`) + stop +
				begins(map[string]any{"toolResult": map[string]any{"toolUseId": "s"}}) + delta(at, map[string]any{"toolResult": []any{map[string]any{"text": "found"}}}) + stop +
				begins(map[string]any{"ofTomorrow": map[string]any{}}) + delta(at, map[string]any{"ofTomorrow": "found"}) + stop
		},
		MemberRefusals: map[string]string{"outputConfig": `{"message":"The model returned the following errors: output_config: Extra inputs are not permitted (effort)"}`},
		Stop:           "end_turn", Length: "max_tokens", ToolUse: "tool_use",
		DecisiveMembers: []string{"start", "toolUse", "name", "delta", "text", "input", "stopReason"},
		SplitStream:     split,
		EditEvent: func(e string, f func(any) any) string {
			m, err := eventstream.NewDecoder().Decode(strings.NewReader(e), nil)
			if err != nil {
				panic(err)
			}
			var v any
			if err := json.Unmarshal(m.Payload, &v); err != nil {
				panic(err)
			}
			v = f(v)
			return event(m.Headers.Get(":event-type").String(), v.(map[string]any))
		},
	}.TestOddities(t, func(t testing.TB, h http.HandlerFunc) substrate.Substrate {
		return serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/vnd.amazon.eventstream")
			h(w, r)
		})
	})
}

// The SDK fails at such usage, but the answer has ended before it.
func TestUsageInAnotherFormDoesNotCostTheAnswer(t *testing.T) {
	for _, n := range []any{10.5, "ten", []int{1}, true} {
		s := serve(t, stream(begin, text("x"), stop, event("messageStop", map[string]any{"stopReason": "end_turn"}), event("metadata", map[string]any{"usage": map[string]any{"inputTokens": n}})))
		got, err := substrate.ReadAnswer(s.Infer(t.Context(), substratetest.Question()))
		if err != nil || got.Text != "x" || got.Reason != substrate.FinishStop {
			t.Errorf("%v tokens: %+v, %v, want the answer", n, got, err)
		}
	}
}

// split is the frames of a stream.
func split(stream string) (all []string) {
	for len(stream) > 0 {
		n := binary.BigEndian.Uint32([]byte(stream[:4]))
		all, stream = append(all, stream[:n]), stream[n:]
	}
	return all
}

func TestRequestsAreAsWritten(t *testing.T) {
	substratetest.TestRequests(t, stream(begin, text("back"), ended("end_turn")), func(h http.HandlerFunc) substrate.Substrate { return serve(t, h) })
}

func TestAnAnswerIsStreamedWithItsThoughtsAndUsage(t *testing.T) {
	s := serve(t, stream(begin, delta(0, map[string]any{"reasoningContent": map[string]any{"text": "hm"}}), delta(0, map[string]any{"reasoningContent": map[string]any{"signature": "c2ln"}}), stop,
		text("forty"), event("ofTomorrow", map[string]any{"x": 1}), text("-two"), stop, ended("max_tokens")))
	var got []substrate.Event
	for e, err := range s.Infer(t.Context(), substratetest.Question()) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e)
	}
	want := []substrate.Event{substrate.Thought("hm"), substrate.Text("forty"), substrate.Text("-two"), substrate.Usage{InputTokens: 12, OutputTokens: 7, CachedTokens: 4}, substrate.FinishLength}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestToolCallsComeInPieces(t *testing.T) {
	s := serve(t, stream(begin, text("hm"), stop, use(1, "t1"), input(1, `{"for":`), input(1, `"a"}`), stop, use(2, "t2"), stop, ended("tool_use")))
	got, err := substrate.ReadAnswer(s.Infer(t.Context(), substratetest.Question()))
	want := substrate.Answer{Text: "hm", Usage: &substrate.Usage{InputTokens: 12, OutputTokens: 7, CachedTokens: 4}, Reason: substrate.FinishToolUse,
		Calls: []substrate.ToolCall{{ID: "t1", Name: "look", Arguments: `{"for":"a"}`}, {ID: "t2", Name: "look"}}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("Fold() = %v (-want +got):\n%s", err, diff)
	}
}

func TestWhatIsNoAnswer(t *testing.T) {
	exception := func(name string) string { return frame("exception", name, map[string]any{"message": "x"}) }
	broken := []byte(text("x"))
	broken[len(broken)-1] ^= 1
	for _, tt := range []struct {
		what   string
		answer http.HandlerFunc
		want   problem.Kind
		agent  bool // the operator sees what came
	}{
		{"a throttle", refuse(429, "ThrottlingException", "Too many requests"), problem.SubstrateBusy, true},
		{"a model that is not ready", refuse(429, "ModelNotReadyException", "x"), problem.SubstrateBusy, true},
		{"out of order", refuse(503, "ServiceUnavailableException", "x"), problem.SubstrateUnavailable, true},
		{"a model that fails", refuse(424, "ModelErrorException", "x"), problem.SubstrateUnavailable, true},
		{"a model that takes too long", refuse(408, "ModelTimeoutException", "x"), problem.SubstrateUnavailable, true},
		{"no grant", refuse(403, "AccessDeniedException", "not authorized to perform bedrock:InvokeModelWithResponseStream"), problem.SubstrateMisconfigured, true},
		{"a model that the account never called", refuse(403, "AccessDeniedException", "not authorized to perform the required AWS Marketplace actions (aws-marketplace:Subscribe)"), problem.SubstrateMisconfigured, true},
		{"a use case that nobody described", refuse(404, "ResourceNotFoundException", "Model use case details have not been submitted for this account."), problem.SubstrateMisconfigured, true},
		{"expired credentials", refuse(403, "ExpiredTokenException", "The security token included in the request is expired"), problem.SubstrateMisconfigured, true},
		{"no such model", refuse(404, "ResourceNotFoundException", "x"), problem.SubstrateMisconfigured, true},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) }, problem.SubstrateMisconfigured, false},
		{"a throttle within the stream", stream(begin, exception("throttlingException")), problem.SubstrateBusy, true},
		{"an error within the stream", stream(begin, text("x"), exception("modelStreamErrorException")), problem.SubstrateUnavailable, true},
		{"a refusal within the stream", stream(begin, exception("validationException")), problem.SubstrateMisconfigured, true},
		{"a filter", stream(begin, text("I"), ended("content_filtered")), problem.SubstrateRefused, false},
		{"a guardrail", stream(begin, text("I"), ended("guardrail_intervened")), problem.SubstrateRefused, false},
		{"a reason of tomorrow", stream(begin, ended("pause")), problem.SubstrateMisconfigured, false},
		{"a tool call reason without a call", stream(begin, ended("tool_use")), problem.SubstrateMisconfigured, false},
		{"input without a call", stream(begin, text("x"), input(0, "{")), problem.SubstrateMisconfigured, false},
		{"no end", stream(begin, text("x"), stop), problem.SubstrateUnavailable, false},
		{"a malformed frame", stream(begin, string(broken)), problem.SubstrateUnavailable, false},
		{"half a frame", stream(begin, text("x")[:20]), problem.SubstrateUnavailable, false},
		{"no stream at all", stream(`{"output":{}}`), problem.SubstrateUnavailable, false},
		{"a model that never ends", stream(slices.Repeat([]string{text(strings.Repeat("x", 10_000))}, 500)...), problem.SubstrateTooLarge, false},
		{"50 MB", stream(begin, delta(0, map[string]any{"text": strings.Repeat("x", 15<<20)}), strings.Repeat("x", 35<<20)), problem.SubstrateTooLarge, false},
	} {
		t.Run(tt.what, func(t *testing.T) {
			_, err := substrate.ReadAnswer(serve(t, tt.answer).Infer(t.Context(), substratetest.Question()))
			if !problem.Is(err, tt.want) {
				t.Errorf("ReadAnswer() = %v (%s), want %s", err, problem.AsError(err).Kind, tt.want)
			}
			if first := strings.Contains(tt.what, " that the account never") || strings.Contains(tt.what, "use case"); first != strings.Contains(err.Error(), "console of Bedrock") {
				t.Errorf("Fold() = %v; names the console: %t, want %t", err, !first, first)
			}
			if agent := new(call.AgentError); errors.As(err, &agent) != tt.agent && tt.agent {
				t.Errorf("Fold() = %v, want what Bedrock said", err)
			}
		})
	}
}

func TestTheGuardIsAskedForTheEndpoint(t *testing.T) {
	var asked string
	reached := false
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer server.Close()
	s := open(t, config(server.URL), func(_ context.Context, _ outbound.Actor, url string) error {
		asked = url
		return problem.New(problem.TreeOnly, "not among its tools")
	})
	_, err := substrate.ReadAnswer(s.Infer(t.Context(), substratetest.Question()))
	const want = "https://bedrock-runtime.amazonaws.com/model/" + model + "/converse-stream"
	if !problem.Is(err, problem.SubstrateMisconfigured) || asked != want || reached {
		t.Errorf("Fold() = %v; the guard was asked for %q, reached %v; want a refusal for %q", err, asked, reached, want)
	}
}

func TestWithoutCredentialsNothingIsSent(t *testing.T) {
	reached := false
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer server.Close()
	cfg := config(server.URL)
	cfg.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{}, errors.New("none")
	})
	_, err := substrate.ReadAnswer(open(t, cfg, anybody).Infer(t.Context(), substratetest.Question()))
	if !problem.Is(err, problem.SubstrateUnavailable) || reached {
		t.Errorf("Fold() = %v, reached %v; want it unavailable", err, reached)
	}
}

func TestARequestIsSentOnce(t *testing.T) {
	for _, status := range []int{429, 500, 503} {
		n := 0
		s := serve(t, func(w http.ResponseWriter, r *http.Request) {
			n++
			refuse(status, "X", "x")(w, r)
		})
		if _, err := substrate.ReadAnswer(s.Infer(t.Context(), substratetest.Question())); err == nil || n != 1 {
			t.Errorf("status %d: Fold() = %v after %d requests, want a failure after one", status, err, n)
		}
	}
}

func TestModelsWithAnotherNameAreRefused(t *testing.T) {
	kinds := bedrock.Kinds(outbound.New(outbound.Options{}), config("http://127.0.0.1:1"))
	for _, argument := range []string{"", "claude-opus-4-6", "https://x.example#anthropic.claude", "anthropic.", "nobody.model-v1:0", "arn:aws:bedrock:us-east-1:123456789012:inference-profile/x", "anthropic.claude v1", "Anthropic.claude"} {
		if _, err := kinds.Open(substrate.Spec{Kind: substrate.KindBedrock, Argument: argument}); !problem.Is(err, problem.Malformed) {
			t.Errorf("Open(%q) = %v, want a refusal", argument, err)
		}
	}
}

func FuzzStream(f *testing.F) {
	var body []byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/vnd.amazon.eventstream")
		_, _ = w.Write(body)
	}))
	f.Cleanup(server.Close)
	s := open(f, config(server.URL), anybody)
	f.Add([]byte(begin + text("x") + ended("end_turn")))
	for _, why := range []string{"tool_use", "max_tokens", "eos"} {
		f.Add([]byte(begin + text("x") + use(0, "t") + input(0, "{") + ended(why)))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		body = in
		ends := 0
		for e, err := range s.Infer(t.Context(), substratetest.Question()) {
			if _, last := e.(substrate.FinishReason); last || err != nil {
				ends++
			} else if ends > 0 || e == nil {
				t.Fatalf("event %v after the end", e)
			}
			if err != nil && !problem.AsError(err).Kind.IsFailure() {
				t.Errorf("error %v of kind %s", err, problem.AsError(err).Kind)
			}
		}
		if ends != 1 {
			t.Errorf("%d ends, want 1", ends)
		}
	})
}
