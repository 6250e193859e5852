package hammer

import (
	"bytes"
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/front/message"
	"github.com/vacancy-host/vacancy/shared/host/answer/hosttest"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// target serves a host with one vacant, behind a handler that the test chooses.
func target(t testing.TB, between func(http.Handler) http.Handler) (*hosttest.Fixture, string) {
	h := hosttest.New(t, memory.New())
	handler := message.Handler(message.Config{Host: h.Host, Directory: h.Vacants, Log: slog.New(slog.DiscardHandler), Now: h.Now})
	if between != nil {
		handler = between(handler)
	}
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return h, s.URL
}

func hammer(t testing.TB, h *hosttest.Fixture, url string, change func(*Config)) (Summary, error) {
	t.Helper()
	found, err := Find(t.Context(), url, identity.ID{})
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Target: found, Pairs: 4, For: 20 * time.Second, Calls: 60, Size: 100, Now: h.Now, Rand: rand.Reader}
	if change != nil {
		change(&c)
	}
	return Run(t.Context(), c)
}

// errors returns a summary's counts of everything but answers.
func failures(s Summary) map[string]uint64 {
	if len(s.Errors) == 0 {
		return nil
	}
	return s.Errors
}

func TestEveryCallIsAnsweredAndVerified(t *testing.T) {
	h, url := target(t, nil)
	for _, given := range []string{url, url + "/v/" + h.Demo.ID.String(), url + "/a2a/message/send"} {
		s, err := hammer(t, h, given, nil)
		if err != nil || s.Calls != 60 || failures(s) != nil || s.Resent != 0 || s.P50 <= 0 || s.P50 > s.P99 || s.P99 > s.Max || s.PerSecond <= 0 {
			t.Errorf("Run(%s) = %+v, %v, want 60 calls and no error", given, s, err)
		}
	}
}

func TestTheTimeEndsARun(t *testing.T) {
	h, url := target(t, nil)
	s, err := hammer(t, h, url, func(c *Config) { c.Calls, c.For = 0, 300*time.Millisecond })
	if err != nil || s.Calls == 0 || failures(s) != nil {
		t.Errorf("Run() = %+v, %v; want calls", s, err)
	}
}

func TestAnInterruptEndsARunAndKeepsItsResults(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	var posts atomic.Int64
	h, url := target(t, func(handler http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			handler.ServeHTTP(w, r)
			if r.Method == http.MethodPost && posts.Add(1) == 20 {
				interrupt()
			}
		})
	})
	found, err := Find(t.Context(), url, identity.ID{})
	h.Must(err)
	s, err := Run(ctx, Config{Target: found, Pairs: 2, For: time.Minute, Size: 10, Now: h.Now, Rand: rand.Reader})
	if !problem.Is(err, problem.Canceled) || !s.Interrupted || s.Calls < 10 || failures(s) != nil {
		t.Errorf("Run() = %+v, %v, want an interrupted run", s, err)
	}
}

// Nothing runs twice, and the chain continues.
func TestALostAnswerIsFetchedByTheSameBytes(t *testing.T) {
	var n atomic.Int64
	h, url := target(t, func(handler http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost && n.Add(1)%7 == 0 {
				handler.ServeHTTP(httptest.NewRecorder(), r)
				panic(http.ErrAbortHandler)
			}
			handler.ServeHTTP(w, r)
		})
	})
	s, err := hammer(t, h, url, nil)
	if err != nil || s.Calls != 60 || s.Resent == 0 || len(s.Errors) != 1 || s.Errors["no_answer"] != s.Resent {
		t.Errorf("Run() = %+v, %v, want 60 calls, some answers lost and fetched again", s, err)
	}
}

func TestAHostInTroubleIsAskedAgain(t *testing.T) {
	var n atomic.Int64
	h, url := target(t, func(handler http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch k := n.Add(1); {
			case r.Method != http.MethodPost:
			case k%11 == 0:
				w.WriteHeader(http.StatusServiceUnavailable)
				_, _ = w.Write([]byte(`{"detail":"storage is unavailable","code":"unavailable"}`))
				return
			case k%13 == 0:
				w.WriteHeader(http.StatusBadGateway)
				_, _ = w.Write([]byte("<html>"))
				return
			}
			handler.ServeHTTP(w, r)
		})
	})
	s, err := hammer(t, h, url, nil)
	if err != nil || s.Calls != 60 || s.Errors["unavailable"] == 0 || s.Errors["http_502"] == 0 || s.First["unavailable"] != "storage is unavailable" {
		t.Errorf("Run() = %+v, %v, want 60 calls and both refusals counted", s, err)
	}
}

