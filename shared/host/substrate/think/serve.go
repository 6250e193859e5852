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

type Report struct {
	Op     string
	Vacant identity.ID
	Usage  substrate.Usage
	Err    error
}

// Serve answers a request with s. The reply consists of lines of JSON, which are written as soon as
// they are known. The reply ends at the request's deadline, or earlier if the turn of its task
// ends. Serve calls logReport once, before the last line.
func Serve(ctx context.Context, s Service, request []byte, logReport func(context.Context, Report)) io.ReadCloser {
	next, stop := iter.Pull(replyLines(ctx, s, request, logReport))
	return &reader{next: next, stop: stop}
}

type reader struct {
	next    func() (line, bool)
	stop    func()
	pending []byte
}

func (r *reader) Read(p []byte) (int, error) {
	if len(r.pending) == 0 {
		l, ok := r.next()
		if !ok {
			return 0, io.EOF
		}
		b, err := json.Marshal(l)
		if err != nil {
			return 0, err
		}
		r.pending = append(b, '\n')
	}
	n := copy(p, r.pending)
	r.pending = r.pending[n:]
	return n, nil
}

func (r *reader) Close() error {
	r.stop()
	return nil
}

func replyLines(ctx context.Context, s Service, data []byte, logReport func(context.Context, Report)) iter.Seq[line] {
	return func(yield func(line) bool) {
		var summary Report
		isReading := true
		send := func(l line) bool {
			isReading = isReading && yield(l)
			return isReading
		}
		last := line{FinishReason: string(substrate.FinishStop)}
		r, err := decodeRequest(data)
		summary.Op, summary.Vacant = r.Op, r.Vacant
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
			var reason substrate.FinishReason
			if reason, err = handleRequest(ctx, s, &r, &summary, send); reason != "" {
				last.FinishReason = string(reason)
			}
		}
		if summary.Err = err; err != nil {
			last = line{Error: newFailure(err)}
		}
		logReport(ctx, summary)
		send(last)
	}
}

func handleRequest(ctx context.Context, s Service, r *request, summary *Report, send func(line) bool) (reason substrate.FinishReason, err error) {
	defer func() {
		if p := recover(); p != nil { // the request fails, but the process continues
			err = problem.Wrap(problem.Internal, fmt.Errorf("panic: %v\n%s", p, debug.Stack()), "")
		}
	}()
	agent := AgentVersion{r.Vacant, r.Version}
	switch r.Op {
	case opTurn:
		t, err := r.decodeTurn()
		if err != nil {
			return "", err
		}
		for e, err := range s.RunTurn(ctx, t) {
			if err != nil {
				return "", err
			}
			switch e := e.(type) {
			case substrate.FinishReason:
				return e, nil
			case substrate.Usage:
				summary.Usage = e
			}
			if !send(encodeEvent(e)) {
				return "", problem.New(problem.Canceled, "the client has stopped reading the answer")
			}
		}
		return "", problem.New(problem.SubstrateUnavailable, "the agent's answer ended before it was complete")
	case opListTools:
		offer, err := s.ListMCPTools(ctx, agent)
		if err != nil {
			return "", err
		}
		tools := []wireTool{}
		for _, t := range offer.Tools {
			tools = append(tools, wireTool{t.Name, t.Description, t.Schema, t.Writes})
		}
		send(line{Tools: &tools})
		if offer.OmittedTools.Count() > 0 {
			send(line{OmittedTools: &offer.OmittedTools})
		}
		return "", nil
	case opUseTool:
		text, err := s.UseMCPTool(ctx, agent, r.Name, r.Arguments)
		if err == nil && text != "" {
			send(line{Text: text})
		}
		return "", err
	}
	return "", problem.Invalid("op", opTurn+", "+opListTools+" or "+opUseTool, fmt.Sprintf("%.40q", r.Op))
}
