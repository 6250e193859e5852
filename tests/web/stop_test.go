package web

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"

	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
)

// gates is a script that can hold a page in a phase of a turn. A page whose "hold" names a phase
// sets "reached" there and waits for release(), except for timers, which are dropped, and for
// storage, which a transaction blocks.
const gates = `{
	const waitAt = (phase) => window.hold !== phase ? undefined : new Promise((resolve) => { window.reached = true; window.release = resolve; });
	const block = (phase) => window.hold !== phase ? undefined : new Promise((resolve) => { indexedDB.open("vacancy").onsuccess = (e) => {
		const tx = e.target.result.transaction(["keys", "pairs", "calls"], "readwrite");
		const spin = () => { window.reached = true; resolve(); if (window.hold === phase) tx.objectStore("keys").count().onsuccess = spin; };
		window.release = () => { window.hold = ""; };
		tx.objectStore("keys").count().onsuccess = spin;
	}; });
	window.block = block;
	for (const [object, name] of [[SubtleCrypto.prototype, "generateKey"], [SubtleCrypto.prototype, "sign"], [SubtleCrypto.prototype, "verify"], [LockManager.prototype, "request"]]) {
		const real = object[name];
		object[name] = async function (...args) {
			await waitAt(name);
			const result = name === "request" ? undefined : await real.apply(this, args);
			await block("store after " + name);
			return name === "request" ? real.apply(this, args) : result;
		};
	}
	const later = window.setTimeout;
	window.setTimeout = (f, ms, ...args) => window.hold === "pause" && ms >= 200 && ms <= 5000 ? (window.reached = true, window.release = () => {}, 0) : later(f, ms, ...args);
}`

// stopping is a page whose turn is held in a phase.
type stopping struct {
	*chat
	page *page
}

// hold makes the page wait in a phase of gates.
func (s stopping) hold(phase string) (reached, release func()) {
	s.page.eval(fmt.Sprintf(`window.reached = false; window.hold = %q`, phase), nil)
	return func() { s.page.until("window.reached") }, func() { s.page.eval(`window.hold = ""; window.release()`, nil) }
}

// holdPath makes the host answer no request whose path has a suffix.
func (s stopping) holdPath(suffix string) (reached, release func()) {
	arrived, left := make(chan bool, 8), make(chan bool, 8)
	s.intercept(func(_ http.ResponseWriter, r *http.Request, _ []byte) bool {
		if !strings.HasSuffix(r.URL.Path, suffix) {
			return false
		}
		arrived <- true
		<-r.Context().Done()
		left <- true
		return true
	})
	return func() { await.Receive(s.t, "the host gets a request to "+suffix, arrived) },
		func() {
			await.Receive(s.t, "the page ends its request to "+suffix, left)
			s.intercept(nil)
		}
}

// refuseEach makes the host answer each post of a call by a status and a body.
func (s stopping) refuseEach(status int, body string) {
	s.intercept(func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		w.WriteHeader(status)
		fmt.Fprint(w, body)
		return true
	})
}

