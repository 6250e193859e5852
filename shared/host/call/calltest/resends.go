package calltest

import (
	"context"
	"crypto/rand"
	"path/filepath"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/local"
	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// resends covers the outcomes of resends, and the refusals of new envelopes.
var resends = []fact{
	{"a resend gets its answer, with the same status and text as a replay", resendAnswered},
	{"a refusal reports that a copy of the call was accepted", refusalAfter},
	{"a duplicate is pending while the first delivery runs", duplicate},
	{"a refused call can be accepted later, and a resend reports it", acceptedLater},
	{"a refusal by a paused or sunk vacant reports a pending call", statePending},
	{"a dead executor's call is unanswered after its due time, not earlier", deadExecutor},
	{"an answer whose text is destroyed is reported by number and hash", textGone},
	{"an answer that is many pages after its request is found", farBehind},
	{"a page with a gap is read again", holeInPage},
	{"the sweeper decides only overdue calls", sweeper},
	{"a call with a shorter time limit has an earlier due time", shortDeadline},
	{"chain checks are made in the order that the protocol fixes", chainRefusals},
	{"a refusal of a forged or misdirected envelope does not reveal the chain", strangers},
	{"a call to oneself is refused", selfCall},
	{"a refused call is never charged", refusalsAreFree},
	{"an envelope signed at or before the vacant's floor is refused", vacantFloor},
}

func resendAnswered(s *scene) {
	first := s.call(nil, "first")
	reply := s.wantAnswer(s.send(s.a, first), first)
	second := s.call(first, "second")
	s.wantAnswer(s.send(s.b, second), second)
	bare := *first
	bare.Time = bare.Time.Add(time.Microsecond)
	s.resign(&bare)
	other := s.send(s.a, &bare) // another envelope with the same seq
	for range 2 {
		out := s.send(s.a, first)
		s.wantRefusal(out, problem.Replay, call.Answered)
		s.wantState(out, call.Answered, reply)
		s.chain(out, second)
		if out.Problem.Text() != other.Problem.Text() {
			s.t.Fatalf("a resend gets the text %q, a replay %q", out.Problem.Text(), other.Problem.Text())
		}
	}
	s.wantRefusal(other, problem.Replay, "")
	out := s.ask(s.b, first)
	s.wantState(out, call.Answered, reply)
	s.chain(out, second)
	if out.Problem != nil || !out.Floor.Equal(second.Time) {
		s.t.Fatalf("Ask() = %v, floor %v, want %v", out.Problem, out.Floor, second.Time)
	}
}

// One copy of the call is refused because the vacant hibernates, although another copy was accepted.
func refusalAfter(s *scene) {
	e := s.call(nil, "slow")
	s.state(lifecycle.Hibernating)
	s.wantRefusal(s.send(s.b, e), problem.NotAccepting, "")
	s.state(lifecycle.Active)
	x := s.start(s.a, e)
	s.state(lifecycle.Hibernating)
	s.clock.Advance(2 * time.Second)
	s.wantRefusal(s.send(s.b, e), problem.NotAccepting, call.Pending)
	reply := s.wantAnswer(x.finish(), e)
	out := s.send(s.b, e)
	s.wantRefusal(out, problem.NotAccepting, call.Answered)
	s.wantState(out, call.Answered, reply)
}

func duplicate(s *scene) {
	e := s.call(nil, "slow")
	x := s.start(s.a, e)
	for _, h := range []*call.Host{s.a, s.b} {
		out := s.send(h, e)
		s.wantRefusal(out, problem.Replay, call.Pending)
		s.chain(out, e)
		s.wantState(s.ask(h, e), call.Pending, nil)
	}
	s.wantAnswer(x.finish(), e)
	s.wantRuns(e, 1)
}

func acceptedLater(s *scene) {
	first := s.call(nil, "first")
	second := s.call(first, "second")
	s.wantRefusal(s.send(s.a, second), problem.Gap, "")
	s.wantState(s.ask(s.b, second), call.Unknown, nil)
	s.wantAnswer(s.send(s.b, first), first)
	reply := s.wantAnswer(s.send(s.a, second), second)
	s.wantState(s.send(s.b, second), call.Answered, reply)
}

func statePending(s *scene) {
	e := s.call(nil, "slow")
	x := s.start(s.a, e)
	for _, c := range []struct {
		state lifecycle.State
		kind  problem.Kind
	}{{lifecycle.Hibernating, problem.NotAccepting}, {lifecycle.Sunk, problem.Gone}} {
		s.state(c.state)
		s.clock.Advance(2 * time.Second)
		s.wantRefusal(s.send(s.a, e), c.kind, call.Pending)
		s.wantRefusal(s.send(s.b, e), c.kind, call.Pending)
	}
	s.clock.Advance(due)
	s.wantRefusal(s.send(s.b, e), problem.Gone, call.Unanswered)
	s.wantRefusal(x.finish(), problem.Deadline, call.Unanswered)
}

func deadExecutor(s *scene) {
	e := s.call(nil, "hi")
	s.store.Next("Commit req", Repeat(LoseAck, 6)...) // accepted, but the host gives up
	s.wantRefusal(s.send(s.a, e), problem.Unavailable, "")
	s.wantRuns(e, 0)
	s.clock.Advance(due)
	s.wantRefusal(s.send(s.b, e), problem.Replay, call.Pending)
	s.wantRows("call | none")
	s.clock.Advance(time.Microsecond)
	s.wantRefusal(s.send(s.b, e), problem.Replay, call.Unanswered)
	s.wantState(s.ask(s.a, e), call.Unanswered, nil)
	s.wantRows("call | void 1")
	s.wantRuns(e, 0)
}

// With the host's real keys, the day ends, the retention passes, and the key is destroyed.
func textGone(s *scene) {
	vault, err := local.Open(filepath.Join(s.t.TempDir(), "seal.key"), rand.Reader)
	s.must(err)
	s.vault = vault
	s.useRealKeys()
	e := s.call(nil, "hi")
	reply := s.wantAnswer(s.send(s.a, e), e)
	s.wantState(s.ask(s.b, e), call.Answered, reply)
	s.clock.Advance(24*time.Hour + textkeys.MinRetention)
	keys := textkeys.New(s.store, vault, s.clock.NowFunc(0), rand.Reader, 0)
	s.must(keys.Warm(s.ctx))
	if n, err := keys.Sweep(s.ctx); n != 1 || err != nil {
		s.t.Fatalf("Sweep() = %d, %v, want 1", n, err)
	}
	for _, out := range []call.Outcome{s.send(s.a, e), s.ask(s.b, e)} {
		if out.State != call.Answered || out.Reply != nil || out.ReplySeq != 1 || out.ReplyHash != reply.Hash() {
			s.t.Fatalf("state %q, reply %v, seq %d, hash %.8s; want answered, no reply, 1, %.8s", out.State, out.Reply, out.ReplySeq, out.ReplyHash, reply.Hash())
		}
		s.chain(out, e)
	}
	next := s.call(e, "next")
	s.wantAnswer(s.send(s.a, next), next)
}

// A request and its decision are more than a page apart.
func farBehind(s *scene) {
	slow := s.call(nil, "slow")
	x := s.start(s.a, slow)
	last := slow
	for range 140 {
		last = s.call(last, "quick")
		s.wantAnswer(s.send(s.a, last), last)
	}
	reply := s.wantAnswer(x.finish(), slow)
	s.wantState(s.send(s.b, slow), call.Answered, reply)
	if reply.Seq != 141 {
		s.t.Fatalf("Seq = %d, want 141", reply.Seq)
	}
}

// A page contains row 2 but not row 1, which was written earlier.
func holeInPage(s *scene) {
	first := s.call(nil, "slow")
	x := s.start(s.a, first)
	second := s.call(first, "quick")
	s.wantAnswer(s.send(s.b, second), second)
	reply := s.wantAnswer(x.finish(), first)
	third := s.call(second, "more")
	s.wantAnswer(s.send(s.b, third), third)
	holes := 0
	s.a = s.hostWith(func(c *call.Config) {
		c.Store = &hiding{Store: s.store, hide: func(rows []store.Row) []store.Row {
			if holes++; holes == 1 && len(rows) == 3 {
				return rows[1:]
			}
			return rows
		}}
	})
	s.wantState(s.ask(s.a, first), call.Answered, reply)
	if holes != 2 {
		s.t.Fatalf("%d reads, want 2", holes)
	}
}

// hiding wraps a store. hide can remove rows from each page of responses.
type hiding struct {
	store.Store
	hide func([]store.Row) []store.Row
}

func (h *hiding) Rows(ctx context.Context, s store.Stream, from uint64, n int, d store.Direction) ([]store.Row, error) {
	rows, err := h.Store.Rows(ctx, s, from, n, d)
	if s.Kind() == store.KindResponse {
		rows = h.hide(rows)
	}
	return rows, err
}

func sweeper(s *scene) {
	s.charge(30)
	s.store.Next("Commit req", Repeat(LoseAck, 6)...)
	lost := s.call(nil, "lost")
	s.wantRefusal(s.send(s.a, lost), problem.Unavailable, "")
	fine := s.call(lost, "fine")
	s.wantAnswer(s.send(s.a, fine), fine)
	sweep := func(want int) {
		s.t.Helper()
		left, err := s.ledger.Sweep(s.ctx, s.b, s.pair.Caller)
		s.must(err)
		if left != want {
			s.t.Fatalf("Sweep() leaves %d reminders, want %d", left, want)
		}
	}
	sweep(1)
	s.clock.Advance(due)
	sweep(1)
	s.wantRows("call, call | answer 2")
	s.balance(10)
	s.clock.Advance(time.Second)
	sweep(0)
	s.wantRows("call, call | answer 2, void 1")
	s.balance(20)
	sweep(0)
	if _, err := s.b.ResolveOverdue(s.ctx, s.pair, 9); !problem.Is(err, problem.NotFound) {
		s.t.Fatalf("ResolveOverdue() of a missing call = %v, want not found", err)
	}
}

// If the time limit of the behaviour is shorter, other hosts may void the call earlier.
func shortDeadline(s *scene) {
	s.a = s.hostWith(func(c *call.Config) { c.Work = 5 * time.Second })
	e := s.call(nil, "hi")
	s.wantAnswer(s.send(s.a, e), e)
	got, err := ReadStreams(s.ctx, s.store, s.pair)
	s.must(err)
	if want := s.clock.NowFunc(0)().Add(5*time.Second + call.Grace); !got.Requests[0].Due.Equal(want) {
		s.t.Fatalf("Due = %v, want %v", got.Requests[0].Due, want)
	}
}

func chainRefusals(s *scene) {
	first := s.call(nil, "first")
	s.wantAnswer(s.send(s.a, first), first)
	second := s.call(first, "second")
	s.wantAnswer(s.send(s.a, second), second)
	for _, c := range []struct {
		seq  int64
		prev identity.Hash
		kind problem.Kind
		text string
	}{
		{1, identity.Hash{}, problem.Replay, "replay/out-of-order envelope: seq 1 <= last_seen 2"},
		{2, first.Hash(), problem.Replay, "replay/out-of-order envelope: seq 2 <= last_seen 2"},
		{2, second.Hash(), problem.Replay, "replay/out-of-order envelope: seq 2 <= last_seen 2"},
		{4, second.Hash(), problem.Gap, "non-monotonic sequence_no: expected 3, got 4"},
		{4, first.Hash(), problem.Gap, "non-monotonic sequence_no: expected 3, got 4"},
		{3, first.Hash(), problem.Fork, "prev_envelope_hash mismatch: expected " + second.Hash().String() + ", got " + first.Hash().String()},
		{envelope.MaxSeq, second.Hash(), problem.Gap, "non-monotonic sequence_no: expected 3, got 9007199254740991"},
	} {
		e := s.call(nil, "other")
		e.Seq, e.Prev = c.seq, c.prev
		out := s.send(s.b, s.resign(e))
		s.wantRefusal(out, c.kind, "")
		s.chain(out, second)
		if out.Problem.Text() != c.text {
			s.t.Fatalf("Text = %q, want %q", out.Problem.Text(), c.text)
		}
		s.wantRuns(e, 0)
	}
	third := s.call(second, "third") // and the valid next call succeeds
	s.wantAnswer(s.send(s.a, third), third)
}

func strangers(s *scene) {
	e := s.call(nil, "hi")
	s.wantAnswer(s.send(s.a, e), e)
	s.store.Trace()
	learnt := func(out call.Outcome, kind problem.Kind) {
		s.t.Helper()
		s.wantRefusal(out, kind, "")
		if out.HasChain || !out.Floor.IsZero() || !out.Now.IsZero() || out.Position != 0 {
			s.t.Fatalf("the refusal reveals the chain: %+v", out)
		}
	}
	forged := *s.call(e, "next")
	forged.Payload.Parts = []string{"changed"}
	s.state(lifecycle.Sunk) // 401 takes precedence over the state
	s.clock.Advance(2 * time.Second)
	s.store.Trace()
	learnt(s.send(s.a, &forged), problem.BadSignature)
	learnt(s.ask(s.a, &forged), problem.BadSignature)
	for _, name := range s.store.Trace() {
		if name != "Doc v" {
			s.t.Fatalf("a forged envelope causes the store call %q", name)
		}
	}
	learnt(s.a.Send(s.ctx, s.key().ID(), e), problem.Misdirected)
	learnt(s.a.Ask(s.ctx, s.key().ID(), e), problem.Misdirected)
	away := s.call(e, "away")
	away.To = s.key().ID()
	learnt(s.send(s.a, s.resign(away)), problem.Misdirected)
	learnt(s.ask(s.a, away), problem.Misdirected)
	s.state(lifecycle.Active)
}

func selfCall(s *scene) {
	e := s.call(nil, "to myself")
	e.To = e.From
	s.resign(e)
	s.wantRefusal(s.send(s.a, e), problem.Malformed, "")
	s.wantRefusal(s.ask(s.a, e), problem.Malformed, "")
	got, err := ReadStreams(s.ctx, s.store, call.Pair{Caller: e.From, Vacant: e.From})
	s.must(err)
	if len(got.Requests) > 0 {
		s.t.Fatal("a call to oneself was accepted")
	}
}

func refusalsAreFree(s *scene) {
	s.charge(30)
	e := s.call(nil, "hi")
	s.wantAnswer(s.send(s.a, e), e)
	s.balance(20)
	far := s.sign(e, "far", s.clock.NowFunc(0)().Add(time.Hour))
	for _, x := range []*envelope.Envelope{e, s.call(nil, "again"), far, s.sign(far, "gap", e.Time)} {
		if out := s.send(s.a, x); out.Problem == nil {
			s.t.Fatalf("%q is not refused", x.Payload.Text())
		}
		s.ask(s.b, x)
	}
	s.balance(20)
}

// An imported or restored vacant has a floor, because the host does not know the calls accepted
// earlier.
func vacantFloor(s *scene) {
	floor := s.clock.NowFunc(0)()
	firstCall := s.call(nil, "known")
	reply := s.wantAnswer(s.send(s.b, firstCall), firstCall)
	s.a = s.hostWith(func(c *call.Config) {
		d := c.Directory.(*Directory)
		v := d.Vacants[s.pair.Vacant]
		v.Floor = floor
		d.Vacants[s.pair.Vacant] = v
	})
	below := func(out call.Outcome, tip *envelope.Envelope) {
		s.t.Helper()
		s.wantRefusal(out, problem.Floor, "")
		s.chain(out, tip)
		if !out.Floor.Equal(floor) {
			s.t.Fatalf("Floor = %v, want %v", out.Floor, floor)
		}
	}
	below(s.send(s.a, s.call(firstCall, "at the floor")), firstCall)
	below(s.resetAt(s.a, s.reset()), firstCall)
	s.wantState(s.send(s.a, firstCall), call.Answered, reply) // accepted on this host
	s.clock.Advance(time.Second)
	next := s.call(firstCall, "later")
	s.wantAnswer(s.send(s.a, next), next)
	s.renew() // the same holds for pairs without rows
	below(s.send(s.a, s.sign(nil, "first", floor)), nil)
	below(s.resetAt(s.a, s.sign(nil, envelope.ResetText, floor)), nil)
	first := s.call(nil, "first, later")
	s.wantAnswer(s.send(s.a, first), first)
}
