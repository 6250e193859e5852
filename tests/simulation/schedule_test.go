package simulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing/synctest"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/call/calltest"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// task is a thread of the simulation: a request at a host, a caller, the
// sweeper. It may run in several goroutines; all have it in their context.
type task struct {
	id       int
	name     string
	lazy     bool      // seldom picked: others overtake it
	caller   *caller   // of a caller's task
	host     *instance // of a host's
	route    string    // the request's route
	exchange *exchange // the exchange that waits for it, or nil
	dead     bool
	finished bool
	reply    reply
	request  []byte // the received body
	since    int    // tips seen when it started
	cancel   context.CancelFunc
}

type taskKey struct{}

func taskOf(ctx context.Context) *task { return ctx.Value(taskKey{}).(*task) }

// point is where a task stops until the scheduler continues it.
type point struct {
	task    *task
	label   string
	subject string // of a store call
	kind    kind
	ch      chan verdict
}

// kind says what can go wrong at a point.
type kind int

const (
	plain kind = iota
	reading
	writing
	working // a behaviour
	retrying
)

// verdict tells a task how to continue.
type verdict int

const (
	fine    verdict = iota
	failed          // a read, a behaviour, the patience to retry
	lost            // a write that is never applied
	unheard         // applied, and an error
	delayed         // unacknowledged: applied, and an error
	twice           // applied twice, the second outcome is heard
	slow            // a behaviour that continues after its due time
	died
)

var words = map[kind]map[verdict]string{
	reading:  {failed: "a read fails"},
	writing:  {lost: "a write is lost", unheard: "a write is applied, its ack lost", delayed: "a write is delayed", twice: "a write is applied twice"},
	working:  {failed: "a behaviour fails", slow: "a behaviour ends after its due"},
	retrying: {failed: "patience to retry ends"},
}

func (v verdict) String() string {
	return [...]string{"goes on", "fails", "lost", "applied, ack lost", "delayed", "applied twice", "goes on after its due", "dies"}[v]
}

var errDead = errors.New("this process has died")

// pause stops a task until the scheduler picks it.
func (w *world) pause(ctx context.Context, k kind, label string) verdict {
	return w.stop(point{task: taskOf(ctx), label: label, kind: k})
}

// stop stops a task at a point until the scheduler picks it.
func (w *world) stop(p point) verdict {
	p.ch = make(chan verdict, 1)
	w.mu.Lock()
	if p.task.dead {
		w.mu.Unlock()
		return died
	}
	w.points = append(w.points, &p)
	w.mu.Unlock()
	return <-p.ch
}

// spawn starts a task.
func (w *world) spawn(t *task, f func(ctx context.Context)) {
	w.tasks++
	t.id = w.tasks
	t.lazy = !w.quiet && w.rng.IntN(4) == 0
	t.since = len(w.seen.tips) - 1
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), taskKey{}, t))
	t.cancel = cancel
	w.running = append(w.running, t)
	go func() {
		defer cancel()
		if w.pause(ctx, plain, "start") == fine {
			f(ctx)
		}
		t.finished = true
	}()
}

// awaitAll waits until every task is at a point or has ended, and removes those
// that have.
func (w *world) awaitAll() {
	synctest.Wait()
	w.lookAtTip()
	for i := 0; i < len(w.running); i++ {
		t := w.running[i]
		if !t.finished {
			continue
		}
		w.running = slices.Delete(w.running, i, i+1)
		i--
		if t.route != "" {
			w.served(t)
		}
	}
	// Goroutines of one task arrive in any order; what they are about differs.
	slices.SortFunc(w.points, func(a, b *point) int {
		return cmp.Or(cmp.Compare(a.task.id, b.task.id), cmp.Compare(a.label, b.label), cmp.Compare(a.subject, b.subject))
	})
}

// step picks one of all possible next events. It is false when the callers are
// done, or something is wrong.
func (w *world) step() bool {
	w.awaitAll()
	if len(w.wrong) > 0 || !slices.ContainsFunc(w.running, func(t *task) bool { return t.caller != nil }) {
		return false
	}
	if w.timeout() {
		return true
	}
	if w.cfg.ticks {
		w.clock.Advance(time.Second)
	}
	attack, sweep, owner := 0, 0, 0
	if w.attacks > 0 && len(w.seen.envelopes) > 0 {
		attack = 1
	}
	if w.price != nil && w.faults > 0 {
		sweep = 1
	}
	if w.cfg.owner && w.rng.IntN(8) == 0 {
		owner = 1
	}
	k := w.rng.IntN(len(w.points) + len(w.copies) + len(w.replies) + len(w.late) + attack + sweep + owner + 1)
	for _, c := range []struct {
		n  int
		do func(i int)
	}{
		{len(w.points), w.release},
		{len(w.copies), w.deliver},
		{len(w.replies), w.arrive},
		{len(w.late), w.land},
		{attack, w.attack},
		{sweep, w.sweep},
		{owner, w.ownerActs},
		{1, func(int) { w.clock.Advance(200 * time.Millisecond) }},
	} {
		if k < c.n {
			c.do(k)
			return true
		}
		k -= c.n
	}
	return true
}

