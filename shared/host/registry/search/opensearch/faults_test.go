package opensearch_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/registry/search"
	"github.com/vacancy-host/vacancy/shared/host/registry/search/opensearch"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	node "github.com/vacancy-host/vacancy/tests/opensearch"
)

// between is a proxy in front of the node. If fails returns true, it answers a request itself.
type between struct {
	fails atomic.Pointer[func(*http.Request) *http.Response]
	asked atomic.Int32
}

func (b *between) RoundTrip(r *http.Request) (*http.Response, error) {
	b.asked.Add(1)
	if fails := b.fails.Load(); fails != nil {
		if answer := (*fails)(r); answer != nil {
			return answer, nil
		}
	}
	return http.DefaultTransport.RoundTrip(r)
}

func (b *between) fail(f func(*http.Request) *http.Response) { b.fails.Store(&f) }

func answered(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
}

func opened(t *testing.T, transport http.RoundTripper, name string) *opensearch.Index {
	t.Helper()
	x, err := opensearch.Open(t.Context(), opensearch.Config{URL: node.Start(t), Name: name, Transport: transport})
	if err != nil {
		t.Fatalf("Open() = %v", err)
	}
	t.Cleanup(func() {
		if err := x.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
	})
	return x
}

func entry(n byte, capability string) search.Entry {
	return search.Entry{ID: identity.ID{n}, FirstSeq: uint64(n), Capability: capability}
}

func found(t *testing.T, x *opensearch.Index, words ...string) (ids []byte) {
	t.Helper()
	hits, err := x.Query(t.Context(), search.Query{Words: words, Limit: 100})
	if err != nil {
		t.Fatalf("Query() = %v", err)
	}
	for _, h := range hits {
		ids = append(ids, h.ID[0])
	}
	return ids
}

func marked(t *testing.T, x *opensearch.Index, want string) {
	t.Helper()
	if got, err := x.Mark(t.Context()); err != nil || got != want {
		t.Errorf("Mark() = %q, %v, want %q", got, err, want)
	}
}

func TestAFailedBatchIsNotSeenAndItsMarkNotKept(t *testing.T) {
	for _, c := range []struct {
		name string
		fail func(*http.Request) *http.Response
		seen bool // the batch was written and is visible; only its mark is missing
	}{
		{"the node takes no writes", func(r *http.Request) *http.Response {
			if strings.HasSuffix(r.URL.Path, "/_bulk") {
				return answered(http.StatusTooManyRequests, `{"error":{"type":"circuit_breaking_exception","reason":"full"},"status":429}`)
			}
			return nil
		}, false},
		{"the node takes some", func(r *http.Request) *http.Response {
			if strings.HasSuffix(r.URL.Path, "/_bulk") {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					return answered(http.StatusInternalServerError, "")
				}
				lines := bytes.SplitAfter(body, []byte("\n"))
				again, err := http.NewRequest(r.Method, r.URL.String(), bytes.NewReader(bytes.Join(lines[:2], nil)))
				if err != nil {
					return answered(http.StatusInternalServerError, "")
				}
				again.Header = r.Header
				if _, err = http.DefaultTransport.RoundTrip(again); err != nil {
					return answered(http.StatusInternalServerError, "")
				}
				return answered(http.StatusOK, `{"errors":true,"items":[{"index":{"_id":"a","status":201}},
					{"index":{"_id":"b","status":429,"error":{"type":"rejected_execution_exception","reason":"full"}}}]}`)
			}
			return nil
		}, false},
		{"the refresh fails", func(r *http.Request) *http.Response {
			if strings.HasSuffix(r.URL.Path, "/_refresh") {
				return answered(http.StatusInternalServerError, "oh no")
			}
			return nil
		}, false},
		{"the mark is not written", func(r *http.Request) *http.Response {
			if strings.HasSuffix(r.URL.Path, "/_doc/mark") && r.Method == http.MethodPut {
				return answered(http.StatusInternalServerError, "oh no")
			}
			return nil
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := &between{}
			x := opened(t, b, fresh())
			if err := x.Apply(t.Context(), search.Batch{Put: []search.Entry{entry(1, "one")}, Mark: "1"}); err != nil {
				t.Fatal(err)
			}
			b.fail(c.fail)
			second := search.Batch{Put: []search.Entry{entry(2, "two"), entry(3, "three")}, Remove: []identity.ID{{1}}, Mark: "2"}
			if err := x.Apply(t.Context(), second); !problem.Is(err, problem.Unavailable) {
				t.Fatalf("Apply() = %v, want unavailable", err)
			}
			want := []byte{1}
			if c.seen {
				want = []byte{2, 3}
			}
			if diff := cmp.Diff(want, found(t, x)); diff != "" {
				t.Errorf("after a failed Apply() (-want +got):\n%s", diff)
			}
			marked(t, x, "1")
			b.fail(func(*http.Request) *http.Response { return nil })
			if err := x.Apply(t.Context(), second); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]byte{2, 3}, found(t, x)); diff != "" {
				t.Errorf("after the same Apply() again (-want +got):\n%s", diff)
			}
			marked(t, x, "2")
		})
	}
}

