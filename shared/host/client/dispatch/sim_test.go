package dispatch_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch/memorybook"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/chain"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

var t0 = time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)

// clock is a clock that only waiting moves.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func newClock() *clock { return &clock{t: t0} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

func (c *clock) wait(ctx context.Context, d time.Duration) error {
	c.add(d)
	return ctx.Err()
}

// bits is an endless source of bytes, the same in every run.
type bits struct {
	mu sync.Mutex
	n  uint64
}

func (b *bits) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range p {
		b.n = b.n*6364136223846793005 + 1442695040888963407
		p[i] = byte(b.n >> 56)
	}
	return len(p), nil
}

func key(t testing.TB, n byte) *identity.Key {
	t.Helper()
	seed := make([]byte, identity.Size)
	for i := range seed {
		seed[i] = n
	}
	k, err := identity.KeyFromSeed(seed)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// host plays the other side strictly by the rules of PROTOCOL §6, or with
// reference by those of the reference, for one vacant.
type host struct {
	mu        sync.Mutex
	key       *identity.Key
	now       func() time.Time
	rand      io.Reader
	reference bool
	pairs     map[identity.ID]*pair

	// gate, if set, refuses what is not accepted yet, with the kind it returns.
	gate func(e *envelope.Envelope) *problem.Error
	// behave, if set, decides how a call ends: "answer", "fail", "hang".
	behave func(e *envelope.Envelope) string

	broken []string // invariants that did not hold
}

type reqRow struct {
	env              envelope.Envelope
	hash             identity.Hash
	reset            bool
	tip              chain.Tip
	epochStart, back int
	due              time.Time
	decided          string // "", "answer", "void"
	reply            *envelope.Envelope
	textGone         bool
}

type pair struct {
	rows     []*reqRow
	rsp      chain.Tip // epoch, seq and hash of the last answer
	rspEpoch uint64
}

func newHost(t testing.TB, now func() time.Time) *host {
	return &host{key: key(t, 0x42), now: now, rand: &bits{n: 99}, pairs: map[identity.ID]*pair{}}
}

func (h *host) id() identity.ID { return h.key.ID() }

func (h *host) target() dispatch.Target {
	return dispatch.Target{ID: h.id(), URL: "http://host.test/v/x/a2a/message/send", Name: "demo"}
}

func (h *host) pair(id identity.ID) *pair {
	p := h.pairs[id]
	if p == nil {
		p = &pair{}
		h.pairs[id] = p
	}
	return p
}

func (p *pair) tip() chain.Tip {
	if len(p.rows) == 0 {
		return chain.Tip{}
	}
	return p.rows[len(p.rows)-1].tip
}

func (p *pair) last() (epochStart, back int) {
	if len(p.rows) == 0 {
		return 0, 0
	}
	r := p.rows[len(p.rows)-1]
	return r.epochStart, r.back
}

type body = map[string]any

// serve is the handler: path and request body in, status and body out.
func (h *host) serve(path string, raw []byte) (int, []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	req, err := envelope.DecodeResetRequest(raw)
	if err != nil {
		return 400, marshal(body{"detail": err.Error()})
	}
	e := &req.Envelope
	var status int
	var out any
	switch {
	case strings.HasSuffix(path, "/a2a/message/send"):
		status, out = h.send(e)
	case strings.HasSuffix(path, "/a2a/message/ask") && !h.reference:
		status, out = h.ask(e)
	case strings.HasSuffix(path, "/a2a/chain/reset"):
		status, out = h.reset(e)
	default:
		status, out = 404, body{"detail": "Not Found"}
	}
	if b, ok := out.([]byte); ok {
		return status, b
	}
	return status, marshal(out)
}

func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

func refusal(p *problem.Error) (int, body) {
	return p.Kind.Row().Status, body{"detail": p.Text(), "code": p.Kind.String()}
}

func (h *host) members(b body, p *pair) body {
	if h.reference {
		delete(b, "code")
		return b
	}
	tip := p.tip()
	b["expected_seq"], b["chain_tip"] = tip.Seq+1, tip.Hash.String()
	return b
}

func (h *host) send(e *envelope.Envelope) (int, any) {
	hash, ok := e.Verify()
	if !ok {
		return refusal(problem.New(problem.BadSignature, "envelope signature did not verify for sender %s", e.From.Short()))
	}
	p := h.pair(e.From)
	if e.Time.Sub(h.now()) > 300*time.Second && !h.reference {
		return 400, h.members(body{"detail": "timestamp ahead", "code": "clock", "now": canon.FormatTime(h.now())}, p)
	}
	var gate *problem.Error
	if h.gate != nil {
		gate = h.gate(e)
	}
	tip := p.tip()
	fit := tip.Fit(e)
	if gate == nil && fit == nil {
		if e.IsReset() {
			return 400, h.members(body{"detail": "parts: expected a reset at …/a2a/chain/reset"}, p)
		}
		return h.accept(p, e, hash)
	}
	refused := gate
	if refused == nil {
		refused = problem.Of(fit)
	}
	status, b := refusal(refused)
	h.members(b, p)
	if gate == nil && !tip.Floor.IsZero() && !h.reference {
		b["floor"] = canon.FormatTime(tip.Floor)
	}
	if row, _ := p.find(e, hash); row != nil && fit != nil && !h.reference {
		h.tell(b, p, row)
	}
	return status, b
}

func (h *host) accept(p *pair, e *envelope.Envelope, hash identity.Hash) (int, any) {
	for _, r := range p.rows {
		if r.hash == hash {
			h.broken = append(h.broken, fmt.Sprintf("envelope %d accepted twice", e.Seq))
		}
	}
	epochStart, back := p.last()
	row := &reqRow{env: *e, hash: hash, tip: p.tip().Next(e, hash), epochStart: epochStart, back: back, due: h.now().Add(35 * time.Second)}
	p.rows = append(p.rows, row)
	how := "answer"
	if h.behave != nil {
		how = h.behave(e)
	}
	switch how {
	case "hang":
		return 0, nil
	case "fail":
		row.decided = "void"
		if h.reference {
			return 500, []byte("Internal Server Error")
		}
		return 500, h.members(body{"detail": "the vacant failed to answer", "code": "behaviour_failed", "state": "unanswered"}, p)
	}
	if !h.answer(p, row) {
		return 504, h.members(body{"detail": "no answer in time", "code": "deadline", "state": "unanswered"}, p)
	}
	return 200, envelope.AppendResponse(nil, nil, row.reply)
}

// answer puts the answer to row on the response chain, unless its epoch is
// closed.
func (h *host) answer(p *pair, row *reqRow) bool {
	if row.decided != "" {
		return row.decided == "answer"
	}
	if p.rspEpoch > row.tip.Epoch {
		row.decided = "void"
		return false
	}
	if p.rspEpoch < row.tip.Epoch {
		p.rsp, p.rspEpoch = chain.Tip{}, row.tip.Epoch
	}
	a := &envelope.Envelope{
		From: h.id(), To: row.env.From, Seq: p.rsp.Seq + 1, Prev: p.rsp.Hash, Time: h.now().UTC(),
		Payload:        envelope.Message{Role: envelope.RoleAgent, Parts: []string{"echo: " + row.env.Payload.Text()}},
		IdempotencyKey: envelope.ReplyKey(row.hash),
	}
	if h.reference {
		u := make([]byte, 8)
		_, _ = h.rand.Read(u)
		a.IdempotencyKey = fmt.Sprintf("uuid-%x", u)
	}
	ah, err := a.Sign(context.Background(), h.key)
	if err != nil {
		panic(err)
	}
	p.rsp = p.rsp.Next(a, ah)
	row.decided, row.reply = "answer", a
	return true
}

// find looks in this epoch and seven before.
func (p *pair) find(e *envelope.Envelope, hash identity.Hash) (row *reqRow, tooOld bool) {
	epochStart, back := p.last()
	for range 8 {
		if at := epochStart + int(e.Seq); at <= len(p.rows) && p.rows[at-1].hash == hash && !p.rows[at-1].reset {
			return p.rows[at-1], false
		}
		if epochStart == 0 {
			return nil, false
		}
		if epochStart = back; epochStart > 0 {
			back = p.rows[epochStart-1].back
		}
	}
	return nil, true
}

func (h *host) tell(b body, p *pair, row *reqRow) {
	if row.decided == "" && (h.now().After(row.due) || p.rspEpoch > row.tip.Epoch) {
		row.decided = "void"
	}
	switch {
	case row.decided == "":
		b["state"] = "pending"
	case row.decided == "void":
		b["state"] = "unanswered"
	case row.textGone:
		b["state"], b["reply_seq"], b["reply_hash"] = "answered", row.reply.Seq, row.reply.Hash().String()
	default:
		b["state"], b["reply"] = "answered", json.RawMessage(envelope.AppendMessage(nil, row.reply))
	}
}

func (h *host) ask(e *envelope.Envelope) (int, any) {
	hash, ok := e.Verify()
	if !ok {
		return refusal(problem.New(problem.BadSignature, "bad signature"))
	}
	p := h.pair(e.From)
	b := body{"state": "unknown"}
	if row, tooOld := p.find(e, hash); row != nil {
		h.tell(b, p, row)
	} else if tooOld {
		b["too_old"] = true
	}
	if f := p.tip().Floor; !f.IsZero() {
		b["floor"] = canon.FormatTime(f)
	}
	return 200, h.members(b, p)
}

func (h *host) reset(e *envelope.Envelope) (int, any) {
	hash, ok := e.Verify()
	if !ok {
		return 401, body{"ok": false, "error": "signature_invalid"}
	}
	if !e.IsReset() {
		return 400, body{"ok": false, "error": "payload_not_reset_chain"}
	}
	if age := h.now().Sub(e.Time).Abs(); age > 300*time.Second {
		b := body{"ok": false, "error": fmt.Sprintf("stale_reset_request: age=%.0fs", age.Seconds())}
		if !h.reference {
			b["now"] = canon.FormatTime(h.now())
		}
		return 400, b
	}
	p := h.pair(e.From)
	if h.reference {
		*p = pair{}
		return 200, body{"ok": true}
	}
	tip := p.tip()
	if err := tip.FitReset(e); len(p.rows) > 0 && err != nil {
		return 409, h.members(body{"ok": false, "error": err.Error(), "code": "floor", "floor": canon.FormatTime(tip.Floor)}, p)
	}
	epochStart, _ := p.last()
	p.rows = append(p.rows, &reqRow{env: *e, hash: hash, reset: true, tip: tip.Reset(e), epochStart: len(p.rows) + 1, back: epochStart, decided: "void"})
	return 200, body{"ok": true, "reset_for_peer": e.From.String()}
}

// ServeHTTP lets other processes call the host.
func (h *host) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	status, out := h.serve(r.URL.Path, raw)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(out)
}

