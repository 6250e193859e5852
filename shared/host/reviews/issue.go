package reviews

import (
	"context"
	"math"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/client/registryclient"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
	"github.com/vacancy-host/vacancy/shared/vacant/review"
)

// Issue signs rec as a vacant that this host runs, counts it as Submit does, and then logs it in the
// vacant's logbook. If rec names no call, it becomes the review of the last answered one.
func (s *Service) Issue(ctx context.Context, reviewer identity.ID, rec *review.Record) (out registryclient.ReviewReceipt, err error) {
	if rec.Call.IsZero() {
		if err := s.setLastCall(ctx, reviewer, rec); err != nil {
			return out, err
		}
	}
	rec.IssuedAt = s.now()
	err = s.Vacants.Sign(ctx, reviewer, func(signer identity.Signer) error { return rec.Sign(ctx, signer) })
	if err == nil {
		out, err = s.Submit(ctx, *rec, nil)
	}
	if err != nil {
		return out, err
	}
	entry, err := logbook.ReviewIssued(rec)
	if err != nil {
		return out, err
	}
	return out, s.Vacants.Entries(ctx, vacants.LogEntry{ID: reviewer, Kind: logbook.KindReviewIssued, Payload: entry}, vacants.LogEntry{})
}

// setLastCall makes rec the review of the last answered call of reviewer to its target, among the last
// call.MaxFound decisions.
func (s *Service) setLastCall(ctx context.Context, reviewer identity.ID, rec *review.Record) error {
	pair := call.Pair{Caller: reviewer, Vacant: rec.Target}
	rows, err := s.Store.Rows(ctx, pair.Responses(), math.MaxInt64, call.MaxFound, store.Descending)
	if err != nil {
		return store.Problem(err)
	}
	for _, row := range rows {
		d, err := call.DecodeResponse(row)
		if err != nil {
			return problem.Wrap(problem.Damaged, err, "stored history of this pair is damaged")
		}
		if d.Kind == call.RowAnswer {
			rec.Call, rec.Position = d.RequestHash, d.Request
			return nil
		}
	}
	return problem.New(problem.NoCall, "vacant %s has no answer of %s to review", reviewer.Short(), rec.Target.Short())
}
