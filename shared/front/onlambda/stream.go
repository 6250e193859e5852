package onlambda

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"runtime/debug"
	"strings"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambdaurl"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// ServeStream serves a handler behind a Function URL whose answers are streams (RESPONSE_STREAM).
// Before an answer ends, ServeStream waits for the handler's background work and does the work that
// Serve does after a request. ServeStream never returns.
func ServeStream(f functions.Function, open func(*Env) (handler http.Handler, wait func()), parts ...Part) {
	env, _ := begin(f, os.Stdout, parts...)
	handler, wait := open(env)
	front := newFront(env, handler, wallClock)
	front.makeTextKey = env.Server.Texts.CreateNext
	sweep := front.after
	front.after = func() { wait(); sweep() }
	lambda.Start(front.stream)
}

type streamed = events.LambdaFunctionURLStreamingResponse

func (f *front) stream(ctx context.Context, event json.RawMessage) (*streamed, error) {
	var in request
	if err := json.Unmarshal(event, &in); err != nil {
		return f.refuse(ctx, &in, problem.Invalid("event", "a request of a Function URL", "something else"))
	}
	if err := normalize(&in); err != nil {
		return f.refuse(ctx, &in, err)
	}
	h := in.RequestContext.HTTP
	asked := &events.LambdaFunctionURLRequest{RawPath: in.RawPath, RawQueryString: in.RawQueryString, Headers: in.Headers, Body: in.Body}
	asked.RequestContext.DomainName = in.RequestContext.DomainName
	asked.RequestContext.HTTP = events.LambdaFunctionURLRequestContextHTTPDescription{Method: h.Method, Path: h.Path, SourceIP: h.SourceIP}
	answer, err := lambdaurl.Wrap(f.handlerOf(&in))(ctx, asked)
	if err != nil {
		return f.refuse(ctx, &in, problem.Invalid("event", "an HTTP request", "something else"))
	}
	return answer, nil
}

func (f *front) refuse(ctx context.Context, in *request, err error) (*streamed, error) {
	ctx, _ = f.started.usage(ctx)
	r := refusal(err)
	f.logRequest(ctx, in, r.StatusCode, nil)
	return &streamed{StatusCode: r.StatusCode, Headers: r.Headers, Body: strings.NewReader(r.Body)}, nil
}

// handlerOf returns the handler of one request. The work after the request runs before the end of
// the answer, because Lambda may freeze the function when the answer has ended.
func (f *front) handlerOf(in *request) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, usage := f.started.usage(r.Context())
		s := &statusWriter{ResponseWriter: w}
		defer f.after()
		defer f.makeNextKey(ctx)
		defer func() {
			if cause := recover(); cause != nil {
				if !s.written {
					httpapi.Fail(s, problem.New(problem.Internal, ""))
				}
				f.logRequest(ctx, in, http.StatusInternalServerError, fmt.Errorf("panic: %v\n%s", cause, debug.Stack()))
			} else if !usage.IsLogged() {
				f.logRequest(ctx, in, s.status, nil)
			}
		}()
		if len(in.Cookies) > 0 {
			r.Header.Set("Cookie", strings.Join(in.Cookies, "; "))
		}
		f.handler.ServeHTTP(s, r.WithContext(ctx))
		s.WriteHeader(http.StatusOK) // the handler may have written no response
	})
}
