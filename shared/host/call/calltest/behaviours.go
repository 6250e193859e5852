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

// behaviours covers the ways in which a behaviour can end.
var behaviours = []fact{
	{"a failing behaviour causes a void and status 500", failures},
	{"only the operator sees why an agent failed", causeKept},
	{"a behaviour that exceeds its deadline causes a void and status 504", deadline},
	{"the host does not wait for a behaviour that ignores its deadline", leftBehind},
	{"an answer that cannot be signed causes a void and status 500", unsignable},
	{"a failing signer causes a void and status 500", signerFails},
	{"an answer that is too large to store causes a void and a refusal", tooLarge},
	{"an answer has ROLE_AGENT whatever role the behaviour returns", roleForced},
	{"a call is answered and stored even if its caller disconnects", hungUp},
	{"a call is answered even if its caller disconnects before the accept", hungUpBefore},
	{"rows stay readable if the clock steps back", clockBack},
	{"a behaviour receives only the signed envelope", onlySigned},
}

func failWithError(context.Context, *call.Host, envelope.Envelope) (envelope.Message, error) {
	return envelope.Message{}, errors.New("the behaviour's own error")
}

// wantUnanswered sends a call that must fail with kind, resends it, and sends the next call.
func (s *scene) wantUnanswered(text string, kind problem.Kind) {
	s.t.Helper()
	e := s.call(nil, text)
	out := s.send(s.a, e)
	s.wantRefusal(out, kind, call.Unanswered)
	s.chain(out, e)
	if strings.Contains(out.Problem.Text(), "own error") {
		s.t.Fatalf("the refusal contains the behaviour's error: %q", out.Problem.Text())
	}
	s.wantRefusal(s.send(s.b, e), problem.Replay, call.Unanswered)
	s.wantRows("call | void 1")
	next := s.call(e, "next")
	if reply := s.wantAnswer(s.send(s.a, next), next); reply.Seq != 1 {
		s.t.Fatalf("Seq = %d, want 1: a void uses no sequence number", reply.Seq)
	}
	s.wantRows("call, call | void 1, answer 2")
	s.wantRuns(e, 1)
}

// causeKept sends a call whose behaviour fails with an AgentError. The caller must receive only the
// problem kind, and the void must contain the agent's response.
func causeKept(s *scene) {
	s.act("refuses", func(context.Context, *call.Host, envelope.Envelope) (envelope.Message, error) {
		return envelope.Message{}, &call.AgentError{Status: 503, Body: "own error: out of memory", Err: problem.New(problem.SubstrateUnavailable, "status: expected 200, got 503")}
	})
	e := s.call(nil, "refuses")
	out := s.send(s.a, e)
	s.wantRefusal(out, problem.SubstrateUnavailable, call.Unanswered)
	if text := out.Problem.Text(); text != problem.SubstrateUnavailable.Row().Text {
		s.t.Fatalf("the refusal's text is %q", text)
	}
	streams, err := ReadStreams(s.ctx, s.store, s.pair)
	s.must(err)
	sealed, bound, ok := streams.Responses[0].SealedCause(s.pair)
	if !ok {
		s.t.Fatal("the void has no cause")
	}
	plain, err := s.opener.Open(s.ctx, bound, sealed)
	s.must(err)
	cause, err := call.ParseCause(plain)
	s.must(err)
	want := call.Cause{Kind: "substrate_unavailable", Text: "status: expected 200, got 503", Status: 503, Body: "own error: out of memory", TookMS: cause.TookMS}
	if cause != want || out.Cause == nil || *out.Cause != want {
		s.t.Fatalf("the stored cause is %+v, the outcome's cause %+v, want %+v", cause, out.Cause, want)
	}
	s.wantState(s.ask(s.b, e), call.Unanswered, nil)
}

func failures(s *scene) {
	s.act("error", failWithError)
	s.wantUnanswered("error", problem.BehaviourFailed)
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
		s.act(text, b)
		s.renew()
		s.wantUnanswered(text, problem.BehaviourFailed)
	}
}

func (s *scene) renew() {
	s.verify()
	s.caller = s.key()
	s.pair.Caller = s.caller.ID()
}

func deadline(s *scene) {
	s.act("late", func(context.Context, *call.Host, envelope.Envelope) (envelope.Message, error) {
		return envelope.Message{}, problem.New(problem.Deadline, "the substrate took too long")
	})
	s.wantUnanswered("late", problem.Deadline)
	s.act("expired", func(context.Context, *call.Host, envelope.Envelope) (envelope.Message, error) {
		return envelope.Message{}, context.DeadlineExceeded
	})
	s.renew()
	s.wantUnanswered("expired", problem.Deadline)
}

