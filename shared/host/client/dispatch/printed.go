package dispatch

import (
	"bytes"
	"context"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// SignRequest signs msg and saves the call like Call, but returns the request body instead of sending
// it. Until the answer is accepted, the same message returns the same bytes.
func (c *Caller) SignRequest(ctx context.Context, t Target, msg envelope.Message) (body []byte, res Result, err error) {
	res, err = c.runLocked(ctx, t, func(ctx context.Context, r *run) error {
		if r.st.PendingReset != nil {
			return r.newStuckError(RemedyReset, problem.Conflict, "a reset of the chain with %s is not confirmed: another reset finishes it", r.t.Name)
		}
		if err := r.prepareMessage(ctx, &msg); err != nil {
			return err
		}
		if r.st.callOutcome() != nil {
			return problem.New(problem.Conflict, "the answer to this call has already arrived: call again with the same message to show it")
		}
		if r.st.callEnvelope() == nil {
			if len(r.st.Sent)+len(r.st.Acceptable) >= MaxListed {
				return r.tooManyListedError()
			}
			if err := r.sign(ctx, msg); err != nil {
				return err
			}
		}
		e := r.st.callEnvelope()
		r.setCurrent(*e)
		body = envelope.AppendRequest(nil, nil, e)
		return nil
	})
	return body, res, err
}

// AcceptStream verifies and settles the answer that ended the stream of a call. It compares the
// answer with the hash of the call's envelope and with the text of the stream, which is nil if the
// stream had no text.
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

// AcceptReply verifies and settles a reply that was transported by other means: the answer or refusal
// that a host returned for a printed call. The answer is matched to its call by the request hash
// that it is bound to. A reply without such a hash belongs to the call in hand.
func (c *Caller) AcceptReply(ctx context.Context, t Target, body []byte) (Result, error) {
	return c.runLocked(ctx, t, func(ctx context.Context, r *run) error {
		a := parseReply(0, body)
		if !a.isObject || !a.hasResult && a.state == "" && a.code == "" && a.detail == "" {
			return problem.New(problem.Untrusted, "this is neither an answer nor a refusal of a host")
		}
		e := r.findRequestOf(a)
		if e == nil {
			return problem.New(problem.NotFound, "no call to %s is waiting for this answer", r.t.Name)
		}
		h := r.setCurrent(*e)
		v, _, err := r.judge(*e, h, a, true)
		switch v {
		case verdictResend:
			return problem.New(problem.Pending, "this reply is not final; the call to %s is stored: send the same bytes again", r.t.Name)
		case verdictOther:
			return r.newStuckError(RemedyAsk, problem.Conflict, "%s had accepted an earlier call with this number: ask for its answer", r.t.Name)
		case verdictMoved:
			return r.movedChainError(problem.Conflict, a, "")
		case verdictSignAgain:
			err = problem.New(problem.Conflict, "this envelope was not accepted (%s): run the same command again to sign a new one", a.safeDetail())
		}
		if v == verdictSettled {
			r.st.CallKey = e.IdempotencyKey // the accepted answer is the result, whatever call is in hand
		}
		if err := r.actOnVerdict(ctx, h, a, v, nil, err); err != nil || v != verdictSettled {
			return err
		}
		return r.deliverOutcome()
	})
}

// findRequestOf returns the listed envelope that a reply belongs to, or nil.
func (r *run) findRequestOf(a hostReply) *envelope.Envelope {
	raw := a.storedAnswer
	if a.hasResult {
		raw = a.body
	}
	if raw != nil {
		decode := envelope.DecodeMessage
		if a.hasResult {
			decode = envelope.DecodeResponse
		}
		if answer, err := decode(bytes.Clone(raw)); err == nil && envelope.IsReplyKey(answer.IdempotencyKey) {
			h, err := identity.ParseHash(answer.IdempotencyKey[len(envelope.ReplyKey(identity.Hash{}))-2*identity.Size:])
			if err != nil {
				return nil
			}
			return r.st.findListed(h)
		}
	}
	if e := r.st.callEnvelope(); e != nil || len(r.st.Sent) == 0 {
		return e
	}
	return &r.st.Sent[len(r.st.Sent)-1]
}
