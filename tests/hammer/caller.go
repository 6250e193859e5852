package hammer

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/retry"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/chain"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Pauses before a caller sends again or starts again.
const (
	shortest = 20 * time.Millisecond
	longest  = 2 * time.Second
	tries    = 12
)

// caller is one identity and its chain with the target. It is for one
// goroutine.
type caller struct {
	*run
	n    int
	key  *identity.Key
	wire *wire
	text string

	request, response chain.Tip
	body              []byte
	env               envelope.Envelope
	hash              identity.Hash
}

func (r *run) caller(n int) (*caller, error) {
	c := &caller{run: r, n: n, wire: newWire(&r.Target), text: strings.Repeat("vacancy ", r.Size/8+1)[:r.Size]}
	return c, c.newIdentity()
}

// newIdentity starts with a new identity, when the state of the chain with the
// target is unknown.
func (c *caller) newIdentity() (err error) {
	c.key, err = identity.NewKey(c.Rand)
	c.request, c.response = chain.Tip{}, chain.Tip{}
	return err
}

// work makes call after call.
func (c *caller) work(ctx context.Context) {
	defer c.wire.close()
	for ctx.Err() == nil && c.start() {
		if err := c.sign(ctx); err != nil {
			c.refuse(err)
			c.abandon()
			return
		}
		c.resolvePending(ctx)
	}
}

// sign makes the next request.
func (c *caller) sign(ctx context.Context) error {
	key := make([]byte, 16)
	if _, err := io.ReadFull(c.Rand, key); err != nil {
		return problem.Wrap(problem.Unavailable, err, "no randomness")
	}
	c.env = envelope.Envelope{
		From: c.key.ID(), To: c.Target.ID, Seq: c.request.Seq + 1, Prev: c.request.Hash,
		Time: c.Now().UTC().Truncate(time.Microsecond), IdempotencyKey: hex.EncodeToString(key),
		Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{c.text}},
	}
	var err error
	if c.hash, err = c.env.Sign(ctx, c.key); err != nil {
		return err
	}
	c.body = envelope.AppendRequest(c.body[:0], nil, &c.env)
	return nil
}

// resolvePending sends the request until its outcome is known.
func (c *caller) resolvePending(ctx context.Context) {
	apart := shortest
	for try := 1; ; try++ {
		status, answer, took, err := c.wire.post(ctx, c.body)
		if ctx.Err() != nil {
			return // cut off: neither answered nor failed
		}
		again := c.judge(status, answer, took, err)
		if !again {
			return
		}
		if try == tries {
			c.giveUpPair()
			return
		}
		if retry.Sleep(ctx, apart) != nil {
			return
		}
		apart = min(2*apart, longest)
		c.sentAgain()
	}
}

// judge handles a reply. again: the call is not settled, and the same bytes
// must be sent again.
func (c *caller) judge(status int, answer []byte, took time.Duration, err error) (again bool) {
	if err != nil {
		c.failed("no_answer", problem.PlainMessage(err))
		return true
	}
	if status == http.StatusOK {
		reply, err := envelope.DecodeResponse(answer)
		c.reply(&reply, err, took)
		return false
	}
	a := read(answer)
	switch {
	case a.state == "answered" && a.reply != nil:
		reply, err := envelope.DecodeMessage(a.reply)
		c.reply(&reply, err, took)
		return false
	case a.state == "unanswered":
		c.failed(a.word(status), a.detail)
		c.request = c.request.WithEnvelope(&c.env, c.hash)
		return false
	case a.state == "pending":
		return true
	case status >= 500, status == http.StatusTooManyRequests, status == http.StatusRequestTimeout:
		c.failed(a.word(status), a.detail)
		return true
	case status == http.StatusConflict:
		c.failed(a.word(status), a.detail)
		c.giveUpPair()
		return false
	}
	c.failed(a.word(status), a.detail)
	c.refuse(problem.New(a.kind(), "the target refuses with %d %s: %.200s", status, a.word(status), a.detail))
	c.abandon()
	return false
}

// reply settles the call by an answer, if it verifies in the order of PROTOCOL
// §16 and is bound to the request.
func (c *caller) reply(e *envelope.Envelope, err error, took time.Duration) {
	var hash identity.Hash
	if err == nil {
		hash, err = c.verify(e)
	}
	if err != nil {
		c.failed(problem.Untrusted.String(), err.Error())
		c.giveUpPair()
		return
	}
	c.request = c.request.WithEnvelope(&c.env, c.hash)
	c.response = c.response.WithEnvelope(e, hash)
	c.answered(c.n, took)
}

func (c *caller) verify(e *envelope.Envelope) (identity.Hash, error) {
	hash, ok := e.VerifyBy(c.Target.ID)
	switch {
	case !ok:
		return hash, fmt.Errorf("the answer is not signed by %s", c.Target.ID.Short())
	case e.From != c.Target.ID:
		return hash, fmt.Errorf("the answer is from %s, not from %s", e.From.Short(), c.Target.ID.Short())
	case e.To != c.key.ID():
		return hash, fmt.Errorf("the answer is to %s, not to %s", e.To.Short(), c.key.ID().Short())
	case e.IdempotencyKey != envelope.ReplyKey(c.hash):
		return hash, fmt.Errorf("the answer has the key %.80q, which does not name its request %s", e.IdempotencyKey, c.hash)
	}
	return hash, c.response.CheckNext(e)
}

// giveUpPair ends a chain of unknown state and starts another.
func (c *caller) giveUpPair() {
	if err := c.newIdentity(); err != nil {
		c.refuse(err)
		c.abandon()
	}
}

// refusal is the body of a refusal.
type refusal struct {
	code, state, detail string
	reply               []byte
}

// read parses a refusal; invalid members are treated as absent.
func read(body []byte) (r refusal) {
	d := canon.NewDecoder(body, canon.AnswerLimits())
	err := d.Document(func(key string) (err error) {
		var text *string
		switch key {
		case "code":
			text = &r.code
		case "state":
			text = &r.state
		case "detail":
			text = &r.detail
		case "reply":
			r.reply, err = d.Raw()
			return err
		}
		if text == nil || d.Kind() != canon.String {
			return d.Skip()
		}
		*text, err = d.String()
		return err
	})
	if err != nil {
		return refusal{detail: string(body[:min(len(body), 200)])}
	}
	return r
}

// kind is the kind of the host's code; Conflict for an unknown one.
func (r refusal) kind() problem.Kind {
	for _, k := range problem.Kinds() {
		if k.String() == r.code {
			return k
		}
	}
	return problem.Conflict
}

// word is the host's code, else its status.
func (r refusal) word(status int) string {
	if r.code != "" {
		return r.code
	}
	return fmt.Sprintf("http_%d", status)
}