// A press on Stop ends a turn in each of its phases. The message can be sent again and runs once.
func TestStopEndsEachPhaseOfATurn(t *testing.T) {
	say := func(s stopping) { s.page.say("hello") }
	held := func(phase string) func(s stopping) (reached, release func()) {
		return func(s stopping) (reached, release func()) { return s.hold(phase) }
	}
	heldPath := func(suffix string) func(s stopping) (reached, release func()) {
		return func(s stopping) (reached, release func()) { return s.holdPath(suffix) }
	}
	for _, phase := range []struct {
		name  string
		later bool // the key has made a call before
		hold  func(stopping) (reached, release func())
		start func(stopping)
		want  string
	}{
		{"the key is made", false, held("generateKey"), say, "This attempt sent nothing."},
		{"the key is stored", false, held("store after generateKey"), say, "This attempt sent nothing."},
		{"the keys are read", true, func(s stopping) (func(), func()) {
			reached, release := s.hold("store")
			s.page.eval(`block("store")`, nil)
			return reached, release
		}, say, "This attempt sent nothing."},
		{"the lock is requested", true, held("request"), say, "This attempt sent nothing."},
		{"another tab has the lock", true, func(s stopping) (func(), func()) {
			gate := make(chan bool)
			s.play(func(question string, w http.ResponseWriter) {
				<-gate
				reply(w, "You said: "+question)
			})
			other := s.tab()
			other.heard(1)
			other.say("other")
			s.questioned(other, 2)
			return func() { s.page.until(`document.querySelector("#talk-state").textContent.startsWith("Another tab")`) },
				func() {
					close(gate)
					other.heard(2)
				}
		}, say, "This attempt sent nothing."},
		{"the state is read", true, held("store after request"), say, "This attempt sent nothing."},
		{"the message is signed", true, held("sign"), say, "This attempt sent nothing."},
		{"the message is stored", true, held("store after sign"), say, "This attempt sent nothing."},
		{"a stream is requested", true, heldPath("/"), say, "may have been sent"},
		{"pieces come", true, func(s stopping) (func(), func()) {
			gate := make(chan bool)
			s.play(func(_ string, w http.ResponseWriter) {
				w.Header().Set("Content-Type", "text/event-stream")
				fmt.Fprint(w, "event: delta\ndata: {\"text\":\"You said: \"}\n\n")
				w.(http.Flusher).Flush()
				<-gate
				fmt.Fprint(w, "event: delta\ndata: {\"text\":\"hello\"}\n\nevent: done\ndata: {}\n\n")
			})
			return func() { s.page.until(`document.querySelector(".provisional") !== null`) }, func() { close(gate) }
		}, say, "may have been sent"},
		{"the message is sent without a stream", true, func(s stopping) (func(), func()) {
			return s.holdPath("/a2a/message/send")
		}, func(s stopping) {
			s.page.eval(`{ const real = fetch; window.fetch = (url, ...more) => real(String(url).includes("/a2a/") || !more[0]?.body ? url : url + "missing", ...more); }`, nil)
			s.page.say("hello")
		}, "may have been sent"},
		{"a pause between two attempts", true, func(s stopping) (func(), func()) {
			s.refuseEach(http.StatusServiceUnavailable, "{}")
			reached, release := s.hold("pause")
			return reached, func() {
				release()
				s.intercept(nil)
			}
		}, say, "may have been sent"},
		{"the vacant takes its time", true, func(s stopping) (func(), func()) {
			s.refuseEach(http.StatusAccepted, `{"state":"pending"}`)
			reached, release := s.hold("pause")
			return reached, func() {
				release()
				s.intercept(nil)
			}
		}, say, "may have been sent"},
		{"the outcome of an earlier message is asked for", true, func(s stopping) (func(), func()) {
			gate := make(chan bool)
			s.play(func(question string, w http.ResponseWriter) {
				<-gate
				reply(w, "You said: "+question)
			})
			s.page.say("earlier")
			s.questioned(s.page, 2)
			s.page.click("#stop")
			s.page.refused()
			s.page.eval(`document.querySelector(".refused").remove()`, nil)
			reached, release := s.holdPath("/a2a/message/ask")
			return reached, func() {
				close(gate)
				release()
			}
		}, say, "may have been sent"},
		{"the answer is verified", true, held("verify"), say, "may have been sent"},
		{"the answer is stored", true, held("store after verify"), say, "may have been sent"},
		{"the chain is reset", true, func(s stopping) (func(), func()) {
			s.refuseEach(http.StatusConflict, `{"detail":"x","expected_seq":99}`)
			s.page.say("hello")
			s.page.refused()
			return s.holdPath("/a2a/chain/reset")
		}, func(s stopping) { s.page.click(".refused button") }, "may have been sent"},
		{"the page was loaded again", true, func(s stopping) (func(), func()) {
			reached, release := s.holdPath("/a2a/message/send")
			s.page.eval(`const real = fetch; window.fetch = (url, ...more) => real(String(url).includes("/a2a/") || !more[0]?.body ? url : url + "missing", ...more);`, nil)
			s.page.say("hello")
			reached()
			return reached, release
		}, func(s stopping) {
			s.page.visit(s.url + "/web/vacants/demo")
		}, "may have been sent"},
		{"another tab has the lock of a message to give up on", true, func(s stopping) (func(), func()) {
			reached, release := s.holdPath("/")
			s.page.say("hello")
			reached()
			s.page.click("#stop")
			s.page.refused()
			release()
			arrived, again := s.holdPath("/a2a/message/send")
			other := s.tab()
			arrived()
			return func() { s.page.until(`document.querySelector("#talk-state").textContent.startsWith("Another tab")`) },
				func() {
					other.close()
					again()
				}
		}, func(s stopping) { s.page.click(".refused button:nth-of-type(2)") }, "This attempt sent nothing."},
	} {
		t.Run(phase.name, func(t *testing.T) {
			t.Parallel()
			c := newChat(t, vacants.CreateSpec{})
			s := stopping{c, c.prepared(gates)}
			p := s.page
			p.until(`document.querySelector("#message") !== null`)
			if phase.later {
				p.say("before")
				p.heard(1)
			}
			reached, release := phase.hold(s)
			phase.start(s)
			reached()
			p.until(`!document.querySelector("#stop").hidden`)
			p.click("#stop")
			expect(t, "the page", p.refused(), "You stopped waiting. ", phase.want)
			release()
			p.click(".refused button")
			p.until(`[...document.querySelectorAll(".theirs:not(.provisional) .text")].at(-1)?.textContent === "You said: hello" && document.querySelector("#stop").hidden`)
			p.verified()
			asked := c.questions()
			if n := len(slices.DeleteFunc(asked, func(q string) bool { return q != "hello" })); n != 1 {
				t.Errorf("the agent was asked %d times", n)
			}
		})
	}
}

