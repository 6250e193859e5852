// Package substratetest tests the contract of package substrate. Every adapter whose agent a test
// can simulate must pass the suite.
package substratetest

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Script tells a simulated agent how to answer each request.
type Script struct {
	Text        string        // text of the answer
	Delay       time.Duration // time before the answer
	Status      int           // HTTP status of a failure whose body is Text, or 0 for an answer
	IsTruncated bool          // whether the answer breaks off in the middle
}

// Opener opens a substrate whose agent follows a script.
type Opener func(t testing.TB, s Script) substrate.Substrate

func Question() substrate.Request {
	return substrate.NewTextRequest(identity.ID{1}, identity.ID{2}, "What is the \"answer\"?\n\u2028ü🦊")
}

func Run(t *testing.T, open Opener) {
	t.Run("answers", func(t *testing.T) { testAnswers(t, open) })
	t.Run("kinds of failures", func(t *testing.T) { testFailures(t, open) })
	t.Run("end of the context", func(t *testing.T) { testContextEnd(t, open) })
	t.Run("a consumer that stops", func(t *testing.T) { testConsumerStops(t, open) })
	t.Run("concurrent use", func(t *testing.T) { testConcurrentUse(t, open) })
}

func readEvents(ctx context.Context, t testing.TB, s substrate.Substrate) (result []substrate.Event, failure error) {
	t.Helper()
	hasFinished := false
	for e, err := range s.Infer(ctx, Question()) {
		switch {
		case failure != nil || hasFinished:
			t.Errorf("event %v, %v after the last", e, err)
		case err != nil && e != nil:
			t.Errorf("event %v together with the error %v", e, err)
		case err != nil:
			failure = err
			continue
		}
		switch e := e.(type) {
		case substrate.Text:
			if e == "" || !utf8.ValidString(string(e)) {
				t.Errorf("text %q, want some UTF-8", e)
			}
		case substrate.FinishReason:
			hasFinished = true
		}
		result = append(result, e)
	}
	if failure == nil && !hasFinished {
		t.Error("the events end without a FinishReason")
	}
	return result, failure
}

func testAnswers(t *testing.T, open Opener) {
	for _, want := range []string{"42", "ü🦊 \"\\ \u2028\x00\n", strings.Repeat("line\n", 1000), strings.Repeat("ü", substrate.MaxText/2)} {
		s := open(t, Script{Text: want})
		if _, err := readEvents(t.Context(), t, s); err != nil {
			t.Errorf("Infer() of %d bytes = %v", len(want), err)
		}
		got, err := substrate.ReadAnswer(s.Infer(t.Context(), Question()))
		if err != nil || got.Text != want || got.Reason != substrate.FinishStop {
			t.Errorf("ReadAnswer() = %d bytes, %q, %v; want %d bytes", len(got.Text), got.Reason, err, len(want))
		}
	}
	if a, err := substrate.ReadAnswer(open(t, Script{}).Infer(t.Context(), Question())); !problem.Is(err, problem.SubstrateUnavailable) {
		t.Errorf("ReadAnswer() of an empty answer = %+v, %v, want unavailable", a, err)
	}
}

func testFailures(t *testing.T, open Opener) {
	const secret = "sk-live-0123456789abcdef"
	for _, tt := range []struct {
		what string
		s    Script
		want problem.Kind
	}{
		{"too much", Script{Text: strings.Repeat("x", substrate.MaxText+1)}, problem.SubstrateTooLarge},
		{"much too much", Script{Text: strings.Repeat("x", 8<<20)}, problem.SubstrateTooLarge},
		{"cut", Script{Text: "half", IsTruncated: true}, problem.SubstrateUnavailable},
		{"400", Script{Status: 400, Text: `{"error":{"message":"no such model, key ` + secret + `"}}`}, problem.SubstrateMisconfigured},
		{"401", Script{Status: 401, Text: "no key"}, problem.SubstrateMisconfigured},
		{"404", Script{Status: 404, Text: "no such path"}, problem.SubstrateMisconfigured},
		{"302", Script{Status: 302}, problem.SubstrateMisconfigured},
		{"408", Script{Status: 408}, problem.SubstrateUnavailable},
		{"429", Script{Status: 429, Text: `{"error":{"message":"too many requests"}}`}, problem.SubstrateBusy},
		{"500", Script{Status: 500, Text: "division by zero"}, problem.SubstrateUnavailable},
		{"529", Script{Status: 529, Text: `{"error":{"message":"overloaded"}}`}, problem.SubstrateUnavailable},
	} {
		t.Run(tt.what, func(t *testing.T) {
			_, err := substrate.ReadAnswer(open(t, tt.s).Infer(t.Context(), Question()))
			if !problem.Is(err, tt.want) {
				t.Fatalf("ReadAnswer() = %v (%s), want %s", err, problem.AsError(err).Kind, tt.want)
			}
			agentErr := new(call.AgentError)
			if isAgentError := errors.As(err, &agentErr); tt.s.Status >= 400 && (!isAgentError || agentErr.Status != tt.s.Status || tt.s.Text != "" && agentErr.Body == "") {
				t.Errorf("the operator sees status %d and body %q, want status %d and the server's body", agentErr.Status, agentErr.Body, tt.s.Status)
			}
			if text := problem.AsError(err).Error() + agentErr.Body; strings.Contains(text, secret) {
				t.Errorf("the secret is shown: %s", text)
			}
		})
	}
}

func testContextEnd(t *testing.T, open Opener) {
	s := open(t, Script{Text: "late", Delay: 5 * time.Second})
	start := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := readEvents(ctx, t, s); !problem.Is(err, problem.DeadlineExceeded) {
		t.Errorf("Infer() past its deadline = %v, want Deadline", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := readEvents(ctx, t, s); !problem.Is(err, problem.Canceled) {
		t.Errorf("Infer() cancelled = %v, want Canceled", err)
	}
	if elapsed := time.Since(start); elapsed > 4*time.Second {
		t.Errorf("the end of the context was seen after %v", elapsed)
	}
}

func testConsumerStops(t *testing.T, open Opener) {
	for range open(t, Script{Text: strings.Repeat("word ", 100)}).Infer(t.Context(), Question()) {
		break
	}
}

func testConcurrentUse(t *testing.T, open Opener) {
	s := open(t, Script{Text: "42"})
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if got, err := substrate.ReadAnswer(s.Infer(t.Context(), Question())); err != nil || got.Text != "42" {
				t.Errorf("ReadAnswer() = %q, %v", got.Text, err)
			}
		})
	}
	wg.Wait()
}

// TestRestart calls an agent that answers "back". Its server starts only after the call. The call
// must be answered, and the agent must receive it once.
func TestRestart(t *testing.T, agent http.HandlerFunc, open func(url string) (substrate.Substrate, error)) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	s, err := open("http://" + address)
	if err != nil {
		t.Fatal(err)
	}
	var requests atomic.Int32
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		agent(w, r)
	})}
	defer server.Close()
	started := make(chan struct{})
	time.AfterFunc(200*time.Millisecond, func() {
		defer close(started)
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Errorf("another process has taken the agent's port: %v", err)
			return
		}
		go func() { _ = server.Serve(l) }()
	})
	got, err := substrate.ReadAnswer(s.Infer(t.Context(), Question()))
	<-started
	if got.Text != "back" || err != nil || requests.Load() != 1 {
		t.Errorf("ReadAnswer() = %q, %v after %d requests, want the answer after one", got.Text, err, requests.Load())
	}
}
