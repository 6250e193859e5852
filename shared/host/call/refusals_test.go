package call_test

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/call/calltest"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/local"
	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/echo"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

func newTexts(t *testing.T, s store.Store) *textkeys.Keys {
	t.Helper()
	vault, err := local.FromHex(strings.Repeat("5a", 32), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return textkeys.New(s, vault, time.Now, rand.Reader, 0)
}

// hostOf hosts one vacant that echoes, over s.
func hostOf(t *testing.T, s store.Store, vacant *identity.Key, ledger call.Ledger) *call.Host {
	t.Helper()
	return call.New(call.Config{
		Store: s, Texts: newTexts(t, s), Now: time.Now, Rand: rand.Reader, Ledger: ledger,
		Directory: call.Single{ID: vacant.ID(), State: lifecycle.Active, Behaviour: substrate.Behaviour(echo.Substrate), Signer: vacant},
	})
}

// first is the first call of a pair, signed now.
func first(t *testing.T, from *identity.Key, to identity.ID, text string) *envelope.Envelope {
	t.Helper()
	e := &envelope.Envelope{From: from.ID(), To: to, Seq: 1, Time: time.Now().UTC().Truncate(time.Microsecond),
		Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{text}}}
	if _, err := e.Sign(t.Context(), from); err != nil {
		t.Fatal(err)
	}
	return e
}

func TestAResetAtAnotherVacantsRouteIsNotAddressedThere(t *testing.T) {
	vacant, caller, other := newKey(t), newKey(t), newKey(t)
	host := hostOf(t, memory.New(), vacant, nil)
	reset := first(t, caller, vacant.ID(), envelope.ResetText)
	if o := host.Reset(t.Context(), other.ID(), reset); !problem.Is(o.Problem, problem.NotAddressed) {
		t.Errorf("Reset() at another's route = %v, want not addressed", o.Problem)
	}
	if o := host.Reset(t.Context(), vacant.ID(), reset); o.Problem != nil {
		t.Errorf("Reset() at its own = %v, want done: the refusal before left nothing", o.Problem)
	}
}

// The order is: not hosted here, signature, everything else. A forger learns
// what /health tells everybody, and nothing more.
func TestAForgedEnvelopeIsMisdirectedFirst(t *testing.T) {
	vacant, caller, stranger := newKey(t), newKey(t), newKey(t)
	host := hostOf(t, memory.New(), vacant, nil)
	for _, tt := range []struct {
		name      string
		to, route identity.ID
		want      problem.Kind
	}{
		{"hosted", vacant.ID(), identity.ID{}, problem.BadSignature},
		{"hosted, by its route", vacant.ID(), vacant.ID(), problem.BadSignature},
		{"hosted, by another's route", vacant.ID(), stranger.ID(), problem.Misdirected},
		{"not hosted", stranger.ID(), identity.ID{}, problem.Misdirected},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := first(t, caller, tt.to, "hello")
			e.Payload.Parts[0] = "hullo"
			for handler, o := range map[string]call.Outcome{"Send": host.Send(t.Context(), tt.route, e), "Ask": host.Ask(t.Context(), tt.route, e)} {
				if !problem.Is(o.Problem, tt.want) || o.Chain || o.State != "" || !o.Floor.IsZero() {
					t.Errorf("%s() = %v, told %+v; want %v and nothing told", handler, o.Problem, o, tt.want)
				}
			}
		})
	}
}

// tooLarge refuses rows as too large.
type tooLarge struct{ store.Store }

func (s tooLarge) Commit(ctx context.Context, writes ...store.Write) error {
	if _, ok := writes[0].(store.Append); ok {
		return store.ErrTooLarge
	}
	return s.Store.Commit(ctx, writes...)
}

// spent quotes a price for a balance that another call has spent since.
type spent struct{ calltest.Ledger }

func (*spent) Quote(context.Context, call.Pair, *call.Payer) (call.Charge, error) {
	return call.Charge{Price: 10}, nil
}

