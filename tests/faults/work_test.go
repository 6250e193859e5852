package faults

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/front/workapi"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/worker"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/tests/estimates"
	"github.com/vacancy-host/vacancy/tests/roundtrips"
)

// An idle worker costs what the estimate says, and its turn is of a call in another process.
func TestAWorkerOfAnotherProcessConsumesFewUnits(t *testing.T) {
	h := newFixture(t)
	h.answered("the first of the day")
	ctx := t.Context()
	calls := h.money(h.Store(h.Endpoint), time.Now)
	a, err := calls.Billing.OpenAccount(ctx, "works", 4)
	must(t, err)
	_, _, err = calls.Billing.Credit(ctx, a.ID, money.Dollar, "first", "")
	must(t, err)
	_, secret, err := calls.Billing.MakeKey(ctx, a.ID, billing.KeyOptions{Scopes: []billing.Scope{billing.ScopeWork}})
	must(t, err)
	r, err := calls.Vacants.Create(ctx, vacants.CreateSpec{Name: "mole", Capability: "digs", Substrate: substrate.KindWorker, Tenant: "works"})
	must(t, err)
	counter := &roundtrips.Counter{}
	work := h.money(h.Store(h.Endpoint, counter.Option), time.Now).OpenQueuedA2A(serve.Queues{Tasks: &messages{}, Notices: &messages{}}).WorkHandler()
	post := func(path, body string) *httptest.ResponseRecorder {
		t.Helper()
		in := httptest.NewRequest(http.MethodPost, workapi.Path+path, strings.NewReader(body)).WithContext(ctx)
		in.Header.Set("Authorization", "Bearer "+secret)
		in.Header.Set("Content-Type", "application/json")
		out := httptest.NewRecorder()
		work.ServeHTTP(out, in)
		if out.Code >= http.StatusBadRequest {
			t.Fatalf("%s = %d %s", path, out.Code, out.Body)
		}
		return out
	}
	lease := `{"vacant":"` + r.ID.String() + `","wait":20}`
	post("/lease", lease) // records the connection
	counter.Reset()
	began := time.Now()
	idle := post("/lease", lease)
	if units := counter.ReadUnits(); units > estimates.WorkerPoll.ReadUnits || counter.WriteUnits() > 0 {
		t.Errorf("a request without a turn consumes %v read and %v write units, the estimate is %v and none: %v", units, counter.WriteUnits(), estimates.WorkerPoll.ReadUnits, counter.Operations())
	}
	if took := time.Since(began); took > 10*time.Second || idle.Header().Get("Retry-After") != "2" || !strings.Contains(idle.Body.String(), `"turn":null`) {
		t.Errorf("a request without a turn = %s with %v, after %s", idle.Body, idle.Header(), took)
	}

	remote, err := calls.Workers.Kinds()[substrate.KindWorker]("")
	must(t, err)
	ended := make(chan string, 1)
	go func() {
		answer, err := substrate.ReadAnswer(remote.Infer(ctx, substrate.NewTextRequest(r.ID, r.ID, "dig")))
		if err != nil {
			answer.Text = err.Error()
		}
		ended <- answer.Text
	}()
	turn := ""
	await.Until(t, "the turn comes", func() bool {
		_, rest, found := strings.Cut(post("/lease", lease).Body.String(), `"lease":"`)
		turn, _, _ = strings.Cut(rest, `"`)
		return found
	})
	counter.Reset()
	post("/"+turn+"/events", `{"batch":1,"events":[{"type":"started"},{"type":"text","text":"deep"}]}`)
	post("/"+turn+"/heartbeat", "")
	post("/"+turn+"/result", `{"text":"er"}`)
	t.Logf("events, a heartbeat and a result: %v write and %v read units", counter.WriteUnits(), counter.ReadUnits())
	if got := await.Receive(t, "the answer", ended); got != "deeper" {
		t.Errorf("the answer is %q", got)
	}
	if docs, _, err := h.Store(h.Endpoint).Docs(ctx, worker.WaitingDocs.Range("works", "live"), 1, ""); err != nil || len(docs) > 0 {
		t.Errorf("%d turns wait, %v", len(docs), err)
	}
}
