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
	retryDelay         = time.Second
	pieceCheckInterval = time.Second
	maxLoaded          = 4
	// Configurations above maxEntries or maxSenderEntries remain in the store until there is room.
	maxEntries       = 16 << 10
	maxSenderEntries = maxEntries / 16
	scanInterval     = 10 * time.Second
)

type schedule struct {
	wakeups   chan struct{}
	loadSlots chan struct{} // limits the tasks in memory

	mu           sync.Mutex
	pending      map[task.Ref]bool // tasks that may have new configurations
	hasMissed    bool              // a limit keeps a stored configuration out of entries
	scanNeeded   bool
	lastScan     time.Time
	scanTimerSet bool
	entries      map[configKey]*entry
	slots        slots
}

func newSchedule() schedule {
	return schedule{wakeups: make(chan struct{}, 1), loadSlots: make(chan struct{}, maxLoaded), pending: map[task.Ref]bool{}, scanNeeded: true,
		entries: map[configKey]*entry{}, slots: newSlots()}
}

type configKey struct {
	task       task.Ref
	configSlot int
}

type entry struct {
	configKey
	queue      *senderQueue
	host       string
	usedShares [3]boundedShare // shares that count the entry
	state      entryState
	hasChanged bool // the configuration or its task has changed
	stopWait   func()
	unsaved    *task.ActivePushConfig // progress that is not stored yet
	idleChecks int                    // since the last event
}

type entryState uint8

const (
	stateWaiting entryState = iota
	stateReady              // waits for a slot
	stateServing
)

func (p *Pusher) markPending(r task.Ref) {
	p.mu.Lock()
	if len(p.pending) < maxEntries {
		p.pending[r] = true
	} else {
		p.scanNeeded = true
	}
	p.mu.Unlock()
	p.wake()
}

func (p *Pusher) wake() {
	select {
	case p.wakeups <- struct{}{}:
	default: // Run is already about to check
	}
}

// Run delivers events until ctx ends, and then waits for the current attempts.
func (p *Pusher) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	for ctx.Err() == nil {
		if err := p.loadPending(ctx); err != nil && ctx.Err() == nil {
			p.logFault(ctx, err)
			time.AfterFunc(retryDelay, p.wake)
		}
		p.serveReadyEntries(ctx, &running)
		select {
		case <-p.wakeups:
		case <-ctx.Done():
		}
	}
}

func (p *Pusher) logFault(ctx context.Context, err error) {
	p.Log.LogAttrs(ctx, slog.LevelError, "push notifications", slog.String("cause", err.Error()))
}

func (p *Pusher) loadPending(ctx context.Context) (err error) {
	pending, shouldScan := p.takePending()
	defer func() {
		if err != nil {
			p.mu.Lock()
			if shouldScan {
				p.scanNeeded, p.lastScan = true, time.Time{} // scan again at the next call
			}
			maps.Copy(p.pending, pending)
			p.mu.Unlock()
		}
	}()
	for r := range pending {
		open, err := p.Tasks.ListActivePushConfigsOf(ctx, r, 0)
		if err != nil {
			return err
		}
		p.addEntries(open, true)
	}
	for cursor := ""; shouldScan; shouldScan = cursor != "" {
		var page []task.ActivePushConfig
		if page, cursor, err = p.Tasks.ListActivePushConfigs(ctx, cursor); err != nil {
			return err
		}
		p.addEntries(page, false)
	}
	return nil
}

func (p *Pusher) takePending() (pending map[task.Ref]bool, shouldScan bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pending, p.pending = p.pending, map[task.Ref]bool{}
	if !p.scanNeeded {
		return pending, false
	}
	now := p.Now()
	if wait := p.lastScan.Add(scanInterval).Sub(now); wait > 0 {
		if !p.scanTimerSet {
			p.scanTimerSet = true
			time.AfterFunc(wait, p.wake)
		}
		return pending, false
	}
	p.scanTimerSet = false
	p.scanNeeded, p.hasMissed, p.lastScan = false, false, now
	return pending, true
}

func (p *Pusher) addEntries(pushes []task.ActivePushConfig, hasChanged bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range pushes {
		push := &pushes[i]
		key, host := configKey{push.Task, push.Slot()}, hostOf(push.Config.URL)
		e := p.entries[key]
		switch {
		case e != nil && !hasChanged:
			continue
		case e == nil:
			queue := p.slots.ensureQueue(push.Sender())
			if len(p.entries) >= maxEntries || queue.entryCount >= maxSenderEntries {
				p.hasMissed = true
				p.slots.removeIfEmpty(queue)
				continue
			}
			queue.entryCount++
			e = &entry{configKey: key, queue: queue}
			p.entries[key] = e
		}
		switch e.host = host; e.state {
		case stateServing:
			e.hasChanged = true
		case stateWaiting:
			p.markReady(e)
		case stateReady:
		}
	}
}

// markReady must be called with p.mu held.
func (p *Pusher) markReady(e *entry) {
	if e.stopWait != nil {
		e.stopWait()
		e.stopWait = nil
	}
	e.state = stateReady
	p.slots.enqueue(e)
}

func (p *Pusher) endWait(e *entry) {
	p.mu.Lock()
	if e.state == stateWaiting && p.entries[e.configKey] == e {
		p.markReady(e)
	}
	p.mu.Unlock()
	p.wake()
}

func (p *Pusher) serveReadyEntries(ctx context.Context, running *sync.WaitGroup) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for ctx.Err() == nil {
		e := p.slots.assignNext()
		if e == nil {
			return
		}
		e.state = stateServing
		running.Go(func() {
			next := p.serveEntry(ctx, e)
			p.mu.Lock()
			p.slots.release(e)
			p.applyOutcome(ctx, e, next, running)
			p.mu.Unlock()
			p.serveReadyEntries(ctx, running)
		})
	}
}

