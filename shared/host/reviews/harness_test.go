package reviews_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	mathrand "math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/registryapi"
	"github.com/vacancy-host/vacancy/shared/host/answer"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/call/calltest"
	"github.com/vacancy-host/vacancy/shared/host/client/registryclient"
	"github.com/vacancy-host/vacancy/shared/host/fsck"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/local"
	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/reviews"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/echo"
	"github.com/vacancy-host/vacancy/shared/host/substrate/mock"
	"github.com/vacancy-host/vacancy/shared/host/substrate/resources"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/claim"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/review"
)

// unreliable is a store that counts commits, and whose Commit number failAt fails, before or after it
// is applied.
type unreliable struct {
	store.Store
	mu      sync.Mutex
	commits int
	failAt  int
	applied bool
	units   int // write units of DynamoDB of the last commit
	reads   int // read units of DynamoDB, where each document is below 4 KiB
	stop    int // commits from this number on fail for ever, as if the process had ended
}

func (s *unreliable) stopAt(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commits, s.stop = 0, n
}

func (s *unreliable) Commit(ctx context.Context, writes ...store.Write) error {
	s.mu.Lock()
	s.commits++
	fail := s.commits == s.failAt
	s.units = 0
	for _, w := range writes {
		switch w := w.(type) {
		case store.Append:
			s.units += 2 * kilobytes(len(w.Data)+140)
		case store.Put:
			s.units += 2 * kilobytes(len(w.Data)+len(w.Key.Partition)+len(w.Key.Sort)+60)
			if w.Index != (store.Key{}) { // an entry moves within the index
				s.units += 2 * kilobytes(len(w.Data)+len(w.Key.Partition)+len(w.Key.Sort)+60)
			}
		default:
			s.units += 2
		}
	}
	stopped := s.stop > 0 && s.commits >= s.stop
	s.mu.Unlock()
	if stopped {
		return store.NotAppliedError(store.ErrClosed)
	}
	if fail && !s.applied {
		return store.NotAppliedError(errors.New("the network"))
	}
	err := s.Store.Commit(ctx, writes...)
	if fail && err == nil {
		return fmt.Errorf("%w: the acknowledgement was lost", store.ErrUnavailable)
	}
	return err
}

func (s *unreliable) read(bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads += max((bytes+4095)/4096, 1)
}

func (s *unreliable) Doc(ctx context.Context, k store.Key) (store.Doc, error) {
	d, err := s.Store.Doc(ctx, k)
	s.read(len(d.Data))
	return d, err
}

func (s *unreliable) Rows(ctx context.Context, of store.Stream, from uint64, n int, d store.Direction) ([]store.Row, error) {
	rows, err := s.Store.Rows(ctx, of, from, n, d)
	size := 0
	for _, row := range rows {
		size += len(row.Data) + 140
	}
	s.read(size)
	return rows, err
}

func kilobytes(n int) int { return (n + 1023) / 1024 }

func (s *unreliable) begin(failAt int, applied bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commits, s.failAt, s.applied, s.reads = 0, failAt, applied, 0
}

// fails is a substrate that answers no call.
type fails struct{}

func (fails) Infer(context.Context, substrate.Request) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		yield(nil, problem.New(problem.SubstrateRefused, "no"))
	}
}

// fixture is a host over a store in memory, with a clock that only tests move.
type fixture struct {
	testing.TB
	Clock    *calltest.Clock
	Store    *memory.Store
	Vacants  *vacants.Directory
	Registry *registry.Registry
	Billing  *billing.Billing
	Calls    *call.Host
	Reviews  *reviews.Service
	vault    custody.Vault
	faults   *unreliable
	keys     atomic.Uint64
}

