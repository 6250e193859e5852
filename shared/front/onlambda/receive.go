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

// Receiver handles a message of a queue. If done is false, the queue delivers the message again.
// err is only logged.
type Receiver func(ctx context.Context, m events.SQSMessage) (done bool, err error)

// Receive handles all SQS messages of an event concurrently. It never returns.
func Receive(f functions.Function, newReceiver func(*Env) (handle Receiver, wait func()), features ...Feature) {
	env, _ := openOrExit(f, os.Stdout, features...)
	handle, wait := newReceiver(env)
	lambda.Start((&receiver{log: env.Log, handle: handle, afterEvent: func() {
		wait()
		env.Server.Vacants.Sweep()
	}}).invoke)
}

type receiver struct {
	log        *slog.Logger
	handle     Receiver
	afterEvent func()
	coldStart  coldStart
}

func (r *receiver) invoke(ctx context.Context, event json.RawMessage) (events.SQSEventResponse, error) {
	var in events.SQSEvent
	defer r.afterEvent()
	if err := json.Unmarshal(event, &in); err != nil || len(in.Records) == 0 {
		return events.SQSEventResponse{}, problem.New(problem.Malformed, "the event does not come from a queue")
	}
	mustRedeliver := make([]bool, len(in.Records))
	var wg sync.WaitGroup
	for i, m := range in.Records {
		wg.Go(func() { mustRedeliver[i] = !r.handleMessage(ctx, m) })
	}
	wg.Wait()
	out := events.SQSEventResponse{BatchItemFailures: []events.SQSBatchItemFailure{}}
	for i, m := range in.Records {
		if mustRedeliver[i] {
			out.BatchItemFailures = append(out.BatchItemFailures, events.SQSBatchItemFailure{ItemIdentifier: m.MessageId})
		}
	}
	return out, nil
}

func (r *receiver) handleMessage(ctx context.Context, m events.SQSMessage) (done bool) {
	ctx, _ = r.coldStart.withUsage(ctx)
	var err error
	defer func() {
		if cause := recover(); cause != nil {
			done, err = false, panicError(cause)
		}
		attrs := []slog.Attr{slog.String("queue", truncate(QueueName(m.EventSourceARN))), slog.String("received", truncate(m.Attributes["ApproximateReceiveCount"]))}
		verdict, level, status := "ok", slog.LevelInfo, http.StatusOK
		switch {
		case err != nil:
			p := problem.AsError(err)
			verdict, level, status = p.Kind.String(), slog.LevelError, p.Kind.Forms().HTTPStatus
			attrs = append(attrs, slog.String("cause", err.Error()))
		case !done:
			verdict = "again"
		}
		r.log.LogAttrs(context.WithoutCancel(ctx), level, "done", append(attrs, slog.String(obs.AttrVerdict, verdict), slog.Int(obs.AttrStatus, status))...)
	}()
	done, err = r.handle(ctx, m)
	return done
}

func QueueName(urlOrARN string) string { return path.Base(strings.ReplaceAll(urlOrARN, ":", "/")) }
