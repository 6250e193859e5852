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

// settleTimeout bounds the last commit of a call, and lateTimeout the last commit after
// the call's deadline. The pipeline keeps more time than that for the answer row.
const (
	settleTimeout = 3 * time.Second
	lateTimeout   = 500 * time.Millisecond
)

// reserve reserves the highest possible cost of a turn and limits q.MaxTokens to what the
// budgets cover. A byte that the provider has not counted yet counts as a token. size is
// the size of the conversation in bytes.
func (r *run) reserve(ctx context.Context, q *substrate.Request, fallback bool) (size int, err error) {
	if r.Spending == nil {
		return 0, nil
	}
	size = sizeOf(q)
	q.MaxTokens = cmp.Or(q.MaxTokens, definition.PaidTokens)
	wanted := q.MaxTokens
	q.MaxTokens, err = r.Spending.Reserve(ctx, fallback, r.countedTokens+size-r.countedSize+overhead, wanted)
	if r.used.MaxTokens = 0; err == nil && q.MaxTokens < wanted {
		r.limit(ctx, q.MaxTokens)
	}
	r.used.Cost, r.used.Prices = int(r.Spending.Cost()), r.Spending.Prices.Version
	return size, err
}

// limit notes that budgets leave n tokens for the answer of a turn.
func (r *run) limit(ctx context.Context, n int) {
	r.used.MaxTokens = n
	call.NoteMaxTokens(ctx, n)
}

// settle sets the cost of a turn. A turn that was not sent, or that the server refused
// with an HTTP status, is free. A turn that failed later costs its reservation, because
// its usage may be incomplete.
func (r *run) settle(u *substrate.Usage, size int, sent bool, err error) {
	if r.Spending == nil {
		return
	}
	var refused *call.AgentError
	switch {
	case err == nil && u != nil:
		r.Spending.Settle(*u)
		r.countedTokens, r.countedSize = max(u.In, 0)+max(u.Out, 0), size
	case err != nil && (!sent || errors.As(err, &refused) && refused.Status >= http.StatusBadRequest):
		r.Spending.Release()
	default:
		r.Spending.Keep()
	}
	r.used.Cost = int(r.Spending.Cost())
}

// endSpending settles the last turn.
func (r *run) endSpending(ctx context.Context) {
	if r.Spending == nil {
		return
	}
	timeout := settleTimeout
	if ctx.Err() != nil { // for example in a tool: the turn's unused reservation is still refunded
		timeout = lateTimeout
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if r.Spending.End(ctx) == nil { // else the reservation remains spent
		r.used.Cost = int(r.Spending.Cost())
	}
}

// sizeOf returns the size of a request's texts in bytes, and for each image the most that it can cost in
// tokens.
func sizeOf(q *substrate.Request) int {
	n := textSize(q)
	for _, t := range q.Turns {
		n += len(t.Files) * imageTokens
	}
	return n
}

// textSize returns the size of a request's texts in bytes.
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