// release continues the task at a point, or gives it a fault.
func (w *world) release(i int) {
	p := w.points[i]
	if p.task.lazy && !w.quiet && w.rng.IntN(8) > 0 {
		return
	}
	w.points = slices.Delete(w.points, i, i+1)
	if w.cfg.crashes && !w.quiet && w.faults > 0 && w.rng.IntN(30) == 0 {
		w.faults--
		w.kill(p)
		return
	}
	v := fine
	switch p.kind {
	case reading:
		if w.rng.IntN(8) == 0 && w.chance() {
			v = failed
		}
	case writing:
		if w.chance() {
			v = one(w.rng, lost, unheard, delayed, twice)
		}
	case working:
		if w.chance() {
			v = failed
		} else if !w.quiet && w.rng.IntN(6) == 0 {
			v = slow
		}
	case retrying:
		if !w.quiet && w.rng.IntN(3) == 0 {
			v = failed
		}
	}
	w.say("%s at %s: %v", p.task.name, p.label, v)
	if v != fine {
		w.met(words[p.kind][v])
	}
	p.ch <- v
}

// kill ends the task at p. Its write may still be applied, and the next request
// may reuse its process.
func (w *world) kill(p *point) {
	t := p.task
	w.say("%s dies at %s", t.name, p.label)
	if t.caller != nil {
		w.met("a caller dies")
	} else {
		w.met("a host dies")
	}
	v := died
	if p.kind == writing {
		switch w.rng.IntN(3) {
		case 0:
			v = unheard // and nobody gets the error
		case 1:
			v = delayed
		}
	}
	w.mu.Lock()
	t.dead = true
	w.mu.Unlock()
	t.cancel()
	p.ch <- v
	synctest.Wait()
	w.free(t)
	if t.host != nil && w.rng.IntN(2) == 0 {
		i := t.host.number
		w.hosts[i] = w.newInstance(i)
	}
	if t.caller != nil {
		w.startCaller(t.caller, t.caller.drive)
	}
}

// free makes every call of a dead task's goroutines an error.
func (w *world) free(t *task) {
	w.points = slices.DeleteFunc(w.points, func(p *point) bool {
		if p.task != t {
			return false
		}
		p.ch <- died
		return true
	})
	w.exchanges = slices.DeleteFunc(w.exchanges, func(x *exchange) bool {
		if x.task != t {
			return false
		}
		x.ch <- reply{err: errDead}
		return true
	})
}

func (w *world) land(i int) {
	do := w.late[i]
	w.late = slices.Delete(w.late, i, i+1)
	err := do()
	w.say("a delayed write lands: %v", err)
	if err == nil {
		w.met("a delayed write lands")
	} else {
		w.met("a delayed write comes too late")
	}
}

func (w *world) ownerActs(int) {
	s := one(w.rng, lifecycle.Active, lifecycle.Hibernating)
	w.say("the owner sets the state to %s", s)
	w.must(calltest.SetState(w.t.Context(), w.truth, w.pair.Vacant, s))
}

func (w *world) sweep(int) {
	h := w.hosts[w.rng.IntN(2)]
	w.faults--
	w.startSweep(h)
}

func (w *world) startSweep(h *instance) {
	t := &task{name: fmt.Sprintf("#%d sweeper at %d", w.tasks+1, h.number), host: h}
	w.spawn(t, func(ctx context.Context) { _, _ = h.ledger.Sweep(ctx, h.call) })
}

// calmDown stops all faults, lets everything under way end, and has each caller
// make one more call with nothing beside it.
func (w *world) calmDown() {
	w.awaitAll()
	if len(w.wrong) > 0 {
		w.abandon()
		return
	}
	w.say("-- quiet --")
	w.quiet = true
	if w.price != nil {
		w.checkShards(w.t.Context())
	}
	for len(w.late) > 0 {
		w.land(0)
	}
	for _, t := range slices.Clone(w.running) {
		if t.caller != nil {
			w.end(t)
		}
	}
	w.must(calltest.SetState(w.t.Context(), w.truth, w.pair.Vacant, lifecycle.Active))
	if !w.drain(func() bool { return len(w.running)+len(w.copies) == 0 }) {
		return
	}
	w.replies = nil
	w.clock.Advance(3 * call.MaxSkew)
	for _, c := range w.callers {
		c.mend()
		if w.price != nil {
			w.deposit(500)
			w.link()
		}
		t := w.startCaller(c, c.driveAlone)
		if !w.drain(func() bool { return t.finished }) {
			return
		}
	}
	w.clock.Advance(100 * time.Second)
	if w.price != nil {
		w.startSweep(w.hosts[0])
	}
	w.drain(func() bool { return len(w.running)+len(w.copies) == 0 })
}

// end takes a caller out of the world.
func (w *world) end(t *task) {
	w.mu.Lock()
	t.dead = true
	w.mu.Unlock()
	t.cancel()
	w.free(t)
}

// drain continues every task in turn until all are done.
func (w *world) drain(done func() bool) bool {
	for range 20000 {
		w.awaitAll()
		switch {
		case len(w.wrong) > 0:
			w.abandon()
			return false
		case done():
			return true
		case len(w.copies) > 0:
			w.deliver(0)
		case len(w.replies) > 0:
			w.arrive(0)
		case len(w.points) > 0:
			w.release(0)
		case w.timeout():
		default:
			w.violate("I6: nothing can move")
		}
	}
	w.violate("I6: no end of it")
	w.abandon()
	return false
}

// abandon ends all tasks, so that a broken world can be left.
func (w *world) abandon() {
	w.quiet = true
	w.awaitAll()
	for _, t := range w.running {
		w.end(t)
	}
	for len(w.running) > 0 {
		w.awaitAll()
	}
	w.copies, w.replies, w.late = nil, nil, nil
}
