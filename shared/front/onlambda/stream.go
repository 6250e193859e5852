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

// ServeStream serves a handler behind a Function URL whose answers are streams. It never returns.
func ServeStream(f functions.Function, newHandler func(*Env) (handler http.Handler, wait func()), features ...Feature) {
	env, _ := openOrExit(f, os.Stdout, features...)
	handler, wait := newHandler(env)
	front := newHTTPFront(env, handler, wallClock)
	front.createTextKey = env.Server.Texts.CreateNext
	sweepVacants := front.afterRequest
	front.afterRequest = func() { wait(); sweepVacants() }
	lambda.Start(front.invokeStream)
}

type streamResponse = events.LambdaFunctionURLStreamingResponse

func (f *httpFront) invokeStream(ctx context.Context, event json.RawMessage) (*streamResponse, error) {
	var in request
	if err := json.Unmarshal(event, &in); err != nil {
		return f.refuseStream(ctx, &in, problem.Invalid("event", "a request of a Function URL", "something else"))
	}
	if err := normalize(&in); err != nil {
		return f.refuseStream(ctx, &in, err)
	}
	httpInfo := in.RequestContext.HTTP
	urlRequest := &events.LambdaFunctionURLRequest{RawPath: in.RawPath, RawQueryString: in.RawQueryString, Headers: in.Headers, Body: in.Body}
	urlRequest.RequestContext.DomainName = in.RequestContext.DomainName
	urlRequest.RequestContext.HTTP = events.LambdaFunctionURLRequestContextHTTPDescription{Method: httpInfo.Method, Path: httpInfo.Path, SourceIP: httpInfo.SourceIP}
	answer, err := lambdaurl.Wrap(f.streamHandler(&in))(ctx, urlRequest)
	if err != nil {
		return f.refuseStream(ctx, &in, problem.Invalid("event", "an HTTP request", "something else"))
	}
	return answer, nil
}

func (f *httpFront) refuseStream(ctx context.Context, in *request, err error) (*streamResponse, error) {
	ctx, _ = f.coldStart.withUsage(ctx)
	r := refusalResponse(err)
	f.logRequest(ctx, in, r.StatusCode, nil)
	return &streamResponse{StatusCode: r.StatusCode, Headers: r.Headers, Body: strings.NewReader(r.Body)}, nil
}

// streamHandler also does the work that follows a request. The answer ends after this work, because
// Lambda may freeze the function at the end of the answer.
func (f *httpFront) streamHandler(in *request) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, usage := f.coldStart.withUsage(r.Context())
		s := &statusWriter{ResponseWriter: w}
		defer f.afterRequest()
		defer f.createNextTextKey(ctx)
		defer func() {
			if cause := recover(); cause != nil {
				if !s.written {
					httpapi.Fail(s, problem.New(problem.Internal, ""))
				}
				f.logRequest(ctx, in, http.StatusInternalServerError, fmt.Errorf("panic: %v\n%s", cause, debug.Stack()))
			} else if !usage.HasLoggedCounts() {
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
