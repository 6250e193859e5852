package serve_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// spy counts its answers.
type spy struct{ runs atomic.Int64 }

func (s *spy) answer(context.Context, substrate.Request) (string, error) {
	s.runs.Add(1)
	return "done", nil
}

func newServer(t *testing.T, s store.Store, thinks substrate.Substrate, log *slog.Logger) *serve.Server {
	t.Helper()
	h := httpServer(t, s, "https://host.example", log, func(c *serve.Config) {
		c.AllowLoopback, c.HoldsIdentity = false, true
		c.Substrates = substrate.Kinds{"spy": func(string) (substrate.Substrate, error) { return thinks, nil }}
	})
	t.Cleanup(h.Vacants.Close)
	return h
}

// What another host accepted, signed by a clock that was ahead, does not run a
// second time where the vacant is imported.
func TestAnImportRunsNothingASecondTime(t *testing.T) {
	key, err := identity.NewKey(rand.Reader)
	must(t, err)
	thinks := &spy{}
	one, two := newServer(t, memory.New(), substrate.Func(thinks.answer), slog.New(slog.DiscardHandler)), newServer(t, memory.New(), substrate.Func(thinks.answer), slog.New(slog.DiscardHandler))
	spec := vacants.CreateSpec{Name: "demo", Capability: "x", Substrate: "spy", Key: key}
	made, err := one.Vacants.Create(t.Context(), spec)
	must(t, err)
	caller, err := identity.NewKey(rand.Reader)
	must(t, err)
	sign := func(at time.Time) *envelope.Envelope {
		e := &envelope.Envelope{From: caller.ID(), To: key.ID(), Seq: 1, Time: at.UTC().Truncate(time.Microsecond),
			Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{"pay"}}}
		_, err := e.Sign(t.Context(), caller)
		must(t, err)
		return e
	}
	e := sign(made.Floor.Add(time.Microsecond)) // as far ahead as the first host takes
	if out := one.Calls.Send(t.Context(), identity.ID{}, e); out.Problem != nil {
		t.Fatal(out.Problem)
	}
	moved, err := two.Vacants.Create(t.Context(), spec)
	must(t, err)
	if out := two.Calls.Send(t.Context(), identity.ID{}, e); !problem.Is(out.Problem, problem.BelowFloor) || !out.Floor.Equal(moved.Floor) {
		t.Errorf("the same bytes at the second host = %v, floor %v; want a refusal that tells the floor %v", out.Problem, out.Floor, moved.Floor)
	}
	if n := thinks.runs.Load(); n != 1 {
		t.Errorf("one envelope ran %d times", n)
	}
	if out := two.Calls.Send(t.Context(), identity.ID{}, sign(moved.Floor.Add(time.Microsecond))); out.Problem != nil {
		t.Errorf("signed after the floor = %v, want an answer", out.Problem)
	}
}

// Nobody makes a host's log long: it is billed by the byte.
func TestNoHandlerLogsWhatAStrangerSendsAtLength(t *testing.T) {
	const longest = 1 << 10
	var log bytes.Buffer
	broken := atomic.Bool{}
	s := &failing{Store: memory.New(), broken: &broken}
	h := newServer(t, s, substrate.Func((&spy{}).answer), slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	translog, err := h.OpenLog(nil)
	must(t, err)
	long := strings.Repeat("x", 8<<10)
	id := identity.ID{1}.String()
	for name, handler := range map[string]http.Handler{
		"message": h.MessageHandler(), "registry": h.RegistryHandler(translog), "gate": h.GateHandler(nil), "children": h.ChildrenHandler(), "admin": h.Admin(),
	} {
		for _, fails := range []bool{false, true} {
			broken.Store(fails)
			for _, r := range []*http.Request{
				httptest.NewRequest("GET", "/"+long, nil),
				httptest.NewRequest("GET", "/v/"+long+"/card", nil),
				httptest.NewRequest("GET", "/v/"+id+"/card?"+long, nil),
				httptest.NewRequest("GET", "/"+long+"/card", nil),
				httptest.NewRequest("GET", "/card?x="+long, nil),
				httptest.NewRequest("GET", "/v1/capability_card/"+long, nil),
				httptest.NewRequest("GET", "/v1/capability_card/"+id+"?"+long, nil),
				httptest.NewRequest("GET", "/v1/graduations/"+long, nil),
				httptest.NewRequest("PUT", "/v1/listing/"+long, strings.NewReader(long)),
				httptest.NewRequest("POST", "/"+long+"/a2a/message/send", strings.NewReader(`{"`+long+`":1}`)),
				httptest.NewRequest("POST", "/v1/halo", strings.NewReader(`{"`+long+`":"`+long+`"}`)),
				httptest.NewRequest("POST", "/v1/admin/vacants/"+long+"/children", strings.NewReader(`{"`+long+`":1}`)),
				httptest.NewRequest(long[:1000], "/v1/halo", nil),
			} {
				r.Header.Set("Content-Type", "application/json")
				if r.URL.Path == "/v1/listing/"+long {
					r.Header.Set("Content-Type", long)
				}
				r.Host = "admin.vacancy.invalid"
				r.Header.Set("User-Agent", long)
				log.Reset()
				handler.ServeHTTP(httptest.NewRecorder(), r)
				for line := range strings.Lines(log.String()) {
					if len(line) > longest {
						t.Errorf("%s logs a line of %d bytes for %.40s %.40s, want at most %d: %.200s", name, len(line), r.Method, r.URL.Path, longest, line)
					}
				}
			}
		}
	}
}

// What a call to a closed child costs outsiders does not tell it from a call to
// nobody: the same reads, as many of them one after another.
func TestACallToAClosedChildCostsAsMuchAsToNobody(t *testing.T) {
	s := &counting{Store: memory.New()}
	h := newServer(t, s, substrate.Func((&spy{}).answer), slog.New(slog.DiscardHandler))
	firm, err := h.Vacants.Create(t.Context(), vacants.CreateSpec{Name: "firm", Capability: "x", Substrate: "spy"})
	must(t, err)
	child, _, err := h.Vacants.Spawn(t.Context(), vacants.SpawnSpec{Parent: firm.ID, Path: "D2", Name: "child", Capability: "y"})
	must(t, err)
	reads := func(to identity.ID) int64 {
		t.Helper()
		outsider, err := identity.NewKey(rand.Reader)
		must(t, err)
		e := &envelope.Envelope{From: outsider.ID(), To: to, Seq: 1, Time: time.Now().UTC().Truncate(time.Microsecond),
			Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{"hi"}}}
		_, err = e.Sign(t.Context(), outsider)
		must(t, err)
		before := s.reads.Load()
		if out := h.Calls.Send(t.Context(), identity.ID{}, e); !problem.Is(out.Problem, problem.Misdirected) {
			t.Fatalf("Send() = %v, want Misdirected", out.Problem)
		}
		return s.reads.Load() - before
	}
	nobody, err := identity.NewKey(rand.Reader)
	must(t, err)
	reads(identity.ID{1}) // warms the day's key and the host's identity
	if closed, none := reads(child.ID), reads(nobody.ID()); closed != none {
		t.Errorf("%d reads for a closed child, %d for nobody", closed, none)
	}
}