// What a page shows during a turn moves Stop only by the pieces of an answer, and a press on Stop
// counts though they move it.
func TestAPressOnStopCountsThoughThePageMoves(t *testing.T) {
	c := newChat(t, vacants.CreateSpec{})
	gate := make(chan bool)
	defer close(gate)
	c.play(func(_ string, w http.ResponseWriter) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, piece := range []string{"first", `\n\n\n\n\n\nsecond`} {
			fmt.Fprintf(w, "event: delta\ndata: {\"text\":\"%s\"}\n\n", piece)
			w.(http.Flusher).Flush()
			<-gate
		}
	})
	p := c.tab()
	p.eval(`{ window.places = new Set(); const stop = document.querySelector("#stop");
		new MutationObserver(() => { if (!stop.hidden && !document.querySelector(".provisional")) window.places.add(stop.getBoundingClientRect().top + scrollY); })
			.observe(document.querySelector("#talk"), { subtree: true, childList: true, attributes: true, characterData: true }); }`, nil)
	p.say("hello")
	p.until(`document.querySelector(".provisional .text")?.textContent === "first"`)
	var places []float64
	p.eval(`[...window.places]`, &places)
	if len(places) != 1 {
		t.Errorf("Stop was at the heights %v", places)
	}
	var at struct{ X, Y float64 }
	p.eval(`{ const r = (document.querySelector("#stop").scrollIntoView({ block: "center" }), document.querySelector("#stop")).getBoundingClientRect(); ({ x: r.left + r.width / 2, y: r.top + r.height / 2 }) }`, &at)
	button := func(action input.DispatchMouseEventType) {
		call(p, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: action, X: at.X, Y: at.Y, Button: input.MouseButtonLeft, ClickCount: 1})
	}
	button(input.DispatchMouseEventTypeMousePressed)
	gate <- true
	p.until(`document.querySelector(".provisional .text").textContent.endsWith("second")`)
	button(input.DispatchMouseEventTypeMouseReleased)
	p.refuses("You stopped waiting")
}

// A second submission during a turn sends nothing, and its text stays in the field.
func TestAFormThatIsSubmittedTwiceSendsOnce(t *testing.T) {
	c := newChat(t, vacants.CreateSpec{})
	p := c.tab()
	p.until(`!document.querySelector("#send").disabled`)
	p.eval(`{ const [form, field] = [document.querySelector("#say"), document.querySelector("#message")];
		for (const text of ["one", "two"]) { field.value = text; form.dispatchEvent(new Event("submit", { cancelable: true })); } }`, nil)
	p.heard(1)
	var left string
	p.eval(`document.querySelector("#message").value`, &left)
	if got := c.questions(); !slices.Equal(got, []string{"one"}) || left != "two" {
		t.Errorf("the agent was asked %q, the field has %q", got, left)
	}
}
