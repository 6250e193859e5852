package onlambda

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"os"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambdacontext"
	"github.com/awslabs/aws-lambda-go-api-proxy/httpadapter"

	"github.com/vacancy-host/vacancy/shared/front/edge"
	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/front/registryapi"
	"github.com/vacancy-host/vacancy/shared/host/fsck/canary"
	"github.com/vacancy-host/vacancy/shared/obs"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Serve serves a handler behind a Function URL. It never returns.
func Serve(f functions.Function, handler func(*Env) http.Handler, features ...Feature) {
	env, _ := openOrExit(f, os.Stdout, features...)
	front := newHTTPFront(env, handler(env), wallClock)
	if f == functions.Message {
		front.createTextKey = env.Server.Texts.CreateNext
	}
	// A scheduled event makes Admin write a canary, a row that tests the tamper detector.
	if handleOther := env.HandleDirect; f == functions.Admin {
		canaryJob := &job{log: env.Log, work: func(ctx context.Context, _ json.RawMessage) ([]slog.Attr, error) {
			return nil, canary.Write(ctx, env.Store, wallClock(), rand.Reader)
		}}
		env.HandleDirect = func(ctx context.Context, event json.RawMessage) (any, bool, error) {
			var command struct{ Canary bool }
			switch {
			case json.Unmarshal(event, &command) == nil && command.Canary:
				return nil, true, canaryJob.invoke(ctx, event)
			case handleOther != nil:
				return handleOther(ctx, event)
			}
			return nil, false, nil
		}
	}
	if env.HandleDirect != nil {
		lambda.Start(func(ctx context.Context, event json.RawMessage) (any, error) {
			if answer, ok, err := env.HandleDirect(ctx, event); ok {
				return answer, err
			}
			return front.invoke(ctx, event)
		})
		return
	}
	lambda.Start(front.invoke)
}

type httpFront struct {
	handler      http.Handler
	proxy        *httpadapter.HandlerAdapterV2
	log          *slog.Logger
	afterRequest func()
	// createTextKey creates the key that encrypts the message texts of the next day.
	createTextKey func(context.Context) error
	coldStart     coldStart
}

func newHTTPFront(env *Env, handler http.Handler, now func() time.Time) *httpFront {
	isRevocation := func(r *http.Request) bool {
		return r.Method == http.MethodPost && r.URL.Path == registryapi.Revoke.Path
	}
	limits := edge.Config{RequestRate: env.Rate, PairRate: env.PairRate, ReadRate: env.ReadRate, PageReadRate: env.PageReadRate, IsUrgent: isRevocation, ExemptKeys: env.hasKeyedCallers, BodyRate: env.ByteRate, Now: now}
	f := newGuardedFront(env.Log, env.EdgeSecrets, limits, handler)
	if env.Server != nil {
		// A function runs no code between requests.
		f.afterRequest = env.Server.Vacants.Sweep
	}
	return f
}

func newGuardedFront(log *slog.Logger, secrets []string, limits edge.Config, handler http.Handler) *httpFront {
	// The guard comes first, so that requests which bypass the edge do not use up the limits.
	f := &httpFront{log: log, afterRequest: func() {}, handler: httpapi.WithRequestIDs(edge.Guard(secrets, edge.Limit(limits, handler)))}
	f.proxy = httpadapter.NewV2(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := &statusWriter{ResponseWriter: w}
		f.handler.ServeHTTP(s, r)
		// Unlike net/http, the proxy sends no status if the handler wrote no response.
		s.WriteHeader(http.StatusOK)
	}))
	return f
}

// ServeWithoutHost serves a handler without opening a host, so that the program contains neither
// the host nor AWS clients. It never returns.
func ServeWithoutHost(f functions.Function, handler func(Settings, *slog.Logger) http.Handler) {
	s, logHandler := configureOrExit(f, os.Stdout)
	log := slog.New(logHandler)
	lambda.Start(newGuardedFront(log, s.EdgeSecrets, edge.Config{RequestRate: s.Rate, PairRate: s.PairRate, Now: wallClock}, handler(s, log)).invoke)
}

type statusWriter struct {
	http.ResponseWriter
	written bool
	status  int
}

func (s *statusWriter) WriteHeader(status int) {
	if !s.written {
		s.written, s.status = true, status
		s.ResponseWriter.WriteHeader(status)
	}
}

func (s *statusWriter) Write(b []byte) (int, error) {
	s.WriteHeader(http.StatusOK)
	return s.ResponseWriter.Write(b)
}

type coldStart struct{ isWarm atomic.Bool }

