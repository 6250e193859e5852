package edge

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/vacancy-host/vacancy/shared/front/caller"
	"github.com/vacancy-host/vacancy/shared/obs"
	"github.com/vacancy-host/vacancy/shared/ratelimit"
)

// reader is a limit of read units, and a handler behind it that reads as many
// units as the query says.
type reader struct {
	http.Handler
	clock *clock
	read  float64
}

func reading(rate Rate) *reader {
	f := &reader{clock: newClock()}
	f.Handler = Limit(Config{ReadRate: rate, Now: f.clock.now}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		units, err := strconv.ParseFloat(r.URL.Query().Get("units"), 64)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		u := obs.UsageOf(r.Context())
		u.EndRequest(u.BeginRequest(), units/2, 7) // writes do not count
		u.EndRequest(u.BeginRequest(), units/2, 0)
		f.read += units
		if r.URL.Path == "/panic" {
			panic("broken")
		}
	}))
	return f
}

// ask makes one request that would read so many units, in an invocation that
// has read some already, and returns status and Retry-After.
func (f *reader) ask(path string, units float64) (int, string) {
	r := httptest.NewRequest("GET", path+"?units="+strconv.FormatFloat(units, 'g', -1, 64), nil)
	ctx, u := obs.WithUsage(r.Context(), obs.Invocation{Now: f.clock.now})
	u.EndRequest(u.BeginRequest(), 1000, 0)
	w := httptest.NewRecorder()
	func() {
		defer func() { _ = recover() }()
		f.ServeHTTP(w, r.WithContext(ctx))
	}()
	return w.Code, w.Header().Get("Retry-After")
}

func TestRequestsWaitUntilWhatWasReadIsPaidBack(t *testing.T) {
	type step struct {
		after  time.Duration
		path   string
		units  float64
		status int
		retry  string
	}
	for _, tt := range []struct {
		name  string
		steps []step
	}{
		{"what fits passes", []step{{0, "/", 20, 200, ""}, {0, "/", 20, 200, ""}, {2 * time.Second, "/", 20, 200, ""}}},
		{"a bucket of nothing is shut", []step{{0, "/", 50, 200, ""}, {0, "/", 0, 429, "1"}, {time.Nanosecond, "/", 0, 200, ""}}},
		{"the last unit lets anything through, into debt", []step{
			{0, "/", 49, 200, ""}, {0, "/", 61, 200, ""}, {0, "/", 1, 429, "7"}, {6 * time.Second, "/", 1, 429, "1"}, {time.Second, "/", 1, 200, ""},
		}},
		{"what is refused reads nothing and lengthens nothing", []step{
			{0, "/", 60, 200, ""}, {0, "/", 1000, 429, "2"}, {0, "/", 1000, 429, "2"}, {1001 * time.Millisecond, "/", 1, 200, ""},
		}},
		{"no more is saved up than it holds", []step{{time.Hour, "/", 50, 200, ""}, {0, "/", 1, 429, "1"}}},
		{"what reads nothing costs nothing", []step{{0, "/", 49.5, 200, ""}, {0, "/", 0, 200, ""}, {0, "/", 0, 200, ""}, {0, "/", 0.5, 200, ""}, {0, "/", 0, 429, "1"}}},
		{"a handler that breaks has read", []step{{0, "/panic", 70, 200, ""}, {0, "/", 1, 429, "3"}}},
		{"a clock that steps back gives nothing", []step{{0, "/", 60, 200, ""}, {-time.Hour, "/", 1, 429, "2"}, {1001 * time.Millisecond, "/", 1, 200, ""}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := reading(Rate{PerSecond: 10, Burst: 50})
			for i, s := range tt.steps {
				f.clock.at = f.clock.at.Add(s.after)
				if status, retry := f.ask(s.path, s.units); status != s.status || retry != s.retry {
					t.Errorf("request %d of %v units = %d, Retry-After %q; want %d, %q", i, s.units, status, retry, s.status, s.retry)
				}
			}
		})
	}
}

