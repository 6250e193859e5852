package dispatch_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch/dispatchtest"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// The reference's servers have no code, state, reply or ask.
func referenceWorld(t *testing.T) *world {
	w := newWorld(t)
	w.host.Reference = true
	return w
}

func TestReferenceHostAnswers(t *testing.T) {
	w := referenceWorld(t)
	for n := int64(1); n <= 3; n++ {
		res := w.answers(t, "hi")
		if res.ReplyBound || res.ReplySeq != n {
			t.Errorf("Call() = %+v", res)
		}
	}
}

func TestReferenceHostThatTookTheCallAndLostTheAnswer(t *testing.T) {
	for _, fault := range []string{"reply lost", "500"} {
		t.Run(fault, func(t *testing.T) {
			w := referenceWorld(t)
			if fault == "500" {
				w.host.Behaviour = func(e *envelope.Envelope) string {
					if e.Seq == 1 {
						return "fail"
					}
					return "answer"
				}
			} else {
				w.wire.Fault = once(fault, 1)
			}
			res := w.fails(t, "one", problem.BehaviourFailed, "its answer is lost")
			if res.Fate != dispatch.AnswerLost || len(res.Undetermined) != 1 || !strings.Contains(res.Undetermined[0], "the outcome is unknown") {
				t.Errorf("Call() = %+v", res)
			}
			wantPaths(t, w, "send", "send")
			res, err := w.call("two") // follows a call whose answer was never received
			dispatchtest.WantAnswer(t, res, err, "echo: two")
			if res.Request.Seq != 2 || len(res.Undetermined) != 1 || !strings.Contains(res.Undetermined[0], "may be one of them") {
				t.Errorf("Call() = %+v", res)
			}
			st := w.state(t)
			wantSeq := map[string]int64{"reply lost": 2, "500": 1}[fault]
			if st.ResponseTip.Seq != wantSeq {
				t.Errorf("answer %d, want %d", st.ResponseTip.Seq, wantSeq)
			}
			w.host.Behaviour, w.wire.Fault = nil, nil
			w.answers(t, "three")
		})
	}
}

func TestReferenceHostGapIsAtMostWhatWasLost(t *testing.T) {
	w := referenceWorld(t)
	w.setState(t, func(st *dispatch.State) { st.LostAnswers = 2 })
	forge := func(seq int64) {
		w.Transport = dispatchtest.PostFunc(func(string, []byte) (int, []byte, error) {
			e := envelope.Envelope{From: w.host.ID(), To: w.Signer.ID(), Seq: seq, Prev: identity.Hash{7}, Time: dispatchtest.Start, Payload: dispatchtest.UserMessage("x"), IdempotencyKey: "u"}
			must(t, errorOf(e.Sign(t.Context(), w.host.Key)))
			return 200, envelope.AppendResponse(nil, nil, &e), nil
		})
	}
	forge(4)
	w.fails(t, "one", problem.Untrusted, "non-monotonic sequence_no: expected 1, got 4")
	forge(3)
	res, err := w.call("one")
	dispatchtest.WantAnswer(t, res, err, "x")
	if st := w.state(t); st.LostAnswers != 0 || st.ResponseTip.Seq != 3 {
		t.Errorf("state = %+v, want the gap used up", st)
	}
}

func TestReferenceHostEarlierCallWasTaken(t *testing.T) {
	w := referenceWorld(t)
	w.wire.Fault = once("reply lost", 1)
	w.MaxTries = 1
	first := w.fails(t, "one", problem.Pending)
	res, err := w.call("two") // 409 seq 1 <= last_seen 1: it can only be the first
	dispatchtest.WantAnswer(t, res, err, "echo: two")
	if len(res.LateOutcomes) != 1 || res.LateOutcomes[0].Fate != dispatch.AnswerLost || res.LateOutcomes[0].Request.Hash() != first.RequestHash || res.Request.Seq != 2 {
		t.Errorf("Call() = number %d, late %+v", res.Request.Seq, res.LateOutcomes)
	}
	// Earlier envelopes cannot be asked for there; they are given up with a
	// report.
	if st := w.state(t); len(st.Overtaken)+len(st.Sent)+len(st.Acceptable) != 0 {
		t.Errorf("state = %+v, want nothing listed", st)
	}
	found := false
	for _, u := range res.Undetermined {
		found = found || strings.Contains(u, "does not report outcomes of calls")
	}
	if !found {
		t.Errorf("Unknown = %q, want it said", res.Undetermined)
	}
}