func leftBehind(s *scene) {
	s.a = s.hostWith(func(c *call.Config) { c.Work = time.Millisecond })
	end := make(chan struct{})
	var left sync.WaitGroup
	left.Add(1)
	s.act("deaf", func(context.Context, *call.Host, envelope.Envelope) (envelope.Message, error) {
		defer left.Done()
		<-end
		return envelope.Message{Parts: []string{"too late"}}, nil
	})
	e := s.call(nil, "deaf")
	s.wantRefusal(s.send(s.a, e), problem.Deadline, call.Unanswered)
	close(end)
	left.Wait()
	s.wantState(s.ask(s.b, e), call.Unanswered, nil)
	s.wantRows("call | void 1")
}

func unsignable(s *scene) {
	long := strings.Repeat("x", envelope.MaxIDBytes+1)
	for text, m := range map[string]envelope.Message{
		"not UTF-8":      {Parts: []string{"\xff"}},
		"NaN":            {SelfEval: &envelope.SelfEval{Honesty: math.NaN()}},
		"too many parts": {Parts: make([]string, envelope.MaxParts+1)},
		"long context":   {ContextID: &long},
	} {
		s.act(text, func(context.Context, *call.Host, envelope.Envelope) (envelope.Message, error) { return m, nil })
		s.wantUnanswered(text, problem.BehaviourFailed)
		s.renew()
	}
	s.act("last", failWithError)
	s.wantUnanswered("last", problem.BehaviourFailed)
}

// noSigner is a signer that returns the vacant's id, but fails to sign.
type noSigner struct{ identity.Signer }

func (noSigner) Sign(context.Context, []byte) ([]byte, error) {
	return nil, errors.New("the key cannot be opened")
}

func signerFails(s *scene) {
	whole := s.a
	s.a = s.hostWith(func(c *call.Config) {
		d := c.Directory.(*Directory)
		v := d.Vacants[s.pair.Vacant]
		v.Signer = noSigner{v.Signer}
		d.Vacants[s.pair.Vacant] = v
	})
	e := s.call(nil, "hi")
	s.wantRefusal(s.send(s.a, e), problem.BehaviourFailed, call.Unanswered)
	s.wantState(s.ask(s.b, e), call.Unanswered, nil)
	next := s.call(e, "next")
	s.wantAnswer(s.send(whole, next), next)
	s.wantRows("call, call | void 1, answer 2")
}

func tooLarge(s *scene) {
	s.act("much", func(context.Context, *call.Host, envelope.Envelope) (envelope.Message, error) {
		return envelope.Message{Parts: []string{strings.Repeat("much ", 100<<10)}}, nil
	})
	s.wantUnanswered("much", problem.SubstrateTooLarge)
}

func roleForced(s *scene) {
	for i, role := range []envelope.Role{envelope.RoleUser, envelope.RoleTool, "", "ROLE_KING"} {
		text := "as " + string(role)
		s.act(text, func(context.Context, *call.Host, envelope.Envelope) (envelope.Message, error) {
			return envelope.Message{Role: role, Parts: []string{text}}, nil
		})
		e := s.call(nil, text)
		reply := s.wantAnswer(s.send(s.a, e), e)
		if reply.Payload.Role != envelope.RoleAgent {
			s.t.Fatalf("%d: Role = %q, want %q", i, reply.Payload.Role, envelope.RoleAgent)
		}
		s.wantState(s.ask(s.b, e), call.Answered, reply)
		s.renew()
	}
}

func hungUp(s *scene) {
	e := s.call(nil, "hi")
	ctx, cancel := context.WithCancel(s.ctx)
	g := s.hold("hi")
	out := make(chan call.Outcome, 1)
	go func() { out <- s.a.Send(ctx, identity.ID{}, e) }()
	<-g.entered
	cancel()
	close(g.leave)
	reply := s.wantAnswer(<-out, e)
	s.wantState(s.ask(s.b, e), call.Answered, reply)
	s.wantRows("call | answer 1")
}

func hungUpBefore(s *scene) {
	e := s.call(nil, "hi")
	ctx, cancel := context.WithCancel(s.ctx)
	s.store.Next("Commit req", After(cancel))
	s.wantAnswer(s.a.Send(ctx, identity.ID{}, e), e)
	s.wantRows("call | answer 1")
}

func onlySigned(s *scene) {
	e := s.call(nil, "hi")
	var got envelope.Envelope
	s.act("hi", func(_ context.Context, _ *call.Host, e envelope.Envelope) (envelope.Message, error) {
		got = e
		return envelope.Message{}, nil
	})
	s.wantAnswer(s.send(s.a, e), e)
	if wire(&got) != wire(e) {
		s.t.Fatalf("the behaviour received %s, want %s", wire(&got), wire(e))
	}
}

func clockBack(s *scene) {
	s.act("back", func(context.Context, *call.Host, envelope.Envelope) (envelope.Message, error) {
		s.clock.Advance(-time.Minute)
		return envelope.Message{Parts: []string{"was that before"}}, nil
	})
	e := s.call(nil, "back")
	reply := s.wantAnswer(s.send(s.a, e), e)
	s.wantState(s.ask(s.b, e), call.Answered, reply)
	next := s.sign(e, "next", e.Time)
	s.wantAnswer(s.send(s.a, next), next)
}