// In any period at most the burst, what flows in, and one request in debt are
// read; and a caller who waits as told is admitted.
func TestReadsAreBoundedByTheRefill(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := Rate{PerSecond: rapid.Float64Range(0.1, 100).Draw(t, "rate"), Burst: rapid.IntRange(1, 200).Draw(t, "burst")}
		f := reading(rate)
		type one struct {
			at    time.Time
			units float64
		}
		var all []one // admitted requests
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			f.clock.at = f.clock.at.Add(time.Duration(rapid.IntRange(0, 5000).Draw(t, "ms")) * time.Millisecond)
			units := rapid.Float64Range(0, 300).Draw(t, "units")
			status, retry := f.ask("/", units)
			if status == http.StatusTooManyRequests {
				seconds, err := strconv.Atoi(retry)
				if err != nil || seconds < 1 {
					t.Fatalf("refused with Retry-After %q", retry)
				}
				if !rapid.Bool().Draw(t, "waits") {
					continue
				}
				f.clock.at = f.clock.at.Add(time.Duration(seconds)*time.Second + time.Microsecond) // floats round
				status, _ = f.ask("/", units)
			}
			if status != http.StatusOK {
				t.Fatalf("answer = %d, want it let through", status)
			}
			all = append(all, one{f.clock.at, units})
		}
		for i := range all {
			read, largest := 0., 0.
			for j := i; j < len(all); j++ {
				read, largest = read+all[j].units, max(largest, all[j].units)
				if most := float64(rate.Burst) + all[j].at.Sub(all[i].at).Seconds()*rate.PerSecond + largest + 1e-3; read > most {
					t.Fatalf("%.3f units read within %v, want at most %.3f", read, all[j].at.Sub(all[i].at), most)
				}
			}
		}
	})
}

func TestARefusalToReadHasTheUsualBody(t *testing.T) {
	f := reading(Rate{PerSecond: 1, Burst: 1})
	f.ask("/", 3)
	w := httptest.NewRecorder()
	f.ServeHTTP(w, httptest.NewRequest("POST", "/v1/halo", strings.NewReader("{}")))
	want := []any{429, "3", "application/json", `{"detail":"this host receives too many requests; try again in 3 s","code":"too_many"}` + "\n"}
	if diff := cmp.Diff(want, []any{w.Code, w.Header().Get("Retry-After"), w.Header().Get("Content-Type"), w.Body.String()}); diff != "" {
		t.Errorf("refusal (-want +got):\n%s", diff)
	}
}

// An address over its own limit uses none of the common limit, and a limit of
// zero is none.
func TestAnAddressThatIsHeldBackReadsNothing(t *testing.T) {
	read := 0.
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		u := obs.UsageOf(r.Context())
		u.EndRequest(u.BeginRequest(), 1, 0)
		read++
	})
	for _, tt := range []struct {
		config Config
		want   float64
	}{
		{Config{RequestRate: Rate{0.001, 2}, ReadRate: Rate{0.001, 4}}, 4},
		{Config{RequestRate: Rate{0.001, 2}}, 20},
		{Config{ReadRate: Rate{0.001, 4}}, 4},
		{Config{}, 50},
	} {
		tt.config.Now, read = newClock().now, 0
		h := Limit(tt.config, handler)
		for _, address := range distinct(h.(*addressLimit).requests, 10) {
			for range 5 {
				ctx, _ := obs.WithUsage(t.Context(), obs.Invocation{Now: time.Now})
				r := httptest.NewRequestWithContext(ctx, "GET", "/", nil)
				r.RemoteAddr = address
				h.ServeHTTP(httptest.NewRecorder(), r)
			}
		}
		if read != tt.want {
			t.Errorf("%+v: %v of 50 requests, 5 of each address, have read; want %v", tt.config, read, tt.want)
		}
	}
}

// distinct returns n addresses of which no two share a bucket.
func distinct(b *buckets, n int) (addresses []string) {
	taken := map[*ratelimit.Bucket]bool{}
	for i := 0; len(addresses) < n; i++ {
		address := "192.0.2." + strconv.Itoa(i)
		if b != nil {
			k := b.bucketFor(caller.RateLimitPrefix(address))
			if taken[k] {
				continue
			}
			taken[k] = true
		}
		addresses = append(addresses, address)
	}
	return addresses
}

// Without a usage nothing is counted or charged.
func TestUncountedReadsAreNotCharged(t *testing.T) {
	f := reading(Rate{PerSecond: 0.001, Burst: 1})
	for range 3 {
		w := httptest.NewRecorder()
		f.ServeHTTP(w, httptest.NewRequest("GET", "/?units=9", nil))
		if w.Code != 200 {
			t.Errorf("answer = %d, want 200", w.Code)
		}
	}
}

func TestRequestsAtOnceAreAllCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 10
		h := Limit(Config{ReadRate: Rate{1, 1}, Now: time.Now}, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Millisecond) // until all have arrived
			u := obs.UsageOf(r.Context())
			u.EndRequest(u.BeginRequest(), 1, 0)
		}))
		ask := func() (int, string) {
			ctx, _ := obs.WithUsage(t.Context(), obs.Invocation{Now: time.Now})
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/", nil))
			return w.Code, w.Header().Get("Retry-After")
		}
		var all sync.WaitGroup
		for range n {
			all.Go(func() {
				if status, _ := ask(); status != 200 {
					t.Errorf("answer = %d, want 200", status)
				}
			})
		}
		all.Wait()
		if status, after := ask(); status != 429 || after != strconv.Itoa(n) { // 9 units below nothing
			t.Errorf("answer after %d = %d, Retry-After %q; want 429, %d", n, status, after, n)
		}
	})
}

// Pages have a budget of their own where calls have none.
func TestPagesAreLimitedAndCallsAreNot(t *testing.T) {
	c := newClock()
	h := Limit(Config{PageReadRate: Rate{PerSecond: 1, Burst: 2}, Now: c.now}, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		u := obs.UsageOf(r.Context())
		u.EndRequest(u.BeginRequest(), 5, 0)
	}))
	ask := func(method string) int {
		r := httptest.NewRequest(method, "/card", nil)
		ctx, _ := obs.WithUsage(r.Context(), obs.Invocation{Now: c.now})
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r.WithContext(ctx))
		return w.Code
	}
	var got []int
	for _, method := range []string{"GET", "POST", "GET", "POST"} {
		got = append(got, ask(method))
	}
	c.at = c.at.Add(4 * time.Second)
	got = append(got, ask("GET"))
	if diff := cmp.Diff([]int{200, 200, 429, 200, 200}, got); diff != "" {
		t.Errorf("statuses (-want +got):\n%s", diff)
	}
}

// A flood of reads does not keep a revocation out, nor the other way round.
func TestUrgentRequestsHaveABudgetOfTheirOwn(t *testing.T) {
	c := newClock()
	h := Limit(Config{ReadRate: Rate{PerSecond: 4, Burst: 8}, IsUrgent: func(r *http.Request) bool { return r.URL.Path == "/urgent" }, Now: c.now},
		http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			u := obs.UsageOf(r.Context())
			u.EndRequest(u.BeginRequest(), 20, 0)
		}))
	var got []string
	for _, path := range []string{"/", "/", "/urgent", "/urgent", "/"} {
		r := httptest.NewRequest("POST", path, nil)
		ctx, _ := obs.WithUsage(r.Context(), obs.Invocation{Now: c.now})
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r.WithContext(ctx))
		got = append(got, path+" "+strconv.Itoa(w.Code)+" "+w.Header().Get("Retry-After"))
	}
	// The debts are 12 units at 4 a second, and 18 at one.
	want := []string{"/ 200 ", "/ 429 4", "/urgent 200 ", "/urgent 429 19", "/ 429 4"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("statuses and waits (-want +got):\n%s", diff)
	}
}

// Strangers with wrong keys spend what they may read, and keep nobody out whose key was
// accepted before.
func TestOnlyStrangersDrawOnReads(t *testing.T) {
	c := newClock()
	revoked := false
	h := Limit(Config{ReadRate: Rate{PerSecond: 0.001, Burst: 3}, ExemptKeys: true, Now: c.now}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u := obs.UsageOf(r.Context())
		u.EndRequest(u.BeginRequest(), 1, 0)
		if r.Header.Get("Authorization") != "Bearer good" || revoked {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte("yes"))
	}))
	ask := func(key string) int {
		ctx, _ := obs.WithUsage(t.Context(), obs.Invocation{Now: c.now})
		r := httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx)
		if key != "" {
			r.Header.Set("Authorization", "Bearer "+key)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	var got []int
	for _, key := range []string{"good", "bad", "", "bad", "worse", "", "good", "good"} {
		got = append(got, ask(key))
	}
	if want := []int{200, 401, 401, 429, 429, 429, 200, 200}; !slices.Equal(got, want) {
		t.Errorf("answers %v, want %v", got, want)
	}
	revoked = true
	if first, second := ask("good"), ask("good"); first != 401 || second != 429 {
		t.Errorf("a revoked key: %d, %d; want 401, and then a stranger's 429", first, second)
	}
}