// executed counts the calls that ran for an idempotency key.
func (h *host) executed(key string) (n int) {
	for _, p := range h.pairs {
		for _, r := range p.rows {
			if !r.reset && r.env.IdempotencyKey == key {
				n++
			}
		}
	}
	return n
}

// wire carries posts to the host, with the faults that a test wants.
type wire struct {
	mu   sync.Mutex
	host *host
	// fault, if set, is asked before each post; see the cases in Post.
	fault func(path string, e *envelope.Envelope) string
	log   []sent // everything that was posted
}

type sent struct {
	path string
	env  envelope.Envelope
	raw  string
}

var errNet = errors.New("connection reset by peer")

func (w *wire) Post(ctx context.Context, url string, raw []byte) (int, []byte, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return 0, nil, err
	}
	path := url[strings.LastIndex(url, "/a2a/"):]
	req, err := envelope.DecodeResetRequest(raw)
	if err != nil {
		return 0, nil, err
	}
	fault := ""
	if w.fault != nil {
		fault = w.fault(path, &req.Envelope)
	}
	if fault == "unreachable" {
		return 0, nil, problem.New(problem.Unavailable, "connection refused")
	}
	w.log = append(w.log, sent{path, req.Envelope, string(raw)})
	switch fault {
	case "request lost":
		return 0, nil, errNet
	case "503":
		return 503, marshal(body{"detail": "storage is unavailable", "code": "unavailable"}), nil
	case "twice":
		w.host.serve(path, raw)
	}
	status, out := w.host.serve(path, raw)
	switch {
	case fault == "reply lost" || status == 0:
		return 0, nil, errNet
	case fault == "503 after":
		return 503, marshal(body{"detail": "storage is unavailable", "code": "unavailable"}), nil
	case fault == "garbled":
		return status, []byte("<html>"), nil
	}
	return status, out, nil
}

