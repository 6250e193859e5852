package a2a

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// slow reports whether the turns of the request's vacant run in the background: they may take
// longer than a request.
func (d *api) slow(r *request) bool { return d.Tasks.Calls.IsSlow(r.vacant.Work) }

// ended is the end of turns that this request does not run.
var ended = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// start starts a turn in the background.
func (d *api) start(ctx context.Context, turn *task.Turn) (task.Ref, error) {
	t, err := d.Tasks.Start(ctx, *turn)
	ref := turn.Ref
	if err == nil {
		ref.ID = t.ID // a message that came before has the task of then
	}
	return ref, err
}

// begin begins a turn that a stream follows; done is closed once nothing of it runs for this
// request any more.
func (d *api) begin(r *request, turn *task.Turn) (ref task.Ref, done <-chan struct{}, err error) {
	if !d.slow(r) || d.Hold > 0 {
		return d.Tasks.Begin(r.Context(), *turn)
	}
	ref, err = d.start(r.Context(), turn)
	return ref, ended, err
}

// run runs a turn that a client waits for, to its end. A slow turn goes on without its client,
// and the task is returned as it is after Hold.
func (d *api) run(r *request, turn *task.Turn) (task.Task, error) {
	return holdFor(d.waiting(r), r, func() (t task.Task, err error) {
		if !d.slow(r) {
			ctx, cancel := context.WithTimeout(r.Context(), unaryTime)
			defer cancel()
			turn.Work = r.vacant.Work
			return d.Tasks.Run(ctx, *turn)
		}
		ref, err := d.start(r.Context(), turn)
		if err != nil {
			return t, err
		}
		t, err = d.follow(r.Context(), ref, cmp.Or(d.Hold, call.MaxQueued+call.MaxWork+call.Grace), nil)
		// The limit for an answer began with the request, which a turn of minutes outlasts.
		_ = http.NewResponseController(r.ResponseWriter).SetWriteDeadline(time.Now().Add(writeTimeout))
		return t, err
	})
}

// follow returns a task once its turn is over, or as it is after a time.
func (d *api) follow(ctx context.Context, ref task.Ref, wait time.Duration, piece Piece) (t task.Task, err error) {
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	err = d.Tasks.FollowTurn(waiting, ref, 0, func(n task.Numbered) bool {
		t.Apply(n.Event)
		if a := n.Artifact; piece != nil && a != nil && a.Artifact.ID == task.ResponseArtifact {
			text := ""
			for _, p := range a.Artifact.Parts {
				text += p.Text
			}
			if text != "" {
				piece(text, a.Append)
			}
		}
		return true
	})
	switch over := waiting.Err() != nil; {
	case over && t.ID == "": // before the task was read
		return d.Tasks.Get(ctx, ref)
	case over: // within a read
		return t, nil
	}
	return t, err
}

// checkWaits refuses a request that can only wait for the answer of a slow vacant, in a process
// whose platform gives an answer 30 s to begin.
func (d *api) checkWaits(r *request) error {
	if d.Hold == 0 || !d.slow(r) {
		return nil
	}
	return problem.New(problem.Malformed, "this vacant may take %s, and an answer must begin within 30 s: send Accept: text/event-stream", r.vacant.Work)
}
