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

// resendTests covers the outcomes of resends, and the refusals of new envelopes.
var resendTests = []contractTest{
	{"a resend gets its answer, with the same status and text as a replay", testResendReturnsAnswer},
	{"a refusal reports that a copy of the call was accepted", testRefusalReportsAcceptance},
	{"a duplicate is pending while the first delivery runs", testConcurrentDuplicate},
	{"a refused call can be accepted later, and a resend reports it", testAcceptAfterRefusal},
	{"a refusal by a paused or sunk vacant reports a pending call", testPendingOfInactiveVacant},
	{"a dead executor's call is unanswered after its due time, not earlier", testDeadExecutor},
	{"an answer whose text is destroyed is reported by number and hash", testDestroyedText},
	{"an answer that is many pages after its request is found", testDistantAnswer},
	{"a page with a gap is read again", testGapInPage},
	{"the sweeper decides only overdue calls", testSweep},
	{"a call with a shorter time limit has an earlier due time", testShortDeadline},
	{"chain checks are made in the order that the protocol fixes", testChainRefusals},
	{"a refusal of a forged or misdirected envelope does not reveal the chain", testStrangersLearnNothing},
	{"a call to oneself is refused", testSelfCall},
	{"a refused call is never charged", testRefusalsAreFree},
	{"an envelope signed at or before the vacant's floor is refused", testVacantFloor},
}

func testResendReturnsAnswer(s *scene) {
	first := s.signCall(nil, "first")
	reply := s.wantAnswer(s.send(s.hostA, first), first)
	second := s.signCall(first, "second")
	s.wantAnswer(s.send(s.hostB, second), second)
	sameSeq := *first
	sameSeq.Time = sameSeq.Time.Add(time.Microsecond)
	s.signAgain(&sameSeq)
	other := s.send(s.hostA, &sameSeq) // another envelope with the same seq
	for range 2 {
		out := s.send(s.hostA, first)
		s.wantRefusal(out, problem.Replay, call.Answered)
		s.wantState(out, call.Answered, reply)
		s.wantChainTip(out, second)
		if out.Problem.Text() != other.Problem.Text() {
			s.t.Fatalf("a resend gets the text %q, a replay %q", out.Problem.Text(), other.Problem.Text())
		}
	}
	s.wantRefusal(other, problem.Replay, "")
	out := s.ask(s.hostB, first)
	s.wantState(out, call.Answered, reply)
	s.wantChainTip(out, second)
	if out.Problem != nil || !out.Floor.Equal(second.Time) {
		s.t.Fatalf("Ask() = %v, floor %v, want %v", out.Problem, out.Floor, second.Time)
	}
}

// One copy of the call is refused because the vacant hibernates, although another copy was
// accepted.
func testRefusalReportsAcceptance(s *scene) {
	e := s.signCall(nil, "slow")
	s.setVacantState(lifecycle.Hibernating)
	s.wantRefusal(s.send(s.hostB, e), problem.NotAccepting, "")
	s.setVacantState(lifecycle.Active)
	pending := s.startCall(s.hostA, e)
	s.setVacantState(lifecycle.Hibernating)
	s.clock.Advance(2 * time.Second)
	s.wantRefusal(s.send(s.hostB, e), problem.NotAccepting, call.Pending)
	reply := s.wantAnswer(pending.finish(), e)
	out := s.send(s.hostB, e)
	s.wantRefusal(out, problem.NotAccepting, call.Answered)
	s.wantState(out, call.Answered, reply)
}

func testConcurrentDuplicate(s *scene) {
	e := s.signCall(nil, "slow")
	pending := s.startCall(s.hostA, e)
	for _, h := range []*call.Host{s.hostA, s.hostB} {
		out := s.send(h, e)
		s.wantRefusal(out, problem.Replay, call.Pending)
		s.wantChainTip(out, e)
		s.wantState(s.ask(h, e), call.Pending, nil)
	}
	s.wantAnswer(pending.finish(), e)
	s.wantRuns(e, 1)
}

func testAcceptAfterRefusal(s *scene) {
	first := s.signCall(nil, "first")
	second := s.signCall(first, "second")
	s.wantRefusal(s.send(s.hostA, second), problem.Gap, "")
	s.wantState(s.ask(s.hostB, second), call.Unknown, nil)
	s.wantAnswer(s.send(s.hostB, first), first)
	reply := s.wantAnswer(s.send(s.hostA, second), second)
	s.wantState(s.send(s.hostB, second), call.Answered, reply)
}

