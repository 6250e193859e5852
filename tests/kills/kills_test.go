//go:build unix

package kills

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/family/graduation"
	"github.com/vacancy-host/vacancy/shared/store/storetest"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/tests/caller"
)

// set prepares a scenario with its own data.
func set(t *testing.T, sc scenario, in targets) *stage {
	t.Helper()
	s := &stage{t: t, ctx: t.Context()}
	if in == inDev {
		s.target = newDevTarget(t, sc.empty)
	} else {
		s.target = newLambdaTarget(t)
	}
	if !sc.empty {
		s.caller = caller.New(t, s.target.vacant(t, "echo"))
	}
	if sc.prepare != nil {
		sc.prepare(s)
	}
	return s
}

// raise starts a host and makes it ready for the request.
func (s *stage) raise(sc scenario) process {
	s.t.Helper()
	p := s.target.start(s.t, nil)
	if sc.warm != nil {
		sc.warm(s, p)
	}
	return p
}

var names = map[targets]string{inDev: "dev", inFunction: "function"}

// each runs a test for every scenario on each of its targets.
func each(t *testing.T, test func(t *testing.T, sc scenario, in targets)) {
	for _, in := range []targets{inDev, inFunction} {
		t.Run(names[in], func(t *testing.T) {
			for _, sc := range table {
				if sc.in&in == 0 {
					continue
				}
				t.Run(sc.request, func(t *testing.T) {
					t.Parallel()
					test(t, sc, in)
				})
			}
		})
	}
}

// A healthy run of each request makes exactly the calls that the table names, and
// commits in its order: a new call needs a new row. The commit of an observation may come
// before the commit of its answer or after it.
func TestEveryCallHasItsRow(t *testing.T) {
	each(t, func(t *testing.T, sc scenario, in targets) {
		s := set(t, sc, in)
		var trace []string
		if sc.make == nil {
			p := s.target.start(t, nil)
			trace = p.arm(nil)
		} else {
			p := s.raise(sc)
			r := sc.make(s)
			p.arm(nil)
			if _, err := p.do(r); err != nil {
				t.Fatal(err)
			}
			if sc.ends == "" {
				trace = p.arm(nil)
			} else {
				trace = p.(*dev).order(order{Await: sc.ends})
			}
		}
		t.Logf("calls: %s", strings.Join(trace, ", "))
		rows, commits := map[place]bool{}, []string{}
		ordered := func(call string) bool {
			return strings.HasPrefix(call, "Commit ") && !strings.HasPrefix(call, "Commit obs")
		}
		for _, p := range sc.points() {
			if p.in&in == 0 {
				continue
			}
			rows[p.place] = true
			if ordered(p.Call) && !p.After {
				commits = append(commits, p.Call)
			}
			if !slices.Contains(trace, p.Call) {
				t.Errorf("%s has a row in the table, and is not called, so a host that is to die there never dies", p)
			}
		}
		var committed []string
		folded := slices.ContainsFunc(trace, func(name string) bool { return strings.HasPrefix(name, "Doc meter") })
		for _, name := range trace {
			if isBeside(name, sc, folded) {
				continue
			}
			for _, at := range places([]string{name}) {
				if !rows[at] {
					t.Errorf("%s has no row in the table", at)
				}
			}
			if ordered(name) {
				committed = append(committed, name)
			}
			if name == sc.until {
				break
			}
		}
		if !slices.Equal(committed, commits) {
			t.Errorf("the commits are %v, want %v", committed, commits)
		}
		s.whole()
	})
}

