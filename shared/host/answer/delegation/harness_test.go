package delegation_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"github.com/vacancy-host/vacancy/shared/host/answer"
	"github.com/vacancy-host/vacancy/shared/host/substrate/resources"
	"iter"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/answer/delegation"
	"github.com/vacancy-host/vacancy/shared/host/answer/hosttest"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/family/egress"
	"github.com/vacancy-host/vacancy/shared/host/fsck"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/local"
	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/echo"
	"github.com/vacancy-host/vacancy/shared/host/substrate/plan"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

// thinks is a substrate made of a function.
type thinks = substrate.Func

// minds are the substrates of kind test, by their argument. A missing one
// answers with its name and the question: "name(text)".
type minds struct {
	mu sync.Mutex
	m  map[string]thinks
}

func (m *minds) set(name string, f thinks) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.m == nil {
		m.m = map[string]thinks{}
	}
	m.m[name] = f
}

func (m *minds) open(name string) (substrate.Substrate, error) {
	return thinks(func(ctx context.Context, q substrate.Request) (string, error) {
		m.mu.Lock()
		f := m.m[name]
		m.mu.Unlock()
		if f == nil {
			return name + "(" + q.Text() + ")", nil
		}
		return f(ctx, q)
	}), nil
}

// model is a model that asks the first vacant of its tools what it is asked, as often as its name
// says "+", and then says what it heard.
func (m *minds) model(name string) substrate.Substrate {
	return asking{strings.Count(name, "+")}
}

type asking struct{ times int }

func (a asking) Infer(_ context.Context, r substrate.Request) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		asked, heard := 0, ""
		for _, t := range r.Turns {
			for _, res := range t.Results {
				asked++
				heard += res.Text
			}
		}
		if asked > 0 || len(r.Tools) == 0 {
			if yield(substrate.Text("heard: "+heard), nil) {
				yield(substrate.FinishStop, nil)
			}
			return
		}
		arguments, _ := json.Marshal(map[string]string{"message": r.Turns[0].Text})
		for i := range a.times {
			if !yield(substrate.ToolCall{ID: strconv.Itoa(i), Name: r.Tools[0].Name, Arguments: string(arguments)}, nil) {
				return
			}
		}
		yield(substrate.FinishToolUse, nil)
	}
}

// agent creates a vacant whose model asks others, so many times at once.
func (h *fixture) agent(name string, times int, asks ...string) vacants.Record {
	h.Helper()
	a := definition.Agent{Provider: substrate.KindMock, Model: strings.Repeat("+", times), Vacants: asks}
	r, err := h.vacants.Create(h.Context(), vacants.CreateSpec{Asker: vacants.OperatorAsker(), Name: name, Capability: "asks", Agent: &a})
	h.must(err)
	return r
}

// fixture is a host over a store.
type fixture struct {
	testing.TB
	store   store.Store
	vault   custody.Vault
	minds   *minds
	vacants *vacants.Directory
	reg     *registry.Registry
	runner  *delegation.Runner
	calls   *call.Host
	// wait sleeps between tries. With nil, the host waits as usual.
	wait func(context.Context, time.Duration) error
}

// noWait retries at once.
func noWait(ctx context.Context, _ time.Duration) error { return ctx.Err() }

// Times of the pipeline in tests: short where a test waits for them to pass,
// and otherwise as long as a busy machine may need.
const (
	work   = 1500 * time.Millisecond
	margin = 300 * time.Millisecond
	ample  = 30 * time.Second
)

