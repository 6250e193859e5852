package dispatch_test

import (
	"bytes"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch/dispatchtest"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func TestPrintedCallIsAcceptedByHand(t *testing.T) {
	w := newWorld(t)
	body, res, err := w.SignRequest(t.Context(), w.host.Target(), dispatchtest.UserMessage("hi"))
	if err != nil || res.Request.Seq != 1 || res.Resumed {
		t.Fatalf("Print() = %+v, %v", res, err)
	}
	again, res, err := w.SignRequest(t.Context(), w.host.Target(), dispatchtest.UserMessage("hi"))
	if err != nil || !res.Resumed || !bytes.Equal(again, body) {
		t.Fatalf("Print() again = %+v, %v, want the same bytes", res, err)
	}
	_, answer := w.host.Serve("/a2a/message/send", body)
	got, err := w.AcceptReply(t.Context(), w.host.Target(), answer)
	dispatchtest.WantAnswer(t, got, err, "echo: hi")
	if st := w.state(t); st.RequestTip.Seq != 1 || st.ResponseTip.Seq != 1 || st.CallKey != "" || len(w.wire.Posts) != 0 {
		t.Errorf("state = %+v, want it settled without a post", st)
	}
	_, err = w.AcceptReply(t.Context(), w.host.Target(), answer)
	dispatchtest.WantKind(t, err, problem.NotFound, "no call to demo is waiting for this answer")
	w.answers(t, "next")
}

func TestPrintedCallIsResumedByCall(t *testing.T) {
	w := newWorld(t)
	body, _, err := w.SignRequest(t.Context(), w.host.Target(), dispatchtest.UserMessage("hi"))
	must(t, err)
	w.host.Serve("/a2a/message/send", body)
	res := w.answers(t, "hi")
	if n := w.host.CountExecuted(res.Request.IdempotencyKey); n != 1 || !res.Resumed {
		t.Errorf("the call ran %d times, resumed %v", n, res.Resumed)
	}
}

func TestAcceptOfRefusals(t *testing.T) {
	type step struct {
		answer string
		kind   problem.Kind
		text   string
	}
	zeros := identity.Hash{}.String()
	for name, s := range map[string]step{
		"garbage":        {"<html>", problem.Untrusted, "neither an answer nor a refusal"},
		"empty object":   {"{}", problem.Untrusted, "neither"},
		"pending":        {`{"detail":"x","code":"replay","state":"pending"}`, problem.Pending, "same bytes again"},
		"a storm":        {`{"detail":"x","code":"unavailable"}`, problem.Pending, "same bytes again"},
		"asleep":         {`{"detail":"vacant is STALE","code":"not_accepting"}`, problem.NotAccepting, "vacant is STALE"},
		"moved":          {`{"detail":"x","code":"gap","expected_seq":9,"chain_tip":"` + zeros + `"}`, problem.Conflict, "a reset starts"},
		"moved, by text": {`{"detail":"non-monotonic sequence_no: expected 9, got 1"}`, problem.Conflict, "a reset starts"},
		"floor":          {`{"detail":"x","code":"floor","expected_seq":1,"floor":"2026-05-06T12:00:01+00:00"}`, problem.Conflict, "run the same command again to sign a new one"},
		"clock":          {`{"detail":"x","code":"clock","now":"2026-05-06T11:00:01+00:00"}`, problem.Conflict, "run the same command again to sign a new one"},
		"lost":           {`{"detail":"replay/out-of-order envelope: seq 1 <= last_seen 1"}`, problem.BehaviourFailed, "its answer is lost"},
		"unanswered":     {`{"detail":"it broke","state":"unanswered"}`, problem.BehaviourFailed, "call 1 to demo failed: it broke"},
		"of a resend":    {`{"detail":"replay/out-of-order envelope: seq 1 <= last_seen 1","code":"replay","state":"unanswered"}`, problem.BehaviourFailed, "failed: its agent failed, or took too long"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			body, _, err := w.SignRequest(t.Context(), w.host.Target(), dispatchtest.UserMessage("hi"))
			must(t, err)
			_, err = w.AcceptReply(t.Context(), w.host.Target(), []byte(s.answer))
			dispatchtest.WantKind(t, err, s.kind, s.text)
			again, res, err := w.SignRequest(t.Context(), w.host.Target(), dispatchtest.UserMessage("hi"))
			must(t, err)
			keeps := s.kind == problem.Untrusted || s.kind == problem.Pending || name == "moved" || name == "moved, by text"
			if bytes.Equal(again, body) != keeps {
				t.Errorf("Print() gives the same bytes: %v, want %v", !keeps, keeps)
			}
			if settled := s.kind == problem.BehaviourFailed; (res.Request.Seq == 2) != settled {
				t.Errorf("Print() took number %d, settled %v", res.Request.Seq, settled)
			}
		})
	}
}

