package remote_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/export"
	"github.com/vacancy-host/vacancy/shared/front/export/remote"
	"github.com/vacancy-host/vacancy/shared/host/answer/hosttest"
	"github.com/vacancy-host/vacancy/shared/host/fsck"
	"github.com/vacancy-host/vacancy/shared/host/fsck/transcript"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/registry/registrytest"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/bolt"
	"github.com/vacancy-host/vacancy/shared/store/memory"
)

// serve exports a host on a listener and opens it like another machine.
func serve(t testing.TB, a *hosttest.Caller, around func(http.Handler) http.Handler) (*remote.Host, error) {
	t.Helper()
	at := a.Time
	h := export.PagesHandler(export.Config{Source: a.Store, Vault: a.Vault, Now: func() time.Time { return at }, Retention: hosttest.Retention})
	if around != nil {
		h = around(h)
	}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return remote.Connect(a.Ctx, remote.Config{HTTP: &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, URL: s.URL, Wait: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }})
}

func check(a *hosttest.Caller, h *remote.Host) (fsck.Result, []fsck.Finding, error) {
	var found []fsck.Finding
	res, err := fsck.Run(a.Ctx, fsck.Config{
		Source: h, Vault: h.Vault(), Now: a.Now, Retention: h.Retention(),
		ReportFinding: func(f fsck.Finding) error {
			if found = append(found, f); len(found) > 1000 {
				return errors.New("too many findings")
			}
			return nil
		},
	})
	return res, found, err
}

func TestAWholeHomeIsWholeFromElsewhere(t *testing.T) {
	for name, st := range map[string]hosttest.Store{"memory": memory.New(), "bolt": openBolt(t)} {
		a := hosttest.Story(t, st)
		h, err := serve(t, a, nil)
		a.Must(err)
		res, found, err := check(a, h)
		want := fsck.Result{Streams: 6, Rows: 37, SealedRows: 12, Vacants: 2, WithheldKeys: 4}
		if diff := cmp.Diff(want, res); diff != "" || err != nil || len(found) > 0 {
			t.Errorf("%s: Run() = %v, %v (-want +got):\n%s", name, found, err, diff)
		}
	}
}

func TestTheEdgesOfARegistryAreCheckedFromElsewhere(t *testing.T) {
	st := memory.New()
	a := hosttest.Story(t, st)
	parent, child := registrytest.Key(1), registrytest.Key(2)
	_, err := a.Vacants.Registry.Publish(a.Ctx, registrytest.NewPublication(t, parent, registrytest.Draft{SignedAt: a.Time}))
	a.Must(err)
	a.Must(a.Vacants.AddManifest(a.Ctx, registrytest.NewManifest(t, parent, child, true)))
	h, err := serve(t, a, nil)
	a.Must(err)
	if res, found, err := check(a, h); len(found) > 0 || res.Registered != 1 || err != nil {
		t.Errorf("Run() = %+v, %v, %v, want one registration and nothing broken", res, found, err)
	}
	stray := registry.ChildEdgeKey(parent.ID(), parent.ID())
	a.Must(st.Commit(a.Ctx, store.Put{Key: stray, WriteID: store.WriteID{1}, Data: []byte{1}}))
	if _, found, err := check(a, h); len(found) != 1 || found[0].Location != stray.String() || err != nil {
		t.Errorf("Run() = %v, %v, want the edge that nobody signed", found, err)
	}
	elsewhere := func(honest http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Query().Get("partition"), "kin#") {
				r.URL.RawQuery = strings.Replace(r.URL.RawQuery, parent.ID().String(), child.ID().String(), 1)
			}
			honest.ServeHTTP(w, r)
		})
	}
	a.Must(st.Commit(a.Ctx, store.Put{Key: registry.ChildEdgeKey(child.ID(), parent.ID()), WriteID: store.WriteID{1}, Data: []byte{1}}))
	h, err = serve(t, a, elsewhere)
	a.Must(err)
	if _, found, err := check(a, h); err == nil {
		t.Errorf("Run() = %v, nil of a host that lists another parent's edges, want an error", found)
	}
}