func newVault(t testing.TB) custody.Vault {
	t.Helper()
	v, err := local.Open(filepath.Join(t.TempDir(), "seal.key"), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func open(t testing.TB, s store.Store) *fixture {
	t.Helper()
	return (&fixture{TB: t, vault: newVault(t), minds: &minds{}}).over(s, ample)
}

// over is another instance of h, over a store with the same data.
func (h *fixture) over(s store.Store, work time.Duration) *fixture {
	h.Helper()
	o := &fixture{TB: h.TB, store: s, vault: h.vault, minds: h.minds, wait: h.wait}
	// Agents have one of the providers that they know.
	kinds := substrate.Kinds{echo.Kind: echo.New, "test": h.minds.open, substrate.KindMock: func(name string) (substrate.Substrate, error) { return h.minds.model(name), nil }}
	guard := func(ctx context.Context, as outbound.Actor, url string) error {
		return egress.Guard{Vacants: o.vacants.Records, Manifests: o.reg}.CheckPermission(ctx, as, url)
	}
	o.runner = delegation.New(delegation.Config{Store: s, Guard: guard, Substrates: kinds, Now: time.Now, Rand: rand.Reader, ReplyMargin: margin, Wait: h.wait})
	o.vacants = hosttest.NewVacants(h, s, time.Now, "http://127.0.0.1:8080", vacants.Config{
		Vault: h.vault, Wait: h.wait,
		Resources: &resources.Resources{Substrates: kinds},
	})
	o.reg = o.vacants.Registry
	o.calls = call.New(call.Config{
		Store: s, Directory: answer.New(answer.Config{Vacants: o.vacants, Guard: guard, ReplyMargin: margin}), Texts: textkeys.New(s, h.vault, time.Now, rand.Reader, 0), Now: time.Now, Rand: rand.Reader,
		Self: o.vacants.HostID, AreRevoked: o.reg.AreRevoked, IsSibling: o.reg.IsChild, CallTimeout: work, ReplyMargin: margin, Wait: h.wait,
	})
	return o
}

func (h *fixture) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

func (h *fixture) create(name string) vacants.Record {
	h.Helper()
	r, err := h.vacants.Create(h.Context(), vacants.CreateSpec{Name: name, Capability: "answers", Substrate: "test:" + name})
	h.must(err)
	return r
}

// spawn makes closed children with test substrates named after them.
func (h *fixture) spawn(parent identity.ID, names ...string) []vacants.Record {
	h.Helper()
	var all []vacants.Record
	for _, name := range names {
		r, _, err := h.vacants.Spawn(h.Context(), vacants.SpawnSpec{Parent: parent, Path: "D2", Name: name, Capability: "helps", Substrate: "test:" + name})
		h.must(err)
		all = append(all, r)
	}
	return all
}

func parse(t testing.TB, text string) plan.Plan {
	t.Helper()
	p, err := plan.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (h *fixture) set(id identity.ID, text string) plan.Plan {
	h.Helper()
	_, p, err := h.vacants.SetPlan(h.Context(), vacants.OperatorAsker(), id, parse(h, text))
	h.must(err)
	return p
}

// firm is a host with a composite of two children, drafter and reviewer.
func firm(t testing.TB, s store.Store, text string) (h *fixture, parent vacants.Record, children []vacants.Record) {
	t.Helper()
	h = open(t, s)
	parent = h.create("firm")
	children = h.spawn(parent.ID, "drafter", "reviewer")
	h.set(parent.ID, text)
	return h, parent, children
}

const both = `{"version":1,"delegate":[{"child":"drafter"},{"child":"reviewer"}]}`

// caller signs calls of one vacant, from outside.
type caller struct {
	key  *identity.Key
	to   identity.ID
	seq  int64
	prev identity.Hash
}

func newCaller(t testing.TB, to identity.ID) *caller {
	t.Helper()
	k, err := identity.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &caller{key: k, to: to}
}

func (c *caller) sign(t testing.TB, text string) *envelope.Envelope {
	t.Helper()
	e := &envelope.Envelope{
		From: c.key.ID(), To: c.to, Seq: c.seq + 1, Prev: c.prev, Time: time.Now().UTC().Truncate(time.Microsecond),
		IdempotencyKey: "k", Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{text}},
	}
	if _, err := e.Sign(t.Context(), c.key); err != nil {
		t.Fatal(err)
	}
	return e
}

// call is one call, and its answer's text.
func (c *caller) call(ctx context.Context, t testing.TB, h *fixture, text string) (string, *problem.Error) {
	t.Helper()
	e := c.sign(t, text)
	out := h.calls.Send(ctx, identity.ID{}, e)
	if out.Position > 0 {
		c.seq, c.prev = e.Seq, e.Hash()
	}
	if out.Problem != nil {
		return "", out.Problem
	}
	return out.Reply.Payload.Text(), nil
}

// ask makes one call by a new caller.
func (h *fixture) ask(to identity.ID, text string) (string, *problem.Error) {
	h.Helper()
	return newCaller(h, to).call(h.Context(), h, h, text)
}

// log lists the kinds of a logbook's entries from the first about a plan, with
// its chain verified.
func (h *fixture) log(id identity.ID) (kinds []string) {
	h.Helper()
	var entries []logbook.Entry
	for {
		page, err := h.vacants.Logbook(h.Context(), id, uint64(len(entries))+1, vacants.MaxPage)
		h.must(err)
		if len(page) == 0 {
			break
		}
		for _, p := range page {
			entries = append(entries, p.Entry)
		}
	}
	if err := logbook.VerifyChain(id, entries); err != nil {
		h.Errorf("logbook of %s: %v", id.Short(), err)
	}
	for _, e := range entries {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

func count(list []string, one string) (n int) {
	for _, s := range list {
		if s == one {
			n++
		}
	}
	return n
}

// wantClean verifies the whole store.
func wantClean(t testing.TB, h *fixture, s fsck.Source) {
	t.Helper()
	var found []string
	_, err := fsck.Run(t.Context(), fsck.Config{Source: s, Vault: h.vault, Now: time.Now, ReportFinding: func(f fsck.Finding) error {
		found = append(found, f.String())
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) > 0 {
		t.Errorf("verify finds %q, want nothing", found)
	}
}

// counter counts what runs at once.
type counter struct{ now, most atomic.Int32 }

func (c *counter) enter() (leave func()) {
	n := c.now.Add(1)
	for most := c.most.Load(); n > most && !c.most.CompareAndSwap(most, n); most = c.most.Load() {
	}
	return func() { c.now.Add(-1) }
}

var errBroken = errors.New("broken")

func newStore() *memory.Store { return memory.New() }
