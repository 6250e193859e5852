package dispatch_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch/dispatchtest"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"pgregory.net/rapid"
)

// TestRandomSchedules runs our caller against lost and doubled requests, lost
// replies, storage faults, refusals, behaviours that fail, hang or answer late,
// wrong clocks, a second device with the same key, an attacker who replays
// recorded requests, and processes that die at any Save.
//
// Always: no answer is taken for another request's, no envelope runs twice, and
// every envelope sent for a position stays listed while the host could still
// accept it. When the faults stop, the caller gets through and has learnt every
// stored answer.
func TestRandomSchedules(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := newSchedule(t, rt)
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			s.step()
		}
		s.finish()
	})
}

type schedule struct {
	rt      *rapid.T
	w       *world
	devices []*device
	attacks int
	texts   int
	late    bool // calls may have run more than once: several devices, or an attacker
}

type device struct {
	*world
	mine map[identity.Hash]bool               // envelopes that it signed
	got  map[identity.Hash]*envelope.Envelope // answers that it received
	fate map[identity.Hash]bool               // outcomes that it learnt
	last dispatch.State                       // as saved
	busy string                               // the text of a call that will be repeated
	runs map[string]bool
}

func newSchedule(t *testing.T, rt *rapid.T) *schedule {
	s := &schedule{rt: rt, w: newWorld(t)}
	n := rapid.IntRange(1, 2).Draw(rt, "devices")
	for i := range n {
		w := s.w.device()
		w.AutoReset, w.MaxTries, w.AnswerTimeout = true, 3, 2*time.Second
		d := &device{world: w, mine: map[identity.Hash]bool{}, got: map[identity.Hash]*envelope.Envelope{}, fate: map[identity.Hash]bool{}, runs: map[string]bool{}}
		skew := time.Duration(rapid.SampledFrom([]int{0, 0, 0, -100, 100, -600, 600}).Draw(rt, fmt.Sprint("skew", i))) * time.Second
		w.Now = func() time.Time { return w.clock.Now().Add(skew) }
		w.Rand = &dispatchtest.Random{Seed: uint64(i + 1)}
		w.book.check = func(st dispatch.State) { d.saved(rt, st) }
		s.devices = append(s.devices, d)
	}
	s.late = n > 1
	s.w.wire.Fault = func(path string, e *envelope.Envelope) string {
		for _, d := range s.devices {
			d.posted(rt, path, e)
		}
		rt.Logf("post %s: number %d %q %s, tip %+v", path, e.Seq, e.Payload.Text(), e.Hash().String()[:6], s.w.host.Pair(e.From).Tip())
		return rapid.SampledFrom([]string{"", "", "", "", "reply lost", "request lost", "503", "503 after", "twice", "unreachable", "garbled"}).Draw(rt, "fault")
	}
	s.w.host.Behaviour = func(*envelope.Envelope) string {
		return rapid.SampledFrom([]string{"answer", "answer", "answer", "fail", "hang"}).Draw(rt, "behave")
	}
	return s
}

// saved checks a state before it is saved.
func (d *device) saved(rt *rapid.T, st dispatch.State) {
	for _, e := range st.Sent {
		d.mine[e.Hash()] = true
	}
	for h := range d.mine {
		if d.listed(&st, h) || d.fate[h] || st.RequestTip.Hash == h {
			continue
		}
		if told := slices.ContainsFunc(st.UnreturnedOutcomes, func(l dispatch.CallOutcome) bool { return l.Request.Hash() == h }); told {
			continue
		}
		if d.open(h) {
			rt.Fatalf("envelope %s was forgotten, which the host may still take, or has taken", h.String()[:6])
		}
	}
	d.last = st
}

func (d *device) listed(st *dispatch.State, h identity.Hash) bool {
	for _, e := range slices.Concat(st.Sent, st.Acceptable, st.Overtaken) {
		if e.Hash() == h {
			return true
		}
	}
	return false
}

// open reports whether the host has accepted the envelope with hash h, or could
// do so at its present tip.
func (d *device) open(h identity.Hash) bool {
	for _, s := range d.wire.Posts {
		if s.Envelope.Hash() != h || !strings.HasSuffix(s.Path, "send") {
			continue
		}
		p := d.host.Pair(d.Signer.ID())
		for _, r := range p.Rows {
			if r.Hash == h {
				if r.Tip.Epoch+8 <= p.Tip().Epoch {
					return false // the host looks no further back
				}
				// Delivered already, if the call returned before this Save.
				return d.got[h] == nil && !d.fate[h] && !slices.ContainsFunc(d.last.UnreturnedOutcomes, func(l dispatch.CallOutcome) bool { return l.Request.Hash() == h })
			}
		}
		return p.Tip().CheckNext(&s.Envelope) == nil
	}
	return false
}

// posted checks a request against what was saved.
func (d *device) posted(rt *rapid.T, path string, e *envelope.Envelope) {
	h := e.Hash()
	if !d.mine[h] || !strings.HasSuffix(path, "send") {
		return
	}
	if !slices.ContainsFunc(d.last.Sent, func(x envelope.Envelope) bool { return x.Hash() == h }) {
		rt.Fatalf("envelope %d was sent, though it is not kept as sent", e.Seq)
	}
}

