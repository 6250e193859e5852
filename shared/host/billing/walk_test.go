package billing_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/fnv"
	mathrand "math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/call/calltest"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/claim"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// walkWorld is a host with several vacants that call each other.
type walkWorld struct {
	*world
	calls   *call.Host
	vacants map[identity.ID]call.Vacant
	keys    map[identity.ID]*identity.Key
}

func newWalkWorld(t testing.TB) *walkWorld { return newWalkWorldOver(t, memory.New()) }

func newWalkWorldOver(t testing.TB, s store.Store) *walkWorld {
	v := &walkWorld{world: newWorldOver(t, s), vacants: map[identity.ID]call.Vacant{}, keys: map[identity.ID]*identity.Key{}}
	v.calls = call.New(call.Config{
		Store: s, Texts: &calltest.Texts{}, Now: v.clock.NowFunc(0), Rand: rand.Reader, Ledger: v.billing, Directory: v,
		Self: func(context.Context) (identity.ID, error) { return v.self, nil },
		Wait: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
	})
	return v
}

// Vacant implements call.Directory.
func (s *walkWorld) Vacant(_ context.Context, id identity.ID, _ bool) (call.Vacant, bool, error) {
	v, ok := s.vacants[id]
	return v, ok, nil
}

// addVacant adds a vacant that an account pays for, or none if a is nil.
func (s *walkWorld) addVacant(a *billing.Account, p *price.Price, behave func(context.Context, identity.ID, string) (string, error)) identity.ID {
	s.Helper()
	key := newKey(s)
	s.keys[key.ID()] = key
	v := call.Vacant{ID: key.ID(), State: lifecycle.Active, Signer: key, Price: p, Tenant: "nobody"}
	v.Behaviour = func(ctx context.Context, _ *call.Host, e envelope.Envelope) (envelope.Message, error) {
		text, err := behave(ctx, key.ID(), e.Payload.Text())
		return envelope.Message{Role: envelope.RoleAgent, Parts: []string{text + "."}}, err
	}
	if a != nil {
		v.Tenant = a.Tenant
		s.link(*a, key, 0)
	}
	s.vacants[v.ID] = v
	return v.ID
}

func (s *walkWorld) link(a billing.Account, key *identity.Key, most money.Amount) {
	s.Helper()
	c := claim.PaymentClaim{Host: s.self, Account: a.ID, DailyCap: int64(most)}
	s.must(c.Sign(context.Background(), key, s.clock.NowFunc(0)()))
	_, err := s.billing.Link(context.Background(), a.ID, c.String())
	s.must(err)
}

// says answers with the question.
func says(_ context.Context, _ identity.ID, text string) (string, error) { return text, nil }

// fails answers with an error.
func fails(context.Context, identity.ID, string) (string, error) { return "", errors.New("it fails") }

// asks calls others one after the other, and reports how each call ended.
func (s *walkWorld) asks(others ...identity.ID) func(context.Context, identity.ID, string) (string, error) {
	return func(ctx context.Context, from identity.ID, text string) (string, error) {
		var heard []string
		for _, to := range others {
			heard = append(heard, ended(s.ask(ctx, from, to, text, call.Options{})))
		}
		return strings.Join(heard, " "), nil
	}
}

// ended is "ok" or the kind of the refusal or failure.
func ended(out call.Outcome) string {
	if out.Problem != nil {
		return out.Problem.Kind.String()
	}
	return "ok"
}

// ask has a key of the world call a vacant, as delegations do.
func (s *walkWorld) ask(ctx context.Context, from, to identity.ID, text string, o call.Options) call.Outcome {
	key := s.keys[from]
	next, err := s.calls.ExpectedEnvelope(ctx, call.Pair{Caller: from, Vacant: to})
	if err != nil {
		return call.Outcome{Problem: problem.AsError(err)}
	}
	for {
		e := &envelope.Envelope{From: from, To: to, Seq: next.Seq, Prev: next.Prev, Time: s.clock.NowFunc(0)().Truncate(time.Microsecond),
			Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{text}}}
		if _, err := e.Sign(ctx, key); err != nil {
			return call.Outcome{Problem: problem.AsError(err)}
		}
		out := s.calls.SendWith(ctx, to, e, o)
		if out.Problem == nil || out.State != "" || !out.HasChain || out.Problem.Kind != problem.Fork && out.Problem.Kind != problem.Replay && out.Problem.Kind != problem.Gap {
			return out
		}
		next = call.ExpectedEnvelope{Seq: out.ExpectedSeq, Prev: out.ChainTip}
	}
}

// first is the first request of a walk, by a caller without a link.
func (s *walkWorld) first(to identity.ID, by call.Credential) string {
	s.Helper()
	key := newKey(s)
	s.keys[key.ID()] = key
	return s.firstOf(key.ID(), to, by)
}