func TestABusyNodeIsAskedAgain(t *testing.T) {
	b := &between{}
	x := opened(t, b, fresh())
	var busy atomic.Int32
	b.fail(func(*http.Request) *http.Response {
		if busy.Add(1) <= 2 {
			return answered(http.StatusServiceUnavailable, "busy")
		}
		return nil
	})
	if got := found(t, x); len(got) != 0 {
		t.Errorf("Query() = %v, want none", got)
	}
}

func TestAnIndexThatIsRemovedIsNeitherEmptyNorMadeByAWrite(t *testing.T) {
	name := fresh()
	x := opened(t, nil, name)
	if err := x.Apply(t.Context(), search.Batch{Put: []search.Entry{entry(1, "one")}, Mark: "1"}); err != nil {
		t.Fatal(err)
	}
	remove, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, node.Start(t)+"/"+name+"-4", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(remove)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("DELETE = %v, %v", answer, err)
	}
	answer.Body.Close()
	gone := func(op string, err error) {
		t.Helper()
		if !problem.Is(err, problem.Unavailable) {
			t.Errorf("%s = %v, want unavailable", op, err)
		}
	}
	_, err = x.Query(t.Context(), search.Query{Limit: 1})
	gone("Query()", err)
	_, err = x.Mark(t.Context())
	gone("Mark()", err)
	_, err = x.Count(t.Context())
	gone("Count()", err)
	gone("Apply()", x.Apply(t.Context(), search.Batch{Put: []search.Entry{entry(2, "two")}}))
	gone("Apply() of a mark", x.Apply(t.Context(), search.Batch{Mark: "2"}))
	again := opened(t, nil, name)
	marked(t, again, "")
	if got := found(t, again); len(got) != 0 {
		t.Errorf("Query() of an index made again = %v, want none", got)
	}
}

func TestTwoProcessesShareOneIndex(t *testing.T) {
	name := fresh()
	one, two := opened(t, nil, name), opened(t, nil, name)
	if err := one.Apply(t.Context(), search.Batch{Put: []search.Entry{entry(1, "one")}, Mark: "1"}); err != nil {
		t.Fatal(err)
	}
	marked(t, two, "1")
	if err := two.Apply(t.Context(), search.Batch{Remove: []identity.ID{{1}}, Put: []search.Entry{entry(2, "two")}, Mark: "2"}); err != nil {
		t.Fatal(err)
	}
	marked(t, one, "2")
	if diff := cmp.Diff([]byte{2}, found(t, one)); diff != "" {
		t.Errorf("Query() (-want +got):\n%s", diff)
	}
}

func TestLargestEntryFitsTheNode(t *testing.T) {
	x := opened(t, nil, fresh())
	long := strings.Repeat("x", 100<<10)
	var strange strings.Builder
	for r := rune(1); r < 0x30000; r += 97 {
		strange.WriteRune(r)
	}
	entries := []search.Entry{
		{ID: identity.ID{1}, FirstSeq: 1, Tags: []string{"found", long}, Capability: long, DeclaredCapabilities: []string{long, strings.Repeat("ab ", 30<<10)}, Family: long, ClaimedFamily: long},
		{ID: identity.ID{2}, FirstSeq: math.MaxInt64, Capability: "found " + strange.String(), DeclaredCapabilities: []string{strange.String(), "", " ", "\x00"}, Price: math.MinInt64, Score: math.Inf(1)},
		{ID: identity.ID{3}, FirstSeq: 3, Capability: `found {"match_all":{}} */_all,-x`, Tags: []string{`"`, "*", ""}, Summary: "\u202e\u0301"},
	}
	if err := x.Apply(t.Context(), search.Batch{Put: entries, Mark: strings.Repeat("m", 1000)}); err != nil {
		t.Fatalf("Apply() = %v", err)
	}
	if got := found(t, x, "found"); len(got) != len(entries) {
		t.Errorf("Query() = %v, want all %d", got, len(entries))
	}
	hits, err := x.Query(t.Context(), search.Query{Family: long, ClaimedFamily: long, Limit: 5})
	if err != nil || len(hits) != 1 || hits[0].ID != entries[0].ID {
		t.Errorf("Query() of a long family = %v, %v, want the one that has it", hits, err)
	}
	hits, err = x.Query(t.Context(), search.Query{Words: []string{"found"}, Limit: 5, After: &search.Place{Rank: 0, FirstSeq: math.MaxUint64}})
	if err != nil || len(hits) != 0 {
		t.Errorf("Query() after the last place = %v, %v, want none", hits, err)
	}
}

