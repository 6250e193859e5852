package dispatch

import (
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/chain"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

type proof struct {
	point         Point
	isBound       bool
	missedAnswers int64
}

// verifyAnswer performs steps 7 to 9 of PROTOCOL §16 for the answer to the request with hash h. A
// host that has bound an answer must bind all answers. Otherwise a middleman could choose among old
// answers (PROTOCOL §23 A2).
func (s *State) verifyAnswer(e *envelope.Envelope, h identity.Hash) (proof, error) {
	hash, ok := e.VerifyBy(s.Target) // the claimed sender is not trusted
	switch {
	case !ok:
		return proof{}, problem.New(problem.Untrusted, "envelope signature did not verify for sender %s", e.From.Short())
	case e.From != s.Target:
		return proof{}, problem.New(problem.Untrusted, "response envelope from_vacant_id %s != target %s", e.From.Short(), s.Target.Short())
	case e.To != s.Self:
		return proof{}, problem.New(problem.Untrusted, "response envelope to_vacant_id %s != requester %s", e.To.Short(), s.Self.Short())
	}
	p := proof{point: Point{e.Seq, hash}, isBound: envelope.IsReplyKey(e.IdempotencyKey)}
	if p.isBound && e.IdempotencyKey != envelope.ReplyKey(h) {
		return proof{}, problem.New(problem.Untrusted, "the answer is to another request: its key is %.80q, this request is %s", e.IdempotencyKey, h)
	}
	if !p.isBound && s.BindsAnswers {
		return proof{}, problem.New(problem.Untrusted, "the answer does not name its request %s, though this target has done so before", h)
	}
	return p, nil
}

// checkNext performs step 10 of PROTOCOL §16. A host that never bound an answer may skip one
// sequence number for each lost answer (PROTOCOL §23 A9).
func (s *State) checkNext(e *envelope.Envelope, p *proof) error {
	tip := chain.Tip{Seq: s.ResponseTip.Seq, Hash: s.ResponseTip.Hash}
	if gap := e.Seq - tip.Seq - 1; gap > 0 && !s.BindsAnswers && gap <= s.LostAnswers {
		p.missedAnswers = gap
		return nil
	}
	if err := tip.CheckNext(e); err != nil {
		return &problem.Error{Kind: problem.Untrusted, Detail: problem.AsError(err).Text()}
	}
	return nil
}

func (s *State) recordAnswer(call Point, p proof) {
	s.advance(call, &p.point)
	s.BindsAnswers = s.BindsAnswers || p.isBound
	s.LostAnswers -= p.missedAnswers
}
