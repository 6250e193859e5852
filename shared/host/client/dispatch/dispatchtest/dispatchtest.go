// Package dispatchtest is the other side of a call, for tests of callers: a host in memory that
// follows PROTOCOL §6, a wire with faults, and a clock that advances only when a test waits.
package dispatchtest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/chain"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

var Start = time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)

// Clock is a clock that advances only when a test waits.
type Clock struct {
	mu sync.Mutex
	t  time.Time
}

func NewClock() *Clock { return &Clock{t: Start} }

func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *Clock) Add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// Wait advances the clock by d and returns at once.
func (c *Clock) Wait(ctx context.Context, d time.Duration) error {
	c.Add(d)
	return ctx.Err()
}

// Random is an endless source of bytes that are the same in every run.
type Random struct {
	mu   sync.Mutex
	Seed uint64
}

func (b *Random) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range p {
		b.Seed = b.Seed*6364136223846793005 + 1442695040888963407
		p[i] = byte(b.Seed >> 56)
	}
	return len(p), nil
}

func NewKey(t testing.TB, n byte) *identity.Key {
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

// Host is a host of one vacant that follows PROTOCOL §6 strictly or, if Reference is set, the rules
// of the reference.
type Host struct {
	Mu        sync.Mutex
	Key       *identity.Key
	Clock     func() time.Time
	rand      io.Reader
	Reference bool
	Pairs     map[identity.ID]*Pair

	// AnswerTimeout is the time after which an unanswered call is void (default 35 s).
	AnswerTimeout time.Duration

	// RestoredAt, if set, is the time of a restore from a backup.
	RestoredAt time.Time
	// Refuse, if set, returns the refusal of an envelope, or nil.
	Refuse func(e *envelope.Envelope) *problem.Error
	// Behaviour, if set, determines how a call ends: "answer", "fail" or "hang".
	Behaviour func(e *envelope.Envelope) string

	Violations []string // violated invariants
}

// Request is a row of a pair's request chain.
type Request struct {
	Envelope                   envelope.Envelope
	Hash                       identity.Hash
	Reset                      bool
	Tip                        chain.Tip
	epochStart, prevEpochStart int // 0 for epoch 0
	due                        time.Time
	Decision                   string // "", "answer", "void"
	Reply                      *envelope.Envelope
	TextGone                   bool
}

// Pair is a caller's history with the vacant.
type Pair struct {
	Rows          []*Request
	ResponseTip   chain.Tip
	responseEpoch uint64
}

func NewHost(t testing.TB, now func() time.Time) *Host {
	return &Host{Key: NewKey(t, 0x42), Clock: now, rand: &Random{Seed: 99}, Pairs: map[identity.ID]*Pair{}}
}

func (h *Host) ID() identity.ID { return h.Key.ID() }

func (h *Host) Target() dispatch.Target {
	return dispatch.Target{ID: h.ID(), URL: "http://host.test/v/x/a2a/message/send", Name: "demo"}
}

func (h *Host) Pair(id identity.ID) *Pair {
	p := h.Pairs[id]
	if p == nil {
		p = &Pair{}
		h.Pairs[id] = p
	}
	return p
}

func (p *Pair) Tip() chain.Tip {
	if len(p.Rows) == 0 {
		return chain.Tip{}
	}
	return p.Rows[len(p.Rows)-1].Tip
}

// tipWithFloor raises the floor of the chain to the floor after a restore.
func (h *Host) tipWithFloor(p *Pair) chain.Tip {
	tip := p.Tip()
	if floor := h.RestoredAt.Add(300 * time.Second); !h.RestoredAt.IsZero() && floor.After(tip.Floor) {
		tip.Floor = floor
	}
	return tip
}

func (p *Pair) lastEpoch() (epochStart, prevEpochStart int) {
	if len(p.Rows) == 0 {
		return 0, 0
	}
	r := p.Rows[len(p.Rows)-1]
	return r.epochStart, r.prevEpochStart
}

type Body = map[string]any

func (h *Host) Serve(path string, raw []byte) (int, []byte) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	req, err := envelope.DecodeResetRequest(raw)
	if err != nil {
		return 400, Marshal(Body{"detail": err.Error()})
	}
	e := &req.Envelope
	var status int
	var out any
	switch {
	case strings.HasSuffix(path, "/a2a/message/send"):
		status, out = h.send(e)
	case strings.HasSuffix(path, "/a2a/message/ask") && !h.Reference:
		status, out = h.ask(e)
	case strings.HasSuffix(path, "/a2a/chain/reset"):
		status, out = h.reset(e)
	default:
		status, out = 404, Body{"detail": "Not Found"}
	}
	if b, ok := out.([]byte); ok {
		return status, b
	}
	return status, Marshal(out)
}

func Marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

func refusalReply(p *problem.Error) (int, Body) {
	return p.Kind.Forms().HTTPStatus, Body{"detail": p.Text(), "code": p.Kind.String()}
}

func (h *Host) addMembers(b Body, p *Pair) Body {
	if h.Reference {
		delete(b, "code")
		return b
	}
	tip := p.Tip()
	b["expected_seq"], b["chain_tip"] = tip.Seq+1, tip.Hash.String()
	return b
}

func (h *Host) send(e *envelope.Envelope) (int, any) {
	hash, ok := e.Verify()
	if !ok {
		return refusalReply(problem.New(problem.BadSignature, "envelope signature did not verify for sender %s", e.From.Short()))
	}
	p := h.Pair(e.From)
	if e.Time.Sub(h.Clock()) > 300*time.Second && !h.Reference {
		return 400, h.addMembers(Body{"detail": "timestamp ahead", "code": "clock", "now": canon.FormatTime(h.Clock())}, p)
	}
	var refuseErr *problem.Error
	if h.Refuse != nil {
		refuseErr = h.Refuse(e)
	}
	tip := h.tipWithFloor(p)
	chainErr := tip.CheckNext(e)
	if chainErr == nil && !h.RestoredAt.IsZero() {
		chainErr = tip.CheckReset(e)
	}
	if refuseErr == nil && chainErr == nil {
		if e.IsReset() {
			return 400, h.addMembers(Body{"detail": "parts: expected a reset at …/a2a/chain/reset"}, p)
		}
		return h.accept(p, e, hash)
	}
	reason := refuseErr
	if reason == nil {
		reason = problem.AsError(chainErr)
	}
	status, b := refusalReply(reason)
	h.addMembers(b, p)
	if refuseErr == nil && !tip.Floor.IsZero() && !h.Reference {
		b["floor"] = canon.FormatTime(tip.Floor)
		if !h.RestoredAt.IsZero() {
			b["restored"] = canon.FormatTime(h.RestoredAt)
		}
	}
	if row, _ := p.findRow(e, hash); row != nil && chainErr != nil && !h.Reference {
		h.addFate(b, p, row)
	}
	return status, b
}

func (h *Host) accept(p *Pair, e *envelope.Envelope, hash identity.Hash) (int, any) {
	for _, r := range p.Rows {
		if r.Hash == hash {
			h.Violations = append(h.Violations, fmt.Sprintf("envelope %d accepted twice", e.Seq))
		}
	}
	epochStart, prevEpochStart := p.lastEpoch()
	row := &Request{Envelope: *e, Hash: hash, Tip: p.Tip().WithEnvelope(e, hash), epochStart: epochStart, prevEpochStart: prevEpochStart, due: h.Clock().Add(cmp.Or(h.AnswerTimeout, 35*time.Second))}
	p.Rows = append(p.Rows, row)
	outcome := "answer"
	if h.Behaviour != nil {
		outcome = h.Behaviour(e)
	}
	switch outcome {
	case "hang":
		return 0, nil
	case "fail":
		row.Decision = "void"
		if h.Reference {
			return 500, []byte("Internal Server Error")
		}
		return 500, h.addMembers(Body{"detail": "the vacant failed to answer", "code": "behaviour_failed", "state": "unanswered"}, p)
	}
	if !h.Answer(p, row) {
		return 504, h.addMembers(Body{"detail": "no answer in time", "code": "deadline", "state": "unanswered"}, p)
	}
	return 200, envelope.AppendResponse(nil, nil, row.Reply)
}

