package web

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/security"

	"github.com/vacancy-host/vacancy/shared/host/vacants"
)

// hostile is a capability that tries to be more than text.
const hostile = `<script>globalThis.hacked = 1</script><img src=x onerror="globalThis.hacked=1"> {{.Host}} javascript:alert(1) "' &amp; ` + "\u202egnp.exe "

// directory is a host with published vacants, one of them hostile, and one that is not
// published.
func directory(t *testing.T) *hosted {
	t.Helper()
	h := newHost(t)
	for i := range 21 {
		h.publish(fmt.Sprintf("agent-%02d", i))
	}
	for name, capability := range map[string]string{"hostile": hostile + strings.Repeat("W", 4000), "hidden": "Is found by its address only"} {
		made, err := h.Vacants.Create(t.Context(), vacants.CreateSpec{Name: name, Capability: strings.ReplaceAll(capability, "\u202e", ""), Substrate: "echo"})
		if err == nil && name == "hostile" {
			_, _, err = h.Vacants.Publish(t.Context(), made.ID, vacants.PublishOptions{})
		}
		must(t, err)
	}
	h.seal(22)
	// The index follows the registry.
	for end := time.Now().Add(hang); strings.Count(h.get("/web/search?q=echoes"), `class="card"`) < 20; {
		if time.Now().After(end) {
			t.Fatal("the published vacants are not found")
		}
	}
	return h
}

func TestPagesAreAccessible(t *testing.T) {
	t.Parallel()
	h := directory(t)
	for name, path := range map[string]string{
		"home": "/web/", "search": "/web/search?q=echoes", "nothing-found": "/web/search?q=zebra", "vacant": "/web/vacants/agent-01", "hostile": "/web/vacants/hostile",
		"hidden": "/web/vacants/hidden", "unknown": "/web/vacants/nobody", "keys": "/web/keys", "event": "/web/log/1",
	} {
		t.Run(name, func(t *testing.T) {
			newPage(t, h.url+path).accessible("page-" + name)
		})
	}
}

func TestVacantsAreVerifiedInPlace(t *testing.T) {
	t.Parallel()
	h := directory(t)
	for _, name := range []string{"agent-01", "hostile", "hidden"} {
		tab := newPage(t, h.url+"/web/vacants/"+name)
		tab.until(`document.getElementById("card-check").textContent === "✓ verified"`)
		tab.until(`[...document.querySelectorAll(".event-check")].every((e) => e.textContent === "✓ verified")`)
		var hacked bool
		if tab.eval(`"hacked" in globalThis`, &hacked); hacked {
			t.Errorf("%s ran a script", name)
		}
	}
}

// A page of 20 results is small. TestThePageOfAVacantIsSmall bounds the page of a vacant.
func TestAPageOfResultsIsSmall(t *testing.T) {
	t.Parallel()
	h := directory(t)
	if n := len(h.get("/web/search?q=echoes")); n > 60_000 {
		t.Errorf("a page of results has %d bytes", n)
	} else {
		t.Logf("a page of results: %d bytes", n)
	}
}

// Search, vacant and log pages work without JavaScript.
func TestPagesWorkWithoutJavaScript(t *testing.T) {
	t.Parallel()
	h := directory(t)
	tab := newPage(t, h.url+"/web/")
	call(tab, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	tab.visit(h.url + "/web/")
	tab.fill("#q", "agent-07")
	tab.follow("form[role=search] button")
	tab.follow(".hits a")
	for _, want := range []string{"agent-07", "Echoes agent-07", "Call it from", "✓ verified"} {
		if text := tab.text("main"); !strings.Contains(text, want) {
			t.Errorf("the page has no %q:\n%s", want, text)
		}
	}
	tab.visit(h.url + "/web/log")
	if text := tab.text("main"); !strings.Contains(text, "22 events") || !strings.Contains(text, "vacancy log verify") {
		t.Errorf("the log's page:\n%s", text)
	}
}

// The policy of the pages is the one under which these tests run the module.
func TestPagesHaveThePolicy(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	r, err := http.Get(h.url + "/web/")
	must(t, err)
	r.Body.Close()
	for name, want := range map[string]string{
		"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
		"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin", "Set-Cookie": "",
	} {
		if got := r.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// A page whose program or whose storage does not come says so.
func TestAPageSaysWhatDoesNotWork(t *testing.T) {
	c := newChat(t, vacants.CreateSpec{})
	p := c.tab()
	p.eval(`document.querySelector(".unloaded") === null || Promise.reject("unloaded")`, nil)
	block := func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, ".js") {
			http.NotFound(w, r)
			return true
		}
		return false
	}
	c.hosted.between.Store(&block)
	call(p, network.SetCacheDisabled, network.SetCacheDisabledParams{CacheDisabled: true})
	for path, want := range map[string]string{"/web/vacants/demo": "cannot talk to the agent", "/web/keys": "vacancy init alice", "/web/chains": "vacancy verify FILE"} {
		p.visit(c.url + path)
		p.until(`document.querySelector(".unloaded")?.checkVisibility({ visibilityProperty: true })`)
		if got := p.text(".unloaded"); !strings.Contains(got, want) || !strings.Contains(got, "did not load") {
			t.Errorf("%s says %q", path, got)
		}
	}
	p.accessible("page-unloaded")
	if faults := strings.Join(p.takeFaults(), "\n"); !strings.Contains(faults, "missing asset") {
		t.Errorf("the faults are %q", faults)
	}

	silent := newChat(t, vacants.CreateSpec{}).prepared(`Object.defineProperty(window, "indexedDB", { value: { open: () => new EventTarget() } });`)
	silent.until(`document.querySelector("#talk .copy") !== null`)
	expect(t, "the page", silent.text("#talk"), "its storage does not answer", "vacancy call http")
}

// The pages work at https://localhost, as at http://127.0.0.1.
func TestPagesWorkByHTTPSOnLoopback(t *testing.T) {
	h := newHTTPSHost(t)
	if _, err := h.Vacants.Create(t.Context(), vacants.CreateSpec{Name: "demo", Capability: "Echoes", Substrate: "echo"}); err != nil {
		t.Fatal(err)
	}
	p := newProfile(t, h.url).open("about:blank")
	call(p, security.SetIgnoreCertificateErrors, security.SetIgnoreCertificateErrorsParams{Ignore: true})
	p.visit(h.url + "/web/vacants/demo")
	p.until(`document.getElementById("card-check").textContent === "✓ verified"`)
	p.say("hello")
	expect(t, "the page", p.heard(1), "hello")
	p.verified()
}
