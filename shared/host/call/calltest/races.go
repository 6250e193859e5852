package calltest

import (
	"fmt"
	"sync"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
)

// races covers concurrent requests.
var races = []fact{
	{"of 64 calls with one sequence number exactly one is accepted", raceForNumber},
	{"of 64 copies of one call exactly one runs", raceOfCopies},
	{"of 64 resets signed at one time exactly one is accepted", raceOfResets},
	{"64 concurrent answers are numbered without gaps", raceOfAnswers},
}

const racers = 64

func race(f func(i int)) {
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	for i := range racers {
		ready.Add(1)
		done.Go(func() {
			ready.Done()
			<-start
			f(i)
		})
	}
	ready.Wait()
	close(start)
	done.Wait()
}

// hosts returns hosts a and b and two hosts with separate caches.
func (s *scene) hosts() []*call.Host { return []*call.Host{s.a, s.b, s.host(0), s.host(0)} }

// winner returns the index of the success in outs. It requires exactly one success, and refusals of
// the given kind otherwise.
func (s *scene) winner(outs []call.Outcome, kind problem.Kind) (index int) {
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

func raceForNumber(s *scene) {
	hosts := s.hosts()
	var last *envelope.Envelope
	for round := range 3 {
		calls := make([]*envelope.Envelope, racers)
		for i := range calls {
			calls[i] = s.call(last, fmt.Sprintf("racer %d of round %d", i, round))
		}
		outs := make([]call.Outcome, racers)
		race(func(i int) { outs[i] = s.send(hosts[i%len(hosts)], calls[i]) })
		won := s.winner(outs, problem.Replay)
		for i := range calls {
			want := 0
			if i == won {
				want = 1
			} else {
				s.wantRefusal(outs[i], problem.Replay, "")
				s.chain(outs[i], calls[won])
			}
			s.wantRuns(calls[i], want)
		}
		last = calls[won]
	}
}

func raceOfCopies(s *scene) {
	hosts := s.hosts()
	var last *envelope.Envelope
	for round := range 3 {
		e := s.call(last, fmt.Sprintf("round %d", round))
		outs := make([]call.Outcome, racers)
		race(func(i int) { outs[i] = s.send(hosts[i%len(hosts)], e) })
		won := s.winner(outs, problem.Replay)
		for i, out := range outs {
			switch {
			case i == won:
			case out.State == call.Answered:
				s.wantState(out, call.Answered, outs[won].Reply)
			default:
				s.wantState(out, call.Pending, nil)
			}
		}
		s.wantRuns(e, 1)
		last = e
	}
}

func raceOfResets(s *scene) {
	hosts := s.hosts()
	resets := make([]*envelope.Envelope, racers)
	for i := range resets {
		resets[i] = s.reset()
		resets[i].IdempotencyKey = fmt.Sprint(i)
		s.resign(resets[i])
	}
	outs := make([]call.Outcome, racers)
	race(func(i int) { outs[i] = s.resetAt(hosts[i%len(hosts)], resets[i]) })
	s.winner(outs, problem.Floor)
	s.wantRows("reset | none")
}

// The calls are accepted one after the other and answered concurrently.
func raceOfAnswers(s *scene) {
	hosts := s.hosts()
	var last *envelope.Envelope
	under := make([]*sending, racers)
	calls := make([]*envelope.Envelope, racers)
	for i := range racers {
		last = s.call(last, fmt.Sprintf("call %d", i))
		calls[i] = last
		under[i] = s.start(hosts[i%len(hosts)], last)
	}
	outs := make([]call.Outcome, racers)
	race(func(i int) { outs[i] = under[i].finish() })
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
