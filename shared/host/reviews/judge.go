package reviews

import (
	"cmp"
	"context"
	"encoding/hex"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/client/registryclient"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/trust/reputation"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/shared/vacant/review"
)

// maxAncestors limits the ancestors that are read of a vacant.
const maxAncestors = 8

// judgement has the facts that decide whether and how a review is counted.
type judgement struct {
	rec      review.Record
	reveal   *review.Reveal
	reviewer identity.ID
	earlier  registryclient.ReviewReceipt // a duplicate if the same review was counted before

	answered   time.Time
	substrate  string // what answered
	sameFamily bool
	reputation *reputation.State // The reviewer's own reputation. It may be nil.
	class      review.Class
	similarity float64 // 1 if the owner of the target has reviewed the reviewer
	// party is the tenant of a hosted reviewer or of the account that pays for it, and otherwise the
	// reviewer's key. Novelty is of parties, so that an owner's many keys count as one.
	party string
}

func ineligible(why string) error { return problem.New(problem.Ineligible, "%s", why) }

func notHosted(id identity.ID) error {
	return problem.New(problem.NotFound, "vacant %s is not hosted here", id.Short())
}

// judge verifies a review and finds its call and its reviewer's party. It writes nothing.
func (s *Service) judge(ctx context.Context, rec review.Record, reveal *review.Reveal) (j judgement, err error) {
	j = judgement{rec: rec, reveal: reveal, reviewer: rec.Reviewer}
	if reveal != nil {
		j.reviewer = reveal.Reviewer
	}
	if signed := reveal == nil && rec.Commitment.IsZero() && rec.Verify(rec.Reviewer) || reveal != nil && reveal.Reveals(&rec); !signed {
		return j, problem.New(problem.BadSignature, "the review's signature does not verify")
	}
	target, ok, err := s.Vacants.Lookup(ctx, rec.Target, false)
	if err != nil {
		return j, err
	}
	if !ok || target.IsDeleted() || target.Closed { // only relatives call a closed child
		return j, notHosted(rec.Target)
	}
	if j.earlier, err = s.earlier(ctx, s.Store, &rec); err != nil || j.earlier.Duplicate {
		return j, store.Problem(err)
	}
	if related, err := s.related(ctx, j.reviewer, rec.Target); err != nil || related {
		return j, cmp.Or(err, ineligible("reviewer and vacant are of one family, or the same vacant"))
	}
	revoked, err := s.Registry.AnyRevoked(ctx, j.reviewer, rec.Target)
	if err != nil {
		return j, err
	}
	if revoked[0] || revoked[1] {
		return j, problem.New(problem.Revoked, "the key of the reviewer or of the vacant was revoked")
	}
	q, a, err := s.Calls.FindAnswered(ctx, call.Pair{Caller: j.reviewer, Vacant: rec.Target}, uint64(rec.Position), rec.Call)
	if err != nil {
		return j, err
	}
	if a == nil {
		return j, problem.New(problem.NoCall, "call_envelope_id_hex: expected the hash of an answered call of the reviewer to the vacant, got %.64q; state its position as call_position if it is not one of the last %d", rec.Call.String(), call.MaxFound)
	}
	j.answered = a.Time
	if j.substrate, err = s.substrateOf(ctx, &target, a); err == nil {
		err = s.judgeReviewer(ctx, &j, &target, &q, a)
	}
	return j, err
}

