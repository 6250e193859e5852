package think_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/think"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// service is a Service that plays events and notes what it is asked.
type service struct {
	events []substrate.Event
	err    error
	wait   bool // until the context ends
	panics bool

	turn     think.Turn
	deadline time.Time
	offer    think.Offer
	used     string
	stopped  bool
}

func (s *service) RunTurn(ctx context.Context, t think.Turn) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		s.turn = t
		s.deadline, _ = ctx.Deadline()
		if s.panics {
			panic("at the model")
		}
		if s.wait {
			<-ctx.Done()
			yield(nil, substrate.ContextError(ctx, "the model"))
			return
		}
		for _, e := range s.events {
			if !yield(e, nil) {
				s.stopped = true
				return
			}
		}
		if s.err != nil {
			yield(nil, s.err)
		}
	}
}

func (s *service) ListMCPTools(context.Context, think.AgentVersion) (think.Offer, error) {
	return s.offer, s.err
}

func (s *service) UseMCPTool(_ context.Context, _ think.AgentVersion, name string, arguments json.RawMessage) (string, error) {
	s.used = name + string(arguments)
	return "used", s.err
}

// through asks s over the wire. reports are the reports that it logs.
func through(s think.Service) (c think.Service, reports *[]think.Report) {
	reports = new([]think.Report)
	return think.NewClient(func(ctx context.Context, request []byte) ([]byte, error) {
		// A small reader parts lines anywhere.
		return io.ReadAll(iotest.OneByteReader(think.Serve(ctx, s, request, func(_ context.Context, r think.Report) { *reports = append(*reports, r) })))
	}), reports
}

func whole() think.Turn {
	thread := "thread"
	r := substrate.NewTextRequest(identity.ID{1}, identity.ID{2}, "hi")
	r.ContextID, r.MustAnswer = &thread, true
	r.Turns[0].Files = []substrate.File{{Name: "a.png", MediaType: "image/png", Data: []byte{0, 0xff}}}
	r.Tools = []substrate.Tool{{Name: "look", Description: "Looks", Schema: json.RawMessage(`{"type":"object"}`)}}
	r.Turns = append(r.Turns, substrate.Turn{Role: substrate.RoleAgent, Text: "see", Calls: []substrate.ToolCall{{ID: "1", Name: "look", Arguments: `{"a":1}`, Opaque: "o"}}},
		substrate.Turn{Role: substrate.RoleTools, Results: []substrate.ToolResult{{ID: "1", Text: "ü\u2028<&>", Failed: true}}})
	return think.Turn{Agent: think.AgentVersion{Vacant: identity.ID{2}, Version: 3}, Fallback: true, IsCheck: true, CostBefore: 7, Request: r.WithID(identity.Sum([]byte("x")))}
}

func TestATurnArrivesAsItWasSent(t *testing.T) {
	events := []substrate.Event{substrate.Usage{UnreportedTurns: 1, Cost: 9}, substrate.Thought("hm"), substrate.Text("ü\n"), substrate.ToolCall{ID: "1", Name: "look", Arguments: "{", Opaque: "o"},
		substrate.Usage{InputTokens: 1, OutputTokens: 2, CachedTokens: 1, Cost: 5, PriceTableVersion: 2}, substrate.FinishToolUse}
	s := &service{events: events}
	c, reports := through(s)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var got []substrate.Event
	for e, err := range c.RunTurn(ctx, whole()) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e)
	}
	if diff := cmp.Diff(events, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	want := whole()
	if id := s.turn.Request.ID(); id != want.Request.ID() {
		t.Errorf("the call's id is %s, want %s", id, want.Request.ID())
	}
	if diff := cmp.Diff(want, s.turn, cmpopts.IgnoreUnexported(substrate.Request{}, substrate.Secret{})); diff != "" {
		t.Errorf("the turn (-sent +arrived):\n%s", diff)
	}
	if deadline, _ := ctx.Deadline(); s.deadline.Sub(deadline).Abs() > time.Millisecond {
		t.Errorf("the deadline is %v, want %v", s.deadline, deadline)
	}
	if len(*reports) != 1 || (*reports)[0].Usage.Cost != 5 || (*reports)[0].Vacant != (identity.ID{2}) || (*reports)[0].Err != nil {
		t.Errorf("reports %+v, want one with the cost", *reports)
	}
}

