package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// chat is a host with one vacant, whose agent the test plays.
type chat struct {
	*hosted
	id      identity.ID
	profile *profile

	mu      sync.Mutex
	asked   []string                                                    // questions that the agent got
	last    exchanges                                                   // with the last question
	agent   func(question string, w http.ResponseWriter)                // nil echoes
	between func(w http.ResponseWriter, r *http.Request, b []byte) bool // before the host, for posts of calls and reads of receipts; reports whether it answered
	signed  []string                                                    // signatures of posted calls, in the order of arrival
	sent    []string                                                    // what the pages posted and the receipts they read, as paths with queries
}

// newChat serves a chat until the test ends.
func newChat(t *testing.T, spec vacants.CreateSpec) *chat {
	t.Helper()
	c := &chat{hosted: newHost(t)}
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			Message string
			exchanges
		}
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			t.Error(err)
		}
		c.mu.Lock()
		c.asked = append(c.asked, q.Message)
		c.last = q.exchanges
		answer := c.agent
		c.mu.Unlock()
		if answer == nil {
			answer = func(question string, w http.ResponseWriter) { reply(w, "You said: "+question) }
		}
		answer(q.Message, w)
	}))
	t.Cleanup(agent.Close)
	spec.Name, spec.Capability, spec.Substrate = "demo", "Repeats what you say", "http:"+agent.URL
	made, err := c.Vacants.Create(t.Context(), spec)
	must(t, err)
	c.id = made.ID
	f := c.answer
	c.hosted.between.Store(&f)
	c.profile = newProfile(t, c.url)
	return c
}

// setPrice gives the vacant a price.
func (c *chat) setPrice(p price.Price) {
	c.t.Helper()
	_, err := c.Vacants.SetPrice(c.t.Context(), c.id, p)
	must(c.t, err)
}

// definition returns the definition of the vacant's agent.
func (c *chat) definition() definition.Agent {
	c.t.Helper()
	record, err := c.Vacants.Get(c.t.Context(), vacants.OperatorAsker(), c.id)
	must(c.t, err)
	return definition.Agent{Provider: substrate.KindHTTP, BaseURL: strings.TrimPrefix(record.Substrate, "http:")}
}

// update gives the vacant another agent.
func (c *chat) update(agent definition.Agent) {
	c.t.Helper()
	_, err := c.Vacants.Update(c.t.Context(), c.id, vacants.Changes{Agent: &agent})
	must(c.t, err)
}

// reply is an agent's answer.
func reply(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]string{"text": text})
}

// answer lets the test stand between the page and the host, and serves the page of a vacant of another host.
func (c *chat) answer(w http.ResponseWriter, r *http.Request) bool {
	if r.URL.Path == "/web/vacants/elsewhere" {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", policy)
		fmt.Fprintf(w, `<!doctype html><html lang="en"><title>elsewhere</title><main><article id="vacant" data-name="elsewhere" data-host=""><h1>elsewhere</h1>
			<section id="talk" data-vacant="%s" data-endpoint="https://example.org/$(touch x)/a2a/message/send" hidden></section></article></main><script type="module" src="/web/assets/h/talk.js"></script></html>`, c.id)
		return true
	}
	if r.Method != http.MethodPost && !strings.HasPrefix(r.URL.Path, "/v1/account/receipts/") {
		return false
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return false
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	c.mu.Lock()
	if r.Header.Get(passed) == "" {
		c.sent = append(c.sent, r.URL.Path+"?"+r.URL.RawQuery)
		if _, after, ok := strings.Cut(string(body), `"caller_signature":"`); ok {
			c.signed = append(c.signed, after[:128])
		}
	}
	between := c.between
	c.mu.Unlock()
	return between != nil && r.Header.Get(passed) == "" && between(w, r, body)
}

// play replaces the agent.
func (c *chat) play(f func(question string, w http.ResponseWriter)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.agent = f
}

// intercept replaces what stands between the page and the host.
func (c *chat) intercept(f func(w http.ResponseWriter, r *http.Request, body []byte) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.between = f
}

// questions returns the questions that the agent got so far.
func (c *chat) questions() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.asked)
}