func testPendingOfInactiveVacant(s *scene) {
	e := s.signCall(nil, "slow")
	pending := s.startCall(s.hostA, e)
	for _, c := range []struct {
		state lifecycle.State
		kind  problem.Kind
	}{{lifecycle.Hibernating, problem.NotAccepting}, {lifecycle.Sunk, problem.Gone}} {
		s.setVacantState(c.state)
		s.clock.Advance(2 * time.Second)
		s.wantRefusal(s.send(s.hostA, e), c.kind, call.Pending)
		s.wantRefusal(s.send(s.hostB, e), c.kind, call.Pending)
	}
	s.clock.Advance(voidDelay)
	s.wantRefusal(s.send(s.hostB, e), problem.Gone, call.Unanswered)
	s.wantRefusal(pending.finish(), problem.DeadlineExceeded, call.Unanswered)
}

func testDeadExecutor(s *scene) {
	e := s.signCall(nil, "hi")
	s.store.PrepareNext("Commit req", Repeat(LoseAck, 6)...) // accepted, but the host gives up
	s.wantRefusal(s.send(s.hostA, e), problem.Unavailable, "")
	s.wantRuns(e, 0)
	s.clock.Advance(voidDelay)
	s.wantRefusal(s.send(s.hostB, e), problem.Replay, call.Pending)
	s.wantRows("call | none")
	s.clock.Advance(time.Microsecond)
	s.wantRefusal(s.send(s.hostB, e), problem.Replay, call.Unanswered)
	s.wantState(s.ask(s.hostA, e), call.Unanswered, nil)
	s.wantRows("call | void 1")
	s.wantRuns(e, 0)
}

// The hosts use real text keys. The day ends, the retention passes, and the day's key is destroyed.
func testDestroyedText(s *scene) {
	vault, err := local.Open(filepath.Join(s.t.TempDir(), "seal.key"), rand.Reader)
	s.must(err)
	s.vault = vault
	s.useRealTextKeys()
	e := s.signCall(nil, "hi")
	reply := s.wantAnswer(s.send(s.hostA, e), e)
	s.wantState(s.ask(s.hostB, e), call.Answered, reply)
	s.clock.Advance(24*time.Hour + textkeys.MinRetention)
	keys := textkeys.New(s.store, vault, s.clock.NowFunc(0), rand.Reader, 0)
	s.must(keys.Warm(s.ctx))
	if n, err := keys.Sweep(s.ctx); n != 1 || err != nil {
		s.t.Fatalf("Sweep() = %d, %v, want 1", n, err)
	}
	for _, out := range []call.Outcome{s.send(s.hostA, e), s.ask(s.hostB, e)} {
		if out.State != call.Answered || out.Reply != nil || out.ReplySeq != 1 || out.ReplyHash != reply.Hash() {
			s.t.Fatalf("state %q, reply %v, seq %d, hash %.8s; want answered, no reply, 1, %.8s", out.State, out.Reply, out.ReplySeq, out.ReplyHash, reply.Hash())
		}
		s.wantChainTip(out, e)
	}
	next := s.signCall(e, "next")
	s.wantAnswer(s.send(s.hostA, next), next)
}

// A request and its decision are more than a page apart.
func testDistantAnswer(s *scene) {
	slow := s.signCall(nil, "slow")
	pending := s.startCall(s.hostA, slow)
	last := slow
	for range 140 {
		last = s.signCall(last, "quick")
		s.wantAnswer(s.send(s.hostA, last), last)
	}
	reply := s.wantAnswer(pending.finish(), slow)
	s.wantState(s.send(s.hostB, slow), call.Answered, reply)
	if reply.Seq != 141 {
		s.t.Fatalf("Seq = %d, want 141", reply.Seq)
	}
}

