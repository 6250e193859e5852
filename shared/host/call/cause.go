package call

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// AgentError is in the chain of a Behaviour's error if the vacant's agent answered
// with something else than an answer. Its text says nothing of the body.
type AgentError struct {
	Status int           // HTTP status
	After  time.Duration // time after which the agent wants to be asked again; zero if it says nothing
	Body   string        // the beginning of the body, without secrets (substrate.Excerpt)
	Err    error
}

func (e *AgentError) Error() string { return e.Err.Error() }

// Unwrap returns what was wrong.
func (e *AgentError) Unwrap() error { return e.Err }

// Cause tells the operator why a call is void. It is stored with the void, sealed
// like texts; callers get the kind only.
type Cause struct {
	Kind string `json:"kind"` // word of the problem's kind
	Text string `json:"text"`
	// Status and Body are the agent's answer; 0 and "" if there was none.
	Status int    `json:"status,omitempty"`
	Body   string `json:"body,omitempty"`
	TookMS int64  `json:"took_ms"`
}

// maxCause bounds Text in bytes.
const maxCause = 500

// CauseOf describes a failure of a behaviour that took so long.
func CauseOf(failure error, took time.Duration) *Cause {
	err := problem.Of(failure)
	c := &Cause{Kind: err.Kind.String(), Text: err.Text(), TookMS: took.Milliseconds()}
	if err.Err != nil {
		c.Text = problem.Plain(err.Err)
	}
	if len(c.Text) > maxCause {
		c.Text = c.Text[:maxCause]
	}
	var agent *AgentError
	if errors.As(failure, &agent) {
		c.Status, c.Body = agent.Status, agent.Body
	}
	return c
}

// String is the cause in one line.
func (c *Cause) String() string {
	s := fmt.Sprintf("%s after %d ms: %s", c.Kind, c.TookMS, c.Text)
	if c.Body != "" {
		s += fmt.Sprintf("; it answered %q", c.Body)
	}
	return s
}

// sealedCause is the sealed text of a void.
type sealedCause struct {
	*Cause
	Tools []byte `json:"tools,omitempty"` // as encodeTools returns them
}

// sealCause seals a cause for the void of row, and the texts of the agent's tools. A cause that
// cannot be sealed is lost: the void matters more.
func (h *Host) sealCause(ctx context.Context, pair Pair, row *RequestRow, c *Cause, tools []ToolTexts) textkeys.Sealed {
	if c == nil {
		return textkeys.Sealed{}
	}
	b, err := json.Marshal(sealedCause{c, encodeTools(tools)})
	if err != nil {
		return textkeys.Sealed{}
	}
	s, err := h.Texts.Seal(ctx, sealedTo(pair.Responses(), row.Hash), b)
	if err != nil {
		return textkeys.Sealed{}
	}
	return s
}

// SealedCause returns the sealed cause of a void and its additional data; ok is
// false if there is none.
func (r *ResponseRow) SealedCause(pair Pair) (s textkeys.Sealed, bound []byte, ok bool) {
	return r.Text, sealedTo(pair.Responses(), r.RequestHash), r.Kind == RowVoid && r.Text.Box != nil
}

// ParseCause reads an opened cause.
func ParseCause(plain []byte) (c Cause, err error) {
	if err := json.Unmarshal(plain, &c); err != nil {
		return c, fmt.Errorf("%w: cause of %d bytes", errRow, len(plain))
	}
	return c, nil
}
