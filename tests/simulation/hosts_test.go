package simulation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/message"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/call/calltest"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/models"
	"github.com/vacancy-host/vacancy/shared/host/substrate/spend"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// instance is a process that serves the host, with its own clock, and caches
// that end with it.
type instance struct {
	http.Handler
	number int
	call   *call.Host
	ledger *billing.Billing // nil if calls are free
}

func (w *world) newInstance(number int) *instance {
	now := w.clock.NowFunc(w.cfg.skew[number])
	c := call.Config{
		Store: w.store, Texts: w.texts, Now: now, Rand: w.random, Wait: w.wait,
		Self: func(context.Context) (identity.ID, error) { return hostID, nil },
		// The caller is hosted too, so that an envelope with sender and
		// recipient exchanged finds a vacant here.
		Directory: &calltest.Directory{Store: w.store, Now: now, Vacants: map[identity.ID]call.Vacant{
			w.pair.Vacant: w.vacant(),
			w.pair.Caller: {Behaviour: w.behave, Signer: callerKey},
		}},
	}
	var ledger *billing.Billing
	if w.price != nil {
		ledger = w.billingOver(passing{w.store, w.truth}, now)
		c.Ledger = ledger
	}
	h := call.New(c)
	handler := message.Handler(message.Config{Host: h, Log: slog.New(slog.DiscardHandler), Now: now})
	return &instance{Handler: handler, number: number, call: h, ledger: ledger}
}

// vacant is the called vacant: sometimes a closed child of the caller.
func (w *world) vacant() call.Vacant {
	v := call.Vacant{Behaviour: w.behave, Signer: vacantKey, Price: w.price}
	if w.cfg.closed {
		v.Parent, v.HasKin, v.IsClosedChild = &w.pair.Caller, true, !w.mutant.open
	}
	return v
}

// wait is a host's pause between two tries at a write. It may give up.
func (w *world) wait(ctx context.Context, _ time.Duration) error {
	if v := w.pause(ctx, retrying, "trying again"); v != fine {
		return errors.New("no patience left")
	}
	return nil
}

var errInjected = fmt.Errorf("%w: injected", store.ErrUnavailable)

// around is a host's call of the store.
func (w *world) around(ctx context.Context, op calltest.Op, do func(context.Context) error) error {
	k := reading
	if op.Writes != nil {
		k = writing
	}
	v := w.stop(point{task: taskOf(ctx), label: op.Name, subject: op.Subject, kind: k})
	// The store applies what it was told, even if the caller dies.
	ctx = context.WithoutCancel(ctx)
	switch v {
	case fine:
		return do(ctx)
	case unheard:
		_ = do(ctx)
	case twice:
		_ = do(ctx)
		return do(ctx)
	case delayed:
		w.late = append(w.late, func() error { return do(ctx) })
	}
	return errInjected
}

// behave is the vacant's behaviour. It notices what must never run.
func (w *world) behave(ctx context.Context, _ *call.Host, e envelope.Envelope) (envelope.Message, error) {
	h := e.Hash()
	w.ran(taskOf(ctx), h)
	if w.cfg.tokens {
		call.RecordUsage(ctx, call.Usage{InputTokens: uint64(h[0] % 32)}) // half a micro-dollar each
	}
	if w.spend == nil {
		return w.work(ctx, &e)
	}
	c := w.spend.BeginCall(spend.Payer{Vacant: w.pair.Vacant, DailyBudget: dayBudget, CallBudget: -1}, spend.Prices{Model: models.Price{InputPrice: money.Dollar, OutputPrice: money.Dollar}})
	switch _, err := c.Reserve(ctx, false, reserved/2, reserved/2); {
	case problem.Is(err, problem.BudgetExceeded):
		w.met("no budget for a call")
		return w.work(ctx, &e) // free, so that callers come to an end
	case err != nil:
		return envelope.Message{}, err
	}
	m, err := w.work(ctx, &e)
	if err == nil {
		c.Settle(substrate.Usage{InputTokens: cost / 2, OutputTokens: cost / 2})
	}
	_ = c.End(ctx) // what it does not settle stays spent
	call.RecordUsage(ctx, call.Usage{Turns: 1, Cost: uint64(c.Cost())})
	return m, err
}

// work is the vacant's behaviour for a call.
func (w *world) work(ctx context.Context, e *envelope.Envelope) (envelope.Message, error) {
	v := w.pause(ctx, working, "work")
	if v == slow {
		w.clock.Advance(due + 2*time.Second)
		v = w.pause(ctx, plain, "work, after its due")
	}
	if v != fine {
		return envelope.Message{}, errors.New("the behaviour failed")
	}
	return envelope.Message{Parts: []string{"re ", e.Payload.Text()}}, nil
}