func openBolt(t testing.TB) *bolt.Store {
	t.Helper()
	s, err := bolt.Open(filepath.Join(t.TempDir(), "vacancy.db"), bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestAHistoryIsTheSameFromElsewhere(t *testing.T) {
	a := hosttest.Story(t, memory.New())
	h, err := serve(t, a, nil)
	a.Must(err)
	for _, tc := range []struct {
		from string
		last uint64
	}{{a.Pair().Caller.String(), 0}, {a.Pair().Caller.String()[:8], 0}, {a.Pair().Caller.String(), 5}} {
		read := func(w store.Walker, v custody.Vault) (told []transcript.Entry) {
			a.Must(w.Walk(a.Ctx, func(view store.View) error {
				p, err := transcript.Find(a.Ctx, view, tc.from, "demo")
				a.Must(err)
				return transcript.Read(a.Ctx, view, textkeys.NewReader(view, v, a.Now, hosttest.Retention), p, tc.last, func(e transcript.Entry) error {
					told = append(told, e)
					return nil
				})
			}))
			return told
		}
		want, got := read(a.Store, a.Vault), read(h, h.Vault())
		if diff := cmp.Diff(want, got); diff != "" || len(got) == 0 {
			t.Errorf("Read(%s, last %d) from elsewhere (-home +elsewhere):\n%s", tc.from, tc.last, diff)
		}
	}
}

// liar changes some answers: change gets the decoded answer of a path and may
// return another.
func liar(path string, change func(r *http.Request, n int, page map[string]any) any) func(http.Handler) http.Handler {
	return func(honest http.Handler) http.Handler {
		var n atomic.Int64
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != path {
				honest.ServeHTTP(w, r)
				return
			}
			rec := httptest.NewRecorder()
			honest.ServeHTTP(rec, r)
			var page map[string]any
			if json.Unmarshal(rec.Body.Bytes(), &page) != nil || rec.Code != http.StatusOK {
				w.WriteHeader(rec.Code)
				_, _ = w.Write(rec.Body.Bytes())
				return
			}
			_ = json.NewEncoder(w).Encode(change(r, int(n.Add(1)), page))
		})
	}
}

func rowsIn(page map[string]any) []any {
	rows, _ := page["page"].(map[string]any)["rows"].([]any)
	return rows
}

func setRows(page map[string]any, rows []any) {
	for _, part := range []string{"page", "head"} {
		if p, ok := page[part].(map[string]any); ok {
			if part == "page" || len(rows) > 0 {
				p["rows"] = rows
			}
		}
	}
}