// outcome specifies whether and when Run serves a configuration again.
type outcome struct {
	shouldKeep    bool
	delay         time.Duration
	waitForChange func(ctx context.Context)
	cancelWait    func() // called if waitForChange is not called
}

// applyOutcome must be called with p.mu held.
func (p *Pusher) applyOutcome(ctx context.Context, e *entry, next outcome, running *sync.WaitGroup) {
	switch {
	case e.hasChanged, next.shouldKeep && next.delay == 0 && next.waitForChange == nil:
		e.hasChanged = false
		if next.cancelWait != nil {
			next.cancelWait()
		}
		p.markReady(e)
	case !next.shouldKeep:
		delete(p.entries, e.configKey)
		e.queue.entryCount--
		if p.hasMissed && !p.scanNeeded {
			p.scanNeeded = true
			p.wake()
		}
		p.slots.removeIfEmpty(e.queue)
	case next.waitForChange != nil:
		e.state = stateWaiting
		waitCtx, stop := context.WithCancel(ctx)
		e.stopWait = stop
		running.Go(func() {
			next.waitForChange(waitCtx)
			if waitCtx.Err() == nil {
				p.endWait(e)
			}
			stop()
		})
	default:
		e.state = stateWaiting
		timer := time.AfterFunc(next.delay, func() { p.endWait(e) })
		e.stopWait = func() { timer.Stop() }
	}
}

func (p *Pusher) serveEntry(ctx context.Context, e *entry) outcome {
	changed, unsubscribe := p.Tasks.Subscribe(e.task) // must precede the read of the task
	isFollowing := false
	defer func() {
		if !isFollowing {
			unsubscribe()
		}
	}()
	push, d, state, err := p.prepareDelivery(ctx, e)
	switch {
	case err != nil:
		return p.retryOutcome(ctx, err)
	case push == nil:
		return outcome{}
	case d != nil && push.LeaseEnd.After(p.Now()):
		return outcome{shouldKeep: true, delay: push.LeaseEnd.Sub(p.Now())}
	case d != nil:
		e.idleChecks = 0
		retryIn, err := p.attemptDelivery(ctx, push, d)
		if errors.Is(err, errPushEnded) {
			return p.endDeliveries(ctx, push)
		}
		if err != nil {
			return p.retryOutcome(ctx, err)
		}
		if e.unsaved = nil; retryIn == 0 {
			e.unsaved = push
		}
		return outcome{shouldKeep: true, delay: retryIn}
	case state.IsTerminal():
		return p.endDeliveries(ctx, push)
	}
	if e.unsaved != nil {
		if err := p.Tasks.SaveProgress(ctx, push, task.DeliveryCost{}); err != nil {
			return p.retryOutcome(ctx, err)
		}
		e.unsaved = nil
	}
	if !state.IsActive() {
		return outcome{} // the next turn reports the task again
	}
	isFollowing = true
	wait := checkInterval(e.idleChecks)
	e.idleChecks++
	watchPieces := !push.OnlyTurnEnds && push.DeliveryCount < maxLiveDeliveries
	return outcome{shouldKeep: true, waitForChange: func(ctx context.Context) { p.waitForCheck(ctx, e.task, changed, unsubscribe, watchPieces, wait) }, cancelWait: unsubscribe}
}

// If push is nil, prepareDelivery has found no active configuration.
func (p *Pusher) prepareDelivery(ctx context.Context, e *entry) (push *task.ActivePushConfig, d *delivery, state task.State, err error) {
	select {
	case p.loadSlots <- struct{}{}:
		defer func() { <-p.loadSlots }()
	case <-ctx.Done():
		return nil, nil, "", ctx.Err()
	}
	b, err := p.Tasks.ReadBacklog(ctx, task.Notice{Task: e.task, Slot: e.configSlot})
	if errors.Is(err, task.ErrRetryLater) || err == nil && len(b.ActivePushConfigs) == 0 {
		return nil, nil, "", nil
	}
	if err != nil {
		return nil, nil, "", err
	}
	config := b.ActivePushConfigs[0]
	config.RestoreProgress(e.unsaved)
	return &config, nextDelivery(&config, &b), b.State, nil
}

func (p *Pusher) retryOutcome(ctx context.Context, err error) outcome {
	// After a conflict, the configuration is read again.
	if store.IsConflict(err) {
		return outcome{shouldKeep: true}
	}
	if ctx.Err() == nil {
		p.logFault(ctx, err)
	}
	return outcome{shouldKeep: true, delay: retryDelay}
}

func (p *Pusher) endDeliveries(ctx context.Context, push *task.ActivePushConfig) outcome {
	if err := p.Tasks.EndDeliveries(ctx, push); err != nil {
		return p.retryOutcome(ctx, err)
	}
	return outcome{}
}

// waitForCheck returns when the turn has ended, or after wait. If watchPieces is true, it also
// returns when an event has arrived, but not before pieceCheckInterval has passed.
func (p *Pusher) waitForCheck(ctx context.Context, r task.Ref, changed <-chan struct{}, unsubscribe func(), watchPieces bool, wait time.Duration) {
	defer func() { unsubscribe() }()
	start, timer := time.Now(), time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-changed:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
		unsubscribe()
		changed, unsubscribe = p.Tasks.Subscribe(r)
		if active, err := p.Tasks.IsActive(ctx, r); err != nil || !active {
			return
		}
		if watchPieces {
			timer.Reset(pieceCheckInterval - time.Since(start))
			watchPieces = false
		}
	}
}
