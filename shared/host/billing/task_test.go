package billing_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// agent adds a vacant of a tenant that no account is linked to.
func (s *walkWorld) agent(tenant string, behave func(context.Context, identity.ID, string) (string, error)) identity.ID {
	s.Helper()
	id := s.addVacant(nil, nil, behave)
	v := s.vacants[id]
	v.Tenant = tenant
	s.vacants[id] = v
	return id
}

// The account of a task pays for the calls of its own agents, and for the calls of a stranger's agent only within a
// budget. It never pays for calls that a stranger's agent has caused.
func TestTheAccountOfATaskPaysForItsAgents(t *testing.T) {
	const budget = 15
	type tasks struct{ isTask, isOwn, hasBudget bool }
	own, stranger := tasks{true, true, false}, tasks{true, false, false}
	ownBudget, strangerBudget := tasks{true, true, true}, tasks{true, false, true}
	for _, tt := range []struct {
		what   string
		task   tasks
		limits func(*call.Payer)
		agents []string // tenants of the agents that ask each other; the last asks for ten twice
		spent  money.Amount
	}{
		{"a call that is not a task", tasks{}, nil, []string{"acme"}, 0},
		{"an own agent", own, nil, []string{"acme"}, 20},
		{"an own agent within a budget", ownBudget, nil, []string{"acme"}, 10},
		{"an own agent of an own agent", own, nil, []string{"acme", "acme"}, 20},
		{"a stranger's agent of an own agent", own, nil, []string{"acme", "other"}, 0},
		{"an own agent of a stranger's agent", own, nil, []string{"acme", "other", "acme"}, 0},
		{"a stranger's agent", stranger, nil, []string{"other"}, 0},
		{"a stranger's agent within a budget", strangerBudget, nil, []string{"other"}, 10},
		{"an agent of a stranger's agent within a budget", strangerBudget, nil, []string{"other", "other"}, 0},
		{"an own agent of a stranger's agent within a budget", strangerBudget, nil, []string{"other", "acme"}, 0},
		{"a key with a cap", own, func(p *call.Payer) { p.DailyCap = 15 }, []string{"acme"}, 10},
		{"a key with a limit", own, func(p *call.Payer) { p.MaxWalkCost = 15 }, []string{"acme"}, 10},
		{"a key with a limit below the price", own, func(p *call.Payer) { p.MaxWalkCost = 9 }, []string{"acme"}, 0},
		{"an issuer with a cap", own, func(p *call.Payer) { p.Issuer, p.IssuerDailyCap = "I", 15 }, []string{"acme"}, 10},
		{"a test key", own, func(p *call.Payer) { p.Test = true }, []string{"acme"}, 0},
	} {
		t.Run(tt.what, func(t *testing.T) {
			s := newWalkWorld(t)
			a := s.account("acme", 1, 1000)
			ten := s.addVacant(nil, flat(10), says)
			behave := s.asks(ten, ten)
			var first identity.ID
			for i := len(tt.agents) - 1; i >= 0; i-- {
				first = s.agent(tt.agents[i], behave)
				behave = s.asks(first)
			}
			by := call.Credential{Payer: keyOf(a, 0, 0), IsTaskTurn: tt.task.isTask, IsOwnVacant: tt.task.isOwn}
			if tt.limits != nil {
				tt.limits(by.Payer)
			}
			if tt.task.hasBudget {
				by.MaxPrice = new(money.Amount(budget))
			}
			s.first(first, by)
			s.wantBalance(a, 1000-tt.spent)
		})
	}
}

// Only its own account pays for the agent of a stranger's task that has no budget.
func TestAnAgentPaysForItselfInATaskWithoutABudget(t *testing.T) {
	s := newWalkWorld(t)
	a, other := s.account("acme", 1, 1000), s.account("other", 1, 1000)
	seller := s.addVacant(&other, nil, s.asks(s.addVacant(nil, flat(10), says)))
	if got := s.first(seller, call.Credential{Payer: keyOf(a, 0, 0), IsTaskTurn: true}); got != "ok" {
		t.Errorf("the call of the agent ends with %q", got)
	}
	s.wantBalance(a, 1000)
	s.wantBalance(other, 990)
}

