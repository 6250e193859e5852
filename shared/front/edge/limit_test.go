package edge

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	origins "github.com/vacancy-host/vacancy/shared/front/caller"
	"github.com/vacancy-host/vacancy/shared/front/message"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/local"
	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/tests/caller"
)

// clock is a wall clock that a test moves.
type clock struct{ at time.Time }

func newClock() *clock { return &clock{time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)} }

func (c *clock) now() time.Time { return c.at }

// front is a limit and the handler behind it, which counts what reaches it.
type front struct {
	http.Handler
	clock   *clock
	reached int
}

func limited(rate, pairs Rate) *front {
	f := &front{clock: newClock()}
	f.Handler = Limit(Config{RequestRate: rate, PairRate: pairs, Now: f.clock.now}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { f.reached++ }))
	return f
}

// send sends a request from an address and returns status and Retry-After.
func (f *front) send(from, path string, body []byte, headers ...string) (int, string) {
	r := httptest.NewRequest("POST", path, bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.RemoteAddr = from
	for _, h := range headers {
		r.Header.Add("X-Forwarded-For", h)
		r.Header.Add(viewerHeader, h+":443")
		r.Header.Add("Forwarded", "for="+h)
	}
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	return w.Code, w.Header().Get("Retry-After")
}

func TestRateLimitReturnsRetryAfter(t *testing.T) {
	f := limited(Rate{PerSecond: 0.5, Burst: 3}, Rate{})
	want := func(status int, after string) {
		t.Helper()
		if s, a := f.send("192.0.2.1", "/x", nil); s != status || a != after {
			t.Errorf("answer = %d, Retry-After %q; want %d, %q", s, a, status, after)
		}
	}
	for range 3 {
		want(200, "")
	}
	want(429, "2")
	f.clock.at = f.clock.at.Add(1500 * time.Millisecond)
	want(429, "1")
	f.clock.at = f.clock.at.Add(500 * time.Millisecond)
	want(200, "")
	want(429, "2")
	strangers := 0 // one may share the empty bucket, not all
	for i := range 3 {
		if s, _ := f.send(fmt.Sprintf("198.51.100.%d", i), "/x", nil); s == 200 {
			strangers++
		}
	}
	if strangers == 0 {
		t.Error("no other address gets through")
	}
	if f.reached != 4+strangers {
		t.Errorf("%d requests reached the handler, want %d", f.reached, 4+strangers)
	}
}

func TestARefusalHasTheUsualBody(t *testing.T) {
	f := limited(Rate{PerSecond: 1, Burst: 1}, Rate{})
	f.send("192.0.2.1", "/x", nil)
	w := httptest.NewRecorder()
	r := httptest.NewRequest("GET", "/x", nil)
	r.RemoteAddr = "192.0.2.1"
	f.ServeHTTP(w, r)
	if w.Code != 429 || !strings.Contains(w.Body.String(), `"code":"too_many"`) || !strings.Contains(w.Body.String(), `"detail":"too many requests`) {
		t.Errorf("answer = %d %s", w.Code, w.Body)
	}
}

func TestHeadersOfTheCallerBuyNoTokens(t *testing.T) {
	f := limited(Rate{PerSecond: 1, Burst: 5}, Rate{})
	for i := range 50 {
		f.send("192.0.2.1", "/x", nil, fmt.Sprintf("203.0.113.%d", i))
	}
	if f.reached != 5 {
		t.Errorf("%d of 50 requests with forged addresses got through, want 5", f.reached)
	}
}

func TestANetworkOfIPv6IsOneCaller(t *testing.T) {
	f := limited(Rate{PerSecond: 1, Burst: 5}, Rate{})
	for i := range 50 {
		f.send(fmt.Sprintf("2001:db8:1:2:%x::%x", i, i*7), "/x", nil)
	}
	if f.reached != 5 {
		t.Errorf("%d of 50 requests from one /64 got through, want 5", f.reached)
	}
	if origins.RateLimitPrefix("2001:db8:1:2::1") == origins.RateLimitPrefix("2001:db8:1:3::1") || origins.RateLimitPrefix("192.0.2.1") == origins.RateLimitPrefix("192.0.2.2") {
		t.Error("strangers have one origin")
	}
	for _, same := range [][2]string{{"192.0.2.1", "::ffff:192.0.2.1"}, {"192.0.2.1", "192.0.2.1:4711"}, {"2001:db8::1", "[2001:db8::2%eth0]:443"}, {"", "in process"}} {
		if origins.RateLimitPrefix(same[0]) != origins.RateLimitPrefix(same[1]) {
			t.Errorf("origins.Origin(%q) = %v, origins.Origin(%q) = %v; want them equal", same[0], origins.RateLimitPrefix(same[0]), same[1], origins.RateLimitPrefix(same[1]))
		}
	}
}

// A flood of other addresses must not evict an empty bucket.
func TestAFloodOfAddressesGivesNobodyTokens(t *testing.T) {
	const burst = 3
	b := newBuckets(Rate{PerSecond: 1, Burst: burst}, newClock().now)
	me := origins.RateLimitPrefix("192.0.2.1")
	for range burst {
		b.takeTokens(me, 1)
	}
	admitted := burst
	for i := range 4 * bucketCount {
		who := origins.RateLimitPrefix(netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, byte(i >> 24), byte(i >> 16), byte(i >> 8), byte(i)}).String())
		for range 2 {
			if _, ok := b.takeTokens(who, 1); ok {
				admitted++
			}
		}
		if i%bucketCount == 0 {
			if _, ok := b.takeTokens(me, 1); ok {
				t.Fatalf("after %d other addresses the empty bucket has a token", i)
			}
		}
	}
	if admitted > burst*bucketCount || len(b.table) != bucketCount {
		t.Errorf("%d requests admitted in %d buckets, want at most %d in %d", admitted, len(b.table), burst*bucketCount, bucketCount)
	}
}

