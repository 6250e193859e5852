// Package hosttest provides a complete host for tests of packages that read a host's data.
package hosttest

import (
	"context"
	"crypto/rand"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/answer"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/local"
	"github.com/vacancy-host/vacancy/shared/host/keys/signingkey"
	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/echo"
	"github.com/vacancy-host/vacancy/shared/host/substrate/mock"
	"github.com/vacancy-host/vacancy/shared/host/substrate/resources"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

type Store interface {
	store.Store
	store.Walker
}

const Retention = 24 * time.Hour

// Fixture is a host with a vacant named demo, which echoes its input and fails on the text "fail".
type Fixture struct {
	testing.TB
	Ctx     context.Context // not the test's context, because cleanup also needs it
	Store   Store
	Time    time.Time
	Vault   custody.Vault
	Texts   *textkeys.Keys
	Vacants *vacants.Directory
	Host    *call.Host
	Demo    vacants.Record

	dropsResponses bool
}

func New(t testing.TB, st Store) *Fixture {
	t.Helper()
	vault, err := local.Open(filepath.Join(t.TempDir(), "seal.key"), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return NewWithVault(t, st, vault)
}

func NewWithVault(t testing.TB, st Store, vault custody.Vault) *Fixture {
	t.Helper()
	h := &Fixture{TB: t, Ctx: context.Background(), Store: st, Time: time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC), Vault: vault}
	var err error
	h.OpenHost("http://127.0.0.1:8080")
	h.Demo, err = h.Vacants.Create(h.Ctx, vacants.CreateSpec{Name: "demo", Capability: "says what it hears", Substrate: "echo"})
	h.Must(err)
	h.Must(signingkey.New(signingkey.Config{Store: st, Vault: vault, Now: h.Now, Rand: rand.Reader, Identity: h.Vacants.HostSigner}).RenewIfDue(h.Ctx))
	return h
}

func (h *Fixture) Now() time.Time { return h.Time }

func (h *Fixture) OpenHost(url string) {
	h.Helper()
	noWait := func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
	v := NewVacants(h, h.Store, h.Now, url, vacants.Config{
		Vault: h.Vault, Resources: &resources.Resources{Substrates: substrate.Kinds{echo.Kind: echo.New, substrate.KindMock: mock.Kinds()[substrate.KindMock]}}, Wait: noWait,
	})
	h.Vacants, h.Texts = v, textkeys.New(h.Store, h.Vault, h.Now, rand.Reader, Retention)
	h.Host = call.New(call.Config{
		Store: lossyStore{h.Store, h}, Directory: failingDirectory{answer.New(answer.Config{Vacants: v})}, Texts: h.Texts, Now: h.Now, Rand: rand.Reader, Wait: noWait, Self: v.HostID,
	})
}

// NewVacants sets Records, Registry and Rand of c.
func NewVacants(t testing.TB, s store.Store, now func() time.Time, url string, c vacants.Config) *vacants.Directory {
	t.Helper()
	records, err := vacants.NewRecords(s, now, url)
	if err != nil {
		t.Fatal(err)
	}
	c.Records, c.Rand = records, rand.Reader
	c.Registry = registry.New(registry.Config{
		Store: s, Now: now, Rand: rand.Reader, Wait: c.Wait, Endpoints: records,
		AllowRemote: true,
	})
	return vacants.New(c)
}

func (h *Fixture) Must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// lossyStore drops responses while Fixture.dropsResponses is set.
type lossyStore struct {
	store.Store
	fixture *Fixture
}

func (p lossyStore) Commit(ctx context.Context, writes ...store.Write) error {
	if a, ok := writes[0].(store.Append); ok && p.fixture.dropsResponses && a.Stream.Kind() == store.KindResponse {
		return store.NotAppliedError(errors.New("the power is out"))
	}
	return p.Store.Commit(ctx, writes...)
}

type failingDirectory struct{ *answer.Answerer }

func (f failingDirectory) Vacant(ctx context.Context, id identity.ID, fresh bool) (call.Vacant, bool, error) {
	v, ok, err := f.Answerer.Vacant(ctx, id, fresh)
	behaviour := v.Behaviour
	v.Behaviour = func(ctx context.Context, calls *call.Host, e envelope.Envelope) (envelope.Message, error) {
		if e.Payload.Text() == "fail" {
			return envelope.Message{}, errors.New("told to")
		}
		return behaviour(ctx, calls, e)
	}
	return v, ok, err
}

func (h *Fixture) OpenBilling() *billing.Billing {
	b := billing.New(billing.Config{Store: h.Host.Store, Now: h.Now, Rand: rand.Reader, MAC: h.Texts.MAC, Self: h.Vacants.HostID})
	h.Host.Ledger = b
	return b
}
