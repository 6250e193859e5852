package plain

import (
	"cmp"
	"context"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/call"
)

// UnaryTime limits all requests except streams and messages to slow vacants. It includes the 25 s
// that a turn may take, and is shorter than the 30 s that a CDN waits for the first byte of an
// answer.
const UnaryTime = call.DefaultWork + call.DefaultMargin

// Piece receives a piece of an answer. If follows is false, the piece replaces all earlier ones.
type Piece func(text string, follows bool)

// Wait specifies how a caller waits for a turn. The zero Wait waits until the turn ends.
type Wait struct {
	// Time limits the wait for a turn that can continue without its client.
	Time time.Duration
	// Began is called with the task's id when the call is accepted, before any piece. Began may be
	// nil. It is not called for a turn that ends with its request.
	Began func(task string)
	// Piece receives the pieces of the answer. It may be nil. If it is set, the caller must already
	// be counted in Streams.
	Piece Piece
}

// Run runs a turn for a client that waits. A slow turn, or a turn with w.Piece, continues without
// its client, and Run returns the task in its state after the wait. If the call was not accepted,
// the error is a *task.Refusal.
func (c *Caller) Run(ctx context.Context, turn *task.Turn, w Wait) (t task.Task, err error) {
	run := func() error {
		slow := c.IsSlow()
		if w.Piece == nil && !slow {
			ctx, cancel := context.WithTimeout(ctx, UnaryTime)
			defer cancel()
			turn.Work = c.Vacant.MaxCallTime
			t, err = c.s.Tasks.Run(ctx, *turn)
			return err
		}
		// The turn continues if the client disconnects, and after this function returns. Before the
		// process exits, it waits for such turns (task.Engine.Wait).
		ref := turn.Ref
		if slow {
			var started task.Task
			started, err = c.s.Tasks.Start(ctx, *turn)
			ref.ID = started.ID // a repeated message has the task of the first one
		} else {
			ref, _, err = c.s.Tasks.Begin(ctx, *turn)
		}
		if err != nil {
			return err
		}
		if w.Began != nil {
			w.Began(ref.ID)
		}
		t, err = c.follow(ctx, ref, cmp.Or(w.Time, c.s.Hold, call.MaxQueued+call.MaxWork+call.Grace), w.Piece)
		return err
	}
	if w.Piece != nil {
		return t, run()
	}
	err = c.WaitCounter().Hold(c, run)
	return t, err
}

// closedDone is the channel that Begin returns for turns that run outside of the request.
var closedDone = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Begin starts a turn whose events a stream follows. done is closed when the turn no longer runs in
// this request.
func (c *Caller) Begin(ctx context.Context, turn *task.Turn) (ref task.Ref, done <-chan struct{}, err error) {
	if !c.IsSlow() || c.s.Hold > 0 {
		return c.s.Tasks.Begin(ctx, *turn)
	}
	t, err := c.s.Tasks.Start(ctx, *turn)
	ref = turn.Ref
	ref.ID = t.ID // a repeated message has the task of the first one
	return ref, closedDone, err
}

// Follow waits until the caller's task has ended or the wait is over, and returns the task. If
// piece is not nil, the caller must already be counted in Streams.
func (c *Caller) Follow(ctx context.Context, id string, wait time.Duration, piece Piece) (t task.Task, err error) {
	if err := c.CheckPlain(); err != nil {
		return t, err
	}
	ref := task.Ref{Vacant: c.Vacant.ID, Owner: c.Owner(), ID: id}
	switch {
	case wait == 0:
		return c.s.Tasks.Get(ctx, ref)
	case piece != nil:
		return c.follow(ctx, ref, wait, piece)
	}
	err = c.s.Streams.Hold(c, func() error {
		t, err = c.follow(ctx, ref, wait, nil)
		return err
	})
	return t, err
}

func (c *Caller) follow(ctx context.Context, ref task.Ref, wait time.Duration, piece Piece) (t task.Task, err error) {
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	err = c.s.Tasks.FollowTurn(waiting, ref, 0, func(n task.Numbered) bool {
		t.Apply(n.Event)
		if a := n.Artifact; piece != nil && a != nil && a.Artifact.ID == task.ResponseArtifact {
			if text := TextOf(a.Artifact.Parts); text != "" {
				piece(text, a.Append)
			}
		}
		return true
	})
	switch over := waiting.Err() != nil; {
	case over && t.ID == "": // timeout before the task was read
		return c.s.Tasks.Get(ctx, ref)
	case over: // timeout during a read
		return t, nil
	}
	return t, err
}

func (c *Caller) Stop(ctx context.Context, id string) (task.Task, error) {
	if err := c.CheckPlain(); err != nil {
		return task.Task{}, err
	}
	return c.s.Tasks.Cancel(ctx, task.Ref{Vacant: c.Vacant.ID, Owner: c.Owner(), ID: id})
}
