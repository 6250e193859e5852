//go:build unix

package lambda

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/edge"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/front/web/webpath"
	"github.com/vacancy-host/vacancy/tests/awshost"
)

const edgeSecret = "q4mZk2v9XcT7bN1sWgRj8pLdYfHa0uEoIiQyVtGz3KB"

// functionURL serves a function at a URL, as Lambda does.
func functionURL(t *testing.T, f *Function) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := NewEvent(r.URL.RequestURI(), nil)
		for name := range r.Header {
			e.Headers[strings.ToLower(name)] = r.Header.Get(name)
		}
		answer, err := f.Send(r.Context(), e.Encode())
		if err != nil {
			t.Errorf("%s: %v\n%s", r.URL, err, f.Log())
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		for name, value := range answer.Headers {
			w.Header().Set(name, value)
		}
		w.WriteHeader(answer.Status)
		_, _ = io.WriteString(w, answer.Body)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// stageOf runs the functions that pages read, and returns them and web's environment.
func stageOf(t *testing.T, host *awshost.Host, more ...string) (map[string]*Function, []string) {
	t.Helper()
	_, blobs := bucket(t)
	env := []string{"VACANCY_EDGE_SECRET=" + edgeSecret}
	more = append(more, env...)
	all := map[string]*Function{"search": run(t, "search", host, append(blobs, more...)...)}
	for _, f := range []functions.Function{functions.Agent, functions.Message, functions.Registry} {
		all[f.Name] = run(t, f.Name, host, more...)
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		env = append(env, "VACANCY_"+strings.ToUpper(name)+"_URL="+functionURL(t, all[name]))
	}
	return all, env
}

// throughEdge is an event as CloudFront sends it for a reader.
func throughEdge(path, reader string) Event {
	e := NewEvent(path, nil)
	e.Headers[strings.ToLower(edge.SecretHeader)], e.Headers["cloudfront-viewer-address"] = edgeSecret, reader+":4711"
	return e
}

func get(t *testing.T, f *Function, e Event) Response {
	t.Helper()
	r, err := f.Send(t.Context(), e.Encode())
	if err != nil {
		t.Fatalf("%s: %v\n%s", e.RawPath, err, f.Log())
	}
	return r
}

// The pages are made by the functions of a stage, which have the same answers for everybody.
func TestPagesOfAStageShowWhatItsFunctionsTell(t *testing.T) {
	host := registered(t)
	id := sampleVacant.ID().String()
	all, env := stageOf(t, host)
	// No function answers a request that bypasses the edge.
	for name, f := range all {
		if r := get(t, f, NewEvent("/", nil)); r.Status != 403 {
			t.Errorf("%s without the edge's secret = %d, want 403", name, r.Status)
		}
	}
	pages := run(t, "web", host, env...)
	const reader = "198.51.100.7"
	open := get(t, pages, throughEdge(webpath.VacantPath("sample"), reader))
	if open.Status != 200 || !strings.Contains(open.Body, "not published") || !strings.Contains(open.Headers["X-Robots-Tag"]+open.Headers["x-robots-tag"], "noindex") {
		t.Errorf("a vacant that is not published = %d %v %s", open.Status, open.Headers, open.Body)
	}
	published := run(t, "registry", host)
	publish(t, published, sampleHalo(time.Now()), 200, "")
	checkpointer := run(t, "checkpointer", host)
	invoke(t, checkpointer, "checkpointer-schedule.json")
	for _, tt := range []struct {
		path   string
		status int
		says   string
	}{
		{webpath.Path, 200, `href="/web/vacants/`}, {"/web/search?q=echoes", 200, "echoes"},
		{webpath.VacantPath("sample"), 200, awshost.URL + "/v/sample/"}, {webpath.VacantPath(id), 200, "What it has signed"},
		{"/web/log", 200, `href="/web/log/1"`}, {"/web/log/1", 200, id},
		{webpath.VacantPath("nobody"), 404, "not_found"}, {"/web/nothing", 404, "not_found"}, {"/web/search?max_price=much", 400, "max_price"},
	} {
		r := get(t, pages, throughEdge(tt.path, reader))
		if r.Status != tt.status || !strings.Contains(r.Body, tt.says) {
			t.Errorf("%s = %d %s, want %d with %q\n%s", tt.path, r.Status, r.Body, tt.status, tt.says, pages.Log())
		}
	}
	if r := get(t, pages, NewEvent(webpath.Path, nil)); r.Status != 403 {
		t.Errorf("a request that bypasses the edge = %d, want 403", r.Status)
	}
	root := get(t, all["agent"], throughEdge("/", reader))
	browser := throughEdge("/v/sample", reader)
	browser.Headers["accept"] = "text/html,application/xhtml+xml,*/*;q=0.8"
	card := get(t, all["agent"], browser)
	if root.Status != 303 || card.Status != 303 || !strings.Contains(card.Headers["Location"]+card.Headers["location"], webpath.VacantPath("sample")) {
		t.Errorf("agent leads from the root by %d, and from the vacant by %d %v", root.Status, card.Status, card.Headers)
	}
	if strings.Contains(pages.Log(), edgeSecret) {
		t.Error("the log of web has the secret of the edge")
	}
}

// Without an edge no URL leads to all functions, so there is nothing for a page to link to.
func TestAStageWithoutAnEdgeHasNoPages(t *testing.T) {
	host := awshost.New(t)
	pages := run(t, "web", host, "VACANCY_AGENT_URL=http://127.0.0.1:1", "VACANCY_MESSAGE_URL=http://127.0.0.1:1", "VACANCY_REGISTRY_URL=http://127.0.0.1:1", "VACANCY_SEARCH_URL=http://127.0.0.1:1")
	replay(t, pages, []step{{"web-home.json", 404, `"code":"not_found"`}, {"web-vacant.json", 404, "CloudFront"}})
	if root := get(t, run(t, "agent", host), NewEvent("/", nil)); root.Status == 303 {
		t.Errorf("agent leads to pages that do not exist: %v", root.Headers)
	}
}