// wasAsked fails unless the agent has got exactly these questions.
func (c *chat) wasAsked(want ...string) {
	c.t.Helper()
	if got := c.questions(); !slices.Equal(got, want) {
		c.t.Errorf("the agent was asked %q, want %q", got, want)
	}
}

// posts returns the signatures of the posted calls, in the order of arrival.
func (c *chat) posts() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.signed)
}

// requests returns what the pages posted and the receipts they read, as paths with queries, in the order of arrival.
func (c *chat) requests() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.sent)
}

// tab opens the page of the vacant.
func (c *chat) tab() *page {
	c.t.Helper()
	p := c.profile.open(c.url + "/web/vacants/demo")
	p.until(`document.querySelector("#message") !== null`)
	return p
}

// say sends a message, and does not wait for the answer.
func (p *page) say(text string) {
	p.t.Helper()
	p.until(`!document.querySelector("#send").disabled`)
	p.fill("#message", text)
	p.click("#send")
}

// settings opens what is below the message: its key and its price.
func (p *page) settings() {
	p.t.Helper()
	p.eval(`document.querySelector("#talk details").open = true`, nil)
	p.until(`document.querySelector("#most").checkVisibility({ contentVisibilityAuto: true, visibilityProperty: true })`)
}

// heard waits for the n-th answer, counted from 1, and returns its text.
func (p *page) heard(n int) (text string) {
	p.t.Helper()
	p.until(fmt.Sprintf(`document.querySelectorAll(".theirs:not(.provisional) .text").length >= %d && document.querySelector("#stop").hidden`, n))
	p.eval(fmt.Sprintf(`document.querySelectorAll(".theirs:not(.provisional) .text")[%d].textContent`, n-1), &text)
	return text
}

// hears waits for the n-th answer, counted from 1, and fails unless it is want.
func (p *page) hears(n int, want string) {
	p.t.Helper()
	if got := p.heard(n); got != want {
		p.t.Errorf("answer %d is shown as %q, want %q", n, got, want)
	}
}

// refuses waits for a refusal, and fails unless its text contains want.
func (p *page) refuses(want string) {
	p.t.Helper()
	expect(p.t, "the page", p.refused(), want)
}

// refused waits for a refusal, and returns its text.
func (p *page) refused() string {
	p.t.Helper()
	p.until(`document.querySelector(".refused") !== null && document.querySelector("#stop").hidden`)
	return p.text(".refused:last-child")
}

// verified fails unless each shown answer has three checks that verified.
func (p *page) verified() {
	p.t.Helper()
	var states [][]string
	p.eval(`[...document.querySelectorAll(".checks")].map((list) => [...list.children].map((c) => c.dataset.state))`, &states)
	for i, s := range states {
		if strings.Join(s, " ") != "verified verified verified" {
			p.t.Errorf("the checks of answer %d are %v", i+1, s)
		}
	}
	if len(states) == 0 {
		p.t.Error("no answer shows checks")
	}
}