// Answer appends the answer to row to the response chain, unless its epoch is closed.
func (h *Host) Answer(p *Pair, row *Request) bool {
	if row.Decision != "" {
		return row.Decision == "answer"
	}
	if p.responseEpoch > row.Tip.Epoch {
		row.Decision = "void"
		return false
	}
	if p.responseEpoch < row.Tip.Epoch {
		p.ResponseTip, p.responseEpoch = chain.Tip{}, row.Tip.Epoch
	}
	a := &envelope.Envelope{
		From: h.ID(), To: row.Envelope.From, Seq: p.ResponseTip.Seq + 1, Prev: p.ResponseTip.Hash, Time: h.Clock().UTC(),
		Payload:        envelope.Message{Role: envelope.RoleAgent, Parts: []string{"echo: " + row.Envelope.Payload.Text()}},
		IdempotencyKey: envelope.ReplyKey(row.Hash),
	}
	if h.Reference {
		u := make([]byte, 8)
		_, _ = h.rand.Read(u)
		a.IdempotencyKey = fmt.Sprintf("uuid-%x", u)
	}
	hash, err := a.Sign(context.Background(), h.Key)
	if err != nil {
		panic(err)
	}
	p.ResponseTip = p.ResponseTip.WithEnvelope(a, hash)
	row.Decision, row.Reply = "answer", a
	return true
}

func (p *Pair) findRow(e *envelope.Envelope, hash identity.Hash) (row *Request, tooOld bool) {
	epochStart, prevEpochStart := p.lastEpoch()
	for range 8 {
		if position := epochStart + int(e.Seq); position <= len(p.Rows) && p.Rows[position-1].Hash == hash && !p.Rows[position-1].Reset {
			return p.Rows[position-1], false
		}
		if epochStart == 0 {
			return nil, false
		}
		if epochStart = prevEpochStart; epochStart > 0 {
			prevEpochStart = p.Rows[epochStart-1].prevEpochStart
		}
	}
	return nil, true
}

func (h *Host) addFate(b Body, p *Pair, row *Request) {
	if row.Decision == "" && (h.Clock().After(row.due) || p.responseEpoch > row.Tip.Epoch) {
		row.Decision = "void"
	}
	switch {
	case row.Decision == "":
		b["state"], b["due"] = "pending", canon.FormatTime(row.due)
	case row.Decision == "void":
		b["state"] = "unanswered"
	case row.TextGone:
		b["state"], b["reply_seq"], b["reply_hash"] = "answered", row.Reply.Seq, row.Reply.Hash().String()
	default:
		b["state"], b["reply"] = "answered", json.RawMessage(envelope.AppendMessage(nil, row.Reply))
	}
}

func (h *Host) ask(e *envelope.Envelope) (int, any) {
	hash, ok := e.Verify()
	if !ok {
		return refusalReply(problem.New(problem.BadSignature, "bad signature"))
	}
	p := h.Pair(e.From)
	b := Body{"state": "unknown"}
	if row, tooOld := p.findRow(e, hash); row != nil {
		h.addFate(b, p, row)
	} else if tooOld {
		b["too_old"] = true
	}
	if f := p.Tip().Floor; !f.IsZero() {
		b["floor"] = canon.FormatTime(f)
	}
	return 200, h.addMembers(b, p)
}

func (h *Host) reset(e *envelope.Envelope) (int, any) {
	hash, ok := e.Verify()
	if !ok {
		return 401, Body{"ok": false, "error": "signature_invalid"}
	}
	if !e.IsReset() {
		return 400, Body{"ok": false, "error": "payload_not_reset_chain"}
	}
	if age := h.Clock().Sub(e.Time).Abs(); age > 300*time.Second {
		b := Body{"ok": false, "error": fmt.Sprintf("stale_reset_request: age=%.0fs", age.Seconds())}
		if !h.Reference {
			b["now"] = canon.FormatTime(h.Clock())
		}
		return 400, b
	}
	p := h.Pair(e.From)
	if h.Reference {
		*p = Pair{}
		return 200, Body{"ok": true}
	}
	tip := h.tipWithFloor(p)
	if err := tip.CheckReset(e); (len(p.Rows) > 0 || !h.RestoredAt.IsZero()) && err != nil {
		return 409, h.addMembers(Body{"ok": false, "error": err.Error(), "code": "floor", "floor": canon.FormatTime(tip.Floor)}, p)
	}
	epochStart, _ := p.lastEpoch()
	p.Rows = append(p.Rows, &Request{Envelope: *e, Hash: hash, Reset: true, Tip: tip.WithReset(e), epochStart: len(p.Rows) + 1, prevEpochStart: epochStart, Decision: "void"})
	return 200, Body{"ok": true, "reset_for_peer": e.From.String()}
}