// paths lists the last element of each path that was posted to.
func (w *wire) paths() (out []string) {
	for _, s := range w.log {
		out = append(out, s.path[strings.LastIndex(s.path, "/")+1:])
	}
	return out
}

// bodies are the different bodies posted to the send handler for a number.
func (w *wire) bodies(seq int64) (out []string) {
	for _, s := range w.log {
		if strings.HasSuffix(s.path, "send") && s.env.Seq == seq && !slices.Contains(out, s.raw) {
			out = append(out, s.raw)
		}
	}
	return out
}

// world is a caller, a host and the wire between them.
type world struct {
	*dispatch.Caller
	clock *clock
	host  *host
	wire  *wire
	book  *recorder
}

func newWorld(t testing.TB) *world {
	c := newClock()
	h := newHost(t, c.now)
	w := &wire{host: h}
	b := &recorder{book: &memorybook.Book{}}
	return &world{
		Caller: &dispatch.Caller{Signer: key(t, 1), Book: b, Transport: w, Now: c.now, Rand: &bits{n: 7}, Wait: c.wait},
		clock:  c, host: h, wire: w, book: b,
	}
}

// device is another caller with the same key and a state of its own.
func (w *world) device() *world {
	d := *w
	c := *w.Caller
	d.book = &recorder{book: &memorybook.Book{}}
	c.Book = d.book
	d.Caller = &c
	return &d
}

