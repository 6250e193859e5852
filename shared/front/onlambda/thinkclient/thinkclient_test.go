package thinkclient

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/problem"
)

const arn = "arn:aws:lambda:us-east-1:123456789012:function:vacancy-dev-think"

func config(url string) aws.Config {
	return aws.Config{Region: "us-east-1", BaseEndpoint: &url, Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: "secret"}, nil
	})}
}

// answer is one answer of Lambda's API.
type answer struct {
	status int
	header string // X-Amzn-ErrorType, or X-Amz-Function-Error for status 200
	body   string
}

func TestARequestIsSentAgainAfterAThrottleAlone(t *testing.T) {
	throttle := answer{429, "TooManyRequestsException", `{"message":"Rate Exceeded."}`}
	for _, tt := range []struct {
		what    string
		answers []answer
		want    problem.Kind // Internal: answered
		sent    int
	}{
		{"answered", []answer{{200, "", "reply"}}, problem.Internal, 1},
		{"throttled once", []answer{throttle, {200, "", "reply"}}, problem.Internal, 2},
		{"throttled twice", []answer{throttle, throttle, {200, "", "reply"}}, problem.SubstrateBusy, 2},
		{"throttled, then broken", []answer{throttle, {500, "ServiceException", `{}`}}, problem.SubstrateUnavailable, 2},
		{"killed", []answer{{200, "Unhandled", `{"errorMessage":"signal: killed"}`}}, problem.SubstrateUnavailable, 1},
		{"out of order", []answer{{502, "EC2UnexpectedException", `{}`}}, problem.SubstrateUnavailable, 1},
		{"no grant", []answer{{403, "AccessDeniedException", `{}`}}, problem.SubstrateMisconfigured, 1},
		{"gone", []answer{{404, "ResourceNotFoundException", `{}`}}, problem.SubstrateMisconfigured, 1},
		{"hung up", []answer{{0, "", ""}}, problem.SubstrateUnavailable, 1},
	} {
		t.Run(tt.what, func(t *testing.T) {
			var sent atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if body, _ := io.ReadAll(r.Body); string(body) != "request" || r.URL.Path != "/2015-03-31/functions/"+arn+"/invocations" {
					t.Errorf("%s %s with %q", r.Method, r.URL, body)
				}
				a := tt.answers[min(int(sent.Add(1)), len(tt.answers))-1]
				if a.status == 0 {
					panic(http.ErrAbortHandler)
				}
				name := "X-Amzn-ErrorType"
				if a.status == 200 {
					name = "X-Amz-Function-Error"
				}
				if a.header != "" {
					w.Header().Set(name, a.header)
				}
				w.WriteHeader(a.status)
				_, _ = io.WriteString(w, a.body)
			}))
			defer server.Close()
			reply, err := NewInvoke(config(server.URL), arn)(t.Context(), []byte("request"))
			if tt.want == problem.Internal {
				if err != nil || string(reply) != "reply" {
					t.Errorf("the reply = %q, %v", reply, err)
				}
			} else if !problem.Is(err, tt.want) {
				t.Errorf("%v (%s), want %s", err, problem.AsError(err).Kind, tt.want)
			}
			// The loop would ask again after an error of an agent.
			if agent := new(call.AgentError); errors.As(err, &agent) {
				t.Errorf("%v is an agent's error", err)
			}
			if n := int(sent.Load()); n != tt.sent {
				t.Errorf("%d requests, want %d", n, tt.sent)
			}
		})
	}
}

func TestAHangingFunctionEndsWithTheCall(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := NewInvoke(config(server.URL), arn)(ctx, nil); !problem.Is(err, problem.DeadlineExceeded) {
		t.Errorf("%v, want the deadline", err)
	}
	if _, err := NewInvoke(config("http://127.0.0.1:1"), arn)(t.Context(), nil); !problem.Is(err, problem.SubstrateUnavailable) || strings.Contains(problem.AsError(err).Text(), "127.0.0.1") {
		t.Errorf("a function that cannot be reached: %v, want it unavailable", err)
	}
}
