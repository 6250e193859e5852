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

const maxAncestors = 8

// judgement contains a review and the facts that determine how much it weighs.
type judgement struct {
	rec            review.Record
	reveal         *review.Reveal
	reviewer       identity.ID
	earlierReceipt registryclient.ReviewReceipt // zero unless the same review was counted before

	answeredAt time.Time
	substrate  string // public name of the substrate that answered
	sameFamily bool
	reputation *reputation.State // nil unless this host runs the reviewer
	class      review.Class
	similarity float64 // 1 if the target's owner has reviewed the reviewer, otherwise 0
	// party is a tenant, or the reviewer's key if its tenant is unknown. Further reviews by a party
	// weigh less, even if another key signs them.
	party string
}

func ineligibleError(reason string) error { return problem.New(problem.Ineligible, "%s", reason) }

func notHostedError(id identity.ID) error {
	return problem.New(problem.NotFound, "vacant %s is not hosted here", id.Short())
}

func (s *Service) judge(ctx context.Context, rec review.Record, reveal *review.Reveal) (j judgement, err error) {
	j = judgement{rec: rec, reveal: reveal, reviewer: rec.Reviewer}
	if reveal != nil {
		j.reviewer = reveal.Reviewer
	}
	if isSigned := reveal == nil && rec.Commitment.IsZero() && rec.Verify(rec.Reviewer) || reveal != nil && reveal.ProvesReviewer(&rec); !isSigned {
		return j, problem.New(problem.BadSignature, "the review's signature does not verify")
	}
	target, ok, err := s.Vacants.Lookup(ctx, rec.Target, false)
	if err != nil {
		return j, err
	}
	if !ok || target.IsDeleted() || target.Closed { // only relatives may call a closed child
		return j, notHostedError(rec.Target)
	}
	if j.earlierReceipt, err = s.findDuplicate(ctx, s.Store, &rec); err != nil || j.earlierReceipt.Duplicate {
		return j, store.AsProblem(err)
	}
	if isRelative, err := s.areRelated(ctx, j.reviewer, rec.Target); err != nil || isRelative {
		return j, cmp.Or(err, ineligibleError("reviewer and vacant are relatives or the same vacant"))
	}
	revoked, err := s.Registry.AreRevoked(ctx, j.reviewer, rec.Target)
	if err != nil {
		return j, err
	}
	if revoked[0] || revoked[1] {
		return j, problem.New(problem.Revoked, "the key of the reviewer or of the vacant was revoked")
	}
	request, response, err := s.Calls.FindCallByHash(ctx, call.Pair{Caller: j.reviewer, Vacant: rec.Target}, uint64(rec.Position), rec.CallHash)
	if err != nil {
		return j, err
	}
	if response == nil {
		return j, problem.New(problem.NoMatchingCall, "call_envelope_id_hex: expected the hash of an answered call of the reviewer to the vacant, got %.64q; state its position as call_position if it is not one of the last %d", rec.CallHash.String(), call.MaxSearchedRequests)
	}
	j.answeredAt = response.Time
	if j.substrate, err = s.findSubstrate(ctx, &target, response); err == nil {
		err = s.judgeReviewer(ctx, &j, &target, &request, response)
	}
	return j, err
}

// judgeReviewer sets the fields of j that depend on the reviewer. It refuses a reviewer that the
// target's owner runs or pays for.
func (s *Service) judgeReviewer(ctx context.Context, j *judgement, target *vacants.Record, request *call.RequestRow, response *call.ResponseRow) error {
	reviewer, isHosted, err := s.Vacants.Lookup(ctx, j.reviewer, false)
	if err != nil {
		return err
	}
	j.party, j.class = "key#"+j.reviewer.String(), review.ClassQuarter
	var owners []string
	if isHosted {
		if reviewer.IsDeleted() || reviewer.State != lifecycle.Local && reviewer.State != lifecycle.Active && reviewer.State != lifecycle.Hibernating {
			return ineligibleError("the reviewer is " + string(reviewer.State) + ", but only a vacant that is LOCAL, ACTIVE or HIBERNATING may review")
		}
		owners = append(owners, reviewer.Tenant)
		j.sameFamily = isModel(j.substrate) && publicName(reviewer.Substrate) == j.substrate
		j.class = review.ClassFull
	}
	if response.Charge > 0 && (request.PaidBy == call.PaidByAccount || request.PaidBy == call.PaidByVoucher) {
		j.class = review.ClassFull
	}
	link, _, err := billing.LinkDocs.Get(ctx, s.Store, billing.LinkDocs.Key(j.reviewer.String()))
	if err != nil {
		return store.AsProblem(err)
	}
	account := link.Account
	if link.Ended {
		account = ""
	}
	if request.PaidBy == call.PaidByAccount {
		account = hex.EncodeToString(request.Payer[:])
	}
	if account != "" {
		payer, _, err := billing.AccountDocs.Require(ctx, s.Store, billing.AccountKey(account))
		if err != nil {
			return store.AsProblem(err)
		}
		owners = append(owners, payer.Tenant)
	}
	for _, tenant := range owners {
		if tenant == target.Tenant {
			return ineligibleError("reviewer and vacant have the same owner")
		}
		j.party = "tenant#" + tenant
	}
	if !isHosted {
		return nil
	}
	book, _, err := BookDocs.Get(ctx, s.Store, BookKey(j.reviewer))
	if j.reputation = book.State(); err != nil || book.Rows == 0 {
		return store.AsProblem(err)
	}
	// If the target's owner has reviewed the reviewer, the two may praise each other.
	_, mutualDoc, err := PartyDocs.Get(ctx, s.Store, PartyDocs.Key(j.reviewer.String(), "tenant#"+target.Tenant))
	if mutualDoc.Version > 0 {
		j.class, j.similarity = review.ClassQuarter, 1
	}
	return store.AsProblem(err)
}

func (s *Service) areRelated(ctx context.Context, a, b identity.ID) (bool, error) {
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

func (s *Service) findSubstrate(ctx context.Context, r *vacants.Record, response *call.ResponseRow) (string, error) {
	if response.Usage == nil || response.Usage.AgentVersion == 0 || response.Usage.AgentVersion > uint64(r.AgentVersion) {
		return publicName(r.Substrate), nil
	}
	agent, err := s.Vacants.Agent(ctx, r, int(response.Usage.AgentVersion))
	if err != nil {
		return "", err
	}
	spec, err := agent.Spec()
	if fallback, ok := agent.Fallback(); ok && response.Usage.UsedFallback {
		spec, err = fallback, nil
	}
	if err != nil {
		return publicName(r.Substrate), nil
	}
	return publicName(spec.String()), nil
}

// publicName returns the family of a model. For other substrates it returns only the kind, because
// a URL is the owner's secret.
func publicName(text string) string {
	spec, err := substrate.Parse(text)
	if err != nil {
		return "unknown"
	}
	if family := spec.Family(); isModel(family) {
		return family
	}
	return spec.Kind
}

func isModel(name string) bool { return strings.HasPrefix(name, "model:") }

func (s *Service) checkVisible(ctx context.Context, id identity.ID) error {
	r, ok, err := s.Vacants.Lookup(ctx, id, false)
	if err == nil && (!ok || r.Closed) {
		err = notHostedError(id)
	}
	return err
}