func (w *world) state(t testing.TB) dispatch.State {
	t.Helper()
	s, err := w.book.book.Open(context.Background(), w.Signer.ID(), w.host.id())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	st, err := s.Load()
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// setState replaces what is kept.
func (w *world) setState(t testing.TB, change func(*dispatch.State)) {
	t.Helper()
	s, err := w.book.book.Open(context.Background(), w.Signer.ID(), w.host.id())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	st, err := s.Load()
	if err != nil {
		t.Fatal(err)
	}
	change(&st)
	if err := s.Save(st); err != nil {
		t.Fatal(err)
	}
}

func (w *world) call(text string) (dispatch.Result, error) {
	return w.Call(context.Background(), w.host.target(), say(text))
}

func say(text string) envelope.Message {
	return envelope.Message{Role: envelope.RoleUser, Parts: []string{text}}
}

// recorder is a Book whose sessions may die at a Save.
type recorder struct {
	book  dispatch.Book
	saves int
	// die, if set, says whether the n-th Save (from 1) is the end: "before" it
	// took effect or "after".
	die func(n int) string
	// check, if set, sees each state that is saved.
	check func(dispatch.State)
}

var errDied = errors.New("the process died")

func (b *recorder) Open(ctx context.Context, self, target identity.ID) (dispatch.Session, error) {
	s, err := b.book.Open(ctx, self, target)
	return &recordedSession{Session: s, b: b}, err
}

type recordedSession struct {
	dispatch.Session
	b    *recorder
	dead bool
}

func (s *recordedSession) Save(st dispatch.State) error {
	if s.dead {
		return errDied
	}
	s.b.saves++
	how := ""
	if s.b.die != nil {
		how = s.b.die(s.b.saves)
	}
	if how == "before" {
		s.dead = true
		return errDied
	}
	if s.b.check != nil {
		s.b.check(st)
	}
	if err := s.Session.Save(st); err != nil {
		return err
	}
	if how == "after" {
		s.dead = true
		return errDied
	}
	return nil
}
