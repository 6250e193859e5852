package simulation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/message"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
)

// reply is the result of an exchange.
type reply struct {
	status int
	body   []byte
	err    error
}

// exchange is a request that a caller waits for.
type exchange struct {
	task  *task
	meant string // the intended route
	ch    chan reply
	out   int // copies of it and replies to it in flight
}

// packet is a request or a reply in flight.
type packet struct {
	exchange *exchange // nil if nobody waits
	from     string
	route    string
	body     []byte
	reply    reply
}

// routeOf is the handler of a URL.
func routeOf(url string) string {
	for _, r := range []string{message.SendPath, message.ResetPath, message.AskPath} {
		if strings.HasSuffix(url, r) {
			return r
		}
	}
	return url
}

// Post implements dispatch.Transport. The request may be lost or doubled.
func (c *caller) Post(ctx context.Context, url string, body []byte) (int, []byte, error) {
	w, meant := c.w, routeOf(url)
	route := meant
	if w.mutant.route != nil {
		route = w.mutant.route(meant)
	}
	if v := w.pause(ctx, plain, "post to "+meant); v != fine {
		return 0, nil, errDead
	}
	w.posted(c, meant, body)
	x := &exchange{task: taskOf(ctx), meant: meant, ch: make(chan reply, 1)}
	w.exchanges = append(w.exchanges, x)
	copies := 1
	if w.chance() {
		copies = 2 * w.rng.IntN(2)
		what := [...]string{"a request is lost", "", "a request is doubled"}[copies]
		w.say("%s: %s", c.name, what)
		w.met(what)
	}
	for range copies {
		x.out++
		w.copies = append(w.copies, &packet{exchange: x, from: c.name, route: route, body: body})
	}
	r := <-x.ch
	return r.status, r.body, r.err
}

// timeout ends an exchange that can get no reply any more, or now and then one
// that still could. It reports whether it did.
func (w *world) timeout() bool {
	for _, x := range w.exchanges {
		if x.out > 0 && (w.quiet || w.rng.IntN(100) > 0) {
			continue
		}
		w.say("%s gets no reply", x.task.name)
		w.met("a caller stops waiting")
		w.close(x, reply{err: errors.New("timed out")})
		return true
	}
	return false
}

func (w *world) close(x *exchange, r reply) {
	if i := slices.Index(w.exchanges, x); i >= 0 {
		w.exchanges = slices.Delete(w.exchanges, i, i+1)
		x.ch <- r
	}
}

// deliver gives a request to one of the hosts.
func (w *world) deliver(i int) {
	p := w.copies[i]
	w.copies = slices.Delete(w.copies, i, i+1)
	n := w.rng.IntN(2)
	if w.cfg.hostCold > 0 && w.rng.IntN(w.cfg.hostCold) == 0 {
		w.hosts[n] = w.newInstance(n)
	}
	h := w.hosts[n]
	t := &task{name: fmt.Sprintf("#%d host %d", w.tasks+1, n), host: h, route: p.route, exchange: p.exchange}
	w.say("%s gets %s of %s: %s", t.name, p.route, p.from, w.nameOf(p.body))
	w.spawn(t, func(ctx context.Context) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://host"+p.route, bytes.NewReader(p.body))
		if err != nil {
			panic(err)
		}
		req.Header.Set("Content-Type", "application/json")
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, req)
		t.reply = reply{status: rec.Code, body: rec.Body.Bytes()}
		t.request = p.body
	})
}

// served records that a host is done with a request. If it lives, its reply is
// sent.
func (w *world) served(t *task) {
	x := t.exchange
	if !t.dead {
		w.say("%s says %d %s", t.name, t.reply.status, brief(t.reply.body))
		w.left(t)
	}
	switch {
	case x == nil:
	case t.dead:
		x.out--
	case w.chance():
		w.say("%s: reply lost", t.name)
		w.met("a reply is lost")
		x.out--
	default:
		w.replies = append(w.replies, &packet{exchange: x, from: t.name, reply: t.reply})
	}
}

// arrive gives a reply to its caller, if it still waits.
func (w *world) arrive(i int) {
	p := w.replies[i]
	w.replies = slices.Delete(w.replies, i, i+1)
	p.exchange.out--
	w.say("%s hears of %s", p.exchange.task.name, p.from)
	w.close(p.exchange, p.reply)
}

// attack sends a recorded envelope again, by any route.
func (w *world) attack(int) {
	w.attacks--
	if w.cfg.closed && w.rng.IntN(3) == 0 {
		w.tryClosed()
		return
	}
	kind := one(w.rng, "call", "call", "reset", "answer")
	body := w.seen.envelopes[w.rng.IntN(len(w.seen.envelopes))]
	for range 8 { // one of that kind, if there are any
		if w.seen.known[string(body)].kind == kind {
			break
		}
		body = w.seen.envelopes[w.rng.IntN(len(w.seen.envelopes))]
	}
	route := one(w.rng, message.SendPath, message.SendPath, message.ResetPath, message.AskPath)
	w.copies = append(w.copies, &packet{from: "a stranger", route: route, body: body})
	w.met("a stranger repeats: " + w.seen.known[string(body)].kind)
}

// tryClosed sends a closed child an unrelated caller's envelope.
func (w *world) tryClosed() {
	e := &envelope.Envelope{
		From: outsiderKey.ID(), To: w.pair.Vacant, Seq: 1, Time: w.now().Add(time.Duration(w.attacks) * time.Microsecond),
		Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{"let me in"}}, IdempotencyKey: "key",
	}
	if _, err := e.Sign(context.Background(), outsiderKey); err != nil {
		panic(err)
	}
	body := request(e)
	w.seen.outside[string(body)] = e.Hash()
	w.copies = append(w.copies, &packet{from: "an outsider", route: one(w.rng, message.SendPath, message.SendPath, message.AskPath), body: body})
	w.met("an outsider tries a closed child")
}

// request is e as a body.
func request(e *envelope.Envelope) []byte { return envelope.AppendRequest(nil, nil, e) }

// brief is a body for the trace.
func brief(b []byte) string {
	if len(b) > 300 {
		return string(b[:300]) + "…"
	}
	return string(b)
}