func (s *walkWorld) firstOf(from, to identity.ID, by call.Credential) string {
	s.Helper()
	out := s.ask(context.Background(), from, to, "hi", call.Options{Credential: by})
	if out.Problem != nil {
		return out.Problem.Kind.String()
	}
	return strings.TrimRight(out.Reply.Payload.Text(), ".")
}

func flat(n money.Amount) *price.Price { return &price.Price{Version: 1, Flat: n} }

func keyOf(a billing.Account, most, daily money.Amount) *call.Payer {
	return &call.Payer{Account: a.ID, Tenant: a.Tenant, Key: "K", MaxWalkCost: most, DailyCap: daily}
}

// A test key pays for nothing in its walk, however deep it is.
func TestATestKeySpendsNothingInItsWalk(t *testing.T) {
	s := newWalkWorld(t)
	a, other := s.account("acme", 1, 1000), s.account("other", 1, 1000)
	by := call.Credential{Payer: &call.Payer{Account: a.ID, Tenant: "acme", Key: "T", Test: true}}
	sold, own, free := s.addVacant(&other, flat(10), says), s.addVacant(&a, flat(10), says), s.addVacant(&other, nil, says)
	third := s.addVacant(&other, nil, s.asks(sold, own))
	for _, tt := range []struct {
		to   identity.ID
		want string
	}{
		{s.addVacant(&a, nil, s.asks(sold, own, free)), "test_key ok ok"},
		{s.addVacant(&a, flat(5), s.asks(s.addVacant(&a, nil, s.asks(sold)))), "ok"},
		// The vacant of another tenant has money of its own, and cannot spend it for the test.
		{s.addVacant(&a, nil, s.asks(third)), "ok"},
	} {
		if got := s.first(tt.to, by); got != tt.want {
			t.Errorf("the walk ends with %q, want %q", got, tt.want)
		}
	}
	s.wantBalance(a, 1000)
	s.wantBalance(other, 1000)
}

// The account of the first request pays for all calls of the walk together at most the limit of the
// key, and of the request.
func TestALimitHoldsForTheWalk(t *testing.T) {
	bound := func(n money.Amount) *money.Amount { return &n }
	for what, limited := range map[string]func(*walkWorld, billing.Account) (from identity.ID, by call.Credential){
		"the key's": func(s *walkWorld, a billing.Account) (identity.ID, call.Credential) {
			return identity.ID{}, call.Credential{Payer: keyOf(a, 30, 0)}
		},
		"the request's": func(s *walkWorld, a billing.Account) (identity.ID, call.Credential) {
			return identity.ID{}, call.Credential{Payer: keyOf(a, 0, 0), MaxPrice: bound(30)}
		},
		"the lower of both": func(s *walkWorld, a billing.Account) (identity.ID, call.Credential) {
			return identity.ID{}, call.Credential{Payer: keyOf(a, 50, 0), MaxPrice: bound(30)}
		},
		"a linked caller's": func(s *walkWorld, a billing.Account) (identity.ID, call.Credential) {
			key := newKey(s)
			s.keys[key.ID()] = key
			s.link(a, key, 0)
			return key.ID(), call.Credential{MaxPrice: bound(30)}
		},
	} {
		t.Run(what, func(t *testing.T) {
			s := newWalkWorld(t)
			a, other := s.account("acme", 1, 1000), s.account("other", 1, 1000)
			from, by := limited(s, a)
			if from.IsZero() {
				key := newKey(t)
				s.keys[key.ID()] = key
				from = key.ID()
			}
			ten, void := s.addVacant(nil, flat(10), says), s.addVacant(nil, flat(20), fails)
			tokens := s.addVacant(nil, &price.Price{Version: 1, Flat: 4, InputPrice: 1, MaxCharge: 20}, says) // no tokens are reported: it charges 4
			rich := s.addVacant(&other, nil, s.asks(ten, ten, ten, ten))                                      // its own account pays
			for _, tt := range []struct {
				own   money.Amount // price of the first vacant
				calls []identity.ID
				want  string
				spent money.Amount
			}{
				{0, []identity.ID{ten, ten, ten, ten}, "ok ok ok price_above_max", 30},
				{10, []identity.ID{ten, ten, ten}, "ok ok price_above_max", 30},
				{10, []identity.ID{void, ten, ten, ten}, "behaviour_failed ok ok price_above_max", 30},              // the refund gives room
				{10, []identity.ID{tokens, ten, ten, tokens}, "ok ok price_above_max price_above_max", 24},          // what was charged counts
				{30, []identity.ID{ten}, "price_above_max", 30},                                                     //
				{0, []identity.ID{s.addVacant(&a, flat(10), s.asks(ten, ten, ten)), ten}, "ok price_above_max", 30}, // three hops deep
				{10, []identity.ID{rich, ten, ten, ten}, "ok ok ok price_above_max", 30},                            // others' money has no limit
			} {
				var p *price.Price
				if tt.own > 0 {
					p = flat(tt.own)
				}
				before, err := s.billing.Balance(t.Context(), &a)
				s.must(err)
				if got := s.firstOf(from, s.addVacant(&a, p, s.asks(tt.calls...)), by); got != tt.want {
					t.Errorf("calls for %v end with %q, want %q", tt.own, got, tt.want)
				}
				s.wantBalance(a, before-tt.spent)
			}
			s.wantBalance(other, 1000-40)
		})
	}
}