func TestReferenceHostThatForgotIsReset(t *testing.T) {
	// The reference keeps its chains in memory: a restart loses them.
	for _, auto := range []bool{true, false} {
		w := referenceWorld(t)
		w.answers(t, "one")
		w.host.Pairs = map[identity.ID]*dispatchtest.Pair{}
		w.AutoReset = auto
		res, err := w.call("two")
		if auto {
			dispatchtest.WantAnswer(t, res, err, "echo: two")
			continue
		}
		dispatchtest.WantKind(t, err, problem.Conflict, "non-monotonic sequence_no: expected 1, got 2", "a reset starts it again")
		w.resets(t)
		w.answers(t, "two")
	}
}

func TestReferenceHostClockIsForAPerson(t *testing.T) {
	w := referenceWorld(t)
	w.Now = func() time.Time { return w.clock.Now().Add(-1000 * time.Second) }
	_, err := w.Reset(t.Context(), w.host.Target())
	dispatchtest.WantKind(t, err, problem.ClockSkew, "age=")
	if w.state(t).PendingReset != nil {
		t.Error("the refused reset is kept")
	}
}

func TestHostWithoutResetOrAsk(t *testing.T) {
	w := newWorld(t)
	w.Transport = dispatchtest.PostFunc(func(string, []byte) (int, []byte, error) { return 404, []byte(`{"detail":"Not Found"}`), nil })
	_, err := w.Reset(t.Context(), w.host.Target())
	dispatchtest.WantKind(t, err, problem.NotFound, "no chain reset at http://host.test/v/x/a2a/chain/reset")
	w.fails(t, "x", problem.NotFound)
}

func TestImportOfTheReferencesState(t *testing.T) {
	self, a, b := dispatchtest.NewKey(t, 1).ID(), dispatchtest.NewKey(t, 2).ID(), dispatchtest.NewKey(t, 3).ID()
	h := strings.Repeat("ab", 32)
	got, err := dispatch.ParseReference(self, []byte(`{"`+b.String()+`":{"request":{"last_hash_hex":"`+h+`","last_seq":3},"response":{"last_hash_hex":"","last_seq":0}},
		"`+a.String()+`":{"request":{"last_hash_hex":"`+strings.Repeat("0", 64)+`","last_seq":0},"x":1}}`))
	must(t, err)
	hash, _ := identity.ParseHash(h)
	wantStates := []dispatch.State{{Self: self, Target: a}, {Self: self, Target: b, RequestTip: dispatch.Point{Seq: 3, Hash: hash}}}
	if wantStates[0].Target.String() > wantStates[1].Target.String() {
		wantStates[0], wantStates[1] = wantStates[1], wantStates[0]
	}
	if d := cmp.Diff(wantStates, got); d != "" {
		t.Errorf("ParseReference() (-want +got):\n%s", d)
	}
	for name, bad := range map[string]string{
		"not an object":    `[]`,
		"not an id":        `{"x":{}}`,
		"negative":         `{"` + a.String() + `":{"request":{"last_seq":-1}}}`,
		"no hash":          `{"` + a.String() + `":{"request":{"last_seq":1}}}`,
		"hash without seq": `{"` + a.String() + `":{"request":{"last_hash_hex":"` + h + `"}}}`,
		"float":            `{"` + a.String() + `":{"request":{"last_seq":1.0,"last_hash_hex":"` + h + `"}}}`,
		"short hash":       `{"` + a.String() + `":{"request":{"last_seq":1,"last_hash_hex":"abcd"}}}`,
		"two cases":        `{"` + a.String() + `":{},"` + strings.ToUpper(a.String()) + `":{}}`,
		"trailing":         `{} {}`,
	} {
		if _, err := dispatch.ParseReference(self, []byte(bad)); !problem.Is(err, problem.Damaged) {
			t.Errorf("%s: ParseReference() = %v, want damaged", name, err)
		}
	}
}

// The next call follows the last envelope that the reference sent.
func TestImportedChainIsContinued(t *testing.T) {
	w := referenceWorld(t)
	res := w.answers(t, "one")
	file := `{"` + w.host.ID().String() + `":{"request":{"last_hash_hex":"` + res.RequestHash.String() + `","last_seq":1},"response":{"last_hash_hex":"` + res.ReplyHash.String() + `","last_seq":1}}}`
	states, err := dispatch.ParseReference(w.Signer.ID(), []byte(file))
	must(t, err)
	moved := w.device()
	moved.setState(t, func(st *dispatch.State) { *st = states[0] })
	res = moved.answers(t, "two")
	if res.Request.Seq != 2 || res.ReplySeq != 2 {
		t.Errorf("Call() = %d, %d, want 2, 2", res.Request.Seq, res.ReplySeq)
	}
}
