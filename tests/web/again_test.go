package web

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// held is a chat whose agent waits for release before it answers.
func held(t *testing.T) (c *chat, release func()) {
	c = newChat(t, vacants.CreateSpec{})
	gate := make(chan bool)
	c.play(func(question string, w http.ResponseWriter) {
		<-gate
		reply(w, "You said: "+question)
	})
	once := sync.OnceFunc(func() { close(gate) })
	t.Cleanup(once)
	return c, once
}

// asked waits until the agent has got so many questions.
func (c *chat) questioned(p *page, n int) {
	c.t.Helper()
	for len(c.questions()) < n {
		p.until(`new Promise((resolve) => setTimeout(() => resolve(true), 20))`)
	}
}

// A message that was settled on the way of another one, or in another tab, is not sent again.
func TestAMessageRunsOnceWhoeverTriesAgain(t *testing.T) {
	quiet := `document.querySelectorAll(".refused").length === 0 && document.querySelector("#stop").hidden`
	t.Run("one tab", func(t *testing.T) {
		t.Parallel()
		c, release := held(t)
		p := c.tab()
		p.say("buy")
		c.questioned(p, 1)
		p.click("#stop")
		p.refused()
		release()
		p.say("status?")
		p.heard(2)
		p.click(".refused button")
		p.until(quiet)
		c.wasAsked("buy", "status?")
	})
	t.Run("two tabs", func(t *testing.T) {
		t.Parallel()
		c, release := held(t)
		a := c.tab()
		a.say("buy")
		c.questioned(a, 1)
		a.click("#stop")
		a.refused()
		release()
		b := c.tab()
		b.heard(1)
		a.click(".refused button")
		a.until(quiet)
		a.heard(1)
		c.wasAsked("buy")
	})
	t.Run("given up", func(t *testing.T) {
		t.Parallel()
		c, release := held(t)
		p := c.tab()
		p.say("buy")
		c.questioned(p, 1)
		p.click("#stop")
		p.refused()
		p.say("more")
		p.until(`!document.querySelector("#stop").hidden`)
		p.click("#stop")
		p.until(`document.querySelectorAll(".refused").length === 2`)
		p.click(".refused button:nth-of-type(2)") // gives up on "buy", and not on "more"
		p.until(`document.querySelectorAll(".refused").length === 1`)
		release()
		p.click(".refused button")
		p.until(quiet)
		if got := c.questions(); len(got) != 2 || !slices.Contains(got, "buy") || !slices.Contains(got, "more") {
			t.Errorf("the agent was asked %q", got)
		}
	})
}

// A call that is finished later costs no more than the person allowed when it was sent.
func TestTheBoundOfThePriceStaysWithTheCall(t *testing.T) {
	c := newChat(t, vacants.CreateSpec{})
	c.setPrice(price.Price{Flat: 2000})
	c.intercept(func(http.ResponseWriter, *http.Request, []byte) bool { panic(http.ErrAbortHandler) })
	p := c.tab()
	p.settings()
	p.fill("#most", "0.001")
	p.say("buy")
	p.until(`document.querySelector("#talk-state").textContent.includes("Sending the same bytes again")`)
	p.click("#stop")
	p.refused()
	c.intercept(nil)
	before := len(c.requests())
	p.visit(c.url + "/web/vacants/demo")
	p.refused()
	again := c.requests()[before:]
	if len(again) == 0 || slices.ContainsFunc(again, func(q string) bool { return !strings.HasSuffix(q, "?max_price=1000") }) {
		t.Errorf("after the page was loaded again, the host got %q", again)
	}
}

// A price that came after the page is not paid unasked.
func TestAPriceThatThePageDoesNotShowIsNotPaid(t *testing.T) {
	c := newChat(t, vacants.CreateSpec{})
	p := c.tab()
	c.setPrice(price.Price{Flat: 2000})
	p.say("hello")
	p.refuses("The price has changed")
	address := "/v/" + c.id.String() + "/"
	if diff := cmp.Diff([]string{address + "?max_price=0", address + "a2a/message/send?max_price=0"}, c.requests()); diff != "" {
		t.Errorf("the host got (-want +got):\n%s", diff)
	}
}

