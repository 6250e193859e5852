package push

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/store"
)

const (
	// retryDelay is the delay before a failed operation of the store is repeated.
	retryDelay = time.Second
	// pieceGap is the minimum time between two checks of a task whose answer arrives in pieces.
	pieceGap = time.Second
	// maxLoaded limits the tasks in memory. A delivery itself contains only its bodies.
	maxLoaded = 4
	// maxEntries and maxEntriesOfSender limit the configurations that Run knows. Others remain in
	// the store until there is room.
	maxEntries         = 16 << 10
	maxEntriesOfSender = maxEntries / 16
	// scanGap is the minimum time between two scans of all configurations in the store.
	scanGap = 10 * time.Second
)

// schedule contains the configurations known to Run whose deliveries have not ended.
type schedule struct {
	woken  chan struct{}
	loaded chan struct{} // semaphore for the tasks in memory

	mu      sync.Mutex
	pending map[task.Ref]bool // tasks that may have new configurations
	missed  bool              // whether a limit keeps a stored configuration out of entries
	scan    bool              // whether all configurations in the store must be read
	scanned time.Time         // time of the last scan
	waiting bool              // whether a timer will wake Run for the next scan
	entries map[place]*entry
	slots   slots
}

func newSchedule() schedule {
	return schedule{woken: make(chan struct{}, 1), loaded: make(chan struct{}, maxLoaded), pending: map[task.Ref]bool{}, scan: true,
		entries: map[place]*entry{}, slots: newSlots()}
}

// place identifies the slot of a task in which a configuration is stored.
type place struct {
	task task.Ref
	slot int
}

// entry is a configuration that Run knows.
type entry struct {
	place
	from  *sender
	host  string
	holds [3]bounded // while serving: the shares in which its slot is counted
	state entryState
	again bool       // while serving: whether the configuration or its task has changed
	stop  func()     // while waiting: ends the wait
	kept  *task.Push // progress that is not stored yet
	idle  int        // number of checks since the last event
}

type entryState uint8

const (
	waiting entryState = iota // waits for a time or for an event of its task
	ready                     // waits for a slot
	serving
)

func (p *Pusher) markPending(r task.Ref) {
	p.mu.Lock()
	if len(p.pending) < maxEntries {
		p.pending[r] = true
	} else {
		p.scan = true
	}
	p.mu.Unlock()
	p.wake()
}

func (p *Pusher) wake() {
	select {
	case p.woken <- struct{}{}:
	default: // Run is already about to check
	}
}

// Run delivers events until ctx ends, and then waits for the current attempts. It serves the
// configurations in the store and those that this process adds.
func (p *Pusher) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	for ctx.Err() == nil {
		if err := p.collect(ctx); err != nil && ctx.Err() == nil {
			p.logFault(ctx, err)
			time.AfterFunc(retryDelay, p.wake)
		}
		p.dispatch(ctx, &running)
		select {
		case <-p.woken:
		case <-ctx.Done():
		}
	}
}

func (p *Pusher) logFault(ctx context.Context, err error) {
	p.Log.LogAttrs(ctx, slog.LevelError, "push notifications", slog.String("cause", err.Error()))
}

func (p *Pusher) collect(ctx context.Context) (err error) {
	pending, scan := p.due()
	defer func() {
		if err != nil {
			p.mu.Lock()
			if scan {
				p.scan, p.scanned = true, time.Time{} // scan again at the next call
			}
			maps.Copy(p.pending, pending)
			p.mu.Unlock()
		}
	}()
	for r := range pending {
		open, err := p.Tasks.OpenPushesOf(ctx, r, 0)
		if err != nil {
			return err
		}
		p.add(open, true)
	}
	for cursor := ""; scan; scan = cursor != "" {
		var page []task.Push
		if page, cursor, err = p.Tasks.OpenPushes(ctx, cursor); err != nil {
			return err
		}
		p.add(page, false)
	}
	return nil
}

// due returns the tasks whose configurations must be read now, and whether all configurations in
// the store must be scanned. A scan is delayed if the last one was less than scanGap ago.
func (p *Pusher) due() (pending map[task.Ref]bool, scan bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pending, p.pending = p.pending, map[task.Ref]bool{}
	if !p.scan {
		return pending, false
	}
	now := p.Now()
	if wait := p.scanned.Add(scanGap).Sub(now); wait > 0 {
		if !p.waiting {
			p.waiting = true
			time.AfterFunc(wait, p.wake)
		}
		return pending, false
	}
	p.waiting = false
	p.scan, p.missed, p.scanned = false, false, now
	return pending, true
}

func (p *Pusher) add(open []task.Push, changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range open {
		push := &open[i]
		key, host := place{push.Task, push.Slot()}, hostOf(push.Config.URL)
		e := p.entries[key]
		switch {
		case e != nil && !changed:
			continue
		case e == nil:
			from := p.slots.sender(push.Sender())
			if len(p.entries) >= maxEntries || from.entries >= maxEntriesOfSender {
				p.missed = true
				p.slots.forget(from)
				continue
			}
			from.entries++
			e = &entry{place: key, from: from}
			p.entries[key] = e
		}
		switch e.host = host; e.state {
		case serving:
			e.again = true
		case waiting:
			p.ready(e)
		case ready:
		}
	}
}

// ready queues a configuration for a slot. The caller must hold p.mu.
func (p *Pusher) ready(e *entry) {
	if e.stop != nil {
		e.stop()
		e.stop = nil
	}
	e.state = ready
	p.slots.wait(e)
}

