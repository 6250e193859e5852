package plain

import (
	"cmp"
	"context"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/call"
)

// UnaryTime limits every request except streams and messages to slow vacants. A turn may take 25 s
// of it, and a CDN waits 30 s for the first byte of an answer.
const UnaryTime = call.DefaultWork + call.DefaultMargin

// Piece receives a piece of an answer. If follows is false, the piece replaces all earlier pieces.
type Piece func(text string, follows bool)

// Wait says how a caller waits for a turn. The zero Wait waits until the turn ends.
type Wait struct {
	// Time is the longest wait for a turn that can go on without its client.
	Time time.Duration
	// Began is called with the id of the task once the call is accepted, before any piece. It may be
	// nil. A turn that ends with its request does not call it.
	Began func(task string)
	// Piece receives the pieces of the answer. It may be nil. With Piece, the caller must hold a place
	// among the streams.
	Piece Piece
}

// Run runs a turn that a client waits for. A slow turn, or one whose pieces are followed, goes on
// without its client, and the task is returned in its state after the wait. The error is a
// *task.Refusal if the call was not accepted.
func (c *Caller) Run(ctx context.Context, turn *task.Turn, w Wait) (t task.Task, err error) {
	run := func() error {
		slow := c.IsSlow()
		if w.Piece == nil && !slow {
			ctx, cancel := context.WithTimeout(ctx, UnaryTime)
			defer cancel()
			turn.Work = c.Vacant.Work
			t, err = c.s.Tasks.Run(ctx, *turn)
			return err
		}
		// The turn continues if the client disconnects, and after this function returns. Before the
		// process ends, it waits for such turns (task.Engine.Wait).
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
	err = c.Waiting().Hold(c, run)
	return t, err
}

// ended is the done channel for turns that do not run in this request.
var ended = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Begin begins a turn that a stream follows. done is closed when the turn no longer runs in this
// request.
func (c *Caller) Begin(ctx context.Context, turn *task.Turn) (ref task.Ref, done <-chan struct{}, err error) {
	if !c.IsSlow() || c.s.Hold > 0 {
		return c.s.Tasks.Begin(ctx, *turn)
	}
	t, err := c.s.Tasks.Start(ctx, *turn)
	ref = turn.Ref
	ref.ID = t.ID // a repeated message has the task of the first one
	return ref, ended, err
}

// Follow returns a task of the caller once its turn is over, or its state after a time. With piece, the
// caller must hold a place among the streams.
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
	case over && t.ID == "": // before the task was read
		return c.s.Tasks.Get(ctx, ref)
	case over: // within a read
		return t, nil
	}
	return t, err
}

// Stop cancels a task of the caller.
func (c *Caller) Stop(ctx context.Context, id string) (task.Task, error) {
	if err := c.CheckPlain(); err != nil {
		return task.Task{}, err
	}
	return c.s.Tasks.Cancel(ctx, task.Ref{Vacant: c.Vacant.ID, Owner: c.Owner(), ID: id})
}