func (h *Host) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	status, out := h.Serve(r.URL.Path, raw)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(out)
}

func (h *Host) CountExecuted(key string) (n int) {
	for _, p := range h.Pairs {
		for _, r := range p.Rows {
			if !r.Reset && r.Envelope.IdempotencyKey == key {
				n++
			}
		}
	}
	return n
}

// Wire is a Transport to a Host that injects faults.
type Wire struct {
	mu   sync.Mutex
	Host *Host
	// Fault, if set, returns the fault to inject into a post, for example "reply lost".
	Fault func(path string, e *envelope.Envelope) string
	Posts []PostedRequest
}

type PostedRequest struct {
	Path     string
	Envelope envelope.Envelope
	Raw      string
}

// ErrLost is the error of a request or reply that was lost.
var ErrLost = errors.New("connection reset by peer")

func (w *Wire) Post(ctx context.Context, url string, raw []byte) (int, []byte, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return 0, nil, err
	}
	path, _, _ := strings.Cut(url[strings.LastIndex(url, "/a2a/"):], "?")
	req, err := envelope.DecodeResetRequest(raw)
	if err != nil {
		return 0, nil, err
	}
	fault := ""
	if w.Fault != nil {
		fault = w.Fault(path, &req.Envelope)
	}
	if fault == "unreachable" {
		return 0, nil, problem.New(problem.Unavailable, "connection refused")
	}
	w.Posts = append(w.Posts, PostedRequest{path, req.Envelope, string(raw)})
	switch fault {
	case "request lost":
		return 0, nil, ErrLost
	case "503":
		return 503, Marshal(Body{"detail": "storage is unavailable", "code": "unavailable"}), nil
	case "twice":
		w.Host.Serve(path, raw)
	}
	status, out := w.Host.Serve(path, raw)
	switch {
	case fault == "reply lost" || status == 0:
		return 0, nil, ErrLost
	case fault == "503 after":
		return 503, Marshal(Body{"detail": "storage is unavailable", "code": "unavailable"}), nil
	case fault == "garbled":
		return status, []byte("<html>"), nil
	}
	return status, out, nil
}

func (w *Wire) Paths() (out []string) {
	for _, s := range w.Posts {
		out = append(out, s.Path[strings.LastIndex(s.Path, "/")+1:])
	}
	return out
}

// SentBodies returns the different bodies that were posted to the send handler for a sequence
// number.
func (w *Wire) SentBodies(seq int64) (out []string) {
	for _, s := range w.Posts {
		if strings.HasSuffix(s.Path, "send") && s.Envelope.Seq == seq && !slices.Contains(out, s.Raw) {
			out = append(out, s.Raw)
		}
	}
	return out
}

func UserMessage(text string) envelope.Message {
	return envelope.Message{Role: envelope.RoleUser, Parts: []string{text}}
}

// PostFunc is a function that implements Transport.
type PostFunc func(url string, body []byte) (int, []byte, error)

func (f PostFunc) Post(_ context.Context, url string, body []byte) (int, []byte, error) {
	return f(url, body)
}

func WantAnswer(t testing.TB, got dispatch.Result, err error, text string) {
	t.Helper()
	if err != nil {
		t.Fatalf("Call() = %v", err)
	}
	if got.Reply == nil || got.Reply.Payload.Text() != text {
		t.Fatalf("Call() = %+v, want the answer %q", got.Reply, text)
	}
}

// WantKind fails a test unless err has a kind and contains the texts.
func WantKind(t testing.TB, err error, k problem.Kind, texts ...string) {
	t.Helper()
	if !problem.Is(err, k) {
		t.Fatalf("error = %v, want kind %v", err, k)
	}
	for _, text := range texts {
		if !strings.Contains(problem.AsError(err).Text(), text) {
			t.Fatalf("error = %q, want it to say %q", problem.AsError(err).Text(), text)
		}
	}
}

func NewServer(t testing.TB, f http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return s
}