func TestErrorsKeepTheirKindAndWhatTheAgentSaid(t *testing.T) {
	agent := &call.AgentError{Status: 429, RetryAfter: 3 * time.Second, Body: "slow down", Err: problem.New(problem.SubstrateBusy, "busy")}
	for _, tt := range []struct {
		err   error
		kind  problem.Kind
		agent bool
	}{
		{agent, problem.SubstrateBusy, true},
		{problem.Wrap(problem.BudgetExceeded, errors.New("cause"), "no money"), problem.BudgetExceeded, false},
		{problem.New(problem.SubstrateRefused, "no"), problem.SubstrateRefused, false},
		{problem.New(problem.DeadlineExceeded, "late"), problem.DeadlineExceeded, false},
		{errors.New("whatever"), problem.SubstrateUnavailable, false},
	} {
		c, reports := through(&service{events: []substrate.Event{substrate.Text("half"), substrate.Usage{InputTokens: 4}}, err: tt.err})
		a, err := substrate.ReadAnswer(c.RunTurn(t.Context(), whole()))
		var got *call.AgentError
		if !problem.Is(err, tt.kind) || errors.As(err, &got) != tt.agent || a.Usage == nil || a.Usage.InputTokens != 4 {
			t.Errorf("%v arrives as %v (%s) beside %+v", tt.err, err, problem.AsError(err).Kind, a.Usage)
		}
		if tt.agent && (got.Status != 429 || got.RetryAfter != 3*time.Second || got.Body != "slow down") {
			t.Errorf("the agent said %+v", got)
		}
		if want := problem.AsError(tt.err).Text(); tt.kind != problem.SubstrateUnavailable && problem.AsError(err).Text() != want {
			t.Errorf("text %q, want %q", problem.AsError(err).Text(), want)
		}
		if len(*reports) != 1 || !errors.Is((*reports)[0].Err, tt.err) {
			t.Errorf("reports %+v, want the error", *reports)
		}
	}
}

func TestToolsOfServersAreListedAndUsed(t *testing.T) {
	s := &service{offer: think.Offer{
		Tools:        []think.Tool{{Tool: substrate.Tool{Name: "mcp__a__b", Description: "d", Schema: json.RawMessage(`{"type":"object"}`)}, Writes: true}, {Tool: substrate.Tool{Name: "c", Schema: json.RawMessage(`{}`)}}},
		OmittedTools: call.OmittedTools{Tools: []call.OmittedTool{{Name: "mcp__a__d", Reason: "models refuse its schema", Remedy: "the schema"}}, MoreTools: 3},
	}}
	c, _ := through(s)
	got, err := c.ListMCPTools(t.Context(), think.AgentVersion{Vacant: identity.ID{2}, Version: 1})
	if diff := cmp.Diff(s.offer, got); diff != "" || err != nil {
		t.Errorf("ListMCPTools() = %v (-want +got):\n%s", err, diff)
	}
	text, err := c.UseMCPTool(t.Context(), think.AgentVersion{Vacant: identity.ID{2}}, "c", json.RawMessage(`{"x":1}`))
	if text != "used" || err != nil || s.used != `c{"x":1}` {
		t.Errorf("UseMCPTool() = %q, %v; used %s", text, err, s.used)
	}
	s.err = problem.New(problem.BehaviourFailed, "it broke")
	if _, err := c.UseMCPTool(t.Context(), think.AgentVersion{Vacant: identity.ID{2}}, "c", nil); !problem.Is(err, problem.BehaviourFailed) || problem.AsError(err).Text() != "it broke" {
		t.Errorf("UseMCPTool() of a tool that fails = %v, want its text for the model", err)
	}
}