func (p *Pusher) endWait(e *entry) {
	p.mu.Lock()
	if e.state == waiting && p.entries[e.place] == e {
		p.ready(e)
	}
	p.mu.Unlock()
	p.wake()
}

func (p *Pusher) dispatch(ctx context.Context, running *sync.WaitGroup) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for ctx.Err() == nil {
		e := p.slots.take()
		if e == nil {
			return
		}
		e.state = serving
		running.Go(func() {
			next := p.serve(ctx, e)
			p.mu.Lock()
			p.slots.release(e)
			p.settle(ctx, e, next, running)
			p.mu.Unlock()
			p.dispatch(ctx, running)
		})
	}
}

// outcome specifies whether Run keeps a configuration, and when Run serves it again: immediately,
// after a pause, or when until returns.
type outcome struct {
	known bool
	after time.Duration
	until func(ctx context.Context) // returns when the task must be checked
	drop  func()                    // replaces until if the configuration is served immediately
}

// settle applies an outcome. The caller must hold p.mu.
func (p *Pusher) settle(ctx context.Context, e *entry, next outcome, running *sync.WaitGroup) {
	switch {
	case e.again, next.known && next.after == 0 && next.until == nil:
		e.again = false
		if next.drop != nil {
			next.drop()
		}
		p.ready(e)
	case !next.known:
		delete(p.entries, e.place)
		e.from.entries--
		if p.missed && !p.scan {
			p.scan = true
			p.wake()
		}
		p.slots.forget(e.from)
	case next.until != nil:
		e.state = waiting
		wait, stop := context.WithCancel(ctx)
		e.stop = stop
		running.Go(func() {
			next.until(wait)
			if wait.Err() == nil {
				p.endWait(e)
			}
			stop()
		})
	default:
		e.state = waiting
		timer := time.AfterFunc(next.after, func() { p.endWait(e) })
		e.stop = func() { timer.Stop() }
	}
}

func (p *Pusher) serve(ctx context.Context, e *entry) outcome {
	changed, done := p.Tasks.Changes(e.task) // must precede the read of the task
	follows := false
	defer func() {
		if !follows {
			done()
		}
	}()
	push, d, state, err := p.prepare(ctx, e)
	switch {
	case err != nil:
		return p.fault(ctx, err)
	case push == nil:
		return outcome{}
	case d != nil && push.Busy.After(p.Now()):
		return outcome{known: true, after: push.Busy.Sub(p.Now())}
	case d != nil:
		e.idle = 0
		after, err := p.attempt(ctx, push, d)
		if errors.Is(err, errGivenUp) {
			return p.end(ctx, push)
		}
		if err != nil {
			return p.fault(ctx, err)
		}
		if e.kept = nil; after == 0 {
			e.kept = push
		}
		return outcome{known: true, after: after}
	case state.Terminal():
		return p.end(ctx, push)
	}
	if e.kept != nil {
		if err := p.Tasks.SaveProgress(ctx, push, task.Spend{}); err != nil {
			return p.fault(ctx, err)
		}
		e.kept = nil
	}
	if !state.Active() {
		return outcome{} // the next turn reports the task again
	}
	follows = true
	wait := checkInterval(e.idle)
	e.idle++
	pieces := !push.Quiet && push.Count < maxLive
	return outcome{known: true, until: func(ctx context.Context) { p.follow(ctx, e.task, changed, done, pieces, wait) }, drop: done}
}

// prepare reads a task and encodes the next delivery of e. If the task does not exist, the
// configuration was removed or its deliveries have ended, push and d are nil.
func (p *Pusher) prepare(ctx context.Context, e *entry) (push *task.Push, d *delivery, state task.State, err error) {
	select {
	case p.loaded <- struct{}{}:
		defer func() { <-p.loaded }()
	case <-ctx.Done():
		return nil, nil, "", ctx.Err()
	}
	b, err := p.Tasks.Backlog(ctx, task.Notice{Task: e.task, Slot: e.slot})
	if errors.Is(err, task.ErrAgain) || err == nil && len(b.Open) == 0 {
		return nil, nil, "", nil
	}
	if err != nil {
		return nil, nil, "", err
	}
	read := b.Open[0]
	read.Resume(e.kept)
	return &read, nextDelivery(&read, &b), b.State, nil
}

func (p *Pusher) fault(ctx context.Context, err error) outcome {
	// If the configuration was removed or replaced, it is read again.
	if store.IsConflict(err) {
		return outcome{known: true}
	}
	if ctx.Err() == nil {
		p.logFault(ctx, err)
	}
	return outcome{known: true, after: retryDelay}
}

func (p *Pusher) end(ctx context.Context, push *task.Push) outcome {
	if err := p.Tasks.EndPush(ctx, push); err != nil {
		return p.fault(ctx, err)
	}
	return outcome{}
}

// follow waits until a task must be checked. It returns when the turn has ended, and after wait at
// the latest. If pieces is true, it also returns when an event has arrived, but not earlier than
// pieceGap after its start.
func (p *Pusher) follow(ctx context.Context, r task.Ref, changed <-chan struct{}, done func(), pieces bool, wait time.Duration) {
	defer func() { done() }()
	began, look := time.Now(), time.NewTimer(wait)
	defer look.Stop()
	for {
		select {
		case <-changed:
		case <-look.C:
			return
		case <-ctx.Done():
			return
		}
		done()
		changed, done = p.Tasks.Changes(r)
		if active, err := p.Tasks.IsActive(ctx, r); err != nil || !active {
			return
		}
		if pieces {
			look.Reset(pieceGap - time.Since(began))
			pieces = false
		}
	}
}