// The first page of responses lacks row 1 but contains the later rows.
func testGapInPage(s *scene) {
	first := s.signCall(nil, "slow")
	pending := s.startCall(s.hostA, first)
	second := s.signCall(first, "quick")
	s.wantAnswer(s.send(s.hostB, second), second)
	reply := s.wantAnswer(pending.finish(), first)
	third := s.signCall(second, "more")
	s.wantAnswer(s.send(s.hostB, third), third)
	reads := 0
	s.hostA = s.newHostWith(func(c *call.Config) {
		c.Store = &gapStore{Store: s.store, filterRows: func(rows []store.Row) []store.Row {
			if reads++; reads == 1 && len(rows) == 3 {
				return rows[1:]
			}
			return rows
		}}
	})
	s.wantState(s.ask(s.hostA, first), call.Answered, reply)
	if reads != 2 {
		s.t.Fatalf("%d reads, want 2", reads)
	}
}

// gapStore wraps a store. filterRows can remove rows from each page of responses.
type gapStore struct {
	store.Store
	filterRows func([]store.Row) []store.Row
}

func (g *gapStore) Rows(ctx context.Context, s store.Stream, from uint64, n int, d store.Direction) ([]store.Row, error) {
	rows, err := g.Store.Rows(ctx, s, from, n, d)
	if s.Kind() == store.KindResponse {
		rows = g.filterRows(rows)
	}
	return rows, err
}

func testSweep(s *scene) {
	s.useLedger(30)
	s.store.PrepareNext("Commit req", Repeat(LoseAck, 6)...)
	lostCall := s.signCall(nil, "lost")
	s.wantRefusal(s.send(s.hostA, lostCall), problem.Unavailable, "")
	answeredCall := s.signCall(lostCall, "fine")
	s.wantAnswer(s.send(s.hostA, answeredCall), answeredCall)
	sweep := func(want int) {
		s.t.Helper()
		remaining, err := s.ledger.Sweep(s.ctx, s.hostB, s.pair.Caller)
		s.must(err)
		if remaining != want {
			s.t.Fatalf("Sweep() leaves %d reminders, want %d", remaining, want)
		}
	}
	sweep(1)
	s.clock.Advance(voidDelay)
	sweep(1)
	s.wantRows("call, call | answer 2")
	s.wantBalance(10)
	s.clock.Advance(time.Second)
	sweep(0)
	s.wantRows("call, call | answer 2, void 1")
	s.wantBalance(20)
	sweep(0)
	if _, err := s.hostB.ResolveOverdue(s.ctx, s.pair, 9); !problem.Is(err, problem.NotFound) {
		s.t.Fatalf("ResolveOverdue() of a missing call = %v, want not found", err)
	}
}

// If the time limit of the behaviour is shorter, other hosts may void the call earlier.
func testShortDeadline(s *scene) {
	s.hostA = s.newHostWith(func(c *call.Config) { c.CallTimeout = 5 * time.Second })
	e := s.signCall(nil, "hi")
	s.wantAnswer(s.send(s.hostA, e), e)
	got, err := ReadStreams(s.ctx, s.store, s.pair)
	s.must(err)
	if want := s.clock.NowFunc(0)().Add(5*time.Second + call.GracePeriod); !got.Requests[0].Due.Equal(want) {
		s.t.Fatalf("Due = %v, want %v", got.Requests[0].Due, want)
	}
}

func testChainRefusals(s *scene) {
	first := s.signCall(nil, "first")
	s.wantAnswer(s.send(s.hostA, first), first)
	second := s.signCall(first, "second")
	s.wantAnswer(s.send(s.hostA, second), second)
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
		e := s.signCall(nil, "other")
		e.Seq, e.Prev = c.seq, c.prev
		out := s.send(s.hostB, s.signAgain(e))
		s.wantRefusal(out, c.kind, "")
		s.wantChainTip(out, second)
		if out.Problem.Text() != c.text {
			s.t.Fatalf("Text = %q, want %q", out.Problem.Text(), c.text)
		}
		s.wantRuns(e, 0)
	}
	third := s.signCall(second, "third") // and the valid next call succeeds
	s.wantAnswer(s.send(s.hostA, third), third)
}