// The result is a finding or an error, and the check ends.
func TestAHostThatLiesGetsNoCleanReport(t *testing.T) {
	a := hosttest.Story(t, memory.New())
	other := hosttest.Story(t, memory.New())
	req := base64.RawURLEncoding.EncodeToString([]byte(a.Pair().Requests()))
	rsp := base64.RawURLEncoding.EncodeToString([]byte(a.Pair().Responses()))
	ofRows := func(stream string, change func(part map[string]any)) func(http.Handler) http.Handler {
		return liar("/v1/admin/export/rows", func(r *http.Request, _ int, page map[string]any) any {
			if r.URL.Query().Get("stream") == stream {
				for _, p := range []string{"page", "head"} {
					if part, ok := page[p].(map[string]any); ok {
						change(part)
					}
				}
			}
			return page
		})
	}
	rows := func(part map[string]any) []any { rows, _ := part["rows"].([]any); return rows }
	foreign, err := other.Store.Rows(other.Ctx, other.Pair().Requests(), 1, 16, store.Ascending)
	a.Must(err)
	for name, lie := range map[string]func(http.Handler) http.Handler{
		"rows out of order": ofRows(req, func(p map[string]any) { slices.Reverse(rows(p)) }),
		"rows repeated": ofRows(req, func(p map[string]any) {
			if r := rows(p); len(r) > 3 {
				r[3] = r[2]
			}
		}),
		"the first page again and again": liar("/v1/admin/export/rows", func(r *http.Request, _ int, page map[string]any) any {
			if r.URL.Query().Get("from") == "17" {
				all, _ := a.Store.Rows(a.Ctx, a.Pair().Requests(), 1, 5, store.Ascending)
				setRows(page, encode(all))
			}
			if r.URL.Query().Get("order") == "desc" && len(rowsIn(page)) > 0 {
				rowsIn(page)[0].(map[string]any)["position"] = 40
			}
			return page
		}),
		"a row left out": ofRows(req, func(p map[string]any) {
			if r := rows(p); len(r) > 8 {
				p["rows"] = slices.Delete(r, 7, 8)
			}
		}),
		"rows kept back at the end, and their end with them": ofRows(req, func(p map[string]any) {
			if r := rows(p); len(r) > 12 {
				p["rows"] = r[:12]
			} else if len(r) == 1 {
				all, _ := a.Store.Rows(a.Ctx, a.Pair().Requests(), 12, 1, store.Ascending)
				p["rows"] = encode(all)
			}
		}),
		"no requests at all":  ofRows(req, func(p map[string]any) { p["rows"] = []any{} }),
		"no responses at all": ofRows(rsp, func(p map[string]any) { p["rows"] = []any{} }),
		"another host's rows": ofRows(req, func(p map[string]any) {
			if len(rows(p)) > 1 {
				p["rows"] = encode(foreign)
			}
		}),
		"another stream's rows": liar("/v1/admin/export/rows", func(r *http.Request, _ int, page map[string]any) any {
			if r.URL.Query().Get("stream") == req {
				all, _ := a.Store.Rows(a.Ctx, a.Pair().Responses(), 1, 12, store.Ascending)
				setRows(page, encode(all))
			}
			return page
		}),
		"rows of position 0": ofRows(req, func(p map[string]any) {
			for _, r := range rows(p) {
				r.(map[string]any)["position"] = 0
			}
		}),
		"more rows than asked for": liar("/v1/admin/export/rows", func(r *http.Request, _ int, page map[string]any) any {
			all, _ := a.Store.Rows(a.Ctx, a.Pair().Requests(), 1, 16, store.Ascending)
			if r.URL.Query().Get("order") == "desc" {
				slices.Reverse(all)
				page["page"].(map[string]any)["rows"] = encode(all)
			}
			return page
		}),
		"an attempt of another length": ofRows(req, func(p map[string]any) {
			for _, r := range rows(p) {
				r.(map[string]any)["attempt"] = "AAAA"
			}
		}),
		"the streams in circles": liar("/v1/admin/export/streams", func(_ *http.Request, n int, page map[string]any) any {
			page["next"] = []string{"AAAA", "BBBB", "CCCC", "DDDD", "EEEE"}[n%5]
			page["streams"] = []any{}
			return page
		}),
		"the same streams for ever": liar("/v1/admin/export/streams", func(_ *http.Request, n int, page map[string]any) any {
			if n < 40 {
				page["next"] = base64.RawURLEncoding.EncodeToString([]byte{byte(n), 1, 2})
			}
			return page
		}),
		"streams twice": liar("/v1/admin/export/streams", func(_ *http.Request, _ int, page map[string]any) any {
			page["streams"] = append(page["streams"].([]any), page["streams"].([]any)[0])
			return page
		}),
		"streams without a name": liar("/v1/admin/export/streams", func(_ *http.Request, _ int, page map[string]any) any {
			page["streams"] = append(page["streams"].([]any), "")
			return page
		}),
		"names in circles": liar("/v1/admin/export/docs", func(r *http.Request, _ int, page map[string]any) any {
			if r.URL.Query().Get("partition") != "name" {
				return page
			}
			page["next"] = store.Cursor{Key: store.Key{Partition: "name", Sort: "demo"}}.String()
			return page
		}),
		"names of vacants that are not there": liar("/v1/admin/export/docs", func(r *http.Request, _ int, page map[string]any) any {
			if r.URL.Query().Get("partition") != "name" {
				return page
			}
			docs := page["docs"].([]any)
			docs[0].(map[string]any)["partition"] = "host"
			return page
		}),
		"registrations in circles": liar("/v1/admin/export/docs", func(r *http.Request, _ int, page map[string]any) any {
			if r.URL.Query().Get("index") != "registry" {
				return page
			}
			k := store.Key{Partition: "reg#" + a.Demo.ID.String(), Sort: "card"}
			return export.DocsPage{Docs: []export.Doc{{Partition: k.Partition, Sort: k.Sort, Version: 1, Index: "05"}}, Next: store.Cursor{Key: k, IndexSort: "05"}.String()}
		}),
		"registrations that go back": liar("/v1/admin/export/docs", func(r *http.Request, _ int, page map[string]any) any {
			if r.URL.Query().Get("index") != "registry" {
				return page
			}
			return export.DocsPage{Docs: []export.Doc{{Partition: "reg#a", Sort: "card", Version: 1, Index: "05"}, {Partition: "reg#b", Sort: "card", Version: 1, Index: "04"}}}
		}),
		"revocations of another partition": liar("/v1/admin/export/docs", func(r *http.Request, _ int, page map[string]any) any {
			if r.URL.Query().Get("partition") != "revoked" {
				return page
			}
			return export.DocsPage{Docs: []export.Doc{{Partition: "v#a", Sort: "record", Version: 1}}}
		}),
		"another document": liar("/v1/admin/export/doc", func(_ *http.Request, _ int, page map[string]any) any {
			page["doc"].(map[string]any)["sort"] = "else"
			return page
		}),
		"another's name document": liar("/v1/admin/export/doc", func(r *http.Request, _ int, page map[string]any) any {
			if r.URL.Query().Get("sort") == "demo" {
				d, _ := a.Store.Doc(a.Ctx, store.Key{Partition: "name", Sort: "other"})
				page["doc"].(map[string]any)["data"] = base64.StdEncoding.EncodeToString(d.Data)
			}
			return page
		}),
		"another key of the day": liar("/v1/admin/export/open", func(_ *http.Request, _ int, page map[string]any) any {
			page["secret"] = base64.StdEncoding.EncodeToString(make([]byte, 32))
			return page
		}),
		"no key": liar("/v1/admin/export/open", func(_ *http.Request, _ int, page map[string]any) any {
			return map[string]any{}
		}),
		"pages that do not read": liar("/v1/admin/export/streams", func(_ *http.Request, _ int, _ map[string]any) any { return []int{1} }),
	} {
		t.Run(name, func(t *testing.T) {
			h, err := serve(t, a, lie)
			a.Must(err)
			res, found, err := check(a, h)
			if err == nil && len(found) == 0 {
				t.Errorf("Run() = %+v, nil: a clean report", res)
			}
			if errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Run() = %v: it did not end", err)
			}
		})
	}
}