func (s *coldStart) withUsage(ctx context.Context) (context.Context, *obs.Usage) {
	invocation := obs.Invocation{Cold: !s.isWarm.Swap(true), Now: wallClock}
	if lc, ok := lambdacontext.FromContext(ctx); ok {
		invocation.RequestID = lc.AwsRequestID
	}
	if header, ok := ctx.Value("x-amzn-trace-id").(string); ok {
		invocation.TraceID = obs.TraceID(header)
	}
	return obs.WithUsage(ctx, invocation)
}

type (
	request  = events.APIGatewayV2HTTPRequest
	response = events.APIGatewayV2HTTPResponse
)

// invoke never returns an error, because Lambda would turn an error into status 502. It recovers
// from panics, because a panic would end the process.
func (f *httpFront) invoke(ctx context.Context, event json.RawMessage) (answer response, _ error) {
	ctx, usage := f.coldStart.withUsage(ctx)
	var in request
	defer f.afterRequest()
	defer f.createNextTextKey(ctx)
	defer func() {
		if cause := recover(); cause != nil {
			answer = refusalResponse(problem.New(problem.Internal, ""))
			f.logRequest(ctx, &in, answer.StatusCode, fmt.Errorf("panic: %v\n%s", cause, debug.Stack()))
		} else if !usage.HasLoggedCounts() {
			f.logRequest(ctx, &in, answer.StatusCode, nil)
		}
	}()
	if err := json.Unmarshal(event, &in); err != nil {
		return refusalResponse(problem.Invalid("event", "a request of a Function URL", "something else")), nil
	}
	if err := normalize(&in); err != nil {
		return refusalResponse(err), nil
	}
	answer, err := f.proxy.ProxyWithContext(ctx, in)
	if err != nil {
		return refusalResponse(problem.Invalid("event", "an HTTP request", "something else")), nil
	}
	return answer, nil
}

// createNextTextKey may fail without affecting the answer. A later request then tries again.
func (f *httpFront) createNextTextKey(ctx context.Context) {
	const timeout, margin = 2 * time.Second, time.Second
	deadline, ok := ctx.Deadline()
	if f.createTextKey == nil || ok && time.Until(deadline) < timeout+margin {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	if err := f.createTextKey(ctx); err != nil {
		f.log.LogAttrs(ctx, slog.LevelWarn, "the text key of the next day was not created yet", slog.String("cause", truncate(err.Error())))
	}
}

// normalize decodes a base64 body, because the handlers limit the decoded size. It refuses
// malformed requests, because the proxy would log their path unescaped.
func normalize(in *request) error {
	path := cmp.Or(in.RawPath, in.RequestContext.HTTP.Path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	if in.RawQueryString != "" {
		path += "?" + in.RawQueryString
	}
	_, err := url.Parse("https://" + in.RequestContext.DomainName + path)
	if _, methodErr := http.NewRequest(in.RequestContext.HTTP.Method, "/", nil); err != nil || methodErr != nil {
		return problem.Invalid("path or method", "a path and a method of HTTP", "something else")
	}
	if in.IsBase64Encoded {
		body, err := base64.StdEncoding.DecodeString(in.Body)
		if err != nil {
			return problem.Invalid("body", "base64, because isBase64Encoded is true", "other text")
		}
		in.Body, in.IsBase64Encoded = string(body), false
	}
	return nil
}

func refusalResponse(err error) response {
	w := httpapi.NewRecorder(math.MaxInt64)
	httpapi.Fail(w, err)
	r := response{StatusCode: w.Status, Headers: map[string]string{}, Body: w.Body.String()}
	for name := range w.Header() {
		r.Headers[name] = w.Header().Get(name)
	}
	return r
}

func (f *httpFront) logRequest(ctx context.Context, in *request, status int, cause error) {
	verdict, level := "ok", slog.LevelInfo
	attrs := []slog.Attr{slog.String("method", truncate(in.RequestContext.HTTP.Method)), slog.String("path", truncate(in.RawPath))}
	switch {
	case status >= http.StatusInternalServerError:
		verdict, level = "failed", slog.LevelError
	case status >= http.StatusBadRequest:
		verdict = "refused"
	}
	if cause != nil {
		attrs = append(attrs, slog.String("cause", cause.Error()))
	}
	f.log.LogAttrs(context.WithoutCancel(ctx), level, "request", append(attrs, slog.String(obs.AttrVerdict, verdict), slog.Int(obs.AttrStatus, status))...)
}

func truncate(s string) string { return obs.Truncate(s, 100) }
