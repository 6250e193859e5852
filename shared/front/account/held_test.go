package account_test

import (
	"context"
	"crypto/rand"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/account"
	"github.com/vacancy-host/vacancy/shared/host/billing/price"
	"github.com/vacancy-host/vacancy/shared/host/billing/usage"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/call/calltest"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/bolt"
	"github.com/vacancy-host/vacancy/shared/vacant/claim"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// What a call holds is neither in the balance nor spent: balance, held and spent are what was
// added, at each moment.
func TestHeldIsWhatCallsHaveTakenAndUsageDoesNotCount(t *testing.T) {
	file, err := bolt.Open(filepath.Join(t.TempDir(), "data"), bolt.Options{})
	must(t, err)
	t.Cleanup(func() { file.Close() })
	f := newFixtureOver(t, file)
	ctx, key := t.Context(), f.key()
	_, _, err = f.billing.Credit(ctx, f.account.ID, 10_000, "first", "")
	must(t, err)
	_, err = f.billing.SetLine(ctx, f.account.ID, 5_000, "")
	must(t, err)
	wants := func(balance, held string) {
		t.Helper()
		f.do("GET", account.TenantPath, "", key, 200, `"balance":`+balance+`,"held":`+held+`,`)
	}
	wants("15000", "0")

	vacant, who := newKey(t), newKey(t)
	p := &price.Price{Version: 1, In: 1_000_000, Most: 3000}
	data, err := p.Encode()
	must(t, err)
	must(t, file.Commit(ctx, store.Put{Key: price.Key(vacant.ID(), 1), WriteID: store.WriteID{1}, Data: data}))
	one := claim.Claim{Host: hostID, Account: f.account.ID}
	must(t, one.Sign(ctx, who, time.Now()))
	_, err = f.billing.Link(ctx, f.account.ID, one.String())
	must(t, err)
	host := call.New(call.Config{
		Store: file, Texts: &calltest.Texts{}, Now: time.Now, Rand: rand.Reader, Ledger: f.billing,
		Self: func(context.Context) (identity.ID, error) { return hostID, nil },
		Directory: call.Single{ID: vacant.ID(), State: lifecycle.Active, Signer: vacant, Price: p, Behaviour: func(ctx context.Context, _ *call.Host, e envelope.Envelope) (envelope.Message, error) {
			wants("12000", "3000") // the most that the call may cost
			if e.Payload.Text() == "fail" {
				return envelope.Message{}, errors.New("it fails")
			}
			call.Note(ctx, call.Usage{In: 2000})
			return envelope.Message{Role: envelope.RoleAgent, Parts: []string{"yes"}}, nil
		}},
	})
	send := func(seq int64, before *envelope.Envelope, text string) *envelope.Envelope {
		t.Helper()
		e := &envelope.Envelope{From: who.ID(), To: vacant.ID(), Seq: seq, Time: time.Now().UTC().Truncate(time.Microsecond), Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{text}}}
		if before != nil {
			e.Prev = before.Hash()
		}
		_, err := e.Sign(ctx, who)
		must(t, err)
		if out := host.Send(ctx, identity.ID{}, e); (out.Problem != nil) != (text == "fail") {
			t.Errorf("a call %q: %v", text, out.Problem)
		}
		return e
	}
	failed := send(1, nil, "fail")
	wants("15000", "0") // given back at once
	send(2, failed, "hi")
	wants("13000", "2000") // what it cost
	m := &usage.Meter{Store: file, Feed: file, Now: time.Now, Rand: rand.Reader, Owner: func(context.Context, identity.ID) (string, error) { return "", nil }}
	_, err = m.Fold(ctx)
	must(t, err)
	wants("13000", "0")
	_, _, err = f.billing.Adjust(ctx, f.account.ID, -1000, "second", "agreed")
	must(t, err)
	wants("12000", "0")
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newKey(t *testing.T) *identity.Key {
	t.Helper()
	k, err := identity.NewKey(rand.Reader)
	must(t, err)
	return k
}
