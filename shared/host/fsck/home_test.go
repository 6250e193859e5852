package fsck_test

import (
	"context"
	"crypto/rand"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/custody"
	"github.com/vacancy-host/vacancy/shared/host/custody/local"
	"github.com/vacancy-host/vacancy/shared/host/fsck"
	"github.com/vacancy-host/vacancy/shared/host/hosted"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/echo"
	"github.com/vacancy-host/vacancy/shared/host/texts"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// kept is a store that can be walked.
type kept interface {
	store.Store
	store.Walker
}

// home is a host over a store, with a clock that tests move.
type home struct {
	t       testing.TB
	ctx     context.Context
	store   kept
	deaf    bool // responses cannot be written, as after a crash
	now     time.Time
	vault   custody.Vault
	texts   *texts.Keys
	vacants *hosted.Vacants
	host    *call.Host
	demo    hosted.Record
}

const retention = 24 * time.Hour

func newHome(t testing.TB, st kept) *home {
	t.Helper()
	h := &home{t: t, ctx: context.Background(), store: st, now: time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)}
	vault, err := local.Open(filepath.Join(t.TempDir(), "seal.key"), rand.Reader)
	h.must(err)
	h.vault = vault
	h.open("http://127.0.0.1:8080")
	h.demo, err = h.vacants.Create(h.ctx, hosted.Spec{Name: "demo", Capability: "says what it hears", Substrate: "echo"})
	h.must(err)
	_, err = h.vacants.Self(h.ctx)
	h.must(err)
	return h
}

// open starts a host, as after a restart.
func (h *home) open(url string) {
	h.t.Helper()
	clock := func() time.Time { return h.now }
	noWait := func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
	v, err := hosted.New(hosted.Config{
		Store: h.store, Vault: h.vault, Now: clock, Rand: rand.Reader, URL: url,
		Substrates: substrate.Kinds{echo.Kind: echo.New}, Wait: noWait,
	})
	h.must(err)
	h.vacants, h.texts = v, texts.New(h.store, h.vault, clock, rand.Reader, retention)
	h.host = call.New(call.Config{
		Store: deafable{h}, Directory: failing{v}, Texts: h.texts, Now: clock, Rand: rand.Reader, Wait: noWait, Self: v.SelfID,
	})
}

func (h *home) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// deafable is the store of the pipeline, whose responses can be lost.
type deafable struct{ *home }

func (d deafable) Tip(ctx context.Context, s store.Stream) (store.Row, error) {
	return d.store.Tip(ctx, s)
}
func (d deafable) Rows(ctx context.Context, s store.Stream, from uint64, n int, dir store.Direction) ([]store.Row, error) {
	return d.store.Rows(ctx, s, from, n, dir)
}
func (d deafable) Doc(ctx context.Context, k store.Key) (store.Doc, error) {
	return d.store.Doc(ctx, k)
}
func (d deafable) Docs(ctx context.Context, r store.Range, n int, c string) ([]store.Doc, string, error) {
	return d.store.Docs(ctx, r, n, c)
}
func (d deafable) Close() error { return nil }
func (d deafable) Commit(ctx context.Context, writes ...store.Write) error {
	if a, ok := writes[0].(store.Append); ok && d.deaf && a.Stream.Kind() == store.KindResponse {
		return store.NotApplied(errors.New("the power is out"))
	}
	return d.store.Commit(ctx, writes...)
}

// failing is a directory whose vacants fail when they are told to.
type failing struct{ *hosted.Vacants }

func (f failing) Vacant(ctx context.Context, id identity.ID, fresh bool) (call.Vacant, bool, error) {
	v, ok, err := f.Vacants.Vacant(ctx, id, fresh)
	does := v.Behaviour
	v.Behaviour = func(ctx context.Context, e envelope.Envelope) (envelope.Message, error) {
		if e.Payload.Text() == "fail" {
			return envelope.Message{}, errors.New("told to")
		}
		return does(ctx, e)
	}
	return v, ok, err
}

// caller signs calls to the demo vacant.
type caller struct {
	*home
	key  *identity.Key
	seq  int64
	prev identity.Hash
	last *envelope.Envelope
}

func (h *home) caller() *caller {
	k, err := identity.NewKey(rand.Reader)
	h.must(err)
	return &caller{home: h, key: k}
}

func (c *caller) pair() call.Pair { return call.Pair{Caller: c.key.ID(), Vacant: c.demo.ID} }