func TestTalkCallsAndVerifies(t *testing.T) {
	c := newChat(t, vacants.CreateSpec{})
	p := c.tab()
	p.say("hello")
	p.hears(1, "You said: hello")
	p.say("it's me")
	p.hears(2, "You said: it's me")
	p.verified()
	var evidence []string
	p.eval(`[...document.querySelectorAll(".said details pre")].map((e) => e.textContent)`, &evidence)
	if len(evidence) != 6 || !strings.Contains(evidence[0], `"sequence_no": 1`) || !strings.Contains(evidence[4], `"idempotency_key": "re:`) {
		t.Errorf("the evidence is %q", evidence)
	}
	want := "vacancy call " + c.url + "/v/" + c.id.String() + ` 'it'\''s me'`
	if last := evidence[len(evidence)-1]; last != want {
		t.Errorf("the command is %s, want %s", last, want)
	}
	// The key cannot leave the browser.
	var taken string
	p.eval(`new Promise((done) => { indexedDB.open("vacancy").onsuccess = (e) => { e.target.result.transaction("keys").objectStore("keys").getAll().onsuccess = (r) =>
		crypto.subtle.exportKey("pkcs8", r.target.result[0].key).then(() => done("exported"), (err) => done(err.name)); }; })`, &taken)
	if taken != "InvalidAccessError" {
		t.Errorf("exporting the key: %s", taken)
	}
	// The next tab shows what was said.
	next := c.tab()
	next.hears(2, "You said: it's me")
	next.verified()
	p.accessible("talk")
}

// Enter sends a message, except with Shift, while a word is composed, and on a touch screen.
func TestEnterSends(t *testing.T) {
	c := newChat(t, vacants.CreateSpec{})
	p := c.prepared(`{ const real = window.matchMedia; window.matchMedia = (query) => (window.touch && query === "(pointer: coarse)" ? { matches: true } : real.call(window, query)); }`)
	// press reports whether the page leaves a key to the browser, which then begins a line.
	press := func(key string) (breaks bool) {
		t.Helper()
		p.eval(`document.querySelector("#message").dispatchEvent(new KeyboardEvent("keydown", { bubbles: true, cancelable: true, key: "Enter", `+key+` }))`, &breaks)
		return breaks
	}
	p.until(`document.querySelector("#message") !== null && !document.querySelector("#send").disabled`)
	p.fill("#message", "one")
	for _, key := range []string{"shiftKey: true", "isComposing: true", "keyCode: 229"} {
		if !press(key) {
			t.Errorf("Enter with %s is taken from the browser", key)
		}
	}
	p.eval(`window.touch = true`, nil)
	if !press("") {
		t.Error("Enter on a touch screen is taken from the browser")
	}
	if press("ctrlKey: true") {
		t.Error("Ctrl+Enter is left to the browser")
	}
	p.heard(1)
	p.eval(`window.touch = false`, nil)
	p.until(`!document.querySelector("#send").disabled`)
	p.fill("#message", "two\r")
	p.heard(2)
	p.until(`!document.querySelector("#send").disabled`)
	p.fill("#message", " ")
	if press("") {
		t.Error("Enter in an empty message is left to the browser")
	}
	c.wasAsked("one", "two")
}

// A vacant's page with its scripts has at most 110 KB in 12 requests.
func TestThePageOfAVacantIsSmall(t *testing.T) {
	c := newChat(t, vacants.CreateSpec{})
	if _, _, err := c.Vacants.Publish(t.Context(), c.id, vacants.PublishOptions{}); err != nil {
		t.Fatal(err)
	}
	p := c.tab()
	p.until(`document.querySelector("#card-check").className === "ok" && document.querySelector("li[data-seq] .ok") !== null`)
	var loaded []struct {
		Name  string
		Bytes int
	}
	// The icon is the picture of the header and of the tab.
	p.eval(`[...new Map([...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")].map((r) => [r.name, r])).values()].map((r) => ({name: r.name, bytes: r.decodedBodySize}))`, &loaded)
	total := 0
	for _, r := range loaded {
		total += r.Bytes
	}
	t.Logf("%d bytes in %d requests", total, len(loaded))
	if total > 110_000 || len(loaded) > 12 || len(loaded) < 8 {
		t.Errorf("the page has %d bytes in %d requests, want at most 110000 in 12: %v", total, len(loaded), loaded)
	}
	p.accessible("vacant")
}

// exchanges are the earlier exchanges that an agent gets with a message, and the conversation of the message.
type exchanges struct {
	Context string `json:"context_id"`
	History []struct{ Text string }
	Files   []struct {
		Name      string
		MediaType string `json:"media_type"`
	}
}

