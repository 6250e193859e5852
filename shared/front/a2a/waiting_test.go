package a2a_test

import (
	"context"
	"crypto/rand"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/local"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store/memory"
)

// sleepy is a substrate that answers after a while.
type sleepy time.Duration

func (s sleepy) Infer(ctx context.Context, _ substrate.Request) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		select {
		case <-time.After(time.Duration(s)):
			if yield(substrate.Text("at last"), nil) {
				yield(substrate.FinishStop, nil)
			}
		case <-ctx.Done():
			yield(nil, substrate.ContextError(ctx, "the agent"))
		}
	}
}

// asks answers a request by a host with one vacant, whose agent takes so long. Time passes
// in a bubble.
func asks(t *testing.T, agent time.Duration, method string) (body string, took time.Duration) {
	t.Helper()
	vault, err := local.FromHex(strings.Repeat("5a", 32), rand.Reader)
	must(t, err)
	server, err := serve.Config{
		Store: memory.New(), Vault: vault, URL: "https://host.example", Log: slog.New(slog.DiscardHandler), Now: time.Now, Rand: rand.Reader,
		Substrates: substrate.Kinds{"sleepy": func(string) (substrate.Substrate, error) { return sleepy(agent), nil }},
	}.Open()
	must(t, err)
	defer server.Vacants.Close()
	_, err = server.Vacants.Create(t.Context(), vacants.CreateSpec{Name: "sleeper", Capability: "sleeps", Substrate: "sleepy"})
	must(t, err)
	q := httptest.NewRequest(http.MethodPost, "/v/sleeper", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+message("hi", "")+`}`))
	q.Header.Set("Content-Type", "application/json")
	out, began := httptest.NewRecorder(), time.Now()
	web(server.OpenA2A()).ServeHTTP(out, q)
	return out.Body.String(), time.Since(began)
}

// A connection without traffic is cut on its way: by CloudFront after 30 s.
func TestAStreamThatWaitsSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body, took := asks(t, 40*time.Second, "SendStreamingMessage")
		if n := strings.Count(body, "\n: "); n != 2 || took < 40*time.Second || !strings.Contains(body, "at last") {
			t.Errorf("%d comments in %v, want two in 40 s:\n%s", n, took, body)
		}
	})
}

func TestAMessageThatBlocksFailsAfter25Seconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body, took := asks(t, time.Minute, "SendMessage")
		if took < 25*time.Second || took > 26*time.Second || !strings.Contains(body, "TASK_STATE_FAILED") || !strings.Contains(body, "the limit is 14 minutes for a stream") {
			t.Errorf("after %v: %s", took, body)
		}
	})
}

// More time is advised only where a stream has more: not if the agent's own timeout has passed, or another limit within
// the agent.
func TestAFailureAdvisesMoreTimeOnlyWhereThereIsSome(t *testing.T) {
	own := &call.TimeLimit{Duration: 2 * time.Second, Name: "the timeout of its agent"}
	for want, failure := range map[string]error{
		"the vacant did not answer within 2s, the timeout of its agent": problem.Wrap(problem.DeadlineExceeded, own, "late"),
		"the vacant did not answer in time":                             problem.New(problem.DeadlineExceeded, "a tool took too long"),
	} {
		w := &paying{world: openWorld(t, true, func(c *serve.Config) {
			c.Substrates["late"] = func(string) (substrate.Substrate, error) {
				return substrate.Func(func(context.Context, substrate.Request) (string, error) { return "", failure }), nil
			}
		}).runs()}
		w.create("late", "late")
		got := w.rpc("/v/late", "SendMessage", message("hi", ""), "A2A-Version: 1.0")
		if text := at(t, got.body, "result", "task", "status", "message", "parts", 0, "text"); text != want {
			t.Errorf("%q of %s, want %q", text, got.body, want)
		}
	}
}
