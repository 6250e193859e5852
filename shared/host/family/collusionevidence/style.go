package collusionevidence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/trust/collusion"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func (c *Collector) styles(ctx context.Context, subjects []subject, seen []gate.Observation, p *readBudget) error {
	// subjects[0] is the child. The others are read only if the child has a style.
	var g errgroup.Group
	for i := range subjects {
		switch s, o := &subjects[i], &seen[i]; {
		case !s.hosted: // the reason is already set
		case s.composed:
			o.Why[gate.Style] = "it answers in its children's words"
		case i > 0 && seen[0].Why[gate.Style] != "":
			o.Why[gate.Style] = "the child has none to compare it with"
		default:
			found, err := c.responses(ctx, s, o, p.share(VacantUnits))
			if err == nil {
				err = c.addEarlierFamilies(ctx, s, o, p)
			}
			if err != nil {
				return errors.Join(err, g.Wait())
			}
			g.Go(func() (err error) {
				o.Style, err = collusion.StyleVector(found)
				return err
			})
		}
	}
	return g.Wait()
}

func (c *Collector) responses(ctx context.Context, s *subject, o *gate.Observation, p *readBudget) ([]collusion.Response, error) {
	r := &responses{collector: c, readBudget: p, since: c.Now().Add(-Window), versions: map[version]bool{}}
	if s.parent != nil {
		if err := r.readDelegated(ctx, call.Pair{Caller: *s.parent, Vacant: s.id}); err != nil {
			return nil, err
		}
	}
	if err := r.readReferenced(ctx, s); err != nil {
		return nil, err
	}
	s.versions = r.versions
	o.Responses = len(r.found)
	if o.Responses < gate.MinResponses {
		o.Why[gate.Style] = fmt.Sprintf("%d responses of the last seven days can be read, want %d", o.Responses, gate.MinResponses)
		if r.left {
			o.Why[gate.Style] += ": the rest is " + tooLarge
		}
	}
	return r.found, nil
}

// responses collects up to MaxResponses responses of one vacant.
type responses struct {
	collector  *Collector
	readBudget *readBudget
	since      time.Time // time of the oldest responses that are used
	pages      int       // number of pages that were read
	found      []collusion.Response
	versions   map[version]bool // versions of the agent that answered
	left       bool             // whether responses may exist that were not read
}

// done reports whether reading must stop. If a limit other than MaxResponses is the reason, it also
// marks the responses as incomplete.
func (r *responses) done() bool {
	if len(r.found) == MaxResponses {
		return true
	}
	r.left = r.left || r.pages == maxPages || r.readBudget.empty()
	return r.left
}

func (r *responses) readDelegated(ctx context.Context, pair call.Pair) error {
	for from := uint64(math.MaxInt64); from > 0 && !r.done(); {
		rows, old, err := r.page(ctx, pair, from, min(pageRows, MaxResponses-len(r.found)), nil)
		if err != nil || old || len(rows) == 0 {
			return err
		}
		from = rows[len(rows)-1].Position - 1
	}
	return nil
}

// readReferenced reads the responses at the positions in s.refs, starting with responses to the
// latest callers. A reference to a missing row is ignored.
func (r *responses) readReferenced(ctx context.Context, s *subject) error {
	var callers []identity.ID
	named := map[identity.ID][]uint64{}
	for _, ref := range s.refs {
		if s.parent != nil && ref.Caller == *s.parent {
			continue // these responses are already read
		}
		if named[ref.Caller] == nil {
			if len(callers) == MaxCallers {
				continue
			}
			callers = append(callers, ref.Caller)
		}
		named[ref.Caller] = append(named[ref.Caller], ref.Position)
	}
	for _, caller := range callers {
		want := named[caller]
		slices.SortFunc(want, func(a, b uint64) int { return -cmp.Compare(a, b) })
		// Positions may be far apart, so a page covers only adjacent references.
		for len(want) > 0 && !r.done() {
			n := 1
			for n < len(want) && want[0]-want[n] < pageRows {
				n++
			}
			if _, _, err := r.page(ctx, call.Pair{Caller: caller, Vacant: s.id}, want[0], int(want[0]-want[n-1])+1, want[:n]); err != nil {
				return err
			}
			want = want[n:]
		}
	}
	return nil
}

// page adds the answers in one page of a pair's responses, newest first. If wanted is not nil, it
// adds only answers at these positions. reachedOld means that the page reached responses that are
// too old.
func (r *responses) page(ctx context.Context, pair call.Pair, from uint64, n int, named []uint64) (rows []store.Row, old bool, err error) {
	r.pages++
	rows, cut, err := r.collector.page(ctx, pair, from, n, r.readBudget)
	if err != nil {
		return nil, false, err
	}
	r.left = r.left || cut
	for _, row := range rows {
		if named != nil && !slices.Contains(named, row.Position) || len(r.found) == MaxResponses {
			continue
		}
		a, err := call.DecodeResponse(row)
		if err != nil || a.Kind != call.RowAnswer {
			continue
		}
		if a.Time.Before(r.since) {
			old = true
			continue
		}
		if a.Usage != nil {
			r.versions[version{int(a.Usage.Agent), a.Usage.UsedFallback}] = true
		}
		response, ok, err := r.open(ctx, pair, &a)
		if err != nil {
			return nil, false, err
		}
		if ok {
			r.found = append(r.found, response)
		}
	}
	return rows, old, nil
}

// open decrypts an answer. ok is false if the answer cannot be read or differs from the signed
// answer.
func (r *responses) open(ctx context.Context, pair call.Pair, a *call.ResponseRow) (_ collusion.Response, ok bool, err error) {
	sealed, bound := a.SealedText(pair)
	plain, err := r.collector.Texts.Open(ctx, bound, sealed)
	if err != nil {
		if problem.Is(err, problem.Unavailable) || errors.Is(err, store.ErrUnavailable) || ctx.Err() != nil {
			return collusion.Response{}, false, problem.Wrap(problem.Unavailable, err, "the texts of %s cannot be opened now", pair.Vacant.Short())
		}
		return collusion.Response{}, false, nil
	}
	// The seal binds the text to this stream and hash. The hash proves that the vacant signed this
	// text.
	e, err := a.Envelope(pair, plain)
	if err != nil || e.Hash() != a.Hash {
		return collusion.Response{}, false, nil
	}
	response := collusion.Response{Text: e.Payload.Text(), Took: a.Took}
	if eval := e.Payload.SelfEval; eval != nil {
		response.Confidence = &eval.Confidence
	}
	return response, true, nil
}
