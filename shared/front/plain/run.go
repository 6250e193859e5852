package plain

import (
	"cmp"
	"context"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/call"
)

// MaxUnaryTime is short, because a CDN waits only 30 s for the first byte of an answer.
const MaxUnaryTime = call.DefaultCallTimeout + call.DefaultReplyMargin

// PieceFunc receives a piece of an answer. If follows is false, the piece replaces all earlier
// ones.
type PieceFunc func(text string, follows bool)

type WaitOptions struct {
	Timeout time.Duration
	// OnAccept is called when the call is accepted, before any piece. It may be nil. It is not
	// called if the vacant is not slow and OnPiece is nil.
	OnAccept func(task string)
	// If OnPiece is not nil, the caller must already be counted in Streams.
	OnPiece PieceFunc
}

// Run runs a turn for a client that waits. A slow turn, or a turn with opts.OnPiece, continues
// without its client. If the call was not accepted, the error is a *task.Refusal.
func (c *Caller) Run(ctx context.Context, turn *task.Turn, opts WaitOptions) (t task.Task, err error) {
	run := func() error {
		isSlow := c.IsSlow()
		if opts.OnPiece == nil && !isSlow {
			ctx, cancel := context.WithTimeout(ctx, MaxUnaryTime)
			defer cancel()
			turn.CallTimeout = c.Vacant.CallTimeout
			t, err = c.service.Tasks.Run(ctx, *turn)
			return err
		}
		ref := turn.Ref
		if isSlow {
			var started task.Task
			started, err = c.service.Tasks.Enqueue(ctx, *turn)
			ref.ID = started.ID // a repeated message has the task of the first one
		} else {
			ref, _, err = c.service.Tasks.Begin(ctx, *turn)
		}
		if err != nil {
			return err
		}
		if opts.OnAccept != nil {
			opts.OnAccept(ref.ID)
		}
		t, err = c.followTask(ctx, ref, cmp.Or(opts.Timeout, c.service.MaxWait, call.MaxQueueDuration+call.MaxCallTimeout+call.GracePeriod), opts.OnPiece)
		return err
	}
	if opts.OnPiece != nil {
		return t, run()
	}
	err = c.WaitLimiter().Run(c, run)
	return t, err
}

var alreadyDone = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// BeginTurn starts a turn. done is closed when the turn no longer runs in this request.
func (c *Caller) BeginTurn(ctx context.Context, turn *task.Turn) (ref task.Ref, done <-chan struct{}, err error) {
	if !c.IsSlow() || c.service.MaxWait > 0 {
		return c.service.Tasks.Begin(ctx, *turn)
	}
	t, err := c.service.Tasks.Enqueue(ctx, *turn)
	ref = turn.Ref
	ref.ID = t.ID // a repeated message has the task of the first one
	return ref, alreadyDone, err
}

// WaitForTask waits for the end of a task. If onPiece is not nil, the caller must already be
// counted in Streams.
func (c *Caller) WaitForTask(ctx context.Context, id string, wait time.Duration, onPiece PieceFunc) (t task.Task, err error) {
	if err := c.CheckKeylessAccess(); err != nil {
		return t, err
	}
	ref := task.Ref{Vacant: c.Vacant.ID, Owner: c.Owner(), ID: id}
	switch {
	case wait == 0:
		return c.service.Tasks.Get(ctx, ref)
	case onPiece != nil:
		return c.followTask(ctx, ref, wait, onPiece)
	}
	err = c.service.Streams.Run(c, func() error {
		t, err = c.followTask(ctx, ref, wait, nil)
		return err
	})
	return t, err
}

func (c *Caller) followTask(ctx context.Context, ref task.Ref, wait time.Duration, onPiece PieceFunc) (t task.Task, err error) {
	waitCtx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	err = c.service.Tasks.FollowTurn(waitCtx, ref, 0, func(n task.NumberedEvent) bool {
		t.Apply(n.Event)
		if a := n.Artifact; onPiece != nil && a != nil && a.Artifact.ID == task.ResponseArtifact {
			if text := PartsText(a.Artifact.Parts); text != "" {
				onPiece(text, a.Append)
			}
		}
		return true
	})
	switch timedOut := waitCtx.Err() != nil; {
	case timedOut && t.ID == "": // timeout before the task was read
		return c.service.Tasks.Get(ctx, ref)
	case timedOut:
		return t, nil
	}
	return t, err
}

func (c *Caller) CancelTask(ctx context.Context, id string) (task.Task, error) {
	if err := c.CheckKeylessAccess(); err != nil {
		return task.Task{}, err
	}
	return c.service.Tasks.Cancel(ctx, task.Ref{Vacant: c.Vacant.ID, Owner: c.Owner(), ID: id})
}
