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
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
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
	v := call.SingleVacant{ID: vacant.ID(), State: lifecycle.Active, Behaviour: substrate.Behaviour(echo.Substrate), Signer: vacant}
	if ledger != nil {
		v.Price = &price.Price{Version: 3, Flat: 10}
	}
	return call.New(call.Config{Store: s, Texts: newTexts(t, s), Now: time.Now, Rand: rand.Reader, Ledger: ledger, Directory: v})
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

// The order of checks is: not hosted here, signature, everything else. A forger learns what /health
// tells everybody, but not more.
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
				if !problem.Is(o.Problem, tt.want) || o.HasChain || o.State != "" || !o.Floor.IsZero() {
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

// spent quotes a price for a balance that another call has spent since then.
type spent struct{ calltest.Ledger }

func (*spent) Quote(context.Context, call.QuoteRequest) (call.PaymentPlan, error) {
	return call.PaymentPlan{Kind: call.PaidByAccount, Hold: 10, Version: 1}, nil
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
			if !problem.Is(o.Problem, tt.want) || !o.HasChain || o.ExpectedSeq != 1 || !o.ChainTip.IsZero() {
				t.Errorf("Send() = %v, chain told %t: seq %d after %s; want %v, seq 1 after zeros", o.Problem, o.HasChain, o.ExpectedSeq, o.ChainTip, tt.want)
			}
			row, err := s.Tip(t.Context(), call.Pair{Caller: caller.ID(), Vacant: vacant.ID()}.Requests())
			if err != nil || row.Position != 0 {
				t.Errorf("rows after the refusal = %d, %v, want none", row.Position, err)
			}
		})
	}
}

// payments records its queries.
type payments struct {
	calltest.Ledger
	quoted  call.QuoteRequest
	debited *call.RequestRow
}

func (p *payments) Quote(_ context.Context, q call.QuoteRequest) (call.PaymentPlan, error) {
	p.quoted = q
	return call.PaymentPlan{Kind: call.PaidByAccount, Payer: [32]byte{7}, Hold: 10, Version: 3}, nil
}

func (p *payments) Debit(_ call.Pair, _ *call.PaymentPlan, r *call.RequestRow) []store.Write {
	p.debited = r
	return nil
}

func TestTheLedgerLearnsWhoPaysBesideThePair(t *testing.T) {
	s := memory.New()
	vacant, caller := newKey(t), newKey(t)
	ledger := &payments{Ledger: calltest.Ledger{Store: s}}
	by := call.Credential{Payer: &call.Payer{Account: "acme"}, Address: "192.0.2.1/32", Voucher: []byte("coin")}
	out := hostOf(t, s, vacant, ledger).SendWith(t.Context(), identity.ID{}, first(t, caller, vacant.ID(), "hello"), call.Options{Credential: by})
	if out.Problem != nil || ledger.quoted.Payer != by.Payer || ledger.quoted.Address != by.Address || string(ledger.quoted.Voucher) != "coin" || ledger.quoted.Price.Flat != 10 {
		t.Errorf("SendWith() = %v; quoted for %+v, want %+v at 10", out.Problem, ledger.quoted, by)
	}
	row, err := s.Tip(t.Context(), call.Pair{Caller: caller.ID(), Vacant: vacant.ID()}.Requests())
	if err != nil {
		t.Fatal(err)
	}
	r, err := call.DecodeRequest(row)
	if err != nil || r.PaidBy != call.PaidByAccount || r.Payer != [32]byte{7} || r.PriceVersion != 3 || r.Price != 10 || ledger.debited.Position != 1 {
		t.Errorf("the row says %+v, %v; want the charge that was quoted", r, err)
	}
}

func TestACallThatMayCostMoreThanTheRequestAllowsIsRefused(t *testing.T) {
	s := memory.New()
	vacant, caller := newKey(t), newKey(t)
	host := hostOf(t, s, vacant, &payments{Ledger: calltest.Ledger{Store: s}})
	e := first(t, caller, vacant.ID(), "hello")
	for most, want := range map[money.Amount]problem.Kind{9: problem.PriceAboveMax, 10: 0} {
		out := host.SendWith(t.Context(), identity.ID{}, e, call.Options{Credential: call.Credential{MaxPrice: &most}})
		if (want == 0) != (out.Problem == nil) || want != 0 && !problem.Is(out.Problem, want) {
			t.Errorf("SendWith() of a call for 10 with at most %d = %v, want %v", most, out.Problem, want)
		}
	}
}

func TestAPriceWithoutALedgerIsNotFree(t *testing.T) {
	vacant, caller := newKey(t), newKey(t)
	host := hostOf(t, memory.New(), vacant, nil)
	v := host.Directory.(call.SingleVacant)
	v.Price = &price.Price{Version: 1, Flat: 10}
	host.Directory = v
	if out := host.Send(t.Context(), identity.ID{}, first(t, caller, vacant.ID(), "hello")); !problem.Is(out.Problem, problem.Unavailable) {
		t.Errorf("Send() = %v, want unavailable", out.Problem)
	}
}

// A text is sealed to its row, so that a process that writes to the store cannot show a caller
// another caller's answer.
func TestATextMovedToAnotherRowDoesNotOpen(t *testing.T) {
	ctx, keys := t.Context(), newTexts(t, memory.New())
	pair, other := call.Pair{Caller: identity.ID{1}, Vacant: identity.ID{2}}, call.Pair{Caller: identity.ID{3}, Vacant: identity.ID{2}}
	answer := call.ResponseRow{Hash: identity.Hash{1}}
	_, bound := answer.SealedText(pair)
	var err error
	if answer.Text, err = keys.Seal(ctx, bound, []byte("for you only")); err != nil {
		t.Fatal(err)
	}
	opens := func(sealed textkeys.Sealed, bound []byte) error {
		_, err := keys.Open(ctx, bound, sealed)
		return err
	}
	if err := opens(answer.SealedText(pair)); err != nil {
		t.Errorf("Open() in its own row = %v", err)
	}
	next := call.ResponseRow{Hash: identity.Hash{2}, Text: answer.Text}
	request := call.RequestRow{Hash: answer.Hash, Text: answer.Text}
	for name, err := range map[string]error{
		"another row of the stream": opens(next.SealedText(pair)),
		"another pair":              opens(answer.SealedText(other)),
		"the request stream":        opens(request.SealedText(pair)),
	} {
		if !errors.Is(err, textkeys.ErrDamaged) {
			t.Errorf("Open() in %s = %v, want damaged", name, err)
		}
	}
}