func TestARefusalAtTheLastMomentTellsWhereTheChainStands(t *testing.T) {
	s := memory.New()
	for _, tt := range []struct {
		name   string
		store  store.Store
		ledger call.Ledger
		want   problem.Kind
	}{
		{"a row that the store does not take", tooLarge{s}, nil, problem.TooLarge},
		{"a balance that is spent meanwhile", s, &spent{calltest.Ledger{Store: s}}, problem.PaymentRequired},
	} {
		t.Run(tt.name, func(t *testing.T) {
			vacant, caller := newKey(t), newKey(t)
			o := hostOf(t, tt.store, vacant, tt.ledger).Send(t.Context(), identity.ID{}, first(t, caller, vacant.ID(), "hello"))
			if !problem.Is(o.Problem, tt.want) || !o.Chain || o.ExpectedSeq != 1 || !o.ChainTip.IsZero() {
				t.Errorf("Send() = %v, chain told %t: seq %d after %s; want %v, seq 1 after zeros", o.Problem, o.Chain, o.ExpectedSeq, o.ChainTip, tt.want)
			}
			row, err := s.Tip(t.Context(), call.Pair{Caller: caller.ID(), Vacant: vacant.ID()}.Requests())
			if err != nil || row.Position != 0 {
				t.Errorf("rows after the refusal = %d, %v, want none", row.Position, err)
			}
		})
	}
}

// payments notes who pays.
type payments struct {
	calltest.Ledger
	quoted, debited *call.Payer
}

func (p *payments) Quote(_ context.Context, _ call.Pair, by *call.Payer) (call.Charge, error) {
	p.quoted = by
	return call.Charge{Price: 10}, nil
}

func (p *payments) Debit(_ call.Pair, by *call.Payer, _ *call.RequestRow) []store.Write {
	p.debited = by
	return nil
}

func TestTheLedgerLearnsWhoPaysBesideThePair(t *testing.T) {
	s := memory.New()
	vacant, caller := newKey(t), newKey(t)
	ledger := &payments{Ledger: calltest.Ledger{Store: s}}
	by := &call.Payer{Account: "acme"}
	out := hostOf(t, s, vacant, ledger).SendWith(t.Context(), identity.ID{}, first(t, caller, vacant.ID(), "hello"), call.Options{Payer: by})
	if out.Problem != nil || ledger.quoted != by || ledger.debited != by {
		t.Errorf("SendWith() = %v; quoted for %v and debited from %v, want %v", out.Problem, ledger.quoted, ledger.debited, by)
	}
}

// A text is sealed to its row, so that a writer to the store cannot show a
// caller another one's answer.
func TestATextMovedToAnotherRowDoesNotOpen(t *testing.T) {
	ctx, keys := t.Context(), newTexts(t, memory.New())
	pair, other := call.Pair{Caller: identity.ID{1}, Vacant: identity.ID{2}}, call.Pair{Caller: identity.ID{3}, Vacant: identity.ID{2}}
	answer := call.ResponseRow{Hash: identity.Hash{1}}
	_, bound := answer.Sealed(pair)
	var err error
	if answer.Text, err = keys.Seal(ctx, bound, []byte("for you only")); err != nil {
		t.Fatal(err)
	}
	opens := func(sealed textkeys.Sealed, bound []byte) error {
		_, err := keys.Open(ctx, bound, sealed)
		return err
	}
	if err := opens(answer.Sealed(pair)); err != nil {
		t.Errorf("Open() in its own row = %v", err)
	}
	next := call.ResponseRow{Hash: identity.Hash{2}, Text: answer.Text}
	request := call.RequestRow{Hash: answer.Hash, Text: answer.Text}
	for name, err := range map[string]error{
		"another row of the stream": opens(next.Sealed(pair)),
		"another pair":              opens(answer.Sealed(other)),
		"the request stream":        opens(request.Sealed(pair)),
	} {
		if !errors.Is(err, textkeys.ErrDamaged) {
			t.Errorf("Open() in %s = %v, want damaged", name, err)
		}
	}
}