// The rights and limits of the credential of a task are checked before each call in its walk.
func TestTheCredentialOfATaskIsCheckedAtEachCall(t *testing.T) {
	issuer := billing.IssuerOptions{SubjectDailyCap: 100, TotalDailyCap: 100, AllowAll: true, Scopes: []billing.Scope{billing.ScopeAgents}}
	change := func(change func(*billing.IssuerOptions)) func(*walkWorld, string, string) error {
		return func(s *walkWorld, account, _ string) error {
			o := issuer
			change(&o)
			_, err := s.billing.AddIssuer(s.Context(), account, issuerURL, o)
			return err
		}
	}
	for _, tt := range []struct {
		what    string
		isToken bool
		change  func(s *walkWorld, account, id string) error // id of the key or the issuer
		want    string
	}{
		{"nothing", false, func(*walkWorld, string, string) error { return nil }, "ok"},
		{"the key is revoked", false, func(s *walkWorld, account, id string) error {
			_, err := s.billing.RevokeKey(s.Context(), nil, account, id)
			return err
		}, "unauthorized"},
		{"the key has expired", false, func(s *walkWorld, _, _ string) error { s.clock.Advance(2 * time.Hour); return nil }, "unauthorized"},
		{"the account is suspended", false, func(s *walkWorld, account, _ string) error {
			_, err := s.billing.SetSuspended(s.Context(), account, true, "")
			return err
		}, "account_suspended"},
		{"the account has a cap", false, func(s *walkWorld, account, _ string) error {
			_, err := s.billing.SetDailyCap(s.Context(), account, 5)
			return err
		}, "spend_cap_reached"},
		{"nothing of the issuer", true, func(*walkWorld, string, string) error { return nil }, "ok"},
		{"the issuer is removed", true, func(s *walkWorld, _, id string) error {
			_, err := s.billing.RemoveIssuer(s.Context(), id)
			return err
		}, "unauthorized"},
		{"the issuer has other scopes", true, change(func(o *billing.IssuerOptions) { o.Scopes = []billing.Scope{billing.ScopeCall} }), "scope_required"},
		{"the subjects have a lower cap", true, change(func(o *billing.IssuerOptions) { o.SubjectDailyCap = 15 }), "spend_cap_reached"},
		{"the issuer has a lower cap", true, change(func(o *billing.IssuerOptions) { o.TotalDailyCap = 15 }), "spend_cap_reached"},
	} {
		t.Run(tt.what, func(t *testing.T) {
			s := newWalkWorld(t)
			a := s.account("acme", 1, 1000)
			k, _, err := s.billing.MakeKey(t.Context(), a.ID, billing.KeyOptions{Scopes: []billing.Scope{billing.ScopeAgents}, Expires: s.clock.NowFunc(0)().Add(time.Hour)})
			s.must(err)
			payer, id := k.Payer(), k.ID
			if tt.isToken {
				i, err := s.billing.AddIssuer(t.Context(), a.ID, issuerURL, issuer)
				s.must(err)
				id = i.ID
				payer = &call.Payer{Account: a.ID, Tenant: "acme", Key: "sub-" + id, Subject: strings.Repeat("ab", call.SubjectSize), DailyCap: i.SubjectDailyCap, Issuer: id, IssuerDailyCap: i.TotalDailyCap, HasAgentsScope: true}
			}
			ten := s.addVacant(nil, flat(10), says)
			agent := s.agent("acme", func(ctx context.Context, from identity.ID, text string) (string, error) {
				first := ended(s.ask(ctx, from, ten, text, call.Options{}))
				s.must(tt.change(s, a.ID, id))
				return first + " " + ended(s.ask(ctx, from, ten, text, call.Options{})), nil
			})
			key := newKey(t)
			s.keys[key.ID()] = key
			out := s.ask(t.Context(), key.ID(), agent, "hi", call.Options{Credential: call.Credential{Payer: payer, IsTaskTurn: true, IsOwnVacant: true}, RefreshPayer: s.billing.RefreshPayer})
			if out.Problem != nil || out.Reply.Payload.Text() != "ok "+tt.want+"." {
				t.Errorf("the calls end with %+v, %v; want ok %s", out.Reply, out.Problem, tt.want)
			}
			s.wantBalance(a, 1000-10-map[string]money.Amount{"ok": 10}[tt.want])
		})
	}
}

