package onlambda

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"path"
	"strings"
	"sync"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"

	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/obs"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Receiver handles a message of a queue and reports whether it is done with. err is a
// fault; a message may also come again without one.
type Receiver func(ctx context.Context, m events.SQSMessage) (done bool, err error)

// Turn is the event by which functions/message hands the turn of a slow vacant to
// functions/worker.
type Turn struct {
	Message string `json:"turn"`   // as task.Queue carries it
	Sender  string `json:"sender"` // a task.Sender
}

// Receive runs a function that the messages of SQS start, or another function of the stage
// (Env.Direct). It handles all messages of an
// event at once, and tells Lambda which of them come again. It does not return.
func Receive(f functions.Function, open func(*Env) (handle Receiver, wait func()), parts ...Part) {
	env, _ := begin(f, os.Stdout, parts...)
	handle, wait := open(env)
	lambda.Start((&receiver{log: env.Log, handle: handle, direct: env.Direct, after: func() {
		wait()
		env.Server.Vacants.Sweep()
	}}).invoke)
}

type receiver struct {
	log     *slog.Logger
	handle  Receiver
	direct  DirectHandler // nil if only queues start the function
	after   func()
	started coldStart
}

// invoke handles an event. An event that is not from SQS is an error; the queue keeps
// its messages.
func (r *receiver) invoke(ctx context.Context, event json.RawMessage) (events.SQSEventResponse, error) {
	var in events.SQSEvent
	defer r.after()
	if err := json.Unmarshal(event, &in); err != nil || len(in.Records) == 0 {
		return events.SQSEventResponse{}, r.handleDirect(ctx, event)
	}
	again := make([]bool, len(in.Records))
	var all sync.WaitGroup
	for i, m := range in.Records {
		all.Go(func() { again[i] = !r.handleMessage(ctx, m) })
	}
	all.Wait()
	out := events.SQSEventResponse{BatchItemFailures: []events.SQSBatchItemFailure{}}
	for i, m := range in.Records {
		if again[i] {
			out.BatchItemFailures = append(out.BatchItemFailures, events.SQSBatchItemFailure{ItemIdentifier: m.MessageId})
		}
	}
	return out, nil
}

// handleDirect handles an event of another function and logs it. Lambda sends an event again
// that failed.
func (r *receiver) handleDirect(ctx context.Context, event json.RawMessage) (err error) {
	ok := false
	if r.direct != nil {
		_, ok, err = r.direct(ctx, event)
	}
	if !ok {
		return problem.New(problem.Malformed, "the event is none of a queue")
	}
	level, verdict, status := slog.LevelInfo, "ok", http.StatusOK
	attrs := []slog.Attr{slog.String("queue", "")}
	if err != nil {
		p := problem.Of(err)
		level, verdict, status = slog.LevelError, p.Kind.String(), p.Kind.Row().Status
		attrs = append(attrs, slog.String("cause", err.Error()))
	}
	r.log.LogAttrs(context.WithoutCancel(ctx), level, "done", append(attrs, slog.String(obs.Verdict, verdict), slog.Int(obs.Status, status))...)
	return err
}

// handleMessage handles one message and logs it.
func (r *receiver) handleMessage(ctx context.Context, m events.SQSMessage) (done bool) {
	ctx, _ = r.started.usage(ctx)
	var err error
	defer func() {
		if cause := recover(); cause != nil {
			done, err = false, panicError(cause)
		}
		attrs := []slog.Attr{slog.String("queue", clip(QueueName(m.EventSourceARN))), slog.String("received", clip(m.Attributes["ApproximateReceiveCount"]))}
		verdict, level, status := "ok", slog.LevelInfo, http.StatusOK
		switch {
		case err != nil:
			p := problem.Of(err)
			verdict, level, status = p.Kind.String(), slog.LevelError, p.Kind.Row().Status
			attrs = append(attrs, slog.String("cause", err.Error()))
		case !done:
			verdict = "again"
		}
		r.log.LogAttrs(context.WithoutCancel(ctx), level, "done", append(attrs, slog.String(obs.Verdict, verdict), slog.Int(obs.Status, status))...)
	}()
	done, err = r.handle(ctx, m)
	return done
}

// QueueName is the name of a queue in its ARN or URL.
func QueueName(s string) string { return path.Base(strings.ReplaceAll(s, ":", "/")) }
