package web

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/storage"
	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch/memorybook"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// prepared opens a tab whose page runs a script first.
func (c *chat) prepared(script string) *page {
	c.t.Helper()
	p := c.profile.open("about:blank")
	call(p, cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{Source: script})
	p.visit(c.url + "/web/vacants/demo")
	return p
}

// passed marks a request of forward.
const passed = "Test-Passed"

// forward lets the host answer a request, and returns the answer.
func (c *chat) forward(r *http.Request, body []byte) (int, http.Header, []byte) {
	q, err := http.NewRequestWithContext(r.Context(), r.Method, c.url+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		panic(err)
	}
	q.Header = r.Header.Clone()
	q.Header.Set(passed, "1")
	res, err := http.DefaultClient.Do(q)
	if err != nil {
		panic(http.ErrAbortHandler) // the page is gone
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	return res.StatusCode, res.Header, answer
}

// noStream refuses calls by A2A, so that the page takes the signed path.
func noStream(w http.ResponseWriter, r *http.Request) bool {
	if strings.Contains(r.URL.Path, "/a2a/") {
		return false
	}
	http.Error(w, "{}", http.StatusNotFound)
	return true
}

func TestTwoTabsCallOneAfterTheOther(t *testing.T) {
	c := newChat(t, vacants.CreateSpec{})
	a := c.tab()
	a.say("zero")
	a.heard(1)
	b := c.tab()
	b.heard(1)
	release := make(chan bool)
	c.play(func(question string, w http.ResponseWriter) {
		<-release
		reply(w, "done "+question)
	})
	a.say("one")
	await.Until(t, "the agent is asked", func() bool { return len(c.questions()) == 2 })
	b.say("two")
	b.until(`document.querySelector("#talk-state").textContent.startsWith("Another tab")`)
	close(release)
	a.hears(2, "done one")
	// The second tab also shows what the first one said meanwhile.
	b.hears(3, "done two")
	c.wasAsked("zero", "one", "two")
	a.verified()
	b.verified()
}

// A killed tab leaves the signed bytes. The next tab sends the same bytes, and the agent is asked once.
func TestTheNextTabFinishesTheCallOfAKilledTab(t *testing.T) {
	for name, script := range map[string]string{
		"after signing":    `() => {}`,
		"after sending":    `(real, args) => { real(...args).catch(() => {}); }`,
		"after the answer": `async (real, args) => { const answer = await real(...args); await answer.text(); }`,
	} {
		t.Run(name, func(t *testing.T) {
			c := newChat(t, vacants.CreateSpec{})
			p := c.prepared(`{ const real = window.fetch, act = ` + script + `; window.fetch = async (...args) => {
				if (args[1]?.method !== "POST") return real(...args);
				await act(real, args);
				window.reached = true;
				return new Promise(() => {});
			}; }`)
			p.until(`document.querySelector("#message") !== null`)
			p.say("once")
			p.until("window.reached")
			var kept string
			p.eval(`new Promise((done) => { indexedDB.open("vacancy").onsuccess = (e) => { e.target.result.transaction("pairs").objectStore("pairs").getAll().onsuccess = (r) => done(r.target.result[0].sent[0].signature); }; })`, &kept)
			if name == "after sending" {
				await.Until(t, "the agent is asked", func() bool { return len(c.questions()) == 1 })
			}
			p.close()
			next := c.tab()
			next.hears(1, "You said: once")
			next.verified()
			for i, signature := range c.posts() {
				if signature != kept {
					t.Errorf("post %d has signature %s, want the kept %s", i, signature, kept)
				}
			}
			if got := c.questions(); len(got) != 1 || len(c.posts()) == 0 {
				t.Errorf("the agent was asked %q after %d posts", got, len(c.posts()))
			}
		})
	}
}

func TestALostAnswerIsAskedForWithTheSameBytes(t *testing.T) {
	c := newChat(t, vacants.CreateSpec{})
	lost := 0
	c.intercept(func(w http.ResponseWriter, r *http.Request, body []byte) bool {
		if noStream(w, r) {
			return true
		}
		if lost++; lost > 2 {
			return false
		}
		c.forward(r, body)
		panic(http.ErrAbortHandler)
	})
	p := c.tab()
	p.say("hello")
	p.hears(1, "You said: hello")
	p.verified()
	posts := slices.Compact(c.posts())
	if len(posts) != 1 || len(c.questions()) != 1 {
		t.Errorf("%d different posts, %d questions, want one of each", len(posts), len(c.questions()))
	}
}

func TestNothingIsSentThatIsNotStored(t *testing.T) {
	c := newChat(t, vacants.CreateSpec{})
	// The browser checks its quota at the first write, and later only now and then: a full database is played.
	p := c.prepared(`{ const begin = IDBDatabase.prototype.transaction; IDBDatabase.prototype.transaction = function (names, mode, ...more) {
		if (window.full && mode === "readwrite") throw new DOMException("full", "QuotaExceededError");
		return begin.call(this, names, mode, ...more);
	}; }`)
	none := 1.0
	call(p, storage.OverrideQuotaForOrigin, storage.OverrideQuotaForOriginParams{Origin: c.url, QuotaSize: &none})
	p.until(`document.querySelector("#message") !== null`)
	p.say("first")
	expect(t, "the page", p.refused(), "key could not be stored", "Free some space")
	call(p, storage.OverrideQuotaForOrigin, storage.OverrideQuotaForOriginParams{Origin: c.url})
	p.click(".refused button")
	p.hears(1, "You said: first")
	before := len(c.posts())
	p.eval("window.full = true", nil)
	p.say("never")
	p.refuses("is full")
	if n := len(c.posts()); n != before {
		t.Errorf("%d posts were sent with a full storage", n-before)
	}
	p.eval(`window.full = false; document.querySelector(".refused").remove()`, nil)

	// An answer that cannot be stored does not move the chain, and comes again.
	p.eval(`{ const real = window.fetch; window.fetch = async (...a) => { const r = await real(...a); window.full = a[1]?.method === "POST"; return r; }; }`, nil)
	p.say("second")
	p.refuses("is full")
	p.visit(c.url + "/web/vacants/demo")
	p.hears(2, "You said: second")
	p.verified()
	c.wasAsked("first", "second")

	denied := newChat(t, vacants.CreateSpec{}).prepared(`Object.defineProperty(window, "indexedDB", { value: { open() { throw new DOMException("access is denied", "SecurityError"); } } });`)
	denied.until(`document.querySelector("#talk .copy") !== null`)
	expect(t, "the page", denied.text("#talk"), "access is denied", "vacancy call http", "not Your message")
}

// An answer that does not verify is refused, the chain does not move, and the true answer counts later.
func TestDamagedAnswersAreRefused(t *testing.T) {
	key, err := identity.NewKey(rand.Reader)
	must(t, err)
	stranger, err := identity.NewKey(rand.Reader)
	must(t, err)
	c := newChat(t, vacants.CreateSpec{Key: key})
	p := c.tab()
	p.say("first")
	p.heard(1)
	heard := 1
	for _, d := range []struct {
		name, want string
		damage     func(*envelope.Envelope) identity.Signer
	}{
		{"wrong signer", "the vacant did not sign it", func(*envelope.Envelope) identity.Signer { return stranger }},
		{"changed text", "the vacant did not sign it", func(e *envelope.Envelope) identity.Signer { e.Payload.Parts[0] += "!"; return nil }},
		{"wrong binding", "it answers another request", func(e *envelope.Envelope) identity.Signer {
			e.IdempotencyKey = envelope.ReplyKey(identity.Hash{1})
			return key
		}},
		{"another caller", "or another caller", func(e *envelope.Envelope) identity.Signer { e.To = stranger.ID(); return key }},
		{"gap", "does not follow answer", func(e *envelope.Envelope) identity.Signer { e.Seq++; return key }},
		{"fork", "does not follow answer", func(e *envelope.Envelope) identity.Signer { e.Prev = identity.Hash{2}; return key }},
	} {
		c.intercept(func(w http.ResponseWriter, r *http.Request, body []byte) bool {
			if noStream(w, r) {
				return true
			}
			status, header, answer := c.forward(r, body)
			e, err := envelope.DecodeResponse(answer)
			if err != nil {
				t.Errorf("%s: the host answered %d: %s", d.name, status, answer)
				return false
			}
			if signer := d.damage(&e); signer != nil {
				if _, err := e.Sign(t.Context(), signer); err != nil {
					t.Error(err)
				}
			}
			w.Header().Set("Content-Type", header.Get("Content-Type"))
			_, _ = w.Write(envelope.AppendResponse(nil, []byte(`"x"`), &e))
			return true
		})
		p.say(d.name)
		if got := p.refused(); !strings.Contains(got, d.want) {
			t.Errorf("%s: the page shows %q, want %q", d.name, got, d.want)
		}
		c.intercept(nil)
		p.click(".refused button")
		heard++
		p.hears(heard, "You said: "+d.name)
	}
	p.verified()
}

func TestClocksThatDiffer(t *testing.T) {
	for name, minutes := range map[string]int{"ahead": 10, "behind": -10} {
		t.Run(name, func(t *testing.T) {
			c := newChat(t, vacants.CreateSpec{})
			p := c.prepared(fmt.Sprintf(`{ const real = Date.now; Date.now = () => real() + %d; }`, minutes*60_000))
			for i := range 2 {
				p.until(`document.querySelector("#message") !== null`)
				p.say("what time is it")
				p.hears(i+1, "You said: what time is it")
			}
			p.verified()
		})
	}
	c := newChat(t, vacants.CreateSpec{})
	p := c.prepared(`{ const real = Date.now; Date.now = () => real() + 7200_000; }`)
	p.until(`document.querySelector("#message") !== null`)
	p.say("hello")
	expect(t, "the page", p.refused(), "differ by 7200 seconds", "Set the clock")
}

// A page corrects its clock once in a turn. A host that names another time again cannot make it
// sign on and on.
func TestAClockIsCorrectedOnce(t *testing.T) {
	c := newChat(t, vacants.CreateSpec{})
	var asked atomic.Int64
	c.intercept(func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		if !noStream(w, r) {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"detail":"x","code":"clock","now":%q}`, canon.FormatTime(time.Now().Add(time.Duration(asked.Add(1))*10*time.Minute)))
		}
		return true
	})
	p := c.tab()
	p.say("what time is it")
	if got := p.refused(); !strings.Contains(got, "Set the clock") || asked.Load() != 2 {
		t.Errorf("after %d requests the page shows %q", asked.Load(), got)
	}
}

// A page reads receipts of its own host only, because it signs the read.
func TestAReceiptElsewhereIsNotShown(t *testing.T) {
	c := newChat(t, vacants.CreateSpec{})
	p := c.tab()
	for i, address := range []string{"//elsewhere.example/v1/account/receipts/1", "https://elsewhere.example/v1/account/receipts/1", "/v1/account", "x/v1/account/receipts/1", "/v1/account/receipts/1"} {
		c.intercept(func(w http.ResponseWriter, r *http.Request, body []byte) bool {
			if noStream(w, r) {
				return true
			}
			status, header, answer := c.forward(r, body)
			w.Header().Set("Content-Type", header.Get("Content-Type"))
			w.Header().Set("Vacancy-Receipt", address)
			w.WriteHeader(status)
			_, _ = w.Write(answer)
			return true
		})
		p.say(address)
		p.heard(i + 1)
		var shown int
		p.eval(`document.querySelectorAll(".receipt").length`, &shown)
		if want := i / 4; shown != want { // only the last address is valid
			t.Errorf("after a receipt at %s the page shows %d receipts, want %d", address, shown, want)
		}
	}
}

// Another program with the same key moves the chain. The page asks before it resets the chain.
func TestAMovedChainIsResetAfterAQuestion(t *testing.T) {
	c := newChat(t, vacants.CreateSpec{})
	p := c.tab()
	p.settings()
	p.click("#exportable")
	p.say("first")
	p.heard(1)
	p.say("second")
	p.heard(2)
	keys := c.profile.open(c.url + "/web/keys")
	keys.until(`document.querySelector("#keys button") !== null`)
	key := keys.exported()
	target := dispatch.Target{ID: c.id, Name: "demo", URL: c.url + "/v/" + c.id.String() + "/a2a/message/send"}
	other := dispatch.Caller{Signer: key, Book: new(memorybook.Book), Transport: dispatch.NewHTTP(dispatch.HTTPOptions{}), AutoReset: true}
	if _, err := other.Call(t.Context(), target, envelope.Message{Role: envelope.RoleUser, Parts: []string{"from elsewhere"}}); err != nil {
		t.Fatal(err)
	}
	p.say("third")
	p.refuses("moved by another holder of this key")
	if slices.Contains(c.questions(), "third") {
		t.Error("the agent was asked before the reset")
	}
	p.click(".refused button")
	p.hears(3, "You said: third")
	expect(t, "the page", p.text(".note"), "reset")
	p.verified()
}

func TestASlowVacantIsWaitedFor(t *testing.T) {
	c := newChat(t, vacants.CreateSpec{CallTimeout: 5 * time.Minute})
	c.intercept(func(w http.ResponseWriter, r *http.Request, _ []byte) bool { return noStream(w, r) })
	release := make(chan bool)
	c.play(func(question string, w http.ResponseWriter) {
		<-release
		reply(w, "I thought about "+question)
	})
	p := c.tab()
	p.say("life")
	p.until(`document.querySelector("#talk-state").textContent.includes("needs more time")`)
	p.until(`/^\d+ s, up to 5 min$/.test(document.querySelector("#elapsed").textContent)`)
	p.accessible("talk-waiting")
	p.click("#stop")
	p.refuses("You stopped waiting")
	p.click(".refused button")
	p.until(`document.querySelector("#talk-state").textContent.includes("needs more time")`)
	close(release)
	p.hears(1, "I thought about life")
	p.verified()
	if n := len(slices.Compact(c.posts())); n != 1 || len(c.questions()) != 1 {
		t.Errorf("%d different posts, questions %q", n, c.questions())
	}
}

// A stream does not say when its answer is due, so the page asks.
func TestAStreamIsWaitedForWithALimit(t *testing.T) {
	c := newChat(t, vacants.CreateSpec{CallTimeout: 2 * time.Minute})
	release := make(chan bool)
	c.play(func(question string, w http.ResponseWriter) {
		<-release
		reply(w, "I thought about "+question)
	})
	p := c.tab()
	p.say("life")
	p.until(`/^\d+ s, up to 2 min$/.test(document.querySelector("#elapsed").textContent)`)
	close(release)
	p.hears(1, "I thought about life")
	p.verified()
	p.eval(`document.querySelector("#elapsed").textContent === "" || Promise.reject("a time")`, nil)
}

// A failed call is told once, and the next one goes on.
func TestAFailedCall(t *testing.T) {
	c := newChat(t, vacants.CreateSpec{})
	c.play(func(_ string, w http.ResponseWriter) { w.WriteHeader(http.StatusBadRequest) })
	p := c.tab()
	p.say("fail")
	p.until(`document.querySelector(".theirs .bad") !== null && document.querySelector("#stop").hidden`)
	expect(t, "the page", p.text(".theirs:last-child"), "The message has no answer")
	c.play(nil)
	p.say("again")
	p.hears(1, "You said: again")
	p.verified()
}

// Also an answer with a price comes in pieces. At its end it names its receipt.
func TestAStreamIsProvisionalUntilTheSignedAnswer(t *testing.T) {
	c := newChat(t, vacants.CreateSpec{})
	c.setPrice(price.Price{Flat: 2000, FreePerSigner: 1, FreePerAddress: 3, FreeTotal: 100})
	release := make(chan bool)
	c.play(func(_ string, w http.ResponseWriter) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "event: delta\ndata: {\"text\":\"one \"}\n\n")
		w.(http.Flusher).Flush()
		<-release
		fmt.Fprint(w, "event: delta\ndata: {\"text\":\"two\"}\n\nevent: done\ndata: {}\n\n")
	})
	p := c.tab()
	p.say("count")
	p.until(`document.querySelector(".provisional .text")?.textContent === "one "`)
	if got := p.text(".provisional"); !strings.Contains(got, "not verified until the signed answer comes") {
		t.Errorf("the page shows %q", got)
	}
	close(release)
	p.hears(1, "one two")
	p.verified()
	var left int
	p.eval(`document.querySelectorAll(".provisional").length`, &left)
	if left != 0 || len(c.posts()) != 1 {
		t.Errorf("%d provisional answers are left, %d posts", left, len(c.posts()))
	}
	p.receipt()
}

// receipt opens the receipt of the last answer, which verifies.
func (p *page) receipt() {
	p.t.Helper()
	p.click(".receipt button")
	p.until(`document.querySelector(".receipt .ok, .receipt .bad") !== null || document.querySelector(".receipt").textContent.includes("could not")`)
	expect(p.t, "the page", p.text(".receipt"), "names this message and this answer, and is signed by the host", `"payment": "free"`)
}

// A receipt that the host did not sign for this call is shown as such.
func TestAReceiptThatDoesNotVerifyIsRefused(t *testing.T) {
	c := newChat(t, vacants.CreateSpec{})
	c.setPrice(price.Price{Flat: 2000, FreePerSigner: 9, FreePerAddress: 9, FreeTotal: 100})
	var mu sync.Mutex
	var first string // the first receipt
	damage := func(s string) string { return s }
	c.intercept(func(w http.ResponseWriter, r *http.Request, body []byte) bool {
		if !strings.HasPrefix(r.URL.Path, "/v1/account/receipts/") {
			return false
		}
		status, _, got := c.forward(r, body)
		if status != http.StatusOK {
			t.Errorf("the receipt: %d %s", status, got)
		}
		mu.Lock()
		defer mu.Unlock()
		if first == "" {
			first = string(got)
		}
		_, _ = io.WriteString(w, damage(string(got)))
		return true
	})
	p := c.tab()
	n := 0
	check := func(says string, f func(string) string) {
		t.Helper()
		mu.Lock()
		damage = f
		mu.Unlock()
		n++
		p.say(fmt.Sprint("number ", n))
		p.heard(n)
		p.click(".receipt button")
		p.until(`document.querySelectorAll(".receipt .ok, .receipt .bad").length === ` + strconv.Itoa(n))
		var got string
		p.eval(`[...document.querySelectorAll(".receipt span")].at(-1).className + ": " + [...document.querySelectorAll(".receipt span")].at(-1).textContent`, &got)
		if !strings.Contains(got, says) {
			t.Errorf("the page shows %q, want %q", got, says)
		}
	}
	same := func(s string) string { return s }
	check("ok: ✓ A free call. The receipt names", same)
	check("bad: ✗ The receipt does not verify: the certified key did not sign the receipt", func(s string) string { return strings.Replace(s, `"charge":0`, `"charge":2000`, 1) })
	check("bad: ✗ The receipt does not verify: certificate: expected an object", func(s string) string { return strings.Replace(s, `"certificate"`, `"nothing"`, 1) })
	check("bad: ✗ The receipt does not verify: receipt: expected an object", func(string) string { return "[]" })
	check("bad: ✗ The receipt is of another call", func(string) string { return first })

	// The last receipt names its message and its answer. It is not shown as verified if one of both
	// is another.
	check("ok: ✓ A free call. The receipt names", same)
	for _, hash := range []string{"requestHash", "replyHash"} {
		p.eval(fmt.Sprintf(`new Promise((done) => { indexedDB.open("vacancy").onsuccess = (e) => {
			const calls = e.target.result.transaction("calls", "readwrite").objectStore("calls");
			calls.getAll().onsuccess = (all) => {
				const call = all.target.result.at(-1);
				window.kept ??= { requestHash: call.requestHash, replyHash: call.replyHash };
				calls.put({ ...call, ...window.kept, %q: "ab".repeat(32) }).onsuccess = () => done(true);
			};
		}; })`, hash), nil)
		other := c.tab()
		other.heard(n)
		other.eval(`[...document.querySelectorAll(".receipt button")].at(-1).click()`, nil)
		other.until(`document.querySelector(".receipt .ok, .receipt .bad") !== null`)
		if got := other.text(".receipt:has(.ok, .bad)"); !strings.Contains(got, "✗ The receipt is of another call") {
			t.Errorf("with another %s the page shows %q", hash, got)
		}
		other.close()
	}

	// At this address the browser has seen the log of another host.
	f := c.answer
	c.publish("sealed")
	c.seal(1)
	c.answers(map[string]string{"/v1/checkpoint": forged(t, 1, 5, "x")})
	p.visit(c.url + "/web/log")
	p.until(`document.querySelector("#log").textContent.includes("first visit")`)
	c.hosted.between.Store(&f)
	p.visit(c.url + "/web/vacants/demo")
	p.heard(n)
	p.click(".receipt button")
	p.until(`document.querySelector(".receipt .ok, .receipt .bad") !== null`)
	expect(t, "the page", p.text(".receipt"), "The log at this address was signed by "+keyOf(t, 1).ID().Short())
}

// Texts of vacants are texts, whatever they contain.
func TestHostileAnswers(t *testing.T) {
	c := newChat(t, vacants.CreateSpec{})
	long := strings.Repeat("w", 16<<10)
	texts := map[string]string{
		"script": `<script>document.title = "ran"</script><img src=x onerror="document.title='ran'">`,
		"link":   "javascript:alert(1) {{.}} ${alert(1)}",
		"turned": "safe \u202egnp.exe\u2066\u200f",
		"long":   long,
		"nul":    "a\x00b\x1b[31m",
	}
	shown := map[string]string{
		"script": texts["script"], "link": texts["link"], "turned": "safe ⟨U+202E⟩gnp.exe⟨U+2066⟩⟨U+200F⟩", "long": long, "nul": "a⟨U+0000⟩b⟨U+001B⟩[31m",
	}
	c.play(func(question string, w http.ResponseWriter) { reply(w, texts[question]) })
	p := c.tab()
	p.view(320, "light")
	n := 0
	for _, name := range []string{"script", "link", "turned", "long", "nul"} {
		p.say(name)
		n++
		p.hears(n, shown[name])
	}
	var state struct {
		Title   string
		Foreign int
		Wide    bool
	}
	p.eval(`({title: document.title, foreign: document.querySelectorAll(".said script, .said img, .said a").length, wide: document.documentElement.scrollWidth > document.documentElement.clientWidth})`, &state)
	if state.Title != "demo · Vacancy" || state.Foreign != 0 || state.Wide {
		t.Errorf("the page is %+v", state)
	}
	p.verified()
}

func TestPagesThatCannotCallShowTheCommand(t *testing.T) {
	c := newChat(t, vacants.CreateSpec{})
	p := c.profile.open(c.url + "/web/vacants/elsewhere")
	p.until(`document.querySelector("#talk .copy") !== null`)
	if got := p.text("#talk"); !strings.Contains(got, "lives at another host") || !strings.Contains(got, `vacancy call 'https://example.org/$(touch%20x)/a2a/message/send' hello`) && !strings.Contains(got, `vacancy call 'https://example.org/$(touch x)/a2a/message/send' hello`) {
		t.Errorf("the page shows %q", got)
	}
	without := c.prepared(`SubtleCrypto.prototype.importKey = () => Promise.reject(new DOMException("no Ed25519", "NotSupportedError"));`)
	without.until(`document.querySelector("#talk .copy") !== null`)
	expect(t, "the page", without.text("#talk"), "cannot sign with Ed25519", "vacancy call "+c.url)
}

// exported exports the only key of the page of keys.
func (p *page) exported() *identity.Key {
	p.t.Helper()
	p.click("#keys .row button")
	p.until(`document.querySelector("#keys a[download]") !== null`)
	folder := p.t.TempDir()
	p.save("#keys a[download]", folder)
	files, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil || len(files) != 1 {
		p.t.Fatalf("saved %q, %v", files, err)
	}
	text, err := os.ReadFile(files[0])
	must(p.t, err)
	seed, err := hex.DecodeString(strings.TrimSpace(string(text)))
	must(p.t, err)
	key, err := identity.KeyFromSeed(seed)
	must(p.t, err)
	return key
}

func TestThePageOfKeys(t *testing.T) {
	c := newChat(t, vacants.CreateSpec{})
	keys := c.profile.open(c.url + "/web/keys")
	keys.until(`document.querySelector("#keys").textContent.includes("has no keys")`)
	p := c.tab()
	p.say("first")
	p.heard(1)
	p.eval(`document.querySelector("#talk details:has(#key)").open = true`, nil)
	p.eval(`{ const s = document.querySelector("#key"); s.value = ""; s.dispatchEvent(new Event("change")); }`, nil)
	p.until(`!document.querySelector("#new-key").hidden`)
	p.click("#exportable")
	p.say("second")
	p.until(`document.querySelectorAll(".theirs").length === 1 && document.querySelector(".theirs .text").textContent === "You said: second"`)
	var ids []string
	p.eval(`[...document.querySelectorAll("#key option")].map((o) => o.value)`, &ids)
	if len(ids) != 3 || ids[2] != "" {
		t.Fatalf("the keys are %q", ids)
	}
	keys.visit(c.url + "/web/keys")
	keys.until(`document.querySelectorAll("#keys article").length === 2`)
	keys.accessible("keys")
	if key := keys.exported(); key.ID().String() != ids[0] {
		t.Errorf("exported %s, want %s", key.ID(), ids[0])
	}
	if got := keys.text("#keys"); !strings.Contains(got, "vacancy init NAME --import vacant-"+ids[0][:12]+".seed") || !strings.Contains(got, "no script can read it") {
		t.Errorf("the page shows %q", got)
	}
	keys.click("#keys article:last-child .row button")
	keys.until(`document.querySelector("#keys [role=alert]") !== null`)
	expect(t, "the page", keys.text("#keys article:last-child"), "Its chains with 1 vacant end", "there is no copy")
	keys.click("#keys article:last-child button.danger")
	keys.until(`document.querySelectorAll("#keys article").length === 1`)
	// The tab that still has the deleted key makes no call with it.
	p.eval(`{ const s = document.querySelector("#key"); s.value = "`+ids[1]+`"; s.dispatchEvent(new Event("change")); }`, nil)
	var left []string
	keys.eval(`new Promise((done) => { indexedDB.open("vacancy").onsuccess = (e) => { e.target.result.transaction("pairs").objectStore("pairs").getAllKeys().onsuccess = (r) => done(r.target.result); }; })`, &left)
	if len(left) != 1 || !strings.HasPrefix(left[0], ids[0]) {
		t.Errorf("the chains left are %q", left)
	}
}

// What a person allows to pay bounds each way of a call.
func TestTheBoundOfThePriceGoesWithEachRequest(t *testing.T) {
	for most, want := range map[string]string{"": "max_price=2000", "0.001": "max_price=1000", "0": "max_price=0"} {
		c := newChat(t, vacants.CreateSpec{})
		c.setPrice(price.Price{Flat: 2000})
		p := c.tab()
		p.settings()
		p.fill("#most", most)
		p.say("paid")
		p.refused()
		address := "/v/" + c.id.String() + "/"
		if diff := cmp.Diff([]string{address + "?" + want, address + "a2a/message/send?" + want}, c.requests()); diff != "" {
			t.Errorf("at most %q (-want +got):\n%s", most, diff)
		}
	}
}