func TestABatchOfAnySizeGoesInRequestsThatAClusterTakes(t *testing.T) {
	b := &between{}
	var largest, bulks atomic.Int64
	b.fail(func(r *http.Request) *http.Response {
		largest.Store(max(largest.Load(), r.ContentLength))
		if strings.HasSuffix(r.URL.Path, "/_bulk") {
			bulks.Add(1)
		}
		return nil
	})
	x := opened(t, b, fresh())
	text := strings.Repeat("word ", search.MaxGroupTextBytes/5-10)
	var batch search.Batch
	for n := range 1200 {
		e := entry(1, "large")
		e.ID[1], e.ID[2], e.DeclaredCapabilities = byte(n>>8), byte(n), []string{text + fmt.Sprint(n)}
		batch.Put = append(batch.Put, e)
	}
	if err := x.Apply(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	if bulks.Load() < 2 || largest.Load() > 8<<20 {
		t.Errorf("%d requests, the largest of %d bytes, want several of at most 8 MiB", bulks.Load(), largest.Load())
	}
	if n, err := x.Count(t.Context()); err != nil || n != len(batch.Put) {
		t.Errorf("Count() = %d, %v, want %d", n, err, len(batch.Put))
	}
}

func TestAnswersThatAreNotThoseOfAnIndexAreUnavailable(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"garbage":        func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") },
		"nothing":        func(http.ResponseWriter, *http.Request) {},
		"a refusal":      func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) },
		"a broken hit":   says(`{"hits":{"hits":[{"_id":"zz","sort":[1,2]}]}}`),
		"a hit unsorted": says(`{"hits":{"hits":[{"_id":"` + strings.Repeat("00", 32) + `"}]}}`),
		"no number":      says(`{"hits":{"hits":[{"_id":"` + strings.Repeat("00", 32) + `","sort":[1,-2]}]}}`),
		"half of it":     says(`{"timed_out":true,"hits":{"hits":[]}}`),
		"without end": func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 1<<20)); err != nil {
					return
				}
			}
		},
		"broken off": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "{")
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodPut { // which makes the index
					answer(w, r)
				}
			}))
			defer server.Close()
			x, err := opensearch.Open(t.Context(), opensearch.Config{URL: server.URL})
			if err != nil {
				t.Fatalf("Open() = %v", err)
			}
			defer x.Close()
			if hits, err := x.Query(t.Context(), search.Query{Limit: 1}); !problem.Is(err, problem.Unavailable) {
				t.Errorf("Query() = %v, %v, want unavailable", hits, err)
			}
		})
	}
}

func says(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }
}

func TestTheNameAndPasswordAreSentAndNeverShown(t *testing.T) {
	var user, password atomic.Value
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u, p, _ := r.BasicAuth()
		user.Store(u)
		password.Store(p)
		if r.Method != http.MethodPut {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	defer server.Close()
	x, err := opensearch.Open(t.Context(), opensearch.Config{URL: server.URL, Username: "indexer", Password: "swordfish"})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	_, err = x.Count(t.Context())
	if err == nil || strings.Contains(err.Error(), "swordfish") {
		t.Errorf("Count() = %v, want a refusal that does not tell the password", err)
	}
	if user.Load() != "indexer" || password.Load() != "swordfish" {
		t.Errorf("the cluster saw %v:%v, want what was configured", user.Load(), password.Load())
	}
}

func TestWrongSettingsAreRefusedByName(t *testing.T) {
	for name, cfg := range map[string]opensearch.Config{
		"no URL":             {},
		"plain HTTP afar":    {URL: "http://search.example"},
		"another scheme":     {URL: "ftp://127.0.0.1"},
		"a name in the URL":  {URL: "https://u:p@search.example"},
		"a query in the URL": {URL: "https://search.example?x"},
		"no index's name":    {URL: "https://search.example", Name: "../_all"},
		"upper case":         {URL: "https://search.example", Name: "Cards"},
		"a dash in front":    {URL: "https://search.example", Name: "-cards"},
		"fewer than none":    {URL: "https://search.example", Replicas: -1},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := opensearch.Open(t.Context(), cfg)
			var p *problem.Error
			if !errors.As(err, &p) || p.Kind != problem.Malformed || p.Field == "" {
				t.Errorf("Open() = %v, want a refusal that names the setting", err)
			}
		})
	}
}
