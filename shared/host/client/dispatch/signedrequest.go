package dispatch

import (
	"bytes"
	"context"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// SignRequest signs msg and saves the call like Call, but returns the request body instead of
// sending it. A repeated SignRequest with the same message returns the same body until AcceptReply
// gets a final reply.
func (c *Caller) SignRequest(ctx context.Context, t Target, msg envelope.Message) (body []byte, res Result, err error) {
	res, err = c.runLocked(ctx, t, func(ctx context.Context, r *run) error {
		if r.state.PendingReset != nil {
			return r.newStuckError(RemedyReset, problem.Conflict, "a reset of the chain with %s is not confirmed: another reset finishes it", r.target.Name)
		}
		if err := r.prepareMessage(ctx, &msg); err != nil {
			return err
		}
		if r.state.callOutcome() != nil {
			return problem.New(problem.Conflict, "the answer to this call has already arrived: call again with the same message to show it")
		}
		if r.state.callEnvelope() == nil {
			if len(r.state.Sent)+len(r.state.Acceptable) >= MaxListed {
				return r.tooManyListedError()
			}
			if err := r.sign(ctx, msg); err != nil {
				return err
			}
		}
		e := r.state.callEnvelope()
		r.setResultRequest(*e)
		body = envelope.AppendRequest(nil, nil, e)
		return nil
	})
	return body, res, err
}

// AcceptStream verifies and settles the answer at the end of a stream. The answer must belong to
// the envelope with requestHash. If streamedText is not nil, it must equal the answer's text.
func (c *Caller) AcceptStream(ctx context.Context, t Target, requestHash identity.Hash, answer *envelope.Envelope, streamedText *string) (Result, error) {
	res, err := c.AcceptReply(ctx, t, envelope.AppendResponse(nil, nil, answer))
	switch {
	case err != nil:
	case res.RequestHash != requestHash || res.Reply == nil:
		err = problem.New(problem.Untrusted, "the answer belongs to another call of %s", t.ID.Short())
	case streamedText != nil && *streamedText != res.Reply.Payload.Text():
		err = problem.New(problem.Untrusted, "the streamed text differs from the answer that %s signed, which is: %.1000q", t.ID.Short(), res.Reply.Payload.Text())
	}
	return res, err
}

// AcceptReply verifies and settles a reply that was transported by other means. If the reply does
// not name its request, AcceptReply uses the call in hand or, if there is none, the last envelope
// in State.Sent.
func (c *Caller) AcceptReply(ctx context.Context, t Target, body []byte) (Result, error) {
	return c.runLocked(ctx, t, func(ctx context.Context, r *run) error {
		reply := parseReply(0, body)
		if !reply.isObject || !reply.hasResult && reply.state == "" && reply.code == "" && reply.detail == "" {
			return problem.New(problem.Untrusted, "this is neither an answer nor a refusal of a host")
		}
		e := r.findRequestOf(reply)
		if e == nil {
			return problem.New(problem.NotFound, "no call to %s is waiting for this answer", r.target.Name)
		}
		h := r.setResultRequest(*e)
		v, _, err := r.judge(*e, h, reply, true)
		switch v {
		case verdictResend:
			return problem.New(problem.Pending, "this reply is not final; the call to %s is stored: send the same bytes again", r.target.Name)
		case verdictOtherAccepted:
			return r.newStuckError(RemedyAsk, problem.Conflict, "%s had accepted an earlier call with this number: ask for its answer", r.target.Name)
		case verdictChainMoved:
			return r.movedChainError(problem.Conflict, reply, "")
		case verdictSignAgain:
			err = problem.New(problem.Conflict, "this envelope was not accepted (%s): run the same command again to sign a new one", reply.safeDetail())
		}
		if v == verdictSettled {
			r.state.CallKey = e.IdempotencyKey // return the outcome of e, even if another call is in hand
		}
		if err := r.actOnVerdict(ctx, h, reply, v, nil, err); err != nil || v != verdictSettled {
			return err
		}
		return r.deliverOutcome()
	})
}

func (r *run) findRequestOf(reply hostReply) *envelope.Envelope {
	raw := reply.storedAnswer
	if reply.hasResult {
		raw = reply.body
	}
	if raw != nil {
		decode := envelope.DecodeMessage
		if reply.hasResult {
			decode = envelope.DecodeResponse
		}
		if answer, err := decode(bytes.Clone(raw)); err == nil && envelope.IsReplyKey(answer.IdempotencyKey) {
			h, err := identity.ParseHash(answer.IdempotencyKey[len(envelope.ReplyKey(identity.Hash{}))-2*identity.Size:])
			if err != nil {
				return nil
			}
			return r.state.findListed(h)
		}
	}
	if e := r.state.callEnvelope(); e != nil || len(r.state.Sent) == 0 {
		return e
	}
	return &r.state.Sent[len(r.state.Sent)-1]
}