// A false word of the host about an answer does not end the chain for good: a reset goes on.
func TestAChainOfAFalseAnswerIsReset(t *testing.T) {
	c := newChat(t, vacants.CreateSpec{})
	lied := false
	c.intercept(func(w http.ResponseWriter, r *http.Request, body []byte) bool {
		if noStream(w, r) {
			return true
		}
		if lied || !strings.HasSuffix(r.URL.Path, "/a2a/message/send") {
			return false
		}
		lied = true
		_, _, _ = c.forward(r, body)
		w.WriteHeader(http.StatusConflict)
		fmt.Fprintf(w, `{"detail":"x","state":"answered","reply_seq":1,"reply_hash":%q}`, strings.Repeat("ab", 32))
		return true
	})
	p := c.tab()
	p.say("one")
	p.until(`document.querySelector(".theirs") !== null && document.querySelector("#stop").hidden`)
	p.say("two")
	p.refuses("does not follow answer")
	p.eval(`[...document.querySelectorAll(".refused button")].find((b) => b.textContent.startsWith("Reset the chain")).click()`, nil)
	p.until(`document.querySelectorAll(".refused").length === 0 && document.querySelector("#stop").hidden`)
	p.say("three")
	p.until(`[...document.querySelectorAll(".theirs .text")].at(-1)?.textContent === "You said: three"`)
}

// A vacant that was restored refuses what was signed before. A message that only a stream carried so far is signed again.
func TestAMessageIsSignedAgainForARestoredVacant(t *testing.T) {
	c := newChat(t, vacants.CreateSpec{})
	p := c.tab()
	p.say("one")
	p.heard(1)
	refused := 0
	c.intercept(func(w http.ResponseWriter, r *http.Request, body []byte) bool {
		if refused == 2 {
			return false
		}
		var stream struct {
			Params struct {
				Message struct {
					Metadata map[string]struct {
						Prev string `json:"prev_envelope_hash"`
					}
				}
			}
		}
		if err := json.Unmarshal(body, &stream); err != nil {
			t.Error(err)
		}
		if refused++; !strings.HasSuffix(r.URL.Path, "/a2a/message/send") {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, `data: {"jsonrpc":"2.0","id":1,"error":{"code":-32004,"message":"x","data":[{"metadata":{"code":"floor"}}]}}`+"\n\n")
			return true
		}
		w.WriteHeader(http.StatusConflict)
		fmt.Fprintf(w, `{"detail":"x","code":"floor","expected_seq":2,"chain_tip":%q,"floor":%q}`, stream.Params.Message.Metadata["urn:vacant:v1"].Prev, canon.FormatTime(time.Now().Add(2*time.Second)))
		return true
	})
	p.say("two")
	if got := p.heard(2); got != "You said: two" || refused != 2 {
		t.Errorf("the page shows %q after %d refusals", got, refused)
	}
	p.verified()
}

// A connection that dies before a stream begins keeps neither the message nor other tabs.
func TestAStreamThatNeverBeginsIsLeft(t *testing.T) {
	c := newChat(t, vacants.CreateSpec{})
	c.intercept(func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		if strings.Contains(r.URL.Path, "/a2a/") {
			return false
		}
		<-r.Context().Done()
		return true
	})
	p := c.prepared(`{ const real = setTimeout; globalThis.setTimeout = (f, ms, ...more) => real(f, ms === 60_000 ? 100 : ms, ...more); }`)
	p.until(`document.querySelector("#message") !== null`)
	p.say("hello")
	p.hears(1, "You said: hello")
}

// A page goes on with the key whose message has no outcome yet.
func TestTheMessageInHandIsFoundAgain(t *testing.T) {
	c := newChat(t, vacants.CreateSpec{})
	p := c.tab()
	p.say("one")
	p.heard(1)
	gate := make(chan bool)
	c.play(func(question string, w http.ResponseWriter) {
		<-gate
		reply(w, "You said: "+question)
	})
	p.eval(`{ document.querySelector("#talk details").open = true; const s = document.querySelector("#key"); s.value = ""; s.dispatchEvent(new Event("change")); }`, nil)
	p.until(`document.querySelectorAll(".theirs").length === 0`)
	p.say("two")
	c.questioned(p, 2)
	p.visit(c.url + "/web/vacants/demo")
	p.until(`document.querySelector("#talk-state")?.textContent.length > 0`)
	close(gate)
	p.hears(1, "You said: two")
	if got := c.questions(); len(got) != 2 {
		t.Errorf("the agent was asked %q", got)
	}
}