// remembering is a chat whose agent has a memory. The texts of the memory are the answers.
func remembering(t *testing.T) *chat {
	t.Helper()
	c := newChat(t, vacants.CreateSpec{})
	agent := c.definition()
	agent.Memory = true
	c.update(agent)
	return c
}

// A conversation has one context, which survives a reload, until the person begins another.
func TestAConversationHasOneContext(t *testing.T) {
	c := remembering(t)
	p := c.tab()
	ask := func(p *page, n int, text string) exchanges {
		t.Helper()
		p.say(text)
		p.heard(n)
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.last
	}
	first := ask(p, 1, "I am Ada")
	second := ask(p, 2, "who am I?")
	if first.Context == "" || second.Context != first.Context || len(second.History) != 2 || second.History[0].Text != "I am Ada" {
		t.Errorf("the agent got %+v after %+v", second, first)
	}
	reloaded := c.tab()
	if third := ask(reloaded, 3, "and now?"); third.Context != first.Context || len(third.History) != 4 {
		t.Errorf("after a reload the agent got %+v", third)
	}
	reloaded.click("#renew")
	reloaded.until(`document.querySelector(".note") !== null && document.querySelector("#renew").hidden`)
	// The other tab goes on in the new conversation, too.
	fourth := ask(p, 4, "who am I?")
	if fourth.Context == first.Context || fourth.Context == "" || len(fourth.History) != 0 {
		t.Errorf("in a new conversation the agent got %+v", fourth)
	}
	expect(t, "the page", p.text(".note"), "A new conversation")
	p.eval(`document.querySelectorAll(".note").length === 1 || Promise.reject("notes")`, nil)
	reloaded.close()
	if fifth := ask(c.tab(), 5, "still there?"); fifth.Context != fourth.Context || len(fifth.History) != 2 {
		t.Errorf("after another reload the agent got %+v", fifth)
	}
	p.accessible("talk-conversations")
}

// A context is of one caller and one vacant. With a context of others, a call is the first of its conversation.
func TestAContextOfOthersShowsNothing(t *testing.T) {
	c := remembering(t)
	agent := c.definition()
	agent.Memory = true
	if _, err := c.Vacants.Create(t.Context(), vacants.CreateSpec{Name: "other", Capability: "Repeats what you say", Agent: &agent}); err != nil {
		t.Fatal(err)
	}
	p := c.tab()
	p.say("my secret is 4711")
	p.heard(1)
	c.mu.Lock()
	context := c.last.Context
	c.mu.Unlock()
	// take makes the next call of a page name the context.
	take := fmt.Sprintf(`new Promise((done) => { indexedDB.open("vacancy").onsuccess = (e) => {
		const pairs = e.target.result.transaction("pairs", "readwrite").objectStore("pairs");
		pairs.getAll().onsuccess = (r) => { for (const s of r.target.result) pairs.put({ ...s, context: %q }); done(true); };
	}; })`, context)
	elsewhere := newProfile(t, c.url).open(c.url + "/web/vacants/demo")
	other := c.profile.open(c.url + "/web/vacants/other")
	for name, tab := range map[string]*page{"another caller": elsewhere, "another vacant": other} {
		tab.until(`document.querySelector("#message") !== null`)
		tab.say("hello")
		tab.heard(1)
		tab.eval(take, nil)
		tab.say("what is the secret?")
		tab.heard(2)
		c.mu.Lock()
		if c.last.Context != context || len(c.last.History) != 0 {
			t.Errorf("%s: the agent got %+v", name, c.last)
		}
		c.mu.Unlock()
	}
	p.say("what is the secret?")
	p.heard(2)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last.Context != context || len(c.last.History) != 2 {
		t.Errorf("its own caller: the agent got %+v", c.last)
	}
}