// The caps of a day count what the account pays in walks.
func TestTheCapsOfTheFirstRequestCountItsWalk(t *testing.T) {
	linked := func(s *walkWorld, a billing.Account, daily money.Amount) identity.ID {
		key := newKey(s)
		s.keys[key.ID()] = key
		s.link(a, key, daily)
		return key.ID()
	}
	for what, capped := range map[string]func(*walkWorld, billing.Account) (identity.ID, call.Credential){
		"a key": func(s *walkWorld, a billing.Account) (identity.ID, call.Credential) {
			return linked(s, a, 0), call.Credential{Payer: keyOf(a, 0, 30)}
		},
		"an issuer": func(s *walkWorld, a billing.Account) (identity.ID, call.Credential) {
			p := keyOf(a, 0, 500)
			p.Subject, p.Issuer, p.IssuerDailyCap = strings.Repeat("ab", call.SubjectSize), "I", 30
			return linked(s, a, 0), call.Credential{Payer: p}
		},
		"a link": func(s *walkWorld, a billing.Account) (identity.ID, call.Credential) {
			return linked(s, a, 30), call.Credential{}
		},
	} {
		t.Run(what, func(t *testing.T) {
			s := newWalkWorld(t)
			a := s.account("acme", 1, 1000)
			from, by := capped(s, a)
			ten := s.addVacant(nil, flat(10), says)
			if got, want := s.firstOf(from, s.addVacant(&a, flat(10), s.asks(ten)), by), "ok"; got != want {
				t.Errorf("the first walk ends with %q, want %q", got, want)
			}
			if got, want := s.firstOf(from, s.addVacant(&a, nil, s.asks(ten, ten)), by), "ok spend_cap_reached"; got != want {
				t.Errorf("the second walk ends with %q, want %q", got, want)
			}
			s.wantBalance(a, 970)
			// Another key of the account has its own cap.
			if got, want := s.first(s.addVacant(&a, nil, s.asks(ten)), call.Credential{Payer: &call.Payer{Account: a.ID, Tenant: "acme", Key: "L", DailyCap: 10}}), "ok"; got != want {
				t.Errorf("the walk of another key ends with %q, want %q", got, want)
			}
		})
	}
}

// A vacant that is linked to the account calls itself by way of another: its one link counts once.
func TestACycleCountsALinkOnce(t *testing.T) {
	s := newWalkWorld(t)
	a := s.account("acme", 1, 1000)
	key := newKey(t)
	s.keys[key.ID()] = key
	s.link(a, key, 25)
	ten := s.addVacant(nil, flat(10), says)
	v := call.Vacant{ID: key.ID(), State: lifecycle.Active, Signer: key, Tenant: "acme"}
	v.Behaviour = func(ctx context.Context, _ *call.Host, e envelope.Envelope) (envelope.Message, error) {
		text, err := s.asks(ten)(ctx, key.ID(), e.Payload.Text())
		return envelope.Message{Role: envelope.RoleAgent, Parts: []string{text + "."}}, err
	}
	s.vacants[v.ID] = v
	back := s.addVacant(&a, nil, s.asks(v.ID))
	for _, want := range []money.Amount{990, 980, 980} { // the cap is 25
		if got := s.firstOf(v.ID, back, call.Credential{}); got != "ok" {
			t.Errorf("the walk ends with %q", got)
		}
		s.wantBalance(a, want)
	}
}

// The free calls of an address are the first caller's, also in a walk.
func TestAWalkHasTheAddressOfItsFirstCaller(t *testing.T) {
	s := newWalkWorld(t)
	penny := s.addVacant(nil, &price.Price{Version: 1, Flat: 10, FreePerSigner: 9, FreePerAddress: 2}, says)
	var agents []identity.ID
	for range 4 {
		agents = append(agents, s.addVacant(nil, nil, s.asks(penny)))
	}
	for i, want := range []string{"ok", "ok", "payment_required"} {
		if got := s.first(agents[i], call.Credential{Address: "127.0.0.5"}); got != want {
			t.Errorf("call %d of an address ends with %q, want %q", i+1, got, want)
		}
	}
	for _, want := range []string{"ok", "ok", "payment_required"} {
		if got := s.first(agents[3], call.Credential{Address: "127.0.0.9"}); got != want {
			t.Errorf("the call of another address ends with %q, want %q", got, want)
		}
	}
	if got := s.first(penny, call.Credential{Address: "127.0.0.9"}); got != "payment_required" {
		t.Errorf("the address itself hears %q: its agents have used up its free calls", got)
	}
}