func encode(rows []store.Row) []any {
	out := make([]any, len(rows))
	for i, r := range rows {
		out[i] = map[string]any{
			"position": r.Position, "attempt": base64.StdEncoding.EncodeToString(r.WriteID[:]), "data": base64.StdEncoding.EncodeToString(r.Data),
		}
	}
	return out
}

func TestTransientRefusalsAreRetriedAndOthersReported(t *testing.T) {
	a := hosttest.Story(t, memory.New())
	refuse := func(status int, header, body string, times int64) func(http.Handler) http.Handler {
		return func(honest http.Handler) http.Handler {
			var n atomic.Int64
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/v1/admin/export" || n.Add(1) > times {
					honest.ServeHTTP(w, r)
					return
				}
				if name, value, ok := strings.Cut(header, ": "); ok {
					w.Header().Set(name, value)
				}
				w.WriteHeader(status)
				fmt.Fprint(w, body)
			})
		}
	}
	for _, tc := range []struct {
		what string
		lie  func(http.Handler) http.Handler
		want problem.Kind // Internal: none
	}{
		{"throttled for a while", refuse(429, "Retry-After: 1", `{"detail":"slow down","code":"too_many"}`, 5), problem.Internal},
		{"away for a while", refuse(503, "", "", 7), problem.Internal},
		{"a gateway without words", refuse(502, "", "<html>", 3), problem.Internal},
		{"away for good", refuse(503, "", `{"detail":"away","code":"unavailable"}`, 1<<40), problem.Unavailable},
		{"the key was rotated meanwhile", refuse(401, "", `{"detail":"that is not the operator's key","code":"unauthorized"}`, 1<<40), problem.Unauthorized},
		{"a redirect", refuse(302, "Location: http://127.0.0.1:1/", "", 1<<40), problem.Forbidden},
		{"a page larger than any", refuse(200, "", strings.Repeat(" ", 9<<20), 1<<40), problem.Untrusted},
	} {
		h, err := serve(t, a, tc.lie)
		a.Must(err)
		_, found, err := check(a, h)
		switch {
		case tc.want == problem.Internal && (err != nil || len(found) > 0):
			t.Errorf("%s: Run() = %v, %v, want a clean report", tc.what, found, err)
		case tc.want != problem.Internal && !problem.Is(err, tc.want):
			t.Errorf("%s: Run() = %v, want %v", tc.what, err, tc.want)
		}
	}
}

