package serve_test

import (
	"bytes"
	"crypto/rand"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/substrate/plan"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func TestAServerAnswersByThePlanOfAComposite(t *testing.T) {
	h := httpServer(t, memory.New(), "http://127.0.0.1:8080", quiet)
	public := httptest.NewServer(serve.Public(h.MessageHandler()))
	defer public.Close()
	parent, err := h.Vacants.Create(t.Context(), vacants.Spec{Name: "firm", Capability: "answers", Substrate: "echo"})
	if err != nil {
		t.Fatal(err)
	}
	child, _, err := h.Vacants.Spawn(t.Context(), vacants.SpawnSpec{Parent: parent.ID, Path: "D2", Name: "clerk"})
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Parse([]byte(`{"version":1,"delegate":[{"child":"clerk","task":"read {input}"}],"aggregate":{"how":"substrate","substrate":"echo"}}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := h.Vacants.SetPlan(t.Context(), vacants.Operator(), parent.ID, p); err != nil {
		t.Fatal(err)
	}
	key, err := identity.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	send := func(to identity.ID) (int, []byte) {
		t.Helper()
		e := envelope.Envelope{From: key.ID(), To: to, Seq: 1, Time: time.Now().UTC().Truncate(time.Microsecond), IdempotencyKey: "k",
			Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{"a will"}}}
		if _, err := e.Sign(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		resp, err := http.Post(public.URL+"/v/"+to.String()+"/a2a/message/send", "application/json", bytes.NewReader(envelope.AppendRequest(nil, nil, &e)))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, b
	}
	status, body := send(parent.ID)
	reply, err := envelope.DecodeResponse(body)
	want := "echo from " + parent.ID.Short() + `: {"input":"a will","results":[{"kind":"","text":"echo from ` + child.ID.Short() + `: read a will"}]}`
	if err != nil || status != http.StatusOK || reply.Payload.Text() != want {
		t.Errorf("a call of the parent = %d %s, want %q", status, body, want)
	}
	if status, body := send(child.ID); status != http.StatusMisdirectedRequest || !strings.Contains(string(body), "this server is") {
		t.Errorf("a stranger's call of the child = %d %s, want 421", status, body)
	}
}
