package cost_test

import (
	"bytes"
	"crypto/rand"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cost"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/obs"
	"github.com/vacancy-host/vacancy/tests/awshost"
	"github.com/vacancy-host/vacancy/tests/caller"
	"github.com/vacancy-host/vacancy/tests/roundtrips"
)

// counted is one call, over real tables, to a host with empty caches.
type counted struct {
	counter     roundtrips.Counter
	ask, answer int // bytes of the bodies
	line        []byte
}

// request and trace are ids in Lambda's format.
const (
	request = "8b6c3f0e-52d1-4d0b-9f6a-1f3c5d7e9a2b"
	trace   = "1-67891233-abcdef012345678912345678"
)

// coldTrips is the number of successive DynamoDB requests that a cold call makes.
const coldTrips = 3

// Transfer besides the bodies: HTTP headers, request and trace ids, and a share
// of the TLS handshake.
const (
	askHeaders    = 450
	answerHeaders = 330
)

// textBytes is the length of the default model's texts. Up to about eight times
// that, two units are written.
const textBytes = 64

// oneCall makes a call with a text: the second of its pair, so that both tips
// exist, and the second of its day, so that the day's text key exists.
func oneCall(t *testing.T, text string) *counted {
	t.Helper()
	host := awshost.New(t)
	c := &counted{counter: roundtrips.Counter{Hold: 20 * time.Millisecond}}
	from := caller.New(t, host.Create(t, "demo", nil))
	var log bytes.Buffer
	for range 2 {
		log.Reset()
		c.counter.Reset()
		server, err := serve.Config{
			Store: host.Store(host.Endpoint, c.counter.Option), Vault: host.Vault, URL: awshost.URL,
			Log: slog.New(obs.NewHandler(&log, obs.Config{Stage: "dev", Function: "message"})), Now: time.Now, Rand: rand.Reader,
		}.Open()
		must(t, err)
		e := from.Call(text, time.Now())
		body := caller.Body(e)
		ctx, _ := obs.WithUsage(t.Context(), obs.Invocation{RequestID: request, TraceID: trace, Cold: true, Now: time.Now})
		in := httptest.NewRequest(http.MethodPost, caller.SendPath, bytes.NewReader(body)).WithContext(ctx)
		in.Header.Set("Content-Type", "application/json")
		out := httptest.NewRecorder()
		serve.Public(server.MessageHandler()).ServeHTTP(out, in)
		if out.Code != http.StatusOK {
			t.Fatalf("call = %d %s, want 200", out.Code, out.Body)
		}
		from.Accepted(e)
		c.ask, c.answer, c.line = len(body), out.Body.Len(), slices.Clone(log.Bytes())
	}
	if n := bytes.Count(c.line, []byte("\n")); n != 1 {
		t.Fatalf("the call logged %d lines, want 1:\n%s", n, c.line)
	}
	return c
}

func TestUnitsOfTheModelAreThoseOfARealCall(t *testing.T) {
	c := oneCall(t, strings.Repeat("x", 400))
	operations := c.counter.Operations()
	slices.Sort(operations)
	if diff := cmp.Diff([]string{"GetItem", "GetItem", "GetItem", "PutItem", "PutItem", "Query", "Query"}, operations); diff != "" {
		t.Errorf("requests of a cold call (-want +got):\n%s", diff)
	}
	m := cost.DefaultModel()
	if c.counter.WriteUnits() != m.WriteUnits || c.counter.ReadUnits() != m.ReadUnits+m.ColdReads {
		t.Errorf("a cold call takes %v write and %v read units, the model says %v and %v",
			c.counter.WriteUnits(), c.counter.ReadUnits(), m.WriteUnits, m.ReadUnits+m.ColdReads)
	}
	if got := c.counter.Trips(); got != coldTrips {
		t.Errorf("a cold call takes %d round trips, the model says %d", got, coldTrips)
	}
}

// The bytes of a call with one line, in a new process.
func TestBytesOfTheModelAreNoFewerThanThoseOfARealCall(t *testing.T) {
	c := oneCall(t, strings.Repeat("x", textBytes))
	t.Logf("ask %d, answer %d, log line %d bytes:\n%s", c.ask, c.answer, len(c.line), c.line)
	m := cost.DefaultModel()
	for what, bytes := range map[string]struct{ real, model float64 }{
		"ask":      {float64(c.ask + askHeaders), m.RequestBytes},
		"answer":   {float64(c.answer + answerHeaders), m.AnswerBytes},
		"log line": {float64(len(c.line)), m.LineBytes},
	} {
		if bytes.real > bytes.model {
			t.Errorf("%s of a real call: %v bytes, more than the model's %v", what, bytes.real, bytes.model)
		}
		if bytes.real < bytes.model*0.75 {
			t.Errorf("%s of a real call: %v bytes, far less than the model's %v", what, bytes.real, bytes.model)
		}
	}
}