func TestAHostOfAnotherFormatIsRefused(t *testing.T) {
	a := hosttest.Story(t, memory.New())
	for name, about := range map[string]any{
		"a later format": map[string]any{"format": export.ExportFormat + 1, "retention_seconds": 86400},
		"no export":      map[string]any{"hello": "world"},
		"no retention":   map[string]any{"format": export.ExportFormat, "retention_seconds": -1},
		"an endless one": map[string]any{"format": export.ExportFormat, "retention_seconds": int64(1) << 50},
	} {
		_, err := serve(t, a, liar("/v1/admin/export", func(*http.Request, int, map[string]any) any { return about }))
		if !problem.Is(err, problem.Untrusted) {
			t.Errorf("Open() of %s = %v, want Untrusted", name, err)
		}
	}
	_, err := remote.Connect(a.Ctx, remote.Config{HTTP: http.DefaultClient, URL: "http://127.0.0.1:1"})
	if !problem.Is(err, problem.Unavailable) {
		t.Errorf("Open() where nobody listens = %v, want Unavailable", err)
	}
	_, err = serve(t, a, func(h http.Handler) http.Handler { return admin.RequireKey(noKey{}, h) })
	if !problem.Is(err, problem.Unauthorized) {
		t.Errorf("Open() without the key = %v, want Unauthorized", err)
	}
}

type noKey struct{}

func (noKey) Check(context.Context, string) error {
	return problem.New(problem.Unauthorized, "that is not the operator's key")
}

func TestSeedsAreWithheldAndNothingIsSealed(t *testing.T) {
	a := hosttest.Story(t, memory.New())
	h, err := serve(t, a, nil)
	a.Must(err)
	if _, err := h.Vault().Open(a.Ctx, "vacant:"+a.Demo.ID.String(), []byte("box")); !errors.Is(err, custody.ErrWithheld) {
		t.Errorf("Open() of a seed = %v, want ErrWithheld", err)
	}
	if _, err := h.Vault().Seal(a.Ctx, "textkey:2026-05-06", nil); !errors.Is(err, custody.ErrWithheld) {
		t.Errorf("Seal() = %v, want ErrWithheld", err)
	}
}

// manyStreams generates n stream names as they are listed.
type manyStreams struct {
	hosttest.Store
	n     int
	twice bool // the first name comes again as the last
}

func (m manyStreams) Walk(ctx context.Context, fn func(store.View) error) error {
	return m.Store.Walk(ctx, func(v store.View) error { return fn(manyView{v, m}) })
}

type manyView struct {
	store.View
	m manyStreams
}

func (v manyView) Streams(_ context.Context, _ store.Stream, n int, cursor string) (names []store.Stream, next string, err error) {
	at := 0
	if cursor != "" {
		name, err := store.ParseStreamCursor(cursor)
		if err != nil {
			return nil, "", err
		}
		at, err = strconv.Atoi(string(name))
		if err != nil {
			return nil, "", err
		}
	}
	for ; len(names) < n && at < v.m.n; at++ {
		i := at
		if v.m.twice && at == v.m.n-1 {
			i = 0
		}
		// An unknown kind: nothing but the listing is measured.
		names = append(names, store.Stream(fmt.Sprintf("odd#%060d", i)))
	}
	if at < v.m.n {
		next = store.StreamCursor(store.Stream(strconv.Itoa(at)))
	}
	return names, next, nil
}

func listAll(ctx context.Context, h *remote.Host) (n int, err error) {
	err = h.Walk(ctx, func(v store.View) error {
		for cursor, more := "", true; more; more = cursor != "" {
			var page []store.Stream
			if page, cursor, err = v.Streams(ctx, "", store.MaxPage, cursor); err != nil {
				return err
			}
			n += len(page)
		}
		return nil
	})
	return n, err
}

func TestTwinsAreFoundHoweverFarApart(t *testing.T) {
	a := hosttest.New(t, memory.New()).Caller()
	sizes := []int{2, 64<<10 + 1}
	if !testing.Short() {
		sizes = append(sizes, 64<<10, 150_000)
	}
	for _, n := range sizes {
		for _, twice := range []bool{false, true} {
			a.Store = manyStreams{a.Store, n, twice}
			h, err := serve(t, a, nil)
			a.Must(err)
			got, err := listAll(a.Ctx, h)
			if twice != problem.Is(err, problem.Untrusted) || !twice && (err != nil || got != n) {
				t.Errorf("Streams() of %d, one twice: %t = %d, %v", n, twice, got, err)
			}
			a.Store = a.Store.(manyStreams).Store
		}
	}
}
