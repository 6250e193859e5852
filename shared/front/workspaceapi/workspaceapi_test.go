package workspaceapi_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/workspaceapi"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/workspace"
	"github.com/vacancy-host/vacancy/tests/memhost"
)

const mainFiles = workspaceapi.Path + "/main/files"

// fileHost is a host with an account and a key that reads and writes files.
type fileHost struct {
	*memhost.Host
	acme billing.Account
	key  string
}

func openFiles(t testing.TB) *fileHost {
	h := &fileHost{Host: memhost.Open(t)}
	h.Serve()
	h.acme = h.Account("acme", money.Dollar)
	h.key = h.keyOf(h.acme, billing.KeyOptions{})
	return h
}

func (h *fileHost) keyOf(a billing.Account, o billing.KeyOptions) string {
	o.Scopes = []billing.Scope{billing.ScopeAgents, billing.ScopeRead}
	return h.Key(a, o)
}

func (h *fileHost) want(status int, got memhost.Answer, parts ...string) memhost.Answer {
	h.Helper()
	if got.Status != status {
		h.Errorf("status %d %s, want %d", got.Status, got.Body, status)
	}
	for _, part := range parts {
		if !strings.Contains(got.Body, part) {
			h.Errorf("body %s, want %s", got.Body, part)
		}
	}
	return got
}

func (h *fileHost) put(path, body string, headers ...string) memhost.Answer {
	return h.Do("PUT", mainFiles+"/"+path, h.key, body, append(headers, "Content-Type: application/octet-stream")...)
}

func TestConditionsOfRequests(t *testing.T) {
	h := openFiles(t)
	first := h.want(201, h.put("docs/a.md", "first"), `"path":"docs/a.md"`, `"size":5`)
	tag := first.Header.Get("ETag")
	if len(tag) != 66 {
		t.Errorf("ETag is %q", tag)
	}
	h.want(412, h.put("docs/a.md", "second"), "precondition_failed", "If-Match")
	h.want(412, h.put("docs/a.md", "second", "If-None-Match: *"))
	h.want(412, h.put("docs/a.md", "second", `If-Match: "00"`), "it was changed since it was read")
	h.want(412, h.put("docs/b.md", "second", "If-Match: *"))
	second := h.want(200, h.put("docs/a.md", "second", "If-Match: "+tag)).Header.Get("ETag")
	h.want(412, h.put("docs/a.md", "third", "If-Match: "+tag))
	h.want(200, h.put("docs/a.md", "third", "If-Match: *"))
	for _, header := range []string{"If-Match: abc", `If-Match: "a", "b"`, `If-Match: W/"a"`, `If-Match: ""`} {
		h.want(400, h.put("docs/a.md", "x", header), strings.Split(header, ":")[0])
	}
	got := h.want(200, h.Do("GET", mainFiles+"/docs/a.md", h.key, ""))
	if got.Body != "third" {
		t.Errorf("the file is %q", got.Body)
	}
	h.want(304, h.Do("GET", mainFiles+"/docs/a.md", h.key, "", "If-None-Match: "+got.Header.Get("ETag")))
	h.want(200, h.Do("GET", mainFiles+"/docs/a.md", h.key, "", "If-None-Match: "+second))
	h.want(412, h.Do("DELETE", mainFiles+"/docs/a.md", h.key, "", "If-Match: "+second))
	h.want(204, h.Do("DELETE", mainFiles+"/docs/a.md", h.key, "", "If-Match: "+got.Header.Get("ETag")))
	h.want(404, h.Do("GET", mainFiles+"/docs/a.md", h.key, ""))
	h.want(404, h.Do("DELETE", mainFiles+"/docs/a.md", h.key, ""))
	h.want(201, h.put("docs/a.md", ""))
	h.WantWhole(h.Store)
}

// A browser downloads a stored page, and runs nothing of it on the host's origin.
func TestAFileIsAnAttachment(t *testing.T) {
	h := openFiles(t)
	h.want(201, h.put("a/"+url.PathEscape("ü \".html"), "<script>alert(1)</script>", "Content-Type: text/html"))
	got := h.want(200, h.Do("GET", mainFiles+"/a/"+url.PathEscape("ü \".html"), h.key, ""))
	for name, want := range map[string]string{
		"Content-Type": "application/octet-stream", "X-Content-Type-Options": "nosniff", "Content-Security-Policy": "sandbox; default-src 'none'",
		"Cache-Control": "no-store", "Content-Disposition": "attachment; filename*=utf-8''%C3%BC%20%22.html",
	} {
		if got.Header.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, got.Header.Get(name), want)
		}
	}
	if head := h.Do("HEAD", mainFiles+"/a/"+url.PathEscape("ü \".html"), h.key, ""); head.Status != 200 || head.Header.Get("ETag") != got.Header.Get("ETag") {
		t.Errorf("HEAD = %d %v", head.Status, head.Header)
	}
}

