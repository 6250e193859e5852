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

func (c *Collector) addStyles(ctx context.Context, subjects []subject, observations []gate.Observation, budget *readBudget) error {
	// subjects[0] is the child. The others are read only if the child has a style.
	var g errgroup.Group
	for i := range subjects {
		switch s, o := &subjects[i], &observations[i]; {
		case !s.hosted: // the reason is already set
		case s.isComposite:
			o.MissingReasons[gate.Style] = "it answers in its children's words"
		case i > 0 && observations[0].MissingReasons[gate.Style] != "":
			o.MissingReasons[gate.Style] = "the child has none to compare it with"
		default:
			answers, err := c.readResponses(ctx, s, o, budget.newShare(VacantUnits))
			if err == nil {
				err = c.addEarlierFamilies(ctx, s, o, budget)
			}
			if err != nil {
				return errors.Join(err, g.Wait())
			}
			g.Go(func() (err error) {
				o.Style, err = collusion.StyleVector(answers)
				return err
			})
		}
	}
	return g.Wait()
}

func (c *Collector) readResponses(ctx context.Context, s *subject, o *gate.Observation, budget *readBudget) ([]collusion.Response, error) {
	r := &responseReader{collector: c, readBudget: budget, windowStart: c.Now().Add(-MaxEvidenceAge), versions: map[agentVersion]bool{}}
	if s.parent != nil {
		if err := r.readDelegated(ctx, call.Pair{Caller: *s.parent, Vacant: s.id}); err != nil {
			return nil, err
		}
	}
	if err := r.readReferenced(ctx, s); err != nil {
		return nil, err
	}
	s.versions = r.versions
	o.Responses = len(r.responses)
	if o.Responses < gate.MinResponses {
		o.MissingReasons[gate.Style] = fmt.Sprintf("only %d responses of the last seven days can be read, expected at least %d", o.Responses, gate.MinResponses)
		if r.isIncomplete {
			o.MissingReasons[gate.Style] += ": the rest is " + reasonTooLarge
		}
	}
	return r.responses, nil
}

type responseReader struct {
	collector    *Collector
	readBudget   *readBudget
	windowStart  time.Time
	pageCount    int
	responses    []collusion.Response
	versions     map[agentVersion]bool
	isIncomplete bool // whether responses may exist that were not read
}

// shouldStop also sets isIncomplete if a limit of reading is reached.
func (r *responseReader) shouldStop() bool {
	if len(r.responses) == MaxResponses {
		return true
	}
	r.isIncomplete = r.isIncomplete || r.pageCount == maxPages || r.readBudget.isEmpty()
	return r.isIncomplete
}

func (r *responseReader) readDelegated(ctx context.Context, pair call.Pair) error {
	for start := uint64(math.MaxInt64); start > 0 && !r.shouldStop(); {
		rows, reachedOld, err := r.addPage(ctx, pair, start, min(pageRows, MaxResponses-len(r.responses)), nil)
		if err != nil || reachedOld || len(rows) == 0 {
			return err
		}
		start = rows[len(rows)-1].Position - 1
	}
	return nil
}

func (r *responseReader) readReferenced(ctx context.Context, s *subject) error {
	var callers []identity.ID
	positionsByCaller := map[identity.ID][]uint64{}
	for _, ref := range s.refs {
		if s.parent != nil && ref.Caller == *s.parent {
			continue // these responses are already read
		}
		if positionsByCaller[ref.Caller] == nil {
			if len(callers) == MaxCallers {
				continue
			}
			callers = append(callers, ref.Caller)
		}
		positionsByCaller[ref.Caller] = append(positionsByCaller[ref.Caller], ref.Position)
	}
	for _, caller := range callers {
		positions := positionsByCaller[caller]
		slices.SortFunc(positions, func(a, b uint64) int { return -cmp.Compare(a, b) })
		// Positions may be far apart, so a page covers only adjacent references.
		for len(positions) > 0 && !r.shouldStop() {
			n := 1
			for n < len(positions) && positions[0]-positions[n] < pageRows {
				n++
			}
			if _, _, err := r.addPage(ctx, call.Pair{Caller: caller, Vacant: s.id}, positions[0], int(positions[0]-positions[n-1])+1, positions[:n]); err != nil {
				return err
			}
			positions = positions[n:]
		}
	}
	return nil
}

// addPage adds the answers in one page. If wanted is not nil, it adds only answers at these
// positions.
func (r *responseReader) addPage(ctx context.Context, pair call.Pair, start uint64, n int, wanted []uint64) (rows []store.Row, reachedOld bool, err error) {
	r.pageCount++
	rows, truncated, err := r.collector.readPage(ctx, pair, start, n, r.readBudget)
	if err != nil {
		return nil, false, err
	}
	r.isIncomplete = r.isIncomplete || truncated
	for _, row := range rows {
		if wanted != nil && !slices.Contains(wanted, row.Position) || len(r.responses) == MaxResponses {
			continue
		}
		answer, err := call.DecodeResponse(row)
		if err != nil || answer.Kind != call.RowAnswer {
			continue
		}
		if answer.Time.Before(r.windowStart) {
			reachedOld = true
			continue
		}
		if answer.Usage != nil {
			r.versions[agentVersion{int(answer.Usage.AgentVersion), answer.Usage.UsedFallback}] = true
		}
		response, ok, err := r.openAnswer(ctx, pair, &answer)
		if err != nil {
			return nil, false, err
		}
		if ok {
			r.responses = append(r.responses, response)
		}
	}
	return rows, reachedOld, nil
}

// openAnswer returns ok = false if the answer cannot be read or differs from the signed answer.
func (r *responseReader) openAnswer(ctx context.Context, pair call.Pair, a *call.ResponseRow) (_ collusion.Response, ok bool, err error) {
	sealed, additionalData := a.SealedText(pair)
	plaintext, err := r.collector.Texts.Open(ctx, additionalData, sealed)
	if err != nil {
		if problem.Is(err, problem.Unavailable) || errors.Is(err, store.ErrUnavailable) || ctx.Err() != nil {
			return collusion.Response{}, false, problem.Wrap(problem.Unavailable, err, "the texts of %s cannot be opened now", pair.Vacant.Short())
		}
		return collusion.Response{}, false, nil
	}
	// The hash proves that the vacant signed this text.
	e, err := a.Envelope(pair, plaintext)
	if err != nil || e.Hash() != a.Hash {
		return collusion.Response{}, false, nil
	}
	response := collusion.Response{Text: e.Payload.Text(), Latency: a.Duration}
	if eval := e.Payload.SelfEval; eval != nil {
		response.Confidence = &eval.Confidence
	}
	return response, true, nil
}
