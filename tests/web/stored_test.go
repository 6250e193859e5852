package web

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/vacancy-host/vacancy/shared/front/workspaceapi"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/workspace"
)

// A page that an agent wrote into a workspace runs nothing on the host's origin.
func TestAStoredPageRunsNothing(t *testing.T) {
	h := newHost(t)
	ctx := t.Context()
	a, err := h.Billing.OpenAccount(ctx, "acme", 0)
	must(t, err)
	_, secret, err := h.Billing.MakeKey(ctx, a.ID, billing.KeyOptions{Scopes: []billing.Scope{billing.ScopeAgents, billing.ScopeRead}})
	must(t, err)
	_, err = h.Files.Write(ctx, workspace.Ref{Owner: a.ID, Name: workspace.MainName}, workspace.Change{
		Path: "evil.html", Data: []byte(`<!doctype html><script>parent.document.title = "owned"</script>`),
	})
	must(t, err)
	var asked atomic.Int64
	between := func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case r.URL.Path == "/frame":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprintf(w, `<!doctype html><title>clean</title><iframe src="%s/main/files/evil.html"></iframe>`, workspaceapi.Path)
			return true
		case strings.HasPrefix(r.URL.Path, workspaceapi.Path):
			asked.Add(1)
			r.Header.Set("Authorization", "Bearer "+secret) // as a client would that adds it to each request
		}
		return false
	}
	h.between.Store(&between)
	p := newProfile(t, h.url).open(h.url + "/frame")
	p.eval(`new Promise((done) => setTimeout(() => done(document.title === "clean" || Promise.reject(document.title)), 500))`, nil)
	if asked.Load() == 0 {
		t.Error("the frame did not ask for the file")
	}
}