func TestAFailedCallIsCountedAndTheChainGoesOn(t *testing.T) {
	h, url := target(t, nil)
	s, err := hammer(t, h, url, func(c *Config) { c.Pairs, c.Calls = 1, 5 })
	h.Must(err)
	found, err := Find(t.Context(), url, identity.ID{})
	h.Must(err)
	r := &run{Config: Config{Target: found, Size: 4, Now: h.Now, Rand: rand.Reader}, Results: newResults(1), abandon: func() {}}
	r.left.Store(3)
	c, err := r.caller(0)
	h.Must(err)
	c.text = "fail" // the vacant fails
	c.work(t.Context())
	if s = r.summary(time.Second); s.Calls != 0 || s.Errors["behaviour_failed"] != 3 || c.request.Seq != 3 {
		t.Errorf("three failing calls = %+v, the chain at %d", s, c.request.Seq)
	}
}

func TestAnAnswerThatDoesNotVerifyIsNoAnswer(t *testing.T) {
	for name, spoil := range map[string]func(body []byte) []byte{
		"another text": func(b []byte) []byte { return bytes.Replace(b, []byte("echo from"), []byte("Echo from"), 1) },
		"another seq": func(b []byte) []byte {
			return bytes.Replace(b, []byte(`"sequence_no":1`), []byte(`"sequence_no":2`), 1)
		},
		"no envelope": func([]byte) []byte { return []byte(`{"ok":true}`) },
		"no JSON":     func([]byte) []byte { return []byte(`<html>`) },
	} {
		h, url := target(t, func(handler http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				rec := httptest.NewRecorder()
				handler.ServeHTTP(rec, r)
				b := rec.Body.Bytes()
				if r.Method == http.MethodPost {
					b = spoil(b)
				}
				w.WriteHeader(rec.Code)
				_, _ = w.Write(b)
			})
		})
		s, err := hammer(t, h, url, func(c *Config) { c.Calls = 8 })
		if want := map[string]uint64{"untrusted": 8}; err != nil || s.Calls != 0 || !cmp.Equal(want, s.Errors) {
			t.Errorf("%s: Run() = %+v, %v, want nothing but %v", name, s, err, want)
		}
	}
}

// The host mixes up its callers.
func TestAnAnswerToAnotherCallerIsNoAnswer(t *testing.T) {
	var first atomic.Pointer[[]byte]
	h, url := target(t, func(handler http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			rec := httptest.NewRecorder()
			handler.ServeHTTP(rec, r)
			b := rec.Body.Bytes()
			if r.Method == http.MethodPost && !first.CompareAndSwap(nil, &b) {
				b = *first.Load()
			}
			w.WriteHeader(rec.Code)
			_, _ = w.Write(b)
		})
	})
	s, err := hammer(t, h, url, func(c *Config) { c.Calls, c.Pairs = 10, 1 })
	if err != nil || s.Calls != 1 || s.Errors["untrusted"] != 9 {
		t.Errorf("Run() = %+v, %v, want the one answer counted", s, err)
	}
}

func TestATargetThatRefusesForGoodEndsTheRun(t *testing.T) {
	h, url := target(t, nil)
	found, err := Find(t.Context(), url, identity.ID{})
	h.Must(err)
	_, err = h.Vacants.Sink(h.Ctx, h.Demo.ID)
	h.Must(err)
	s, err := Run(t.Context(), Config{Target: found, Pairs: 3, For: time.Minute, Size: 10, Now: h.Now, Rand: rand.Reader})
	if !problem.Is(err, problem.Gone) || s.Calls != 0 || s.Errors["gone"] == 0 {
		t.Errorf("Run() = %+v, %v, want the refusal", s, err)
	}
}

func TestBodiesInChunksAndClosedConnectionsAreRead(t *testing.T) {
	h, url := target(t, func(handler http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			rec := httptest.NewRecorder()
			handler.ServeHTTP(rec, r)
			if strings.HasPrefix(r.UserAgent(), "vacancy-hammer") && rec.Body.Len()%2 == 0 {
				w.Header().Set("Connection", "close")
			}
			w.WriteHeader(rec.Code)
			for _, b := range rec.Body.Bytes() {
				_, _ = w.Write([]byte{b})
				if b == ',' {
					w.(http.Flusher).Flush()
				}
			}
		})
	})
	if s, err := hammer(t, h, url, nil); err != nil || s.Calls != 60 || failures(s) != nil {
		t.Errorf("Run() = %+v, %v, want 60 calls and no error", s, err)
	}
}