func TestPathsThatAreRefused(t *testing.T) {
	h := openFiles(t)
	for _, path := range []string{
		"", "../x", "a/../../../../v1/keys", "a/../b", "./a", "a//b", "a/", "%2e%2e/x", "..%2fx", "a%2f..%2fb", "%2fetc", `a%5cb`, "a%00b", "a%0ab", "%ff", strings.Repeat("a", 401),
	} {
		for _, method := range []string{"GET", "PUT", "DELETE"} {
			r := httptest.NewRequest(method, "http://127.0.0.1:1/", nil)
			if err := parse(r.URL, mainFiles+"/"+path); err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+h.key)
			w := httptest.NewRecorder()
			h.Public.ServeHTTP(w, r)
			if w.Code != 400 && w.Code != 404 || w.Code == 404 && path != "" || !strings.Contains(w.Body.String(), `"code":`) {
				t.Errorf("%s %q = %d %s", method, path, w.Code, w.Body)
			}
		}
	}
	for _, name := range []string{"Main", "..", "a%2fb", "~", strings.Repeat("a", 33)} {
		if got := h.Do("GET", workspaceapi.Path+"/"+name+"/files/x", h.key, ""); got.Status != 400 {
			t.Errorf("workspace %s: %d %s", name, got.Status, got.Body)
		}
	}
	h.want(404, h.Do("GET", workspaceapi.Path+"/drafts/files", h.key, ""), "there is no workspace drafts")
	h.want(413, h.put("large", strings.Repeat("x", workspace.MaxFileBytes+1)), "1048576")
	h.want(201, h.put("large", strings.Repeat("x", workspace.MaxFileBytes)))
	h.want(409, h.put("LARGE", "x"), "the spelling of the existing file")
	if got := h.Do("GET", workspaceapi.Path, h.key, ""); !strings.Contains(got.Body, `"files":1`) {
		t.Errorf("workspaces are %s", got.Body)
	}
}

// parse sets a path as a client sends it.
func parse(u *url.URL, path string) error {
	p, err := url.PathUnescape(path)
	u.Path, u.RawPath = p, path
	return err
}

func TestWhoMayReadAndWrite(t *testing.T) {
	h := openFiles(t)
	h.want(201, h.put("a.md", "secret"))
	other := h.keyOf(h.Account("other", money.Dollar), billing.KeyOptions{})
	h.want(404, h.Do("GET", mainFiles+"/a.md", other, ""))
	if got := h.Do("GET", mainFiles, other, ""); got.Body != `{"files":[],"next":""}`+"\n" {
		t.Errorf("another account lists %s", got.Body)
	}
	agents := h.Key(h.acme, billing.KeyOptions{Scopes: []billing.Scope{billing.ScopeAgents}})
	reads := h.Key(h.acme, billing.KeyOptions{Scopes: []billing.Scope{billing.ScopeRead}})
	h.want(403, h.Do("GET", mainFiles+"/a.md", agents, ""), "scope_required", "read")
	h.want(403, h.Do("GET", mainFiles+"/a.md", reads, ""), "scope_required", "agents")
	h.want(403, h.Do("PUT", mainFiles+"/b.md", reads, "x"))
	h.want(201, h.Do("PUT", mainFiles+"/b.md", agents, "x"))
	h.want(401, h.Do("GET", mainFiles+"/a.md", "", ""))
	test := h.keyOf(h.acme, billing.KeyOptions{Test: true})
	h.want(403, h.Do("GET", mainFiles+"/a.md", test, ""), "test_key")
	h.want(201, h.Do("PUT", workspaceapi.Path+"/test/files/a.md", test, "x"))
	if got := h.Do("GET", workspaceapi.Path, test, ""); strings.Contains(got.Body, "main") || !strings.Contains(got.Body, "test") {
		t.Errorf("a test key lists %s", got.Body)
	}
	h.want(404, h.Do("GET", workspaceapi.Path+"/test/files/a.md", h.key, ""), "only test keys")
	if got := h.Do("GET", workspaceapi.Path, h.key, ""); strings.Contains(got.Body, `"test"`) || !strings.Contains(got.Body, "main") {
		t.Errorf("a live key lists %s", got.Body)
	}
	// The operator has workspaces of its own.
	operate := func(method, path, body string) memhost.Answer {
		defer func(public http.Handler) { h.Public = public }(h.Public)
		h.Public = h.Admin()
		return h.Do(method, "http://"+admin.SocketHost+"/v1/admin/workspaces"+path, "", body)
	}
	h.want(201, operate("PUT", "/main/files/op.md", "x"))
	if got := operate("GET", "/main/files", ""); strings.Contains(got.Body, "a.md") || !strings.Contains(got.Body, "op.md") {
		t.Errorf("the operator lists %s", got.Body)
	}
	h.want(204, operate("DELETE", "/main", ""))
	h.want(404, operate("DELETE", "/main", ""))
	// A suspended account reads and writes nothing.
	_, err := h.Billing.SetSuspended(t.Context(), h.acme.ID, true, "")
	h.Must(err)
	h.Clock.Advance(2e9)
	h.want(403, h.put("c.md", "x"), "account_suspended")
	h.want(403, h.Do("GET", mainFiles+"/a.md", h.key, ""), "account_suspended")
	h.WantWhole(h.Store)
}

func TestListsHavePages(t *testing.T) {
	h := openFiles(t)
	for _, name := range []string{"a/1", "a/2", "B", "c"} {
		h.want(201, h.put(name, "x"))
	}
	first := h.want(200, h.Do("GET", mainFiles+"?limit=2", h.key, ""), `"a/1"`, `"a/2"`)
	next := first.JSON["next"].(string)
	h.want(200, h.Do("GET", mainFiles+"?limit=2&cursor="+url.QueryEscape(next), h.key, ""), `"B"`, `"c"`)
	if got := h.Do("GET", mainFiles+"?prefix=a/", h.key, ""); strings.Contains(got.Body, `"B"`) || !strings.Contains(got.Body, `"a/2"`) {
		t.Errorf("prefix a/ lists %s", got.Body)
	}
	h.want(400, h.Do("GET", mainFiles+"?prefix=../", h.key, ""), "path")
	h.want(400, h.Do("GET", mainFiles+"?cursor=x", h.key, ""), "cursor")
	h.want(204, h.Do("DELETE", workspaceapi.Path+"/main", h.key, ""))
	if got := h.Do("GET", workspaceapi.Path, h.key, ""); got.Body != `{"workspaces":[]}`+"\n" {
		t.Errorf("workspaces are %s", got.Body)
	}
	h.WantWhole(h.Store)
}
