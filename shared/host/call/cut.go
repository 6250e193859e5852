package call

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
)

// Cut is the reason that an answer ends early; "" for a whole answer. A cut answer is signed,
// kept and charged like a whole one.
type Cut string

const (
	// CutCanceled means that the caller canceled the call when it could read a part of the answer.
	CutCanceled Cut = "canceled"
	// CutLength means that the vacant's model was not allowed to say more.
	CutLength Cut = "length"
	// CutBudget means that the vacant's model was not allowed to say more, because a budget left
	// less than the agent's max_tokens.
	CutBudget Cut = "budget"
	// CutUnknown means that the vacant's model gave an unknown reason for the end of its answer,
	// which may be incomplete.
	CutUnknown Cut = "unknown"
)

// cuts are the reasons; the index is the byte in a row. Later versions append to them.
var cuts = []Cut{"", CutCanceled, CutLength, CutBudget, CutUnknown}

// Remark returns the text of an answer for a model, which would otherwise take a part for the
// whole.
func (c Cut) Remark(text string) string {
	switch c {
	case "":
		return text
	case CutUnknown:
		return text + "\n[This answer may be incomplete: it ended for an unknown reason.]"
	}
	return text + "\n[This answer was cut off here: " + string(c) + ".]"
}

func (c Cut) code() byte { return byte(max(slices.Index(cuts, c), 0)) }

func (d *reader) cut() Cut {
	code := int(d.byte())
	if d.bad = d.bad || code == 0 || code >= len(cuts); d.bad {
		return ""
	}
	return cuts[code]
}

// Partial is the part of an answer that can be read before the answer is decided.
type Partial struct {
	Text  string
	Usage *Usage    // usage that the charge depends on; nil if nothing was used
	Began time.Time // when the behaviour began
}

// Cut decides an accepted call by a part of its answer, if the call is undecided. State is how
// it was decided: Answered, or Unanswered if it was voided before, or if the vacant that would
// sign is gone or cannot sign this text.
func (h *Host) Cut(ctx context.Context, pair Pair, position uint64, why Cut, p Partial, o Options) (State, error) {
	row, err := h.callAt(ctx, pair, position)
	if err != nil {
		return Unknown, err
	}
	d, tip, err := h.decided(ctx, pair, &row)
	switch {
	case err != nil:
		return Unknown, err
	case d != nil && d.Kind == RowAnswer:
		return Answered, nil
	case d != nil || closedBy(tip, &row):
		return Unanswered, nil
	}
	void := func(failure error, final bool) (State, error) {
		return h.voidFor(ctx, pair, &row, closing{cause: CauseOf(failure, 0), failure: failure, opts: &o, used: p.Usage, ran: true, final: final})
	}
	r := &request{pair: pair, hash: row.Hash, opts: o, cut: why} // without began: others have the counts
	r.out.Usage = p.Usage
	msg := envelope.Message{Role: envelope.RoleAgent, Parts: []string{p.Text}}
	if err := msg.Check(); err != nil {
		return void(problem.Wrap(problem.BehaviourFailed, err, "the vacant gave an answer that cannot be signed"), false)
	}
	var hosted bool
	if r.vacant, hosted, err = h.Directory.Vacant(ctx, pair.Vacant, false); err != nil {
		return Unknown, h.unavailable(err)
	}
	if !hosted {
		return void(problem.New(problem.Gone, "the vacant is not hosted here any more"), false)
	}
	if r.vacant.Ready != nil {
		if err := r.vacant.Ready(ctx); err != nil && !problem.Is(err, problem.BudgetSpent) {
			return Unknown, h.unavailable(err)
		}
	}
	reply, closed, err := h.settleAndAnswer(ctx, r, &row, tip, msg, p.Began)
	var unsettled *unsettledError
	switch {
	case errors.Is(err, ErrUncertain):
		return Pending, waitsForPayment(err)
	case errors.As(err, &unsettled):
		return void(unsettled.cause, true)
	case problem.Is(err, problem.SubstrateTooLarge):
		return void(err, true)
	case err != nil:
		return Unknown, err
	case reply != nil:
		return Answered, nil
	case closed && h.late(&row):
		// Its executor has kept the whole answer, which may wait for its settlement.
		return void(problem.New(problem.Canceled, "the caller canceled the call"), false)
	}
	return Unanswered, nil
}
