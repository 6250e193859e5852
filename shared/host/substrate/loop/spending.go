package loop

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
)

// lateTimeout applies after the call's context has ended. It must be shorter than
// call.DefaultReplyMargin, the time that remains for storing the answer.
const (
	settleTimeout = 3 * time.Second
	lateTimeout   = 500 * time.Millisecond
)

// reserveTurn reserves the maximum cost of a turn, and limits q.MaxTokens to the tokens that the
// budgets cover. It counts each new byte as one token.
func (r *run) reserveTurn(ctx context.Context, q *substrate.Request, fallback bool) (size int, err error) {
	if r.Spending == nil {
		return 0, nil
	}
	size = sizeWithImages(q)
	q.MaxTokens = cmp.Or(q.MaxTokens, definition.DefaultPaidTokens)
	wantedTokens := q.MaxTokens
	q.MaxTokens, err = r.Spending.Reserve(ctx, fallback, r.countedTokens+size-r.countedSize+tokenOverhead, wantedTokens)
	if r.usage.MaxTokens = 0; err == nil && q.MaxTokens < wantedTokens {
		r.recordTokenLimit(ctx, q.MaxTokens)
	}
	r.usage.Cost, r.usage.PriceTableVersion = int(r.Spending.Cost()), r.Spending.Prices.Version
	return size, err
}

func (r *run) recordTokenLimit(ctx context.Context, n int) {
	r.usage.MaxTokens = n
	call.RecordReducedMaxTokens(ctx, n)
}

// settleTurn sets the cost of a turn. A turn is free if it was not sent or if the server refused
// it. A turn that failed later or has no usage costs its reservation.
func (r *run) settleTurn(u *substrate.Usage, size int, wasSent bool, err error) {
	if r.Spending == nil {
		return
	}
	var agentErr *call.AgentError
	switch {
	case err == nil && u != nil:
		r.Spending.Settle(*u)
		r.countedTokens, r.countedSize = max(u.InputTokens, 0)+max(u.OutputTokens, 0), size
	case err != nil && (!wasSent || errors.As(err, &agentErr) && agentErr.Status >= http.StatusBadRequest):
		r.Spending.Release()
	default:
		r.Spending.EndTurn()
	}
	r.usage.Cost = int(r.Spending.Cost())
}

func (r *run) endSpending(ctx context.Context) {
	if r.Spending == nil {
		return
	}
	timeout := settleTimeout
	// The context may have ended, but the unused reservation must still be refunded.
	if ctx.Err() != nil {
		timeout = lateTimeout
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if r.Spending.End(ctx) == nil { // otherwise the reservation remains spent
		r.usage.Cost = int(r.Spending.Cost())
	}
}

func sizeWithImages(q *substrate.Request) int {
	n := textSize(q)
	for _, t := range q.Turns {
		n += len(t.Files) * imageTokens
	}
	return n
}

func textSize(q *substrate.Request) int {
	n := len(q.System)
	for _, t := range q.Tools {
		n += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	for _, t := range q.Turns {
		n += len(t.Text)
		for _, c := range t.Calls {
			n += len(c.ID) + len(c.Name) + len(c.Arguments) + len(c.Opaque)
		}
		for _, result := range t.Results {
			n += len(result.ID) + len(result.Text)
		}
	}
	return n
}
