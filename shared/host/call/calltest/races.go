package calltest

import (
	"fmt"
	"sync"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
)

// raceTests covers concurrent requests.
var raceTests = []contractTest{
	{"of 64 calls with one sequence number exactly one is accepted", testRaceForNumber},
	{"of 64 copies of one call exactly one runs", testRaceOfCopies},
	{"of 64 resets signed at one time exactly one is accepted", testRaceOfResets},
	{"64 concurrent answers are numbered without gaps", testRaceOfAnswers},
}

const racers = 64

func runConcurrently(task func(i int)) {
	var started, done sync.WaitGroup
	start := make(chan struct{})
	for i := range racers {
		started.Add(1)
		done.Go(func() {
			started.Done()
			<-start
			task(i)
		})
	}
	started.Wait()
	close(start)
	done.Wait()
}

// hosts returns hosts A and B and two hosts with separate caches.
func (s *scene) hosts() []*call.Host {
	return []*call.Host{s.hostA, s.hostB, s.newHost(0), s.newHost(0)}
}

// findWinner requires exactly one success and returns its index.
func (s *scene) findWinner(outs []call.Outcome, kind problem.Kind) (index int) {
	s.t.Helper()
	index = -1
	for i, out := range outs {
		switch {
		case out.Problem == nil && index >= 0:
			s.t.Fatalf("both %d and %d are accepted", index, i)
		case out.Problem == nil:
			index = i
		case out.Problem.Kind != kind:
			s.t.Fatalf("%d is refused: %v, want %v", i, out.Problem, kind)
		}
	}
	if index < 0 {
		s.t.Fatal("no request is accepted")
	}
	return index
}

func testRaceForNumber(s *scene) {
	hosts := s.hosts()
	var last *envelope.Envelope
	for round := range 3 {
		calls := make([]*envelope.Envelope, racers)
		for i := range calls {
			calls[i] = s.signCall(last, fmt.Sprintf("racer %d of round %d", i, round))
		}
		outs := make([]call.Outcome, racers)
		runConcurrently(func(i int) { outs[i] = s.send(hosts[i%len(hosts)], calls[i]) })
		winner := s.findWinner(outs, problem.Replay)
		for i := range calls {
			want := 0
			if i == winner {
				want = 1
			} else {
				s.wantRefusal(outs[i], problem.Replay, "")
				s.wantChainTip(outs[i], calls[winner])
			}
			s.wantRuns(calls[i], want)
		}
		last = calls[winner]
	}
}

func testRaceOfCopies(s *scene) {
	hosts := s.hosts()
	var last *envelope.Envelope
	for round := range 3 {
		e := s.signCall(last, fmt.Sprintf("round %d", round))
		outs := make([]call.Outcome, racers)
		runConcurrently(func(i int) { outs[i] = s.send(hosts[i%len(hosts)], e) })
		winner := s.findWinner(outs, problem.Replay)
		for i, out := range outs {
			switch {
			case i == winner:
			case out.State == call.Answered:
				s.wantState(out, call.Answered, outs[winner].Reply)
			default:
				s.wantState(out, call.Pending, nil)
			}
		}
		s.wantRuns(e, 1)
		last = e
	}
}

func testRaceOfResets(s *scene) {
	hosts := s.hosts()
	resets := make([]*envelope.Envelope, racers)
	for i := range resets {
		resets[i] = s.signReset()
		resets[i].IdempotencyKey = fmt.Sprint(i)
		s.signAgain(resets[i])
	}
	outs := make([]call.Outcome, racers)
	runConcurrently(func(i int) { outs[i] = s.sendReset(hosts[i%len(hosts)], resets[i]) })
	s.findWinner(outs, problem.BelowFloor)
	s.wantRows("reset | none")
}

// The calls are accepted one after the other and answered concurrently.
func testRaceOfAnswers(s *scene) {
	hosts := s.hosts()
	var last *envelope.Envelope
	pending := make([]*pendingCall, racers)
	calls := make([]*envelope.Envelope, racers)
	for i := range racers {
		last = s.signCall(last, fmt.Sprintf("call %d", i))
		calls[i] = last
		pending[i] = s.startCall(hosts[i%len(hosts)], last)
	}
	outs := make([]call.Outcome, racers)
	runConcurrently(func(i int) { outs[i] = pending[i].finish() })
	seqs := map[int64]bool{}
	for i, out := range outs {
		seqs[s.wantAnswer(out, calls[i]).Seq] = true
	}
	for n := int64(1); n <= racers; n++ {
		if !seqs[n] {
			s.t.Fatalf("no answer is number %d", n)
		}
	}
}