// judgeReviewer sets the party, the class and the reviewer's own reputation. It refuses the owner of
// the target, who may also be the one that pays for the reviewer's calls.
func (s *Service) judgeReviewer(ctx context.Context, j *judgement, target *vacants.Record, q *call.RequestRow, a *call.ResponseRow) error {
	own, hosted, err := s.Vacants.Lookup(ctx, j.reviewer, false)
	if err != nil {
		return err
	}
	j.party, j.class = "key#"+j.reviewer.String(), review.Quarter
	var owners []string
	if hosted {
		if own.IsDeleted() || own.State != lifecycle.Local && own.State != lifecycle.Active && own.State != lifecycle.Hibernating {
			return ineligible("the reviewer is " + string(own.State) + ", and only a vacant that is LOCAL, ACTIVE or HIBERNATING reviews")
		}
		owners = append(owners, own.Tenant)
		j.sameFamily = isModel(j.substrate) && keyOf(own.Substrate) == j.substrate
		j.class = review.Full
	}
	if a.Charge > 0 && (q.PaidBy == call.PaidByAccount || q.PaidBy == call.PaidByVoucher) {
		j.class = review.Full
	}
	link, _, err := billing.LinkDocs.Get(ctx, s.Store, billing.LinkDocs.Key(j.reviewer.String()))
	if err != nil {
		return store.Problem(err)
	}
	account := link.Account
	if link.Ended {
		account = ""
	}
	if q.PaidBy == call.PaidByAccount {
		account = hex.EncodeToString(q.Payer[:])
	}
	if account != "" {
		of, _, err := billing.AccountDocs.Need(ctx, s.Store, billing.AccountKey(account))
		if err != nil {
			return store.Problem(err)
		}
		owners = append(owners, of.Tenant)
	}
	for _, tenant := range owners {
		if tenant == target.Tenant {
			return ineligible("reviewer and vacant are of one owner")
		}
		j.party = "tenant#" + tenant
	}
	if !hosted {
		return nil
	}
	b, _, err := BookDocs.Get(ctx, s.Store, BookKey(j.reviewer))
	if j.reputation = b.State(); err != nil || b.Rows == 0 {
		return store.Problem(err)
	}
	// Two owners that praise each other count less than strangers do.
	_, mutual, err := PartyDocs.Get(ctx, s.Store, PartyDocs.Key(j.reviewer.String(), "tenant#"+target.Tenant))
	if mutual.Version > 0 {
		j.class, j.similarity = review.Quarter, 1
	}
	return store.Problem(err)
}

// related reports whether two vacants have a common ancestor, or one is the other's, or they are the
// same.
func (s *Service) related(ctx context.Context, a, b identity.ID) (bool, error) {
	for _, id := range []*identity.ID{&a, &b} {
		for range maxAncestors {
			m, ok, err := s.Registry.Manifest(ctx, *id)
			if err != nil {
				return false, err
			}
			if !ok {
				break
			}
			*id = m.Manifest.ParentID
		}
	}
	return a == b, nil
}

// substrateOf returns what gave an answer: by the version of the agent in the row, or by the
// vacant's present substrate if the answer does not report a version.
func (s *Service) substrateOf(ctx context.Context, r *vacants.Record, a *call.ResponseRow) (string, error) {
	if a.Usage == nil || a.Usage.Agent == 0 || a.Usage.Agent > uint64(r.Agent) {
		return keyOf(r.Substrate), nil
	}
	agent, err := s.Vacants.Agent(ctx, r, int(a.Usage.Agent))
	if err != nil {
		return "", err
	}
	spec, err := agent.Spec()
	if fallback, ok := agent.Fallback(); ok && a.Usage.Fallback {
		spec, err = fallback, nil
	}
	if err != nil {
		return keyOf(r.Substrate), nil
	}
	return keyOf(spec.String()), nil
}

// keyOf names a substrate in public rows: a model by its family, and others only by their kind,
// because a URL is the owner's secret.
func keyOf(text string) string {
	spec, err := substrate.Parse(text)
	if err != nil {
		return "unknown"
	}
	if family := spec.Family(); isModel(family) {
		return family
	}
	return spec.Kind
}

func isModel(key string) bool { return strings.HasPrefix(key, "model:") }

// checkVisible returns NotFound unless this host runs a vacant that is not a closed child. A closed
// child has no reviews of its own, because only its relatives call it.
func (s *Service) checkVisible(ctx context.Context, id identity.ID) error {
	r, ok, err := s.Vacants.Lookup(ctx, id, false)
	if err == nil && (!ok || r.Closed) {
		err = notHosted(id)
	}
	return err
}