// A hop whose commit may have been written counts, because it may have been debited.
func TestAHopOfUnknownOutcomeCounts(t *testing.T) {
	lost := &losesAnswers{Store: memory.New()}
	s := newWalkWorldOver(t, lost)
	a := s.account("acme", 1, 1000)
	ten := s.addVacant(nil, flat(10), says)
	unknown := s.addVacant(&a, nil, func(ctx context.Context, from identity.ID, text string) (string, error) {
		lost.of.Store(call.Pair{Caller: from, Vacant: ten}.Requests())
		first := ended(s.ask(ctx, from, ten, text, call.Options{}))
		lost.of.Store(store.Stream(""))
		return first + " " + ended(s.ask(ctx, from, ten, text, call.Options{})), nil
	})
	if got, want := s.first(unknown, call.Credential{Payer: keyOf(a, 15, 0)}), "unavailable price_above_max"; got != want {
		t.Errorf("the walk ends with %q, want %q", got, want)
	}
	s.wantBalance(a, 990) // until the call is due, and void
}

// losesAnswers is a store that writes a commit to one stream, and says that it does not know.
type losesAnswers struct {
	store.Store
	of atomic.Value // store.Stream
}

func (l *losesAnswers) Commit(ctx context.Context, writes ...store.Write) error {
	err := l.Store.Commit(ctx, writes...)
	if one, ok := writes[0].(store.Append); ok && one.Stream == l.of.Load() {
		return store.ErrUnavailable
	}
	return err
}

// Walks of random vacants, which call each other at the same time, fail, and cost what they report,
// never hold or spend more than their limit.
func TestNoWalkExceedsItsLimit(t *testing.T) {
	var answered, over atomic.Int64
	t.Cleanup(func() {
		if answered.Load() == 0 || over.Load() == 0 {
			t.Errorf("%d calls were answered and %d exceeded the limit, want some of both", answered.Load(), over.Load())
		}
	})
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			s := newWalkWorld(t)
			random := mathrand.New(mathrand.NewPCG(seed, 0))
			const credit = 100_000
			a, other := s.account("acme", 1, credit), s.account("other", 1, credit)
			limit := money.Amount(20 + random.IntN(100))
			var all []identity.ID
			check := func() {
				left, err := s.billing.Balance(context.Background(), &a)
				if err != nil || credit-left > limit {
					t.Errorf("the walk holds %v of %v, %v", credit-left, limit, err)
				}
			}
			behave := func(ctx context.Context, from identity.ID, text string) (string, error) {
				check()
				hash := fnv.New64a()
				hash.Write(append(from[:], text...))
				random := mathrand.New(mathrand.NewPCG(seed, hash.Sum64()))
				call.RecordUsage(ctx, call.Usage{InputTokens: random.Uint64N(40_000_000)})
				var wait sync.WaitGroup
				for i := range 1 + random.IntN(4) {
					to := all[random.IntN(len(all))]
					if len(text) > 4 || to == from {
						continue
					}
					wait.Go(func() {
						out := s.ask(ctx, from, to, text+fmt.Sprint(i), call.Options{})
						switch {
						case out.Problem == nil:
							answered.Add(1)
						case problem.Is(out.Problem, problem.PriceAboveMax):
							over.Add(1)
						case !problem.Is(out.Problem, problem.BehaviourFailed):
							t.Errorf("a call ends with %v", out.Problem)
						}
						check()
					})
				}
				wait.Wait()
				if random.IntN(4) == 0 && len(text) > 2 {
					return "", errors.New("it fails")
				}
				return text, nil
			}
			for i := range 6 {
				p := []*price.Price{nil, flat(money.Amount(1 + random.IntN(40))), {Version: 1, Flat: 1, InputPrice: 1, MaxCharge: money.Amount(5 + random.IntN(40))}}[random.IntN(3)]
				payer := &a
				if i == 5 {
					payer = &other
				}
				all = append(all, s.addVacant(payer, p, behave))
			}
			first := s.addVacant(&a, nil, behave)
			if got := s.first(first, call.Credential{Payer: keyOf(a, limit, 0)}); got != "hi" {
				t.Errorf("the walk ends with %q", got)
			}
			check()
		})
	}
}
