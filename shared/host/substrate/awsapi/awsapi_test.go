package awsapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/awsapi"
	"github.com/vacancy-host/vacancy/shared/host/substrate/substratetest"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

const arn = "arn:aws:lambda:us-east-1:123456789012:function:answers"

func anybody(context.Context, outbound.Actor, string) error { return nil }

func open(t testing.TB, url string, guard outbound.EndpointGuard) substrate.Substrate {
	t.Helper()
	cfg := aws.Config{Region: "us-east-1", BaseEndpoint: &url, Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: "secret"}, nil
	})}
	s, err := awsapi.LambdaKinds(outbound.New(outbound.Options{Guard: guard}), cfg).Open(substrate.Spec{Kind: substrate.KindLambda, Argument: arn})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// serve opens a function that Lambda's API at h runs.
func serve(t testing.TB, h http.HandlerFunc) substrate.Substrate {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return open(t, server.URL, anybody)
}

func TestContract(t *testing.T) {
	substratetest.Run(t, func(t testing.TB, s substratetest.Script) substrate.Substrate {
		return serve(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // the server sees the client leave from here on
			select {
			case <-time.After(s.Delay):
			case <-r.Context().Done():
				return
			}
			if s.Status != 0 {
				w.Header().Set("X-Amzn-ErrorType", "SomeException")
				w.WriteHeader(s.Status)
				fmt.Fprintf(w, `{"message":%q}`, s.Text)
				return
			}
			answer, _ := json.Marshal(map[string]any{"text": s.Text})
			if s.IsTruncated {
				w.Header().Set("Content-Length", fmt.Sprint(len(answer)))
				answer = answer[:len(answer)/2]
			}
			_, _ = w.Write(answer)
		})
	})
}

func TestTheEventIsTheQuestion(t *testing.T) {
	var path string
	var event map[string]any
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		path = r.URL.EscapedPath()
		_ = json.NewDecoder(r.Body).Decode(&event)
		_, _ = io.WriteString(w, `{"text":"42","usage":{"input_tokens":3,"output_tokens":1}}`)
	})
	thread := "thread"
	q := substratetest.Question()
	q.ContextID = &thread
	q.Turns = append([]substrate.Turn{{Role: substrate.RoleCaller, Text: "before"}, {Role: substrate.RoleAgent, Text: "said"}}, q.Turns...)
	q = q.WithID(identity.Sum([]byte("x")))
	got, err := substrate.ReadAnswer(s.Infer(t.Context(), q))
	if diff := cmp.Diff(substrate.Answer{Text: "42", Usage: &substrate.Usage{InputTokens: 3, OutputTokens: 1}, Reason: substrate.FinishStop}, got); diff != "" || err != nil {
		t.Errorf("Fold() = %v (-want +got):\n%s", err, diff)
	}
	want := map[string]any{
		"message": q.Text(), "caller": q.Caller.String(), "vacant": q.Vacant.String(), "context_id": "thread", "id": identity.Sum([]byte("x")).String(),
		"history": []any{map[string]any{"role": "caller", "text": "before"}, map[string]any{"role": "agent", "text": "said"}},
	}
	if diff := cmp.Diff(want, event); diff != "" || path != "/2015-03-31/functions/arn%3Aaws%3Alambda%3Aus-east-1%3A123456789012%3Afunction%3Aanswers/invocations" {
		t.Errorf("the event at %s (-want +got):\n%s", path, diff)
	}
}

func TestFunctionsThatFail(t *testing.T) {
	for _, tt := range []struct {
		what   string
		status int
		header map[string]string
		body   string
		want   problem.Kind
		said   string
	}{
		{"a crash", 200, map[string]string{"X-Amz-Function-Error": "Unhandled"}, `{"errorMessage":"boom"}`, problem.SubstrateUnavailable, "boom"},
		{"a throttle", 429, map[string]string{"X-Amzn-ErrorType": "TooManyRequestsException"}, `{"message":"Rate Exceeded."}`, problem.SubstrateBusy, "Rate Exceeded"},
		{"no grant", 403, map[string]string{"X-Amzn-ErrorType": "AccessDeniedException"}, `{"message":"not authorized"}`, problem.SubstrateMisconfigured, "not authorized"},
		{"no function", 404, map[string]string{"X-Amzn-ErrorType": "ResourceNotFoundException"}, `{"message":"Function not found"}`, problem.SubstrateMisconfigured, "not found"},
		{"out of order", 500, map[string]string{"X-Amzn-ErrorType": "ServiceException"}, `{"message":"x"}`, problem.SubstrateUnavailable, "x"},
		{"a text", 200, nil, `"42"`, problem.SubstrateMisconfigured, "42"},
		{"no text", 200, nil, `{"answer":"42"}`, problem.SubstrateMisconfigured, "42"},
		{"nothing", 200, nil, `null`, problem.SubstrateMisconfigured, ""},
		{"too much", 200, nil, `{"text":"` + strings.Repeat("x", substrate.MaxText+1) + `"}`, problem.SubstrateTooLarge, ""},
		{"much too much", 200, nil, strings.Repeat("x", 5<<20), problem.SubstrateTooLarge, ""},
	} {
		n := 0
		s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			n++
			for name, value := range tt.header {
				w.Header().Set(name, value)
			}
			w.WriteHeader(tt.status)
			_, _ = io.WriteString(w, tt.body)
		})
		_, err := substrate.ReadAnswer(s.Infer(t.Context(), substratetest.Question()))
		agent := new(call.AgentError)
		if !problem.Is(err, tt.want) || n != 1 || tt.said != "" && (!errors.As(err, &agent) || !strings.Contains(agent.Body, tt.said)) {
			t.Errorf("%s: Fold() = %v (%s) with %q after %d requests, want %s after one", tt.what, err, problem.AsError(err).Kind, agent.Body, n, tt.want)
		}
	}
}

func TestTheGuardIsAskedForTheInvocation(t *testing.T) {
	var asked string
	s := open(t, "http://127.0.0.1:1", func(_ context.Context, _ outbound.Actor, url string) error {
		asked = url
		return problem.New(problem.TreeOnly, "not among its tools")
	})
	_, err := substrate.ReadAnswer(s.Infer(t.Context(), substratetest.Question()))
	if want := "https://lambda.us-east-1.amazonaws.com/2015-03-31/functions/" + arn + "/invocations"; !problem.Is(err, problem.SubstrateMisconfigured) || asked != want {
		t.Errorf("Fold() = %v, asked for %q; want a refusal for %q", err, asked, want)
	}
}