func open(t testing.TB) *fixture {
	f := &fixture{TB: t, Store: memory.New(), Clock: calltest.NewClock(time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC))}
	f.faults = &unreliable{Store: f.Store}
	var err error
	f.vault, err = local.FromHex(strings.Repeat("5a", 32), rand.Reader)
	f.Must(err)
	now := f.Clock.NowFunc(0)
	records, err := vacants.NewRecords(f.faults, now, "http://127.0.0.1:1")
	f.Must(err)
	f.Registry = registry.New(registry.Config{Store: f.faults, Now: now, Rand: rand.Reader, Endpoints: records})
	kinds := mock.Kinds()
	kinds[echo.Kind] = echo.New
	kinds["fails"] = func(string) (substrate.Substrate, error) { return fails{}, nil }
	f.Vacants = vacants.New(vacants.Config{Records: records, Registry: f.Registry, Vault: f.vault, Rand: rand.Reader, Resources: &resources.Resources{Substrates: kinds}})
	t.Cleanup(f.Vacants.Close)
	keys := textkeys.New(f.faults, f.vault, now, rand.Reader, textkeys.MinRetention)
	f.Billing = billing.New(billing.Config{Store: f.faults, Now: now, Rand: rand.Reader, MAC: keys.MAC, Self: f.Vacants.HostID})
	f.Calls = call.New(call.Config{
		Store: f.faults, Directory: answer.New(answer.Config{Vacants: f.Vacants}), Ledger: f.Billing, Texts: keys, Now: now, Rand: rand.Reader,
		Self: f.Vacants.HostID, AreRevoked: f.Registry.AreRevoked, IsSibling: f.Registry.IsChild,
	})
	f.Reviews = &reviews.Service{Store: f.faults, Calls: f.Calls, Vacants: f.Vacants, Registry: f.Registry, Now: now, Rand: rand.Reader}
	return f
}

func (f *fixture) Must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) Create(s vacants.CreateSpec) vacants.Record {
	f.Helper()
	r, err := f.Vacants.Create(f.Context(), s)
	f.Must(err)
	return r
}

// Account opens the account of a tenant with a credit.
func (f *fixture) Account(tenant string) billing.Account {
	f.Helper()
	a, err := f.Billing.OpenAccount(f.Context(), tenant, 0)
	f.Must(err)
	_, _, err = f.Billing.Credit(f.Context(), a.ID, money.Dollar, "first", "")
	f.Must(err)
	return a
}

// Link lets an account pay for a caller.
func (f *fixture) Link(a billing.Account, caller identity.Signer) {
	f.Helper()
	self, err := f.Vacants.HostID(f.Context())
	f.Must(err)
	c := claim.PaymentClaim{Host: self, Account: a.ID}
	f.Must(c.Sign(f.Context(), caller, f.Clock.NowFunc(0)()))
	_, err = f.Billing.Link(f.Context(), a.ID, c.String())
	f.Must(err)
}

// Findings returns what verify finds in the store.
func (f *fixture) Findings() (found []string) {
	f.Helper()
	_, err := fsck.Run(f.Context(), fsck.Config{Source: f.Store, Vault: f.vault, Now: f.Clock.NowFunc(0), ReportFinding: func(one fsck.Finding) error {
		found = append(found, one.String())
		return nil
	}})
	f.Must(err)
	return found
}

func (f *fixture) WantWhole() {
	f.Helper()
	if found := f.Findings(); len(found) > 0 {
		f.Errorf("verify: %q", found)
	}
}

// handler returns the handler of the registry.
func (f *fixture) handler() http.Handler {
	return registryapi.NewRegistryHandler(registryapi.Config{
		Registry: f.Registry, Vacants: f.Vacants, Reviews: f.Reviews, URL: f.Vacants.BaseURL, Now: f.Clock.NowFunc(0), Logger: slog.New(slog.DiscardHandler),
	})
}

// host creates a vacant for a tenant and publishes it.
func (f *fixture) host(tenant, name string) identity.ID {
	f.Helper()
	r := f.Create(vacants.CreateSpec{Name: name, Capability: "answers as " + name, Substrate: "echo", Tenant: tenant})
	_, _, err := f.Vacants.Publish(f.Context(), r.ID, vacants.PublishOptions{})
	f.Must(err)
	return r.ID
}

