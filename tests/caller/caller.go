// Package caller is a strict client for tests. It signs a caller's envelopes and verifies the
// replies.
//
// A reply is an answer only if the vacant signed it and it names its request.
package caller

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Caller signs for one pair. It does not follow the host: tests call Accepted
// when an envelope was accepted.
type Caller struct {
	Key *identity.Key
	To  identity.ID

	seq  int64
	prev identity.Hash
}

// New returns a caller of to with a new key.
func New(tb testing.TB, to identity.ID) *Caller {
	tb.Helper()
	key, err := identity.NewKey(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return &Caller{Key: key, To: to}
}

// Call signs the next message of the chain at the time at.
func (c *Caller) Call(text string, at time.Time) *envelope.Envelope {
	return c.sign(c.seq+1, c.prev, text, at)
}

// Reset signs a chain reset.
func (c *Caller) Reset(at time.Time) *envelope.Envelope {
	return c.sign(1, identity.Hash{}, envelope.ResetText, at)
}

// Accepted moves the chain to e. After a reset the chain is empty.
func (c *Caller) Accepted(e *envelope.Envelope) {
	c.seq, c.prev = e.Seq, e.Hash()
	if e.IsReset() {
		c.seq, c.prev = 0, identity.Hash{}
	}
}

func (c *Caller) sign(seq int64, prev identity.Hash, text string, at time.Time) *envelope.Envelope {
	e := &envelope.Envelope{
		From: c.Key.ID(), To: c.To, Seq: seq, Prev: prev, Time: at.UTC().Truncate(time.Microsecond),
		Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{text}},
	}
	if _, err := e.Sign(context.Background(), c.Key); err != nil {
		panic(err) // a key in memory can sign everything
	}
	return e
}

// Body is the request body of e.
func Body(e *envelope.Envelope) []byte { return envelope.AppendRequest(nil, nil, e) }

// Paths of the host route.
const (
	SendPath  = "/a2a/message/send"
	ResetPath = "/a2a/chain/reset"
	AskPath   = "/a2a/message/ask"
)

// Path returns the path for e.
func Path(e *envelope.Envelope) string {
	if e.IsReset() {
		return ResetPath
	}
	return SendPath
}

// Answer is the host's answer to an envelope.
type Answer struct {
	Status int
	Code   string
	Detail string
	State  string
	Reply  *envelope.Envelope // with a 200 to a call, or with the state answered
	Raw    []byte             // the reply's bytes
}

// String is the answer without its reply.
func (a Answer) String() string {
	return fmt.Sprintf("%d code %q state %q reply %t: %s", a.Status, a.Code, a.State, a.Reply != nil, a.Detail)
}

// Read parses the answer to e. It returns an error if the reply does not answer
// e or is not signed by the vacant that e was addressed to.
func Read(e *envelope.Envelope, status int, body []byte) (Answer, error) {
	var m struct {
		Result *struct{ Message json.RawMessage }
		Code   string
		Detail string
		Error  string
		State  string
		Reply  json.RawMessage
	}
	if err := json.Unmarshal(body, &m); err != nil {
		return Answer{}, fmt.Errorf("status %d, %w: %s", status, err, body)
	}
	a := Answer{Status: status, Code: m.Code, Detail: m.Detail + m.Error, State: m.State, Raw: m.Reply}
	if m.Result != nil {
		a.Raw = m.Result.Message
	}
	if a.Raw == nil {
		return a, nil
	}
	reply, err := envelope.DecodeMessage(a.Raw)
	if err != nil {
		return a, fmt.Errorf("the reply: %w", err)
	}
	a.Reply = &reply
	switch _, signed := reply.VerifyBy(e.To); {
	case !signed:
		return a, fmt.Errorf("the reply is not signed by %s", e.To.Short())
	case reply.To != e.From:
		return a, fmt.Errorf("the reply is for %s, want %s", reply.To.Short(), e.From.Short())
	case reply.IdempotencyKey != envelope.ReplyKey(e.Hash()):
		return a, fmt.Errorf("the reply names %q, want %q", reply.IdempotencyKey, envelope.ReplyKey(e.Hash()))
	}
	return a, nil
}