// Anybody may ask for the card of the only open vacant: what that reads does not
// grow with closed children and tombstones.
func TestTheHostsCardCostsTheSameBesideManyChildren(t *testing.T) {
	s := &counting{Store: memory.New()}
	h := newServer(t, s, substrate.Func((&spy{}).answer), slog.New(slog.DiscardHandler))
	firm, err := h.Vacants.Create(t.Context(), vacants.CreateSpec{Name: "zfirm", Capability: "x", Substrate: "spy"})
	must(t, err)
	spawned := 0
	spawn := func(n int) {
		t.Helper()
		for range n {
			_, _, err := h.Vacants.Spawn(t.Context(), vacants.SpawnSpec{Parent: firm.ID, Path: "D2", Name: fmt.Sprintf("c%04d", spawned), Capability: "y"})
			must(t, err)
			spawned++
		}
	}
	reads := func() int64 { // by another process, which remembers nothing
		t.Helper()
		cold := newServer(t, s, substrate.Func((&spy{}).answer), slog.New(slog.DiscardHandler))
		before := s.reads.Load()
		w := httptest.NewRecorder()
		serve.Public(cold.MessageHandler()).ServeHTTP(w, httptest.NewRequest("GET", "/card", nil))
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), firm.ID.String()) {
			t.Fatalf("GET /card = %d %.200s, want the firm's", w.Code, w.Body)
		}
		return s.reads.Load() - before
	}
	spawn(1)
	one := reads()
	spawn(300)
	gone, err := h.Vacants.Create(t.Context(), vacants.CreateSpec{Name: "gone", Capability: "x", Substrate: "spy"})
	must(t, err)
	for _, step := range []func(context.Context, identity.ID) (vacants.Record, error){h.Vacants.Sink, h.Vacants.Archive, h.Vacants.Delete} {
		_, err := step(t.Context(), gone.ID)
		must(t, err)
	}
	if many := reads(); many != one || one > 3 {
		t.Errorf("GET /card reads %d times beside one child and %d beside 301 and a tombstone, want as many, and at most 3", one, many)
	}
}

// counting counts reads.
type counting struct {
	store.Store
	reads atomic.Int64
}

func (c *counting) Doc(ctx context.Context, k store.Key) (store.Doc, error) {
	c.reads.Add(1)
	return c.Store.Doc(ctx, k)
}

func (c *counting) Docs(ctx context.Context, r store.Range, n int, cursor string) ([]store.Doc, string, error) {
	c.reads.Add(1)
	return c.Store.Docs(ctx, r, n, cursor)
}

func (c *counting) Rows(ctx context.Context, s store.Stream, from uint64, n int, d store.Direction) ([]store.Row, error) {
	c.reads.Add(1)
	return c.Store.Rows(ctx, s, from, n, d)
}

func (c *counting) Tip(ctx context.Context, s store.Stream) (store.Row, error) {
	c.reads.Add(1)
	return c.Store.Tip(ctx, s)
}

// failing is a store whose reads fail while it is broken.
type failing struct {
	store.Store
	broken *atomic.Bool
}

func (f *failing) Doc(ctx context.Context, k store.Key) (store.Doc, error) {
	if f.broken.Load() {
		return store.Doc{}, store.ErrUnavailable
	}
	return f.Store.Doc(ctx, k)
}

func (f *failing) Docs(ctx context.Context, r store.Range, n int, cursor string) ([]store.Doc, string, error) {
	if f.broken.Load() {
		return nil, "", store.ErrUnavailable
	}
	return f.Store.Docs(ctx, r, n, cursor)
}
