package evidence

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/observed"
	"github.com/vacancy-host/vacancy/shared/host/plan"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/trust/collusion"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// familyOf is what a substrate is called where two are compared: of an endpoint
// its host, since one model may have many paths. "" says nothing.
func familyOf(s substrate.Spec) string {
	switch s.Kind {
	case plan.Kind:
		return ""
	case substrate.KindHTTP:
		u, err := url.Parse(s.Argument)
		if err != nil || u.Host == "" {
			return ""
		}
		return s.Kind + ":" + strings.ToLower(u.Host)
	}
	return s.String()
}

// style fills in how the vacant writes, from its last responses.
func (c *Collector) style(ctx context.Context, s *subject, refs []observed.Reference, o *gate.Observation) error {
	r := &responses{collector: c, since: c.Now().Add(-Window)}
	if s.parent != nil {
		if err := r.read(ctx, call.Pair{Caller: *s.parent, Vacant: s.id}, math.MaxInt64, MaxResponses, nil); err != nil {
			return err
		}
	}
	if err := r.follow(ctx, s, refs); err != nil {
		return err
	}
	o.Responses = len(r.found)
	var err error
	if o.Style, err = collusion.Vec16(r.found); err != nil {
		return err
	}
	if o.Responses < gate.MinResponses {
		o.Why[gate.Style] = fmt.Sprintf("%d responses of the last seven days can be read, want %d", o.Responses, gate.MinResponses)
	}
	return nil
}

// responses are what was found of one vacant, MaxResponses at most.
type responses struct {
	collector *Collector
	since     time.Time
	found     []collusion.Response
}

// follow reads what references lead to, those of the last callers first. What a
// reference does not lead to is missing.
func (r *responses) follow(ctx context.Context, s *subject, refs []observed.Reference) error {
	var callers []identity.ID
	named := map[identity.ID]map[uint64]bool{}
	for _, ref := range refs {
		if s.parent != nil && ref.Caller == *s.parent {
			continue // read already
		}
		if named[ref.Caller] == nil {
			if len(callers) == MaxCallers {
				continue
			}
			callers, named[ref.Caller] = append(callers, ref.Caller), map[uint64]bool{}
		}
		named[ref.Caller][ref.Position] = true
	}
	for _, caller := range callers {
		left := MaxResponses - len(r.found)
		if left == 0 {
			return nil
		}
		first, last := uint64(math.MaxUint64), uint64(0)
		for p := range named[caller] {
			first, last = min(first, p), max(last, p)
		}
		// Positions may lie far apart: a page is no longer than what is left.
		page := int(min(last-first+1, uint64(left)))
		if err := r.read(ctx, call.Pair{Caller: caller, Vacant: s.id}, last, page, named[caller]); err != nil {
			return err
		}
	}
	return nil
}

// read adds the answers of one page of a pair's responses, the newest first; of
// those at the named positions only, if there are any.
func (r *responses) read(ctx context.Context, pair call.Pair, from uint64, n int, named map[uint64]bool) error {
	rows, err := r.collector.Store.Rows(ctx, pair.Responses(), from, n, store.Descending)
	if err != nil {
		return problem.Wrap(problem.Unavailable, err, "storage is unavailable; the responses of %s cannot be read", pair.Vacant.Short())
	}
	for _, row := range rows {
		if named != nil && !named[row.Position] {
			continue
		}
		one, ok, err := r.open(ctx, pair, row)
		if err != nil {
			return err
		}
		if ok {
			r.found = append(r.found, one)
		}
	}
	return nil
}

// open reads an answer. It is missing where it is none, too old, beyond
// reading, or not what was signed.
func (r *responses) open(ctx context.Context, pair call.Pair, row store.Row) (collusion.Response, bool, error) {
	a, err := call.DecodeResponse(row)
	if err != nil || a.Kind != call.RowAnswer || a.Time.Before(r.since) {
		return collusion.Response{}, false, nil
	}
	sealed, bound := a.Sealed(pair)
	plain, err := r.collector.Texts.Open(ctx, bound, sealed)
	if err != nil {
		if problem.Is(err, problem.Unavailable) || errors.Is(err, store.ErrUnavailable) || ctx.Err() != nil {
			return collusion.Response{}, false, problem.Wrap(problem.Unavailable, err, "the texts of %s cannot be opened now", pair.Vacant.Short())
		}
		return collusion.Response{}, false, nil
	}
	// The seal binds the text to this stream and to the hash, and the hash to what
	// the vacant signed.
	e, err := a.Envelope(pair, plain)
	if err != nil || e.Hash() != a.Hash {
		return collusion.Response{}, false, nil
	}
	one := collusion.Response{Text: e.Payload.Text(), Took: a.Took}
	if eval := e.Payload.SelfEval; eval != nil {
		one.Confidence = &eval.Confidence
	}
	return one, true, nil
}