func (c *caller) sign(seq int64, prev identity.Hash, text string) *envelope.Envelope {
	c.t.Helper()
	c.now = c.now.Add(time.Second)
	id := "m1"
	e := &envelope.Envelope{
		From: c.key.ID(), To: c.demo.ID, Seq: seq, Prev: prev, Time: c.now, IdempotencyKey: "k",
		Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{text}, MessageID: &id},
	}
	_, err := e.Sign(c.ctx, c.key)
	c.must(err)
	return e
}

// call sends the next call. It is answered unless it says "fail", or nothing
// can be answered.
func (c *caller) call(text string) {
	c.t.Helper()
	c.last = c.sign(c.seq+1, c.prev, text)
	out := c.host.Send(c.ctx, identity.ID{}, c.last)
	if answered := out.Problem == nil; answered == (text == "fail" || c.deaf) {
		c.t.Fatalf("Send(%q) = %v", text, out.Problem)
	}
	c.seq, c.prev = c.seq+1, c.last.Hash()
}

// reset starts the chain anew.
func (c *caller) reset() {
	c.t.Helper()
	out := c.host.Reset(c.ctx, identity.ID{}, c.sign(7, identity.Hash{1}, envelope.ResetText))
	if out.Problem != nil {
		c.t.Fatal(out.Problem)
	}
	c.seq, c.prev = 0, identity.Hash{}
}

// crash makes a call that is accepted and not decided.
func (c *caller) crash(text string) *envelope.Envelope {
	c.t.Helper()
	c.deaf = true
	c.call(text)
	c.deaf = false
	return c.last
}

// ask asks for a call, which voids it once it is due.
func (c *caller) ask(e *envelope.Envelope, want call.State) {
	c.t.Helper()
	if out := c.host.Ask(c.ctx, identity.ID{}, e); out.State != want {
		c.t.Fatalf("Ask() = %q, %v, want %q", out.State, out.Problem, want)
	}
}

// check runs a check over a home and returns what it found.
func (h *home) check(over fsck.Home) (fsck.Result, []fsck.Finding) {
	return h.checkWith(over, fsck.Run)
}

func (h *home) checkWith(over fsck.Home, run func(context.Context, fsck.Config) (fsck.Result, error)) (fsck.Result, []fsck.Finding) {
	h.t.Helper()
	var found []fsck.Finding
	res, err := run(h.ctx, fsck.Config{
		Home: over, Vault: h.vault, Now: func() time.Time { return h.now }, Retention: retention,
		Found: func(f fsck.Finding) error { found = append(found, f); return nil },
	})
	if err != nil {
		h.t.Fatalf("Run() = %v", err)
	}
	if res.Findings != uint64(len(found)) {
		h.t.Errorf("Run() counts %d findings, reported %d", res.Findings, len(found))
	}
	return res, found
}

// narrow is a check that remembers hardly anything.
func narrow(ctx context.Context, c fsck.Config) (fsck.Result, error) {
	return fsck.RunWith(ctx, c, 2, 3)
}

// story fills a home with rows of every kind: several epochs, voids, a late
// void, a call that an epoch closed, a reset of a fresh pair, texts whose key
// is destroyed. It returns the caller of the longest history.
func story(t testing.TB, st kept) *caller {
	t.Helper()
	h := newHome(t, st)
	a, b := h.caller(), h.caller()
	for range 3 {
		a.call("hello")
	}
	a.call("fail")
	a.call("hello again")
	b.reset()
	b.call("first of a fresh pair")

	// Texts of this day are destroyed before the next ones are written.
	h.now = h.now.Add(72 * time.Hour)
	if n, err := h.texts.Sweep(h.ctx); n != 1 || err != nil {
		t.Fatalf("Sweep() = %d, %v, want 1", n, err)
	}
	a.call("hello tomorrow") // row 6
	late := a.crash("late")  // row 7
	a.call("after it")       // row 8
	h.now = h.now.Add(time.Hour)
	a.ask(late, call.Unanswered)
	a.reset() // row 9
	a.call("epoch one")
	closed := a.crash("closed by the next epoch") // row 11
	a.reset()
	a.call("epoch two")
	a.ask(closed, call.Unanswered)
	a.call("fail")
	a.call("bye")
	a.crash("pending") // row 16

	_, err := h.vacants.Pause(h.ctx, h.demo.ID)
	h.must(err)
	_, err = h.vacants.Resume(h.ctx, h.demo.ID)
	h.must(err)
	h.open("http://127.0.0.1:9999")
	_, err = h.vacants.Rebase(h.ctx)
	h.must(err)
	other, err := h.vacants.Create(h.ctx, hosted.Spec{Name: "other", Capability: "is closed", Substrate: "echo"})
	h.must(err)
	_, err = h.vacants.Sink(h.ctx, other.ID)
	h.must(err)
	return a
}