// isBeside reports whether a call is none of the request: dev folds usage, exports it, sweeps calls
// with a price, bookings, trees of revoked keys and keys of old days at its own times (they are killed
// in their own tests), and in the evening a function makes the next day's key. A fold that met the
// request also reads requests, prices and the owners of vacants, and an export that follows it reads
// accounts, usage and bookings.
func isBeside(name string, sc scenario, folded bool) bool {
	for _, prefix := range []string{"Doc sweep", "Docs due", "Docs endings", "Docs bookdue", "Doc export", "Docs tenant", "Commit export", "Commit sweep", "Doc meter", "Docs meter", "Doc use", "Commit meter", "Doc textkey 2", "Commit textkey 2"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	named := slices.ContainsFunc(sc.points(), func(p point) bool { return p.Call == name })
	// A turn checks each second whether it was canceled, and writes its log.
	if sc.ends != "" && (strings.HasPrefix(name, "Doc task ") || strings.HasPrefix(name, "Commit task ")) {
		return !named
	}
	reads := slices.ContainsFunc([]string{"Rows req", "Doc price", "Doc v", "Doc acct", "Docs use", "Docs bookevent"}, func(prefix string) bool {
		return strings.HasPrefix(name, prefix)
	})
	if name == "Doc textkey" || name == "Docs textkey" || name == "Commit textkey" || folded && reads {
		return !named
	}
	return false
}

// A host killed at each place of the table leaves consistent data, the same
// request gets its fate, and the next one succeeds.
func TestKilledHostLeavesNoDoubt(t *testing.T) {
	each(t, func(t *testing.T, sc scenario, in targets) {
		for i, pt := range sc.points() {
			at := pt.place
			if pt.in&in == 0 || !storetest.InSample(i) {
				continue
			}
			t.Run(at.String(), func(t *testing.T) {
				t.Parallel()
				s := set(t, sc, in)
				r, first := s.kill(sc, at)
				s.whole()
				if h, ok := s.target.(*devTarget); ok {
					h.at = h.at.Add(sc.pause())
				}
				p := s.target.start(t, nil)
				sc.again(s, p, r, first, pt.then)
				p.stop()
				s.whole()
			})
		}
	})
}

// pause returns the time for which the host stays down. A start repeats the
// host's own call and waits for its fate, which is due by then.
func (sc scenario) pause() time.Duration {
	if sc.make == nil {
		return past
	}
	return time.Second
}

// kill makes a host die at a place of the request, and returns the request and
// its answer, nil if there was none.
func (s *stage) kill(sc scenario, at place) (request, *response) {
	s.t.Helper()
	if sc.make == nil {
		s.must(s.target.start(s.t, &at).killed())
		return request{}, nil
	}
	p := s.raise(sc)
	r := sc.make(s)
	p.arm(&at)
	got, err := p.do(r)
	// Its last write may have arrived, or died with its socket.
	if wrote := at.After && strings.HasPrefix(at.Call, write); err == nil && !wrote && sc.ends == "" {
		s.t.Fatalf("answered with %d %s, want it dead %v", got.status, got.body, at)
	}
	s.must(p.killed())
	if err != nil {
		return r, nil
	}
	return r, &got
}

// tomorrow moves the clock to a day without a key. On a function's own clock
// the tables have none anyway.
func tomorrow(s *stage, p process) {
	if _, ok := p.(*dev); ok {
		p.later(24 * time.Hour)
	}
}

// oneCall puts the pair into the process's caches.
func oneCall(s *stage, p process) {
	s.t.Helper()
	e := s.caller.Call("before", s.target.now())
	r, err := p.do(message(caller.SendPath, e))
	if a := s.read(e, r, err); a.Status != 200 {
		s.t.Fatal(a)
	}
	s.caller.Accepted(e)
}

// started runs a dev once before.
func started(s *stage) {
	s.t.Helper()
	s.target.start(s.t, nil).stop()
}

func changed(to op.Op[admin.VacantRef, admin.Vacant]) func(*stage, process) {
	return func(s *stage, p process) {
		s.t.Helper()
		if r, err := p.do(change(to)(s)); err != nil || r.status != 200 {
			s.t.Fatalf("%s = %d %s, %v", to.Path, r.status, r.body, err)
		}
	}
}

// callAgain sends a call again, and then the next one.
func callAgain(s *stage, p process, r request, first *response, then fate) {
	s.t.Helper()
	read := func(do func(request) (response, error), status int, state call.State) caller.Answer {
		s.t.Helper()
		got, err := do(r)
		a := s.read(r.envelope, got, err)
		if a.Status != status || a.State != string(state) {
			s.t.Fatalf("sent again: %v; want %d %q", a, status, state)
		}
		return a
	}
	if then == doubtful {
		got, err := p.do(r)
		if then = pending; s.read(r.envelope, got, err).Status == 200 {
			s.caller.Accepted(r.envelope)
			s.next(p)
			return
		}
	}
	if then == decided {
		got, err := p.do(r)
		if then = pending; s.read(r.envelope, got, err).State == string(call.Answered) {
			then = stored
		}
	}
	switch then {
	case fresh:
		if r.envelope.To == s.target.vacant(s.t, "failing") {
			read(p.do, 500, call.Unanswered)
			break
		}
		read(p.do, 200, "")
	case pending:
		read(p.do, 409, call.Pending)
		read(p.later(past), 409, call.Unanswered)
		read(p.do, 409, call.Unanswered) // and so for everybody
	case unanswered:
		read(p.do, 409, call.Unanswered)
	case stored:
		a := read(p.do, 409, call.Answered)
		if first != nil {
			if was := s.read(r.envelope, *first, nil); was.Raw != nil && string(was.Raw) != string(a.Raw) {
				s.t.Errorf("the answer was\n%s\nand is\n%s", was.Raw, a.Raw)
			}
		}
	default:
		s.t.Fatalf("a call is not %q", then)
	}
	s.caller.Accepted(r.envelope)
	s.next(p)
}

// next sends the next call of the chain to the echo.
func (s *stage) next(p process) {
	s.t.Helper()
	want := 200
	if s.caller.To == s.target.vacant(s.t, "failing") {
		want = 500
	}
	e := s.caller.Call("next", s.target.now())
	r, err := p.do(message(caller.SendPath, e))
	if a := s.read(e, r, err); a.Status != want {
		s.t.Fatalf("the next call: %v, want %d", a, want)
	}
	s.caller.Accepted(e)
}

func askAgain(s *stage, p process, r request, _ *response, then fate) {
	s.t.Helper()
	got, err := p.do(r)
	if a := s.read(r.envelope, got, err); a.Status != 200 || a.State != string(call.Unanswered) || then != unanswered {
		s.t.Fatalf("asked again: %v, want %q", a, then)
	}
	s.next(p)
}

func resetAgain(s *stage, p process, r request, _ *response, then fate) {
	s.t.Helper()
	got, err := p.do(r)
	a := s.read(r.envelope, got, err)
	switch {
	case then == fresh && a.Status == 200:
	case then == done && a.Status == 409 && a.Code == "floor":
	default:
		s.t.Fatalf("reset again: %v, want it %s", a, then)
	}
	s.caller.Accepted(r.envelope)
	s.next(p)
}

// pageAgain requires a page that changes nothing to be there again.
func pageAgain(s *stage, p process, r request, _ *response, then fate) {
	s.t.Helper()
	if got, err := p.do(r); err != nil || got.status != 200 || then != fresh {
		s.t.Fatalf("again: %d %s, %v; want 200, %s", got.status, got.body, err, then)
	}
	s.next(p)
}

// startAgain starts once more, much later, and requires the demo to answer, to be published if dev
// made it, and to be the only one.
func startAgain(s *stage, p process, _ request, _ *response, then fate) {
	s.t.Helper()
	v := p.(*dev)
	vacants := decode[admin.VacantPage](s.t, s.get(p, "/v1/admin/vacants")).Vacants
	demos := slices.DeleteFunc(vacants, func(v admin.Vacant) bool { return v.Name != "demo" })
	if len(demos) != 1 {
		s.t.Fatalf("%d vacants named demo, want 1", len(demos))
	}
	if made := demos[0].Capability == "echoes what it hears"; made != (demos[0].Published == lifecycle.Public) {
		s.t.Fatalf("the demo is published as %q", demos[0].Published)
	}
	if never := strings.Contains(v.ready.Error, " failed: "); never != (then == pending) || !never && v.ready.Call == nil {
		s.t.Fatalf("the call of dev: %+v, error %q; want it %s", v.ready.Call, v.ready.Error, then)
	}
	p.stop()
	if v = s.target.start(s.t, nil).(*dev); v.ready.Call == nil {
		s.t.Fatalf("the call of the next start: error %q", v.ready.Error)
	}
	v.stop()
}

func (s *stage) get(p process, path string) response {
	s.t.Helper()
	r, err := p.do(request{control: true, path: path})
	s.must(err)
	return r
}

func createAgain(name string) func(*stage, process, request, *response, fate) {
	return func(s *stage, p process, r request, _ *response, then fate) {
		s.t.Helper()
		got, err := p.do(r)
		s.must(err)
		if want := map[fate]int{fresh: 201, done: 409}[then]; got.status != want {
			s.t.Fatalf("create again: %d %s, want %d, %s", got.status, got.body, want, then)
		}
		s.caller.To = decode[admin.Vacant](s.t, s.get(p, "/v1/admin/vacants/"+name)).ID
		s.next(p)
	}
}

// givenUp renames the vacant.
func givenUp(s *stage, p process) {
	s.t.Helper()
	if r, err := p.do(update(s)); err != nil || r.status != 200 {
		s.t.Fatalf("update = %d %s, %v", r.status, r.body, err)
	}
}

// removed deletes the vacant.
func removed(s *stage, p process) {
	s.t.Helper()
	ended(s, p)
	if r, err := p.do(remove(s)); err != nil || r.status != 200 {
		s.t.Fatalf("delete = %d %s, %v", r.status, r.body, err)
	}
}

func releaseAgain(s *stage, p process, r request, _ *response, then fate) {
	s.t.Helper()
	got, err := p.do(r)
	s.must(err)
	if want := map[fate]int{fresh: 200, done: 404}[then]; got.status != want {
		s.t.Fatalf("release again: %d %s, want %d, %s", got.status, got.body, want, then)
	}
}

func changeAgain(from, to lifecycle.State) func(*stage, process, request, *response, fate) {
	return func(s *stage, p process, r request, _ *response, then fate) {
		s.t.Helper()
		want := map[fate]lifecycle.State{fresh: from, done: to}[then]
		if got := decode[admin.Vacant](s.t, s.get(p, "/v1/admin/vacants/echo")).State; got != want {
			s.t.Fatalf("the vacant is %s, want %s, %s", got, want, then)
		}
		got, err := p.do(r)
		s.must(err)
		if state := decode[admin.Vacant](s.t, got).State; got.status != 200 || state != to {
			s.t.Fatalf("again: %d %s, want 200 and %s", got.status, got.body, to)
		}
	}
}

// updateAgain finds the old vacant or the new one whole, and after the repetition
// the new one.
func updateAgain(s *stage, p process, r request, _ *response, then fate) {
	s.t.Helper()
	want := map[fate]string{fresh: "echo", done: "repeater"}[then]
	if got := decode[admin.Vacant](s.t, s.get(p, r.path)); got.Name != want || (got.Capability == "repeats") != (then == done) {
		s.t.Fatalf("the vacant is %s, which %q, want %s, %s", got.Name, got.Capability, want, then)
	}
	got, err := p.do(r)
	s.must(err)
	if v := decode[admin.Vacant](s.t, got); got.status != 200 || v.Name != "repeater" || v.Capability != "repeats" {
		s.t.Fatalf("again: %d %s, want 200 and the new name", got.status, got.body)
	}
	if got := s.get(p, "/v1/admin/vacants/echo"); got.status != 404 {
		s.t.Fatalf("the old name: %d %s, want 404", got.status, got.body)
	}
	s.next(p)
}

// ended archives the vacant.
func ended(s *stage, p process) {
	s.t.Helper()
	changed(admin.SinkVacant)(s, p)
	changed(admin.ArchiveVacant)(s, p)
}

func removeAgain(s *stage, p process, r request, _ *response, then fate) {
	s.t.Helper()
	if got := decode[admin.Vacant](s.t, s.get(p, r.path)); (got.DeletedAt != "") != (then == done) {
		s.t.Fatalf("the vacant is deleted at %q, want it %s", got.DeletedAt, then)
	}
	got, err := p.do(r)
	s.must(err)
	if v := decode[admin.Vacant](s.t, got); got.status != 200 || v.DeletedAt == "" {
		s.t.Fatalf("again: %d %s, want 200 and a tombstone", got.status, got.body)
	}
}

func published(s *stage, p process) {
	s.t.Helper()
	if r, err := p.do(publish(s)); err != nil || r.status != 200 {
		s.t.Fatalf("publish = %d %s, %v", r.status, r.body, err)
	}
}

// publishAgain reads the public registry, repeats the command and finds the one
// event that it made, or makes. seq is that event considering what follows: a
// restarted host has another address here, and so publishes again, once, what
// is published and not revoked.
func publishAgain(seq map[fate]uint64, before, after string) func(*stage, process, request, *response, fate) {
	return func(s *stage, p process, r request, _ *response, then fate) {
		s.t.Helper()
		says := func(want string) {
			s.t.Helper()
			got, err := p.do(request{path: "/v1/capability_card/" + s.target.vacant(s.t, "echo").String()})
			s.must(err)
			if want == "" && got.status != 404 || !strings.Contains(string(got.body), want) {
				s.t.Fatalf("the registry says %d %s, want %q, %s", got.status, got.body, want, then)
			}
		}
		says(map[fate]string{fresh: before, done: after}[then])
		got, err := p.do(r)
		s.must(err)
		if made := decode[admin.Published](s.t, got); got.status != 200 || made.Receipt.Seq != seq[then] {
			s.t.Fatalf("again: %d %s, want 200 and event %d", got.status, got.body, seq[then])
		}
		says(after)
	}
}

// graduateAgain checks whether the child is found in public, sends the same
// again and requires its one attempt to be accepted, whoever finishes it.
func graduateAgain(s *stage, p process, r request, _ *response, then fate) {
	s.t.Helper()
	got, err := p.do(request{path: "/v1/capability_card/" + s.target.vacant(s.t, "clerk").String()})
	s.must(err)
	if want := map[fate]int{fresh: 404, pending: 404, done: 200}[then]; got.status != want {
		s.t.Fatalf("the child's card: %d %s, want %d, %s", got.status, got.body, want, then)
	}
	got, err = p.do(r)
	s.must(err)
	if v := decode[graduation.View](s.t, got); got.status != 200 || v.Phase != graduation.Accepted || v.Position != 1 {
		s.t.Fatalf("again: %d %s, want 200 and the first attempt accepted", got.status, got.body)
	}
}