func testStrangersLearnNothing(s *scene) {
	e := s.signCall(nil, "hi")
	s.wantAnswer(s.send(s.hostA, e), e)
	s.store.TakeCallNames()
	wantNoChain := func(out call.Outcome, kind problem.Kind) {
		s.t.Helper()
		s.wantRefusal(out, kind, "")
		if out.HasChain || !out.Floor.IsZero() || !out.HostTime.IsZero() || out.Position != 0 {
			s.t.Fatalf("the refusal reveals the chain: %+v", out)
		}
	}
	forged := *s.signCall(e, "next")
	forged.Payload.Parts = []string{"changed"}
	s.setVacantState(lifecycle.Sunk) // a bad signature (401) must be refused before the state is checked
	s.clock.Advance(2 * time.Second)
	s.store.TakeCallNames()
	wantNoChain(s.send(s.hostA, &forged), problem.BadSignature)
	wantNoChain(s.ask(s.hostA, &forged), problem.BadSignature)
	for _, name := range s.store.TakeCallNames() {
		if name != "Doc v" {
			s.t.Fatalf("a forged envelope causes the store call %q", name)
		}
	}
	wantNoChain(s.hostA.Send(s.ctx, s.newKey().ID(), e), problem.Misdirected)
	wantNoChain(s.hostA.Ask(s.ctx, s.newKey().ID(), e), problem.Misdirected)
	misdirected := s.signCall(e, "away")
	misdirected.To = s.newKey().ID()
	wantNoChain(s.send(s.hostA, s.signAgain(misdirected)), problem.Misdirected)
	wantNoChain(s.ask(s.hostA, misdirected), problem.Misdirected)
	s.setVacantState(lifecycle.Active)
}

func testSelfCall(s *scene) {
	e := s.signCall(nil, "to myself")
	e.To = e.From
	s.signAgain(e)
	s.wantRefusal(s.send(s.hostA, e), problem.Malformed, "")
	s.wantRefusal(s.ask(s.hostA, e), problem.Malformed, "")
	got, err := ReadStreams(s.ctx, s.store, call.Pair{Caller: e.From, Vacant: e.From})
	s.must(err)
	if len(got.Requests) > 0 {
		s.t.Fatal("a call to oneself was accepted")
	}
}

func testRefusalsAreFree(s *scene) {
	s.useLedger(30)
	e := s.signCall(nil, "hi")
	s.wantAnswer(s.send(s.hostA, e), e)
	s.wantBalance(20)
	futureCall := s.signAt(e, "far", s.clock.NowFunc(0)().Add(time.Hour))
	for _, refused := range []*envelope.Envelope{e, s.signCall(nil, "again"), futureCall, s.signAt(futureCall, "gap", e.Time)} {
		if out := s.send(s.hostA, refused); out.Problem == nil {
			s.t.Fatalf("%q is not refused", refused.Payload.Text())
		}
		s.ask(s.hostB, refused)
	}
	s.wantBalance(20)
}

// An imported or restored vacant has a floor, because the host does not know the calls accepted
// earlier.
func testVacantFloor(s *scene) {
	floor := s.clock.NowFunc(0)()
	firstCall := s.signCall(nil, "known")
	reply := s.wantAnswer(s.send(s.hostB, firstCall), firstCall)
	s.hostA = s.newHostWith(func(c *call.Config) {
		d := c.Directory.(*Directory)
		v := d.Vacants[s.pair.Vacant]
		v.Floor = floor
		d.Vacants[s.pair.Vacant] = v
	})
	wantFloorRefusal := func(out call.Outcome, tip *envelope.Envelope) {
		s.t.Helper()
		s.wantRefusal(out, problem.BelowFloor, "")
		s.wantChainTip(out, tip)
		if !out.Floor.Equal(floor) {
			s.t.Fatalf("Floor = %v, want %v", out.Floor, floor)
		}
	}
	wantFloorRefusal(s.send(s.hostA, s.signCall(firstCall, "at the floor")), firstCall)
	wantFloorRefusal(s.sendReset(s.hostA, s.signReset()), firstCall)
	s.wantState(s.send(s.hostA, firstCall), call.Answered, reply) // accepted on this host
	s.clock.Advance(time.Second)
	next := s.signCall(firstCall, "later")
	s.wantAnswer(s.send(s.hostA, next), next)
	s.startNewPair() // the same holds for pairs without rows
	wantFloorRefusal(s.send(s.hostA, s.signAt(nil, "first", floor)), nil)
	wantFloorRefusal(s.sendReset(s.hostA, s.signAt(nil, envelope.ResetText, floor)), nil)
	first := s.signCall(nil, "first, later")
	s.wantAnswer(s.send(s.hostA, first), first)
}