// In any period a bucket admits at most its burst and what flows in, and a
// caller who waits as told is admitted.
func TestABucketGivesItsRateAndItsBurst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := Rate{PerSecond: rapid.Float64Range(0.1, 100).Draw(t, "rate"), Burst: rapid.IntRange(1, 20).Draw(t, "burst")}
		c := newClock()
		b := newBuckets(rate, c.now)
		who := origins.RateLimitPrefix("192.0.2.1")
		var times []time.Time // of admitted requests
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			c.at = c.at.Add(time.Duration(rapid.IntRange(0, 2000).Draw(t, "ms")) * time.Millisecond)
			wait, ok := b.takeTokens(who, 1)
			if ok {
				times = append(times, c.at)
				continue
			}
			if wait <= 0 {
				t.Fatalf("refused with a wait of %v", wait)
			}
			if rapid.Bool().Draw(t, "waits") {
				c.at = c.at.Add(wait + time.Microsecond) // floats round
				if _, ok := b.takeTokens(who, 1); !ok {
					t.Fatalf("after the %v it was told to wait it is refused again", wait)
				}
				times = append(times, c.at)
			}
		}
		for i := range times {
			for j := i; j < len(times); j++ {
				if most := float64(rate.Burst) + times[j].Sub(times[i]).Seconds()*rate.PerSecond + 1e-3; float64(j-i+1) > most {
					t.Fatalf("%d admitted within %v, want at most %.3f", j-i+1, times[j].Sub(times[i]), most)
				}
			}
		}
	})
}

