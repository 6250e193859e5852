package dispatch_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch/dispatchtest"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"pgregory.net/rapid"
)

// TestRandomAnswers has a host, or a middleman, that answers anything: every status, random
// members, and replies that the target did sign, but for other requests or positions. It requires
// that no wrong answer is accepted, that every sent envelope was saved, and that an envelope signed
// for a position leaves the list only with a report.
func TestRandomAnswers(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		w.AutoReset = rapid.Bool().Draw(rt, "auto reset")
		w.MaxTries, w.AnswerTimeout = 2, time.Second
		var last dispatch.State
		var seen []envelope.Envelope
		told := map[identity.Hash]bool{}
		w.book.check = func(st dispatch.State) {
			for _, e := range slices.Concat(last.Sent, last.Acceptable) {
				h := e.Hash()
				in := func(list []envelope.Envelope) bool {
					return slices.ContainsFunc(list, func(x envelope.Envelope) bool { return x.Hash() == h })
				}
				late := slices.ContainsFunc(st.UnreturnedOutcomes, func(l dispatch.CallOutcome) bool { return l.Request.Hash() == h })
				if !in(st.Sent) && !in(st.Acceptable) && !in(st.Overtaken) && !late && !told[h] && st.RequestTip.Hash != h {
					rt.Fatalf("envelope %d vanished from the list", e.Seq)
				}
			}
			last = st
		}
		w.Transport = dispatchtest.PostFunc(func(url string, raw []byte) (int, []byte, error) {
			req, err := envelope.DecodeResetRequest(raw)
			if err != nil {
				rt.Fatalf("not a request: %v", err)
			}
			h := req.Envelope.Hash()
			kept := slices.ContainsFunc(last.Sent, func(x envelope.Envelope) bool { return x.Hash() == h })
			if strings.HasSuffix(url, "/send") && !kept {
				rt.Fatalf("envelope %d was sent, though it is not kept as sent", req.Envelope.Seq)
			}
			seen = append(seen, req.Envelope)
			return hostileAnswer(rt, w, seen, last)
		})
		for range rapid.IntRange(1, 6).Draw(rt, "steps") {
			var res dispatch.Result
			switch rapid.IntRange(0, 5).Draw(rt, "op") {
			case 0:
				res, _ = w.Ask(rt.Context(), w.host.Target())
			case 1:
				res, _ = w.Reset(rt.Context(), w.host.Target())
			default:
				text := rapid.SampledFrom([]string{"one", "two"}).Draw(rt, "text")
				var err error
				res, err = w.call(text)
				if err == nil && (res.Reply == nil || res.Request.Payload.Text() != text) {
					rt.Fatalf("Call(%q) succeeded with %+v", text, res)
				}
			}
			if res.Fate != "" {
				res.LateOutcomes = append(res.LateOutcomes, dispatch.CallOutcome{Request: res.Request, Reply: res.Reply})
			}
			for _, l := range res.LateOutcomes {
				h := l.Request.Hash()
				told[h] = true
				if l.Reply == nil {
					continue
				}
				if _, ok := l.Reply.VerifyBy(w.host.ID()); !ok || l.Reply.To != w.Signer.ID() {
					rt.Fatal("an answer of somebody else, or to somebody else, was believed")
				}
				if k := l.Reply.IdempotencyKey; envelope.IsReplyKey(k) && k != envelope.ReplyKey(h) {
					rt.Fatal("an answer bound to another request was believed")
				}
			}
		}
	})
}

func hostileAnswer(rt *rapid.T, w *world, seen []envelope.Envelope, st dispatch.State) (int, []byte, error) {
	pick := func(label string, of ...string) string { return rapid.SampledFrom(of).Draw(rt, label) }
	status := rapid.SampledFrom([]int{200, 200, 200, 202, 400, 401, 402, 404, 409, 409, 409, 410, 423, 429, 500, 503, 504}).Draw(rt, "status")
	some := func(label string) *envelope.Envelope {
		return &seen[rapid.IntRange(0, len(seen)-1).Draw(rt, label)]
	}
	reply := func() *envelope.Envelope {
		e := &envelope.Envelope{From: w.host.ID(), To: w.Signer.ID(), Seq: st.ResponseTip.Seq + 1, Prev: st.ResponseTip.Hash, Time: dispatchtest.Start, Payload: dispatchtest.UserMessage("x")}
		e.IdempotencyKey = map[string]string{"other": envelope.ReplyKey(some("request").Hash()), "this": envelope.ReplyKey(seen[len(seen)-1].Hash()), "none": "k"}[pick("bound", "this", "this", "other", "none")]
		switch pick("place", "next", "next", "gap", "fork") {
		case "gap":
			e.Seq += 1
		case "fork":
			e.Prev = identity.Hash{3}
		}
		signer := w.host.Key
		if pick("signer", "target", "target", "target", "caller") == "caller" {
			signer = w.Signer.(*identity.Key)
		}
		if _, err := e.Sign(rt.Context(), signer); err != nil {
			rt.Fatal(err)
		}
		return e
	}
	if status == 200 && pick("form", "answer", "members") == "answer" {
		return status, envelope.AppendResponse(nil, nil, reply()), nil
	}
	b := dispatchtest.Body{"detail": pick("detail", "x", "replay/out-of-order envelope: seq 1 <= last_seen 1", "replay/out-of-order envelope: seq 2 <= last_seen 2")}
	maybe := func(member string, v func() any) {
		if rapid.IntRange(0, 2).Draw(rt, member) == 0 {
			b[member] = v()
		}
	}
	maybe("state", func() any { return pick("st", "pending", "answered", "unanswered", "unknown", "too_old", "?") })
	maybe("ok", func() any { return rapid.Bool().Draw(rt, "yes") })
	maybe("code", func() any { return pick("c", "replay", "gap", "fork", "floor", "clock", "gone") })
	maybe("chain_tip", func() any { return pick("t", identity.Hash{}.String(), some("tip").Hash().String(), "zz") })
	maybe("expected_seq", func() any { return rapid.IntRange(-1, 4).Draw(rt, "n") })
	maybe("floor", func() any {
		return canon.FormatTime(dispatchtest.Start.Add(time.Duration(rapid.IntRange(-500, 500).Draw(rt, "f")) * time.Second))
	})
	maybe("now", func() any {
		return canon.FormatTime(dispatchtest.Start.Add(time.Duration(rapid.IntRange(-5000, 5000).Draw(rt, "w")) * time.Second))
	})
	maybe("reply_seq", func() any { return rapid.IntRange(-1, 3).Draw(rt, "rs") })
	maybe("reply_hash", func() any { return identity.Hash{5}.String() })
	maybe("reply", func() any { return json.RawMessage(envelope.AppendMessage(nil, reply())) })
	if rapid.IntRange(0, 9).Draw(rt, "lost") == 0 {
		return 0, nil, fmt.Errorf("lost")
	}
	return status, dispatchtest.Marshal(b), nil
}