// The models and the calls of a task draw on one budget.
func TestATaskHasOneBudget(t *testing.T) {
	type does = func(ctx context.Context, ask func(identity.ID) string) error
	// turn has a model say something that costs so much. It fails the test unless reserved is reserved.
	turn := func(t *testing.T, ctx context.Context, tenant string, least, wanted, reserved, cost money.Amount) error {
		m, err := call.BeginModelTurn(ctx, tenant, least, wanted)
		if err != nil {
			return err
		}
		if m == nil || m.Reserved != reserved {
			t.Errorf("the turn reserves %+v, want %s", m, reserved)
		}
		m.Settle(reserved) // as another process reports it
		m.Settle(cost)
		m.Settle(cost)
		return nil
	}
	for _, tt := range []struct {
		what  string
		own   money.Amount // price of the vacant of the task
		run   func(t *testing.T, s *walkWorld, ten identity.ID) does
		spent money.Amount
	}{
		{"a model, calls, and an agent with a model", 7, func(t *testing.T, s *walkWorld, ten identity.ID) does {
			helper := s.agent("acme", func(ctx context.Context, _ identity.ID, _ string) (string, error) {
				return "", turn(t, ctx, "acme", 1, 50, 50, 11)
			})
			return func(ctx context.Context, ask func(identity.ID) string) error {
				if err := turn(t, ctx, "acme", 1, 200, 93, 23); err != nil { // the rest of the budget
					return err
				}
				if got := ask(ten) + ask(helper) + ask(ten); got != "okokok" {
					t.Errorf("the calls end with %s", got)
				}
				if err := turn(t, ctx, "acme", 40, 100, 39, 0); !problem.Is(err, problem.BudgetExceeded) {
					t.Errorf("a turn above the budget = %v", err)
				}
				return turn(t, ctx, "acme", 39, 100, 39, 29)
			}
		}, 7 + 23 + 10 + 11 + 10 + 29},
		{"a call above the rest that a model has left", 0, func(t *testing.T, _ *walkWorld, ten identity.ID) does {
			return func(ctx context.Context, ask func(identity.ID) string) error {
				err := turn(t, ctx, "acme", 1, 100, 100, 91)
				if got := ask(ten); got != "price_above_max" {
					t.Errorf("the call ends with %s", got)
				}
				return err
			}
		}, 91},
		{"a call that waits for a turn", 0, func(t *testing.T, _ *walkWorld, ten identity.ID) does {
			return func(ctx context.Context, ask func(identity.ID) string) error {
				m, err := call.BeginModelTurn(ctx, "acme", 1, 100)
				ended := make(chan string)
				go func() { ended <- ask(ten) }()
				select {
				case got := <-ended:
					t.Errorf("the call has ended with %s before the turn", got)
				case <-time.After(20 * time.Millisecond):
				}
				m.Settle(30)
				if got := <-ended; got != "ok" {
					t.Errorf("the call ends with %s", got)
				}
				return err
			}
		}, 40},
		{"the models of a stranger's agent", 0, func(t *testing.T, s *walkWorld, _ identity.ID) does {
			helper := s.agent("other", func(ctx context.Context, _ identity.ID, _ string) (string, error) {
				m, err := call.BeginModelTurn(ctx, "other", 1000, 1000)
				m.Settle(1000)
				return fmt.Sprint(m), err
			})
			return func(ctx context.Context, ask func(identity.ID) string) error {
				ask(helper)
				return nil
			}
		}, 0},
	} {
		t.Run(tt.what, func(t *testing.T) {
			s := newWalkWorld(t)
			a := s.account("acme", 1, 1000)
			run := tt.run(t, s, s.addVacant(nil, flat(10), says))
			lead := s.agent("acme", func(ctx context.Context, from identity.ID, text string) (string, error) {
				return "", run(ctx, func(to identity.ID) string { return ended(s.ask(ctx, from, to, text, call.Options{})) })
			})
			if tt.own > 0 {
				v := s.vacants[lead]
				v.Price = flat(tt.own)
				s.vacants[lead] = v
			}
			key := newKey(t)
			s.keys[key.ID()] = key
			var spent money.Amount
			out := s.ask(t.Context(), key.ID(), lead, "hi", call.Options{
				Credential: call.Credential{Payer: keyOf(a, 0, 0), MaxPrice: new(money.Amount(100)), IsTaskTurn: true, IsOwnVacant: true},
				DecideWrites: func(_ context.Context, d call.Decision) ([]store.Write, error) {
					spent = d.Cost
					return nil, nil
				},
			})
			if out.Problem != nil || spent != tt.spent {
				t.Errorf("the task has spent %s, %v; want %s", spent, out.Problem, tt.spent)
			}
		})
	}
}

// However many agents ask models and call others at the same time, a task costs at most its budget.
func TestNoTaskExceedsItsBudget(t *testing.T) {
	s := newWalkWorld(t)
	a := s.account("acme", 1, 100_000)
	ten := s.addVacant(nil, flat(10), says)
	var asked atomic.Int32
	ask := func(ctx context.Context, from, to identity.ID) { // equal texts at the same time would be one call
		s.ask(ctx, from, to, strconv.Itoa(int(asked.Add(1))), call.Options{})
	}
	helper := s.agent("acme", func(ctx context.Context, from identity.ID, _ string) (string, error) {
		for range 3 {
			m, err := call.BeginModelTurn(ctx, "acme", 5, 40)
			if err != nil {
				return "", err
			}
			m.Settle(min(17, m.Reserved))
			ask(ctx, from, ten)
		}
		return "", nil
	})
	lead := s.agent("acme", func(ctx context.Context, from identity.ID, _ string) (string, error) {
		ended := make(chan bool)
		for range 8 {
			go func() { ask(ctx, from, helper); ended <- true }()
		}
		for range 8 {
			<-ended
		}
		return "", nil
	})
	for _, budget := range []money.Amount{0, 1, 100, 333, 10_000} {
		key := newKey(t)
		s.keys[key.ID()] = key
		before, err := s.billing.Balance(t.Context(), &a)
		s.must(err)
		var spent money.Amount
		out := s.ask(t.Context(), key.ID(), lead, "hi", call.Options{
			Credential: call.Credential{Payer: keyOf(a, 0, 0), MaxPrice: &budget, IsTaskTurn: true, IsOwnVacant: true},
			DecideWrites: func(_ context.Context, d call.Decision) ([]store.Write, error) {
				spent = d.Cost
				return nil, nil
			},
		})
		after, err := s.billing.Balance(t.Context(), &a)
		s.must(err)
		if out.Problem != nil || spent > budget || before-after > spent || budget == 10_000 && spent != 8*3*27 {
			t.Errorf("a budget of %s: %s is spent, %s of it for calls; %v", budget, spent, before-after, out.Problem)
		}
	}
}