// key returns another new key. The keys of all tests are the same.
func (f *fixture) key() *identity.Key {
	f.Helper()
	k, err := identity.NewKey(mathrand.NewChaCha8([32]byte{1, byte(f.keys.Load()), byte(f.keys.Load() >> 8), byte(f.keys.Add(1) >> 16)}))
	f.Must(err)
	return k
}

// payer returns a key whose calls the account of a new tenant pays for.
func (f *fixture) payer(tenant string) *identity.Key {
	f.Helper()
	k := f.key()
	f.Link(f.Account(tenant), k)
	return k
}

// as calls fn with the signer of a hosted vacant.
func (f *fixture) as(id identity.ID) (signer identity.Signer) {
	f.Helper()
	f.Must(f.Vacants.WithSigner(f.Context(), id, func(s identity.Signer) error { signer = s; return nil }))
	return signer
}

// called is a call.
type called struct {
	hash     identity.Hash
	position uint64
	by       identity.Signer
	to       identity.ID
	out      call.Outcome
}

func (f *fixture) sign(by identity.Signer, to identity.ID) *envelope.Envelope {
	f.Helper()
	f.Clock.Advance(time.Millisecond)
	next, err := f.Calls.ExpectedEnvelope(f.Context(), call.Pair{Caller: by.ID(), Vacant: to})
	f.Must(err)
	e := &envelope.Envelope{
		From: by.ID(), To: to, Seq: next.Seq, Prev: next.Prev, Time: f.Clock.NowFunc(0)().UTC().Truncate(time.Microsecond),
		Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{"a question"}},
	}
	_, err = e.Sign(f.Context(), by)
	f.Must(err)
	return e
}

// try calls a vacant, which need not answer.
func (f *fixture) try(by identity.Signer, to identity.ID) called {
	f.Helper()
	e := f.sign(by, to)
	out := f.Calls.Send(f.Context(), identity.ID{}, e)
	return called{e.Hash(), out.Position, by, to, out}
}

func (f *fixture) call(by identity.Signer, to identity.ID) called {
	f.Helper()
	c := f.try(by, to)
	if c.out.Problem != nil {
		f.Fatal(c.out.Problem)
	}
	return c
}

// rate signs a review of a call with one signal in the required dimensions.
func (f *fixture) rate(c called, signal float64, change ...func(*review.Record)) review.Record {
	f.Helper()
	r := review.Record{Members: review.Members{
		Target: c.to, Ratings: review.Ratings{"factual": signal, "logical": signal, "relevance": signal},
		Substrate: "default", CallHash: c.hash, Position: int64(c.position), IssuedAt: canon.FormatTime(f.Clock.NowFunc(0)()),
	}}
	for _, one := range change {
		one(&r)
	}
	f.Must(r.Sign(f.Context(), c.by))
	return r
}

func (f *fixture) submit(r review.Record) registryclient.ReviewReceipt {
	f.Helper()
	out, err := f.Reviews.Submit(f.Context(), r)
	f.Must(err)
	return out
}

// praise calls a vacant and reviews the answer.
func (f *fixture) praise(by identity.Signer, to identity.ID, signal float64) registryclient.ReviewReceipt {
	f.Helper()
	return f.submit(f.rate(f.call(by, to), signal))
}

func (f *fixture) price(id identity.ID) {
	f.Helper()
	_, err := f.Vacants.SetPrice(f.Context(), id, price.Price{Flat: 100, FreePerSigner: 1000})
	f.Must(err)
}

func (f *fixture) reputation(id identity.ID) registryclient.Reputation {
	f.Helper()
	r, err := f.Reviews.Reputation(f.Context(), id)
	f.Must(err)
	return r
}

func (f *fixture) refused(r review.Record, want problem.Kind, what string) {
	f.Helper()
	f.faults.begin(0, false)
	if _, err := f.Reviews.Submit(f.Context(), r); !problem.Is(err, want) {
		f.Errorf("%s: Submit() = %v, want %v", what, err, want)
	}
	if f.faults.commits > 0 {
		f.Errorf("%s: the refused review was stored", what)
	}
}