// A request ends at its deadline, though nobody hangs up.
func TestARequestEndsAtItsDeadline(t *testing.T) {
	var request []byte
	c := think.NewClient(func(_ context.Context, r []byte) ([]byte, error) {
		request = r
		return []byte(`{"done":"stop"}`), nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for range c.RunTurn(ctx, whole()) {
	}
	reply, err := io.ReadAll(think.Serve(context.Background(), &service{wait: true}, request, func(context.Context, think.Report) {}))
	if err != nil || !strings.Contains(string(reply), `"kind":"deadline"`) {
		t.Errorf("the reply = %s, %v; want the deadline", reply, err)
	}
}

func TestAPanicFailsTheRequestAlone(t *testing.T) {
	c, reports := through(&service{panics: true})
	_, err := substrate.ReadAnswer(c.RunTurn(t.Context(), whole()))
	if !problem.Is(err, problem.SubstrateUnavailable) || strings.Contains(problem.AsError(err).Text(), "at the model") {
		t.Errorf("Fold() = %v, want it unavailable", err)
	}
	if len(*reports) != 1 || !strings.Contains((*reports)[0].Err.Error(), "at the model") {
		t.Errorf("reports %+v, want the panic", *reports)
	}
}

func TestAReplyThatBreaksOffIsUnavailable(t *testing.T) {
	for _, reply := range []string{"", `{"text":"half"}`, `{"text":"half"}` + "\n" + `{"te`, "no JSON", `{"text":7}`} {
		c := think.NewClient(func(context.Context, []byte) ([]byte, error) { return []byte(reply), nil })
		if _, err := substrate.ReadAnswer(c.RunTurn(t.Context(), whole())); !problem.Is(err, problem.SubstrateUnavailable) {
			t.Errorf("%q: %v, want it unavailable", reply, err)
		}
	}
}

func TestAConversationThatLambdaDoesNotTakeIsNotSent(t *testing.T) {
	sent := false
	c := think.NewClient(func(context.Context, []byte) ([]byte, error) {
		sent = true
		return nil, nil
	})
	turn := whole()
	turn.Request.Turns[0].Text = strings.Repeat("<", 2<<20) // six bytes each in JSON
	if _, err := substrate.ReadAnswer(c.RunTurn(t.Context(), turn)); !problem.Is(err, problem.SubstrateTooLarge) || sent {
		t.Errorf("Fold() = %v, sent %v; want it too large", err, sent)
	}
}

// A client that stops reading stops the model.
func TestWhoReadsNoMoreStopsTheTurn(t *testing.T) {
	var request []byte
	think.NewClient(func(_ context.Context, r []byte) ([]byte, error) { request = r; return nil, nil }).RunTurn(t.Context(), whole())(func(substrate.Event, error) bool { return false })
	s := &service{events: []substrate.Event{substrate.Text("a"), substrate.Text("b"), substrate.FinishStop}}
	reports := 0
	r := think.Serve(t.Context(), s, request, func(context.Context, think.Report) { reports++ })
	if _, err := r.Read(make([]byte, 1<<10)); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil || !s.stopped || reports != 1 {
		t.Errorf("Close() = %v, stopped %v, %d reports; want the turn stopped and reported", err, s.stopped, reports)
	}
}

func TestRequestsOfAnotherFormAreRefused(t *testing.T) {
	id := identity.ID{2}.String()
	for _, tt := range []struct{ request, says string }{
		{`{`, "event: expected a request from this host"},
		{`{"op":"turn","vacant":"` + id + `","url":"https://evil.example"}`, "event: expected a request from this host"},
		{`{"op":"turn"}`, "vacant: expected the id of a vacant"},
		{`{"op":"turn","vacant":"` + id + `"}`, "turns: expected at least one"},
		{`{"op":"turn","vacant":"` + id + `","turns":[{"role":"system","text":"x"}]}`, "turns[0].role: expected caller, agent or tools"},
		{`{"op":"turn","vacant":"` + id + `","turns":[{"role":"agent","text":"x"}]}`, "turns: expected at least one turn, of which the last is not the agent's"},
		{`{"op":"turn","vacant":"` + id + `","id":"x","turns":[{"role":"caller","text":"x"}]}`, "id: expected 64 hex digits"},
		{`{"op":"turn","vacant":"` + id + `","spent":-1}`, "agent: expected numbers of 0 or more"},
		{`{"op":"spend","vacant":"` + id + `"}`, "op: expected turn, tools or use"},
	} {
		s := &service{events: []substrate.Event{substrate.FinishStop}}
		reply, err := io.ReadAll(think.Serve(t.Context(), s, []byte(tt.request), func(context.Context, think.Report) {}))
		var last struct{ Error struct{ Kind, Text string } }
		if err != nil || json.Unmarshal(reply, &last) != nil || last.Error.Kind != "malformed" || !strings.Contains(last.Error.Text, tt.says) {
			t.Errorf("%s = %s, %v; want %q", tt.request, reply, err, tt.says)
		}
	}
}

func TestKindsCheckTheirArguments(t *testing.T) {
	c, _ := through(&service{events: []substrate.Event{substrate.Text("combined"), substrate.FinishStop}})
	kinds := think.Kinds(c, substrate.KindAnthropic, substrate.KindBedrock, substrate.KindLambda, substrate.KindMCP, substrate.KindMock)
	for spec, ok := range map[string]bool{
		"anthropic:claude-opus-4-6": true, "anthropic": false, "bedrock:amazon.nova-lite-v1:0": true, "bedrock:claude": false, "mock": true, "mock:x": true,
		"lambda:arn:aws:lambda:us-east-1:123456789012:function:f": true, "lambda:f": false, "mcp:https://x.example#t": true, "mcp:https://x.example": false, "openai:gpt-5": false,
	} {
		parsed, err := substrate.Parse(spec)
		if err != nil {
			t.Fatal(err)
		}
		s, err := kinds.Open(parsed)
		if (err == nil) != ok || err != nil && problem.AsError(err).Field != "substrate" {
			t.Errorf("Open(%s) = %v, want %v", spec, err, ok)
		}
		if ok {
			if a, err := substrate.ReadAnswer(s.Infer(t.Context(), substrate.NewTextRequest(identity.ID{1}, identity.ID{2}, "x"))); a.Text != "combined" || err != nil {
				t.Errorf("%s = %q, %v", spec, a.Text, err)
			}
		}
	}
}

// A request of any bytes gets one reply of lines, the last with done or error.
func FuzzServe(f *testing.F) {
	think.NewClient(func(_ context.Context, r []byte) ([]byte, error) { f.Add(r); return nil, nil }).RunTurn(context.Background(), whole())(func(substrate.Event, error) bool { return false })
	f.Add([]byte(`{"op":"use","vacant":"` + identity.ID{2}.String() + `","name":"x","arguments":{}}`))
	f.Fuzz(func(t *testing.T, request []byte) {
		reports := 0
		reply, err := io.ReadAll(think.Serve(t.Context(), &service{events: []substrate.Event{substrate.Text("x"), substrate.FinishStop}}, request, func(context.Context, think.Report) { reports++ }))
		lines := bytes.Split(bytes.TrimSuffix(reply, []byte("\n")), []byte("\n"))
		var last map[string]any
		if err != nil || reports != 1 || json.Unmarshal(lines[len(lines)-1], &last) != nil || (last["done"] == nil) == (last["error"] == nil) {
			t.Errorf("the reply to %q = %q, %v", request, reply, err)
		}
	})
}

// A reply of any bytes gives events that end once.
func FuzzReply(f *testing.F) {
	f.Add([]byte(`{"text":"x"}{"usage":{"in":1,"out":2}}{"done":"stop"}`))
	f.Add([]byte(`{"error":{"kind":"substrate_busy","text":"x","agent":true,"after_ms":-1}}`))
	f.Fuzz(func(t *testing.T, reply []byte) {
		c := think.NewClient(func(context.Context, []byte) ([]byte, error) { return reply, nil })
		ends := 0
		for e, err := range c.RunTurn(t.Context(), whole()) {
			if _, done := e.(substrate.FinishReason); done || err != nil {
				ends++
			} else if ends > 0 || e == nil {
				t.Fatalf("%v after the end of %q", e, reply)
			}
		}
		if ends != 1 {
			t.Errorf("%d ends of %q, want 1", ends, reply)
		}
	})
}
