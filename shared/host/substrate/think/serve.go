package think

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"runtime/debug"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Watcher is a Service that detects the end of a task's turn, even if another process ends it.
type Watcher interface {
	Watch(ctx context.Context, task string) (context.Context, context.CancelFunc)
}

// Report describes a completed request for the log.
type Report struct {
	Op     string
	Vacant identity.ID
	Usage  substrate.Usage
	Err    error // includes the cause
}

// Serve answers a request with s. The reply consists of lines of JSON, each written as soon as it
// is known. The last line contains done or error. The reply ends by the request's deadline, or earlier
// if the turn of its task ends (Watcher). Serve reports the request once, before the last line.
func Serve(ctx context.Context, s Service, request []byte, report func(context.Context, Report)) io.ReadCloser {
	next, stop := iter.Pull(lines(ctx, s, request, report))
	return &reader{next: next, stop: stop}
}

type reader struct {
	next func() (line, bool)
	stop func()
	left []byte
}

func (r *reader) Read(p []byte) (int, error) {
	if len(r.left) == 0 {
		l, ok := r.next()
		if !ok {
			return 0, io.EOF
		}
		b, err := json.Marshal(l)
		if err != nil {
			return 0, err
		}
		r.left = append(b, '\n')
	}
	n := copy(p, r.left)
	r.left = r.left[n:]
	return n, nil
}

func (r *reader) Close() error {
	r.stop()
	return nil
}

func lines(ctx context.Context, s Service, data []byte, report func(context.Context, Report)) iter.Seq[line] {
	return func(yield func(line) bool) {
		var rep Report
		reading := true
		give := func(l line) bool {
			reading = reading && yield(l)
			return reading
		}
		last := line{Done: string(substrate.Stop)}
		r, err := decode(data)
		rep.Op, rep.Vacant = r.Op, r.Vacant
		if err == nil {
			if r.DeadlineMS > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithDeadline(ctx, time.UnixMilli(r.DeadlineMS))
				defer cancel()
			}
			if w, ok := s.(Watcher); ok && r.Task != "" {
				var cancel context.CancelFunc
				ctx, cancel = w.Watch(ctx, r.Task)
				defer cancel()
			}
			var done substrate.FinishReason
			if done, err = answer(ctx, s, &r, &rep, give); done != "" {
				last.Done = string(done)
			}
		}
		if rep.Err = err; err != nil {
			last = line{Error: failureOf(err)}
		}
		report(ctx, rep)
		give(last)
	}
}

func answer(ctx context.Context, s Service, r *request, rep *Report, give func(line) bool) (done substrate.FinishReason, err error) {
	defer func() {
		if p := recover(); p != nil { // the request fails, but the process continues
			err = problem.Wrap(problem.Internal, fmt.Errorf("panic: %v\n%s", p, debug.Stack()), "")
		}
	}()
	agent := Agent{r.Vacant, r.Version}
	switch r.Op {
	case opTurn:
		t, err := r.turn()
		if err != nil {
			return "", err
		}
		for e, err := range s.Turn(ctx, t) {
			if err != nil {
				return "", err
			}
			switch e := e.(type) {
			case substrate.FinishReason:
				return e, nil
			case substrate.Usage:
				rep.Usage = e
			}
			if !give(lineOf(e)) {
				return "", problem.New(problem.Canceled, "the client has stopped reading the answer")
			}
		}
		return "", problem.New(problem.SubstrateUnavailable, "the agent's answer ended before it was complete")
	case opTools:
		offered, err := s.MCPTools(ctx, agent)
		if err != nil {
			return "", err
		}
		tools := []tool{}
		for _, t := range offered.Tools {
			tools = append(tools, tool{t.Name, t.Description, t.Schema, t.Writes})
		}
		give(line{Tools: &tools})
		if offered.LeftOut.Count() > 0 {
			give(line{LeftOut: &offered.LeftOut})
		}
		return "", nil
	case opUse:
		text, err := s.UseMCPTool(ctx, agent, r.Name, r.Arguments)
		if err == nil && text != "" {
			give(line{Text: text})
		}
		return "", err
	}
	return "", problem.Invalid("op", opTurn+", "+opTools+" or "+opUse, fmt.Sprintf("%.40q", r.Op))
}