func (s *schedule) step() {
	switch rapid.SampledFrom([]string{"call", "call", "call", "call", "ask", "reset", "time", "late answer", "attack", "attack", "gate"}).Draw(s.rt, "step") {
	case "call":
		d := s.device()
		if d.busy == "" || rapid.IntRange(0, 3).Draw(s.rt, "give up") == 0 {
			s.texts++
			d.busy = fmt.Sprint("text ", s.texts)
		}
		s.call(d)
	case "ask":
		d := s.device()
		d.learn(s.rt, "")(d.Ask(s.rt.Context(), s.w.host.Target()))
	case "reset":
		if rapid.IntRange(0, 2).Draw(s.rt, "really") > 0 {
			return // rare, like resets
		}
		d := s.device()
		d.learn(s.rt, "")(d.Reset(s.rt.Context(), s.w.host.Target()))
	case "time":
		s.w.clock.Add(time.Duration(rapid.SampledFrom([]int{1, 40, 200, 700}).Draw(s.rt, "seconds")) * time.Second)
	case "late answer":
		for _, p := range s.w.host.Pairs {
			for _, r := range p.Rows {
				if r.Decision == "" {
					s.w.host.Answer(p, r)
					return
				}
			}
		}
	case "attack":
		if log := s.w.wire.Posts; len(log) > 0 {
			s.attacks++
			x := log[rapid.IntRange(0, len(log)-1).Draw(s.rt, "which")]
			path := rapid.SampledFrom([]string{"/a2a/message/send", "/a2a/chain/reset"}).Draw(s.rt, "route")
			s.w.host.Serve(path, []byte(x.Raw))
		}
	case "gate":
		kind := rapid.SampledFrom([]problem.Kind{0, problem.NotAccepting, problem.PaymentRequired}).Draw(s.rt, "kind")
		s.w.host.Refuse = nil
		if kind != 0 {
			s.w.host.Refuse = func(*envelope.Envelope) *problem.Error { return problem.New(kind, "not now") }
		}
	}
}

func (s *schedule) device() *device {
	return s.devices[rapid.IntRange(0, len(s.devices)-1).Draw(s.rt, "device")]
}

func (s *schedule) call(d *device) {
	at := 0
	if rapid.IntRange(0, 3).Draw(s.rt, "mortal") == 0 {
		at = d.book.saves + rapid.IntRange(1, 5).Draw(s.rt, "dies at")
	}
	how := rapid.SampledFrom([]string{"before", "after"}).Draw(s.rt, "how")
	d.book.die = func(n int) string { return map[bool]string{true: how}[n == at] }
	text := d.busy
	res, err := d.world.call(text)
	d.book.die = nil
	if err == nil || res.Fate != "" {
		d.busy = ""
	}
	d.learn(s.rt, text)(res, err)
}

// learn records a result and checks that every answer is to its request.
func (d *device) learn(rt *rapid.T, text string) func(dispatch.Result, error) {
	return func(res dispatch.Result, err error) {
		rt.Logf("=> %v %v, %d late, %v", res.Fate, res.RequestHash.String()[:6], len(res.LateOutcomes), err)
		if err == nil && text != "" && (res.Reply == nil || res.Request.Payload.Text() != text) {
			rt.Fatalf("Call(%q) = an answer to %q", text, res.Request.Payload.Text())
		}
		outcomes := slices.Clone(res.LateOutcomes)
		if res.Fate != "" {
			outcomes = append(outcomes, dispatch.CallOutcome{Request: res.Request, Fate: res.Fate, Reply: res.Reply})
		}
		for _, l := range outcomes {
			h := l.Request.Hash()
			d.fate[h] = true
			if l.Reply == nil {
				continue
			}
			if l.Reply.IdempotencyKey != envelope.ReplyKey(h) || l.Reply.Payload.Text() != "echo: "+l.Request.Payload.Text() {
				rt.Fatalf("the answer %q was taken for one to %q", l.Reply.Payload.Text(), l.Request.Payload.Text())
			}
			d.got[h] = l.Reply
		}
		if problem.Is(err, problem.Untrusted) && !strings.Contains(err.Error(), "not JSON") && !strings.Contains(err.Error(), "<html>") {
			rt.Fatalf("an honest host is not believed: %v", err)
		}
	}
}

// finish stops the faults and lets everyone get through.
func (s *schedule) finish() {
	s.w.wire.Fault, s.w.host.Refuse = nil, nil
	s.w.host.Behaviour = nil
	s.w.clock.Add(10 * time.Minute)
	for _, d := range s.devices {
		ok := false
		for range 6 {
			if d.busy == "" {
				d.busy = "last"
			}
			res, err := d.world.call(d.busy)
			d.learn(s.rt, d.busy)(res, err)
			if err == nil || res.Fate != "" {
				d.busy = ""
			}
			if ok = err == nil; ok {
				break
			}
			s.w.clock.Add(time.Minute)
		}
		if !ok {
			s.rt.Fatalf("no progress")
		}
		for range 2 { // what the last call left listed
			res, err := d.Ask(s.rt.Context(), s.w.host.Target())
			if err != nil {
				s.rt.Fatalf("Ask() = %v", err)
			}
			d.learn(s.rt, "")(res, err)
		}
	}
	s.check()
}

func (s *schedule) check() {
	if b := s.w.host.Violations; len(b) > 0 {
		s.rt.Fatalf("the host saw: %q", b)
	}
	resets, ran := 0, map[string]int{}
	for _, p := range s.w.host.Pairs {
		for _, r := range p.Rows {
			if r.Reset {
				resets++
				continue
			}
			ran[r.Envelope.IdempotencyKey]++
		}
	}
	for k, n := range ran {
		if n > 1 && !s.late {
			s.rt.Fatalf("call %s ran %d times on the word of one device", k, n)
		}
	}
	if resets > 7 {
		return // older epochs are not searched
	}
	for _, p := range s.w.host.Pairs {
		for _, r := range p.Rows {
			for _, d := range s.devices {
				if r.Decision == "answer" && d.mine[r.Hash] && d.got[r.Hash] == nil {
					s.rt.Fatalf("the answer to %q is stored and was never learnt", r.Envelope.Payload.Text())
				}
			}
		}
	}
}
