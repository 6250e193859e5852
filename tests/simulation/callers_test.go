package simulation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/message"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// caller is a device with the caller's key: the real dispatch.Caller with its
// own book, or one like the reference's.
type caller struct {
	w    *world
	name string
	cfg  callerConfig
	skew time.Duration

	ours dispatch.Caller
	kept dispatch.State // what its disk contains
	job  int

	ref reference

	signed map[identity.Hash]bool // calls it posted
	learnt map[identity.Hash]bool // calls whose answer it got and accepted
}

func newCaller(w *world, i int, cfg callerConfig) *caller {
	c := &caller{w: w, name: fmt.Sprintf("caller %d", i), cfg: cfg, skew: cfg.skew, signed: map[identity.Hash]bool{}, learnt: map[identity.Hash]bool{}}
	c.kept = dispatch.State{Self: w.pair.Caller, Target: w.pair.Vacant}
	c.ours = dispatch.Caller{
		Signer: callerKey, Book: c, Transport: c, Now: c.now, Rand: w.random,
		Wait: c.wait, AutoReset: true,
	}
	return c
}

func (c *caller) now() time.Time { return c.w.clock.NowFunc(c.skew)() }

func (c *caller) wait(ctx context.Context, d time.Duration) error {
	if v := c.w.pause(ctx, plain, "waiting"); v != fine {
		return errDead
	}
	c.w.clock.Advance(d)
	return nil
}

// mend sets the reference's clock at the end, as a person would: it has no
// other way.
func (c *caller) mend() {
	if c.cfg.reference && c.skew.Abs() > call.MaxSkew {
		c.skew = 0
	}
}

// startCaller starts a caller, or starts it again after it died.
func (w *world) startCaller(c *caller, drive func(context.Context)) *task {
	t := &task{name: c.name, caller: c}
	w.spawn(t, drive)
	return t
}

// Open, Load, Save and Close make the caller its own book: saved state outlives
// it.
func (c *caller) Open(context.Context, identity.ID, identity.ID) (dispatch.Session, error) {
	return &session{c: c}, nil
}

// session belongs to one process of the caller.
type session struct{ c *caller }

func (s *session) Load() (dispatch.State, error) { return s.c.kept, nil }

func (s *session) Save(st dispatch.State) error {
	if forget := s.c.w.mutant.save; forget != nil {
		st = forget(s.c.w, s.c.kept, st)
	}
	s.c.kept = st
	return nil
}

func (s *session) Close() error { return nil }

var target = dispatch.Target{ID: vacantKey.ID(), URL: "http://host" + message.SendPath}

func text(s string) envelope.Message {
	return envelope.Message{Role: envelope.RoleUser, Parts: []string{s}}
}

// drive makes the caller's calls, from where it was when it died.
func (c *caller) drive(ctx context.Context) {
	if c.cfg.reference {
		c.driveReference(ctx)
		return
	}
	if c.cfg.freshReset {
		c.cfg.freshReset = false
		c.heard(c.ours.Reset(ctx, target))
	}
	for c.job < c.cfg.jobs && ctx.Err() == nil {
		msg := text(fmt.Sprintf("%s, job %d", c.name, c.job))
		err := c.heard(c.ours.Call(ctx, target, msg))
		again := problem.Is(err, problem.Pending) || problem.Is(err, problem.Unavailable)
		if ctx.Err() == nil && (!again || c.w.rng.IntN(4) == 0) { // otherwise it is given up
			c.job++
		}
	}
	if ctx.Err() == nil {
		c.heard(c.ours.Ask(ctx, target))
	}
}

// driveAlone makes one call that must succeed, and learns what is open.
func (c *caller) driveAlone(ctx context.Context) {
	if c.cfg.reference {
		c.driveReferenceAlone(ctx)
		return
	}
	var err error
	for range 30 {
		if err = c.heard(c.ours.Call(ctx, target, text(c.name+", alone"))); err == nil || ctx.Err() != nil {
			break
		}
	}
	if err != nil && ctx.Err() == nil {
		c.w.violate("I6: %s cannot call, alone and without faults: %v", c.name, err)
		return
	}
	for range 5 {
		if err = c.heard(c.ours.Ask(ctx, target)); err == nil || ctx.Err() != nil {
			return
		}
	}
	c.w.violate("I6: %s cannot learn what became of its calls: %v", c.name, err)
}

// heard records the result of one of our caller's operations.
func (c *caller) heard(res dispatch.Result, err error) error {
	if errors.Is(err, errDead) {
		return err
	}
	c.w.say("%s: %s %v, %d late, %v", c.name, res.Request.Payload.Text(), res.Fate, len(res.LateOutcomes), err)
	if res.Fate == dispatch.Answered {
		c.learnt[res.RequestHash] = true
	}
	for _, l := range res.LateOutcomes {
		if l.Fate == dispatch.Answered {
			c.learnt[l.Request.Hash()] = true
		}
	}
	if problem.Is(err, problem.Untrusted) {
		c.w.violate("I7: %s does not believe an answer: %v", c.name, err)
	}
	return err
}
