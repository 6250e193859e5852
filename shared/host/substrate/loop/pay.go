package loop

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
)

// pay reserves what a turn may cost at most, and lets the model say no more than that
// pays for. A byte that no server has counted yet is a token. size is that of the
// conversation.
func (r *run) pay(ctx context.Context, q *substrate.Request, fallback bool) (size int, err error) {
	if r.Spend == nil {
		return 0, nil
	}
	size = sizeOf(q)
	if q.MaxTokens == 0 {
		q.MaxTokens = definition.PaidTokens
	}
	q.MaxTokens, err = r.Spend.Reserve(ctx, fallback, r.counted+size-r.size+aside, q.MaxTokens)
	r.used.Cost, r.used.Prices = int(r.Spend.Cost()), r.Spend.Prices.Version
	return size, err
}

// sending reports whether a request with the returned context has been sent.
func sending(ctx context.Context) (context.Context, *atomic.Bool) {
	sent := new(atomic.Bool)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }}), sent
}

// settle notes what a turn used. Of a turn that failed in its middle the usage is not
// all, so it stays paid in full; one that was not sent, or that its server refused, cost
// nothing.
func (r *run) settle(u *substrate.Usage, size int, sent bool, err error) {
	if r.Spend == nil {
		return
	}
	var said *call.AgentError
	switch {
	case err == nil && u != nil:
		r.Spend.Settle(*u)
		r.counted, r.size = max(u.In, 0)+max(u.Out, 0), size
	case err != nil && (!sent || errors.As(err, &said) && said.Status >= http.StatusBadRequest):
		r.Spend.Release()
	}
	r.used.Cost = int(r.Spend.Cost())
}

// settleTime bounds the last commit of a call, and lateTime one after its deadline: the
// host keeps longer than that for the row.
const (
	settleTime = 3 * time.Second
	lateTime   = 500 * time.Millisecond
)

// end settles the last turn, and tells what all turns cost.
func (r *run) end(ctx context.Context) {
	if r.Spend == nil {
		return
	}
	patience := settleTime
	if ctx.Err() != nil { // in a tool, perhaps: what its model did not use comes back, too
		patience = lateTime
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if r.Spend.End(ctx) == nil { // else it stays spent
		r.used.Cost = int(r.Spend.Cost())
	}
	if !r.gone && r.used.Turns > 0 {
		_ = r.emit(r.used)
	}
}

// sizeOf is the size of what a model is told in bytes.
func sizeOf(q *substrate.Request) int {
	n := len(q.System)
	for _, t := range q.Tools {
		n += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	for _, t := range q.Turns {
		n += len(t.Text)
		for _, c := range t.Calls {
			n += len(c.ID) + len(c.Name) + len(c.Arguments) + len(c.Opaque)
		}
		for _, one := range t.Results {
			n += len(one.ID) + len(one.Text)
		}
	}
	return n
}
