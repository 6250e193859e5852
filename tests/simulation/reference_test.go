package simulation

import (
	"context"
	"fmt"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/message"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// reference is the state of the reference's caller, which it stores only after
// a call that succeeded completely. It resets on a 409, has a strict store of
// responses, and ignores the members beside a detail.
type reference struct {
	seq, answer      int64
	hash, answerHash identity.Hash
	calls, done      int
}

const patienceOfReference = 60

func (c *caller) driveReference(ctx context.Context) {
	for n := 0; c.ref.done < c.cfg.jobs && n < patienceOfReference && ctx.Err() == nil; n++ {
		c.referenceCall(ctx)
	}
}

func (c *caller) driveReferenceAlone(ctx context.Context) {
	done := c.ref.done
	for n := 0; c.ref.done == done && ctx.Err() == nil; n++ {
		if n == patienceOfReference {
			c.w.violate("I6: %s cannot recover", c.name)
			return
		}
		c.referenceCall(ctx)
	}
}

// referenceCall is one try at a call, and a reset if it meets a 409.
func (c *caller) referenceCall(ctx context.Context) {
	r := &c.ref
	c.w.clock.Advance(time.Second)
	r.calls++
	e := c.sign(r.seq+1, r.hash, fmt.Sprintf("%s, call %d", c.name, r.calls))
	status, body, err := c.Post(ctx, "http://host"+message.SendPath, request(e))
	switch {
	case err != nil:
	case status == 200:
		c.referenceAnswer(e, body)
	case status == 409:
		c.w.clock.Advance(time.Second)
		status, _, err = c.Post(ctx, "http://host"+message.ResetPath, request(c.sign(1, identity.Hash{}, envelope.ResetText)))
		if err == nil && status == 200 {
			r.seq, r.hash, r.answer, r.answerHash = 0, identity.Hash{}, 0, identity.Hash{}
		}
		c.w.clock.Advance(5 * time.Second)
	case status == 402, status == 423:
		r.done++ // given up
	case status == 400:
		c.w.clock.Advance(5 * time.Second)
	}
}

// referenceAnswer accepts an answer if it is the next of the response chain.
func (c *caller) referenceAnswer(e *envelope.Envelope, body []byte) {
	r := &c.ref
	a, err := envelope.DecodeResponse(body)
	if err != nil {
		c.w.violate("I7: %s cannot read an answer: %v", c.name, err)
		return
	}
	h, ok := a.VerifyBy(c.w.pair.Vacant)
	if !ok {
		c.w.violate("I7: %s: an answer does not verify", c.name)
	}
	if a.Seq != r.answer+1 || a.Prev != r.answerHash {
		if c.w.quiet && len(c.w.callers) == 1 {
			c.w.violate("I7: the strict %s refuses answer %d after %d", c.name, a.Seq, r.answer)
		}
		return // nothing is stored: the next call meets a 409
	}
	r.seq, r.hash, r.answer, r.answerHash = e.Seq, e.Hash(), a.Seq, h
	r.done++
}

func (c *caller) sign(seq int64, prev identity.Hash, text string) *envelope.Envelope {
	e := &envelope.Envelope{
		From: c.w.pair.Caller, To: c.w.pair.Vacant, Seq: seq, Prev: prev, Time: c.now().UTC().Truncate(time.Microsecond),
		Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{text}}, IdempotencyKey: "key",
	}
	if _, err := e.Sign(context.Background(), callerKey); err != nil {
		panic(err)
	}
	return e
}