func TestAClockThatStepsBackNeitherGivesNorTakesTokens(t *testing.T) {
	c := newClock()
	b := newBuckets(Rate{PerSecond: 1, Burst: 1}, c.now)
	who := origins.RateLimitPrefix("192.0.2.1")
	b.takeTokens(who, 1)
	c.at = c.at.Add(-time.Hour)
	if wait, ok := b.takeTokens(who, 1); ok || wait != time.Second {
		t.Errorf("take() an hour before = %v, %t; want a wait of 1 s", wait, ok)
	}
	c.at = c.at.Add(time.Second)
	if _, ok := b.takeTokens(who, 1); !ok {
		t.Error("take() a second after = false, want a token")
	}
	// The monotonic clock may stop while a function is frozen, so it is not
	// used.
	monotonic := time.Now()
	c.at = monotonic.Round(0)
	b.takeTokens(who, 1)
	c.at = monotonic.Add(time.Second)
	if _, ok := b.takeTokens(who, 1); !ok {
		t.Error("take() a second after = false, want a token")
	}
}

// messages is the handler of signed calls of a host with another vacant.
func messages(t *testing.T) http.Handler {
	t.Helper()
	key, err := identity.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	vault, err := local.FromHex(strings.Repeat("5a", 32), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s := memory.New()
	host := call.New(call.Config{
		Store: s, Texts: textkeys.New(s, vault, time.Now, rand.Reader, 0), Directory: call.SingleVacant{ID: key.ID(), Signer: key}, Now: time.Now, Rand: rand.Reader,
		Self: func(context.Context) (identity.ID, error) { return key.ID(), nil },
	})
	return message.Handler(message.Config{Host: host, Log: slog.New(slog.DiscardHandler), Now: time.Now})
}

func TestNewPairsHaveALowerLimit(t *testing.T) {
	c := caller.New(t, identity.ID{7})
	first := c.Call("one", time.Now())
	c.Accepted(first)
	second := c.Call("two", time.Now())
	escaped := []byte(strings.Replace(string(caller.Body(first)), `"sequence_no"`, `"sequence\u005fno"`, 1))
	for _, tt := range []struct {
		name, path string
		body       []byte
		opens      bool
	}{
		{"a first call", message.SendPath, caller.Body(first), true},
		{"at a vacant's own path", "/v/x" + message.SendPath, caller.Body(first), true},
		{"at the root", "/", caller.Body(first), true},
		{"spelled otherwise", message.SendPath, escaped, true},
		{"a reset", message.ResetPath, caller.Body(c.Reset(time.Now())), true},
		{"a reset of any body", message.ResetPath, nil, true},
		{"a second call", message.SendPath, caller.Body(second), false},
		{"an ask for a first call", message.AskPath, caller.Body(first), false},
		{"what is no envelope", message.SendPath, []byte(`{"sequence_no":1}`), false},
		{"nothing", message.SendPath, nil, false},
		{"too much", message.SendPath, bytes.Repeat([]byte(" "), 300<<10), false},
		{"another path", "/card", caller.Body(first), false},
	} {
		f := &front{clock: newClock()}
		f.Handler = Limit(Config{PairRate: Rate{PerSecond: 0.1, Burst: 2}, Now: f.clock.now}, messages(t))
		admitted := 0
		for range 5 {
			if s, after := f.send("192.0.2.1", tt.path, tt.body); s != http.StatusTooManyRequests {
				admitted++
			} else if after != "10" {
				t.Errorf("%s: Retry-After = %q, want 10", tt.name, after)
			}
		}
		want := 5
		if tt.opens {
			want = 2
		}
		if admitted != want {
			t.Errorf("%s: %d of 5 got through, want %d", tt.name, admitted, want)
		}
		if s, _ := f.send("192.0.2.1", message.SendPath, caller.Body(second)); s == http.StatusTooManyRequests {
			t.Errorf("%s: a second call then = %d, want it admitted", tt.name, s)
		}
	}
}

func TestRetryAfterIsWholeSeconds(t *testing.T) {
	f := limited(Rate{PerSecond: 0.001, Burst: 1}, Rate{})
	f.send("192.0.2.1", "/x", nil)
	_, after := f.send("192.0.2.1", "/x", nil)
	if n, err := strconv.Atoi(after); err != nil || n != 1000 {
		t.Errorf("Retry-After = %q, want 1000", after)
	}
}

func FuzzOrigin(f *testing.F) {
	f.Add("192.0.2.1")
	f.Add("[fe80::1%eth0]:80")
	f.Fuzz(func(t *testing.T, remote string) {
		p := origins.RateLimitPrefix(remote)
		if p.IsValid() && p != p.Masked() {
			t.Errorf("origins.Origin(%q) = %v, want a network", remote, p)
		}
	})
}

func BenchmarkLimit(b *testing.B) {
	c := caller.New(b, identity.ID{7})
	c.Accepted(c.Call("one", time.Now()))
	body := caller.Body(c.Call("two", time.Now()))
	f := limited(Rate{1e9, 1e9}, Rate{1e9, 1e9})
	r := httptest.NewRequest("POST", message.SendPath, nil)
	for b.Loop() {
		r.Body = io.NopCloser(bytes.NewReader(body))
		f.ServeHTTP(nil, r)
	}
	if f.reached != b.N {
		b.Fatalf("%d of %d requests passed", f.reached, b.N)
	}
}

// What a body makes the host write is paid for: a large one is a debt.
func TestABodyCostsTokensByItsSize(t *testing.T) {
	c := newClock()
	h := Limit(Config{RequestRate: Rate{PerSecond: 10, Burst: 40}, Now: c.now}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	post := func(size int64) (int, string) {
		r := httptest.NewRequest("POST", "/", strings.NewReader(""))
		r.ContentLength, r.RemoteAddr = size, "192.0.2.1"
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code, w.Header().Get("Retry-After")
	}
	for i, tt := range []struct {
		after time.Duration
		size  int64
		code  int
		retry string
	}{
		{0, 100, 200, ""},                       // 1 token
		{0, 8 << 10, 200, ""},                   // 3
		{0, 256 << 10, 200, ""},                 // 65: 29 tokens of debt
		{0, 100, 429, "3"},                      // 3 s until one is there
		{3001 * time.Millisecond, 100, 200, ""}, // and gone again
		{0, 100, 429, "1"},
		{time.Minute, -1, 200, ""}, // of unknown length: as the largest
		{0, 100, 429, "3"},
		{time.Minute, 1 << 40, 200, ""}, // refused by its handler, and paid as the largest
		{0, 100, 429, "3"},
	} {
		c.at = c.at.Add(tt.after)
		if code, retry := post(tt.size); code != tt.code || retry != tt.retry {
			t.Errorf("request %d of %d bytes = %d, Retry-After %q; want %d, %q", i, tt.size, code, retry, tt.code, tt.retry)
		}
	}
}

// One address does not use up the tables' write capacity by large bodies. The
// limit applies neither to its small bodies nor to other addresses.
func TestLargeBodiesOfAnAddressAreLimited(t *testing.T) {
	c := newClock()
	h := Limit(Config{BodyRate: Rate{PerSecond: 4, Burst: 60}, Now: c.now}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for i, tt := range []struct {
		after time.Duration
		from  string
		size  int64
		code  int
		retry string
	}{
		{0, "192.0.2.1", 250 << 10, 200, ""}, // a debt of 190 KB
		{0, "192.0.2.1", 1023, 200, ""},      // small: free
		{0, "192.0.2.1", 1024, 429, "48"},    // 191 KB at 4 a second
		{0, "192.0.2.2", 250 << 10, 200, ""}, // somebody else
		{47 * time.Second, "192.0.2.1", 4 << 10, 429, "1"},
		{2 * time.Second, "192.0.2.1", 4 << 10, 200, ""},
	} {
		c.at = c.at.Add(tt.after)
		r := httptest.NewRequest("POST", "/", strings.NewReader(""))
		r.ContentLength, r.RemoteAddr = tt.size, tt.from
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if got := w.Header().Get("Retry-After"); w.Code != tt.code || got != tt.retry {
			t.Errorf("request %d: %d bytes of %s = %d, Retry-After %q; want %d, %q", i, tt.size, tt.from, w.Code, got, tt.code, tt.retry)
		}
	}
}