func TestAcceptOfAnEarlierCallsAnswer(t *testing.T) {
	w := newWorld(t)
	one, _, err := w.SignRequest(t.Context(), w.host.Target(), dispatchtest.UserMessage("one"))
	must(t, err)
	_, answer := w.host.Serve("/a2a/message/send", one)
	two, _, err := w.SignRequest(t.Context(), w.host.Target(), dispatchtest.UserMessage("two")) // gives up the first
	must(t, err)
	_, refused := w.host.Serve("/a2a/message/send", two)
	_, err = w.AcceptReply(t.Context(), w.host.Target(), refused)
	dispatchtest.WantKind(t, err, problem.Conflict, "ask for its answer")
	res, err := w.AcceptReply(t.Context(), w.host.Target(), answer) // bound to the first
	dispatchtest.WantAnswer(t, res, err, "echo: one")
	if st := w.state(t); st.RequestTip.Seq != 1 || len(st.Overtaken) != 1 {
		t.Errorf("state = %+v, want the first settled and the second listed", st)
	}
	_, res, err = w.SignRequest(t.Context(), w.host.Target(), dispatchtest.UserMessage("two"))
	if err != nil || res.Request.Seq != 2 {
		t.Errorf("Print() = %+v, %v, want number 2", res, err)
	}
}

func TestAcceptNeverTakesAForeignAnswer(t *testing.T) {
	w := newWorld(t)
	must(t, errorOf2(w.SignRequest(t.Context(), w.host.Target(), dispatchtest.UserMessage("hi"))))
	e := envelope.Envelope{From: w.host.ID(), To: w.Signer.ID(), Seq: 1, Time: dispatchtest.Start, Payload: dispatchtest.UserMessage("forged"), IdempotencyKey: envelope.ReplyKey(identity.Hash{1})}
	must(t, errorOf(e.Sign(t.Context(), w.host.Key)))
	_, err := w.AcceptReply(t.Context(), w.host.Target(), envelope.AppendResponse(nil, nil, &e))
	dispatchtest.WantKind(t, err, problem.NotFound)
	if st := w.state(t); len(st.Sent) != 1 || st.RequestTip != (dispatch.Point{}) {
		t.Errorf("state = %+v, want it untouched", st)
	}
}

func TestPrintWaitsForAnUnfinishedReset(t *testing.T) {
	w := newWorld(t)
	w.wire.Fault = once("request lost", dispatch.DefaultTries)
	_, err := w.Reset(t.Context(), w.host.Target())
	dispatchtest.WantKind(t, err, problem.Pending, "not confirmed the reset")
	_, _, err = w.SignRequest(t.Context(), w.host.Target(), dispatchtest.UserMessage("hi"))
	dispatchtest.WantKind(t, err, problem.Conflict, "another reset finishes it")
	res, err := w.call("hi") // finishes it first
	dispatchtest.WantAnswer(t, res, err, "echo: hi")
	if !res.IsReset {
		t.Error("Call() does not say that it finished the reset")
	}
}

func TestAskTellsWhatIsOpen(t *testing.T) {
	w := newWorld(t)
	res, err := w.Ask(t.Context(), w.host.Target())
	if err != nil || res.RequestCount != 0 {
		t.Fatalf("Ask() with nothing listed = %+v, %v", res, err)
	}
	w.host.Behaviour = func(*envelope.Envelope) string { return "hang" }
	w.AnswerTimeout = 1
	w.fails(t, "hi", problem.Pending)
	res, err = w.Ask(t.Context(), w.host.Target())
	dispatchtest.WantKind(t, err, problem.Pending, "ask again later")
	if len(res.Undetermined) != 1 {
		t.Errorf("Unknown = %q", res.Undetermined)
	}
	w.wire.Fault = once("request lost", 1)
	_, err = w.Ask(t.Context(), w.host.Target())
	dispatchtest.WantKind(t, err, problem.Unavailable)
	for _, p := range w.host.Pairs {
		w.host.Answer(p, p.Rows[0])
	}
	res, err = w.Ask(t.Context(), w.host.Target())
	if err != nil || len(res.LateOutcomes) != 1 || res.LateOutcomes[0].Reply.Payload.Text() != "echo: hi" {
		t.Errorf("Ask() = %+v, %v, want the answer", res, err)
	}
	if st := w.state(t); st.RequestTip.Seq != 1 || st.CallKey != "" || len(st.UnreturnedOutcomes) != 0 {
		t.Errorf("state = %+v, want it settled", st)
	}
}
