package calltest

import (
	"context"
	"errors"
	"math"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// behaviourTests covers the ways in which a behaviour can end.
var behaviourTests = []contractTest{
	{"a failing behaviour causes a void and status 500", testFailures},
	{"only the operator sees why an agent failed", testCauseInVoid},
	{"a behaviour that exceeds its deadline causes a void and status 504", testDeadline},
	{"the host does not wait for a behaviour that ignores its deadline", testIgnoredDeadline},
	{"an answer that cannot be signed causes a void and status 500", testUnsignableAnswer},
	{"a failing signer causes a void and status 500", testFailingSigner},
	{"an answer that is too large to store causes a void and a refusal", testTooLargeAnswer},
	{"an answer has ROLE_AGENT whatever role the behaviour returns", testForcedRole},
	{"a call is answered and stored even if its caller disconnects", testCallerHangsUp},
	{"a call is answered even if its caller disconnects before the accept", testCallerHangsUpBeforeAccept},
	{"rows stay readable if the clock steps back", testClockStepsBack},
	{"a behaviour receives only the signed envelope", testSignedEnvelopeOnly},
}

func failWithError(context.Context, *call.Host, envelope.Envelope) (envelope.Message, error) {
	return envelope.Message{}, errors.New("the behaviour's own error")
}

func (s *scene) wantFailedCall(text string, kind problem.Kind) {
	s.t.Helper()
	e := s.signCall(nil, text)
	out := s.send(s.hostA, e)
	s.wantRefusal(out, kind, call.Unanswered)
	s.wantChainTip(out, e)
	if strings.Contains(out.Problem.Text(), "own error") {
		s.t.Fatalf("the refusal contains the behaviour's error: %q", out.Problem.Text())
	}
	s.wantRefusal(s.send(s.hostB, e), problem.Replay, call.Unanswered)
	s.wantRows("call | void 1")
	next := s.signCall(e, "next")
	if reply := s.wantAnswer(s.send(s.hostA, next), next); reply.Seq != 1 {
		s.t.Fatalf("Seq = %d, want 1: a void uses no sequence number", reply.Seq)
	}
	s.wantRows("call, call | void 1, answer 2")
	s.wantRuns(e, 1)
}

// testCauseInVoid checks that the caller receives only the problem kind, and the void contains the
// agent's response.
func testCauseInVoid(s *scene) {
	s.setBehaviour("refuses", func(context.Context, *call.Host, envelope.Envelope) (envelope.Message, error) {
		return envelope.Message{}, &call.AgentError{Status: 503, Body: "own error: out of memory", Err: problem.New(problem.SubstrateUnavailable, "status: expected 200, got 503")}
	})
	e := s.signCall(nil, "refuses")
	out := s.send(s.hostA, e)
	s.wantRefusal(out, problem.SubstrateUnavailable, call.Unanswered)
	if text := out.Problem.Text(); text != problem.SubstrateUnavailable.Forms().DefaultMessage {
		s.t.Fatalf("the refusal's text is %q", text)
	}
	streams, err := ReadStreams(s.ctx, s.store, s.pair)
	s.must(err)
	sealed, additionalData, ok := streams.Responses[0].SealedCause(s.pair)
	if !ok {
		s.t.Fatal("the void has no cause")
	}
	plain, err := s.opener.Open(s.ctx, additionalData, sealed)
	s.must(err)
	cause, err := call.ParseCause(plain)
	s.must(err)
	want := call.Cause{Kind: "substrate_unavailable", Text: "status: expected 200, got 503", Status: 503, Body: "own error: out of memory", DurationMS: cause.DurationMS}
	if cause != want || out.Cause == nil || *out.Cause != want {
		s.t.Fatalf("the stored cause is %+v, the outcome's cause %+v, want %+v", cause, out.Cause, want)
	}
	s.wantState(s.ask(s.hostB, e), call.Unanswered, nil)
}

func testFailures(s *scene) {
	s.setBehaviour("error", failWithError)
	s.wantFailedCall("error", problem.BehaviourFailed)
	for text, b := range map[string]call.Behaviour{
		"panic": func(context.Context, *call.Host, envelope.Envelope) (envelope.Message, error) {
			panic("the behaviour's own error")
		},
		"goexit": func(context.Context, *call.Host, envelope.Envelope) (envelope.Message, error) {
			runtime.Goexit()
			return envelope.Message{}, nil
		},
		"canceled": func(context.Context, *call.Host, envelope.Envelope) (envelope.Message, error) {
			return envelope.Message{}, context.Canceled
		},
	} {
		s.setBehaviour(text, b)
		s.startNewPair()
		s.wantFailedCall(text, problem.BehaviourFailed)
	}
}

func (s *scene) startNewPair() {
	s.wantInvariants()
	s.caller = s.newKey()
	s.pair.Caller = s.caller.ID()
}

func testDeadline(s *scene) {
	s.setBehaviour("late", func(context.Context, *call.Host, envelope.Envelope) (envelope.Message, error) {
		return envelope.Message{}, problem.New(problem.DeadlineExceeded, "the substrate took too long")
	})
	s.wantFailedCall("late", problem.DeadlineExceeded)
	s.setBehaviour("expired", func(context.Context, *call.Host, envelope.Envelope) (envelope.Message, error) {
		return envelope.Message{}, context.DeadlineExceeded
	})
	s.startNewPair()
	s.wantFailedCall("expired", problem.DeadlineExceeded)
}

func testIgnoredDeadline(s *scene) {
	s.hostA = s.newHostWith(func(c *call.Config) { c.CallTimeout = time.Millisecond })
	release := make(chan struct{})
	var running sync.WaitGroup
	running.Add(1)
	s.setBehaviour("deaf", func(context.Context, *call.Host, envelope.Envelope) (envelope.Message, error) {
		defer running.Done()
		<-release
		return envelope.Message{Parts: []string{"too late"}}, nil
	})
	e := s.signCall(nil, "deaf")
	s.wantRefusal(s.send(s.hostA, e), problem.DeadlineExceeded, call.Unanswered)
	close(release)
	running.Wait()
	s.wantState(s.ask(s.hostB, e), call.Unanswered, nil)
	s.wantRows("call | void 1")
}

func testUnsignableAnswer(s *scene) {
	longContextID := strings.Repeat("x", envelope.MaxIDBytes+1)
	for text, m := range map[string]envelope.Message{
		"not UTF-8":      {Parts: []string{"\xff"}},
		"NaN":            {SelfEval: &envelope.SelfEval{Honesty: math.NaN()}},
		"too many parts": {Parts: make([]string, envelope.MaxParts+1)},
		"long context":   {ContextID: &longContextID},
	} {
		s.setBehaviour(text, func(context.Context, *call.Host, envelope.Envelope) (envelope.Message, error) { return m, nil })
		s.wantFailedCall(text, problem.BehaviourFailed)
		s.startNewPair()
	}
	s.setBehaviour("last", failWithError)
	s.wantFailedCall("last", problem.BehaviourFailed)
}

type failingSigner struct{ identity.Signer }

func (failingSigner) Sign(context.Context, []byte) ([]byte, error) {
	return nil, errors.New("the key cannot be opened")
}

func testFailingSigner(s *scene) {
	workingHost := s.hostA
	s.hostA = s.newHostWith(func(c *call.Config) {
		d := c.Directory.(*Directory)
		v := d.Vacants[s.pair.Vacant]
		v.Signer = failingSigner{v.Signer}
		d.Vacants[s.pair.Vacant] = v
	})
	e := s.signCall(nil, "hi")
	s.wantRefusal(s.send(s.hostA, e), problem.BehaviourFailed, call.Unanswered)
	s.wantState(s.ask(s.hostB, e), call.Unanswered, nil)
	next := s.signCall(e, "next")
	s.wantAnswer(s.send(workingHost, next), next)
	s.wantRows("call, call | void 1, answer 2")
}

func testTooLargeAnswer(s *scene) {
	s.setBehaviour("much", func(context.Context, *call.Host, envelope.Envelope) (envelope.Message, error) {
		return envelope.Message{Parts: []string{strings.Repeat("much ", 100<<10)}}, nil
	})
	s.wantFailedCall("much", problem.SubstrateTooLarge)
}

func testForcedRole(s *scene) {
	for i, role := range []envelope.Role{envelope.RoleUser, envelope.RoleTool, "", "ROLE_KING"} {
		text := "as " + string(role)
		s.setBehaviour(text, func(context.Context, *call.Host, envelope.Envelope) (envelope.Message, error) {
			return envelope.Message{Role: role, Parts: []string{text}}, nil
		})
		e := s.signCall(nil, text)
		reply := s.wantAnswer(s.send(s.hostA, e), e)
		if reply.Payload.Role != envelope.RoleAgent {
			s.t.Fatalf("%d: Role = %q, want %q", i, reply.Payload.Role, envelope.RoleAgent)
		}
		s.wantState(s.ask(s.hostB, e), call.Answered, reply)
		s.startNewPair()
	}
}

func testCallerHangsUp(s *scene) {
	e := s.signCall(nil, "hi")
	ctx, cancel := context.WithCancel(s.ctx)
	g := s.addGate("hi")
	out := make(chan call.Outcome, 1)
	go func() { out <- s.hostA.Send(ctx, identity.ID{}, e) }()
	<-g.entered
	cancel()
	close(g.release)
	reply := s.wantAnswer(<-out, e)
	s.wantState(s.ask(s.hostB, e), call.Answered, reply)
	s.wantRows("call | answer 1")
}

func testCallerHangsUpBeforeAccept(s *scene) {
	e := s.signCall(nil, "hi")
	ctx, cancel := context.WithCancel(s.ctx)
	s.store.PrepareNext("Commit req", CallAfter(cancel))
	s.wantAnswer(s.hostA.Send(ctx, identity.ID{}, e), e)
	s.wantRows("call | answer 1")
}

func testSignedEnvelopeOnly(s *scene) {
	e := s.signCall(nil, "hi")
	var got envelope.Envelope
	s.setBehaviour("hi", func(_ context.Context, _ *call.Host, e envelope.Envelope) (envelope.Message, error) {
		got = e
		return envelope.Message{}, nil
	})
	s.wantAnswer(s.send(s.hostA, e), e)
	if encodeEnvelope(&got) != encodeEnvelope(e) {
		s.t.Fatalf("the behaviour received %s, want %s", encodeEnvelope(&got), encodeEnvelope(e))
	}
}

func testClockStepsBack(s *scene) {
	s.setBehaviour("back", func(context.Context, *call.Host, envelope.Envelope) (envelope.Message, error) {
		s.clock.Advance(-time.Minute)
		return envelope.Message{Parts: []string{"was that before"}}, nil
	})
	e := s.signCall(nil, "back")
	reply := s.wantAnswer(s.send(s.hostA, e), e)
	s.wantState(s.ask(s.hostB, e), call.Answered, reply)
	next := s.signAt(e, "next", e.Time)
	s.wantAnswer(s.send(s.hostA, next), next)
}
