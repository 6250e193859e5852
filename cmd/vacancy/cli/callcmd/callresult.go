package callcmd

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/client/discovery"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// CallResult is the JSON result of a call, --ask or --reset. Request and Reply are signed
// envelopes.
type CallResult struct {
	IdentityName    string          `json:"as"`
	Context         string          `json:"context_id,omitempty"`
	IdentityCreated bool            `json:"made_identity,omitempty"` // the identity was created for this call
	Target          identity.ID     `json:"target"`
	EarlierTarget   *identity.ID    `json:"earlier_target,omitempty"` // other vacant that an earlier call found at the address
	URL             string          `json:"url"`
	Fate            dispatch.Fate   `json:"fate,omitempty"` // outcome, or "" while the call is open
	Text            *string         `json:"text,omitempty"`
	Request         json.RawMessage `json:"request,omitempty"`
	RequestHash     *identity.Hash  `json:"request_hash,omitempty"`
	Reply           json.RawMessage `json:"reply,omitempty"`
	ReplyHash       *identity.Hash  `json:"reply_hash,omitempty"`
	ReplySeq        int64           `json:"reply_seq,omitempty"`
	CutReason       string          `json:"cut,omitempty"` // reason why the text is incomplete
	NamesRequest    bool            `json:"bound"`         // the signed answer names its request
	Resumed         bool            `json:"resumed"`       // the call was already under way, so the same bytes were sent
	Reset           bool            `json:"reset"`
	Status          int             `json:"status,omitempty"` // HTTP status of the reply that decided the call, or 0
	Timing          timing          `json:"timing"`
	LateOutcomes    []lateResult    `json:"late,omitempty"`
	Undetermined    []string        `json:"unknown,omitempty"` // messages about facts that could not be determined

	hasNewThread       bool // the call began a thread and was answered
	printsLateOutcomes bool // late outcomes go to standard output instead of notes

	// The following fields are set for a call to a match of a search.
	Chosen         *matchResult             `json:"chosen,omitempty"`
	Candidates     []candidateResult        `json:"candidates,omitempty"` // with --explain
	FailedCalls    []failedCallResult       `json:"tried,omitempty"`
	DroppedMatches []discovery.DroppedMatch `json:"dropped,omitempty"`
}

type timing struct {
	StartedAt    string  `json:"began"`
	DurationMS   float64 `json:"took_ms"` // total duration, including waits
	RequestMS    float64 `json:"wire_ms"` // duration of all requests
	RequestCount int     `json:"posts"`
}

// lateResult is the outcome of an earlier call.
type lateResult struct {
	Fate        dispatch.Fate   `json:"fate"`
	RequestText string          `json:"asked"`
	Text        *string         `json:"text,omitempty"`
	Request     json.RawMessage `json:"request"`
	RequestHash identity.Hash   `json:"request_hash"`
	Reply       json.RawMessage `json:"reply,omitempty"`
	ReplyHash   *identity.Hash  `json:"reply_hash,omitempty"`
	ReplySeq    int64           `json:"reply_seq,omitempty"`
	CutReason   string          `json:"cut,omitempty"`

	seq int64
}

func NewCallResult(self kit.Signer, t dispatch.Target, res dispatch.Result) CallResult {
	r := CallResult{
		IdentityName: self.Name, IdentityCreated: self.Created, Target: t.ID, URL: t.URL, Fate: res.Fate, ReplySeq: res.ReplySeq, CutReason: res.CutReason, NamesRequest: res.ReplyBound,
		Resumed: res.Resumed, Reset: res.IsReset, Status: res.Status, Undetermined: res.Undetermined,
		Timing: timing{canon.FormatTime(res.StartedAt), kit.Milliseconds(res.Duration), kit.Milliseconds(res.RequestTime), res.RequestCount},
	}
	if !res.RequestHash.IsZero() {
		r.Request, r.RequestHash = envelope.AppendMessage(nil, &res.Request), &res.RequestHash
		if id := res.Request.Payload.ContextID; id != nil {
			r.Context = *id
		}
	}
	if !res.ReplyHash.IsZero() {
		r.ReplyHash = &res.ReplyHash
	}
	r.Reply, r.Text = encodeReply(res.Reply)
	for _, l := range res.LateOutcomes {
		late := lateResult{
			Fate: l.Fate, RequestText: l.Request.Payload.Text(), Request: envelope.AppendMessage(nil, &l.Request),
			RequestHash: l.Request.Hash(), ReplySeq: l.ReplySeq, CutReason: l.CutReason, seq: l.Request.Seq,
		}
		late.Reply, late.Text = encodeReply(l.Reply)
		if !l.ReplyHash.IsZero() {
			late.ReplyHash = &l.ReplyHash
		}
		r.LateOutcomes = append(r.LateOutcomes, late)
	}
	return r
}

func encodeReply(reply *envelope.Envelope) (json.RawMessage, *string) {
	if reply == nil {
		return nil, nil
	}
	text := reply.Payload.Text()
	return envelope.AppendMessage(nil, reply), &text
}

func (l lateResult) format() string {
	line := fmt.Sprintf("call %d (%s): ", l.seq, kit.EscapeLine(kit.Truncate(l.RequestText, 40)))
	switch l.Fate {
	case dispatch.Answered:
		if l.CutReason != "" {
			return line + kit.EscapeLine(*l.Text) + " (" + cutRemark(l.CutReason) + ")"
		}
		return line + kit.EscapeLine(*l.Text)
	case dispatch.TextGone:
		return line + "answered; the host no longer stores the text"
	case dispatch.Unanswered:
		return line + "failed; it will not be answered"
	}
	return line + "accepted; its answer is lost"
}

// answerPrinter prints only the text of the answer, for use in pipes.
func answerPrinter(a *kit.App, r CallResult) func(io.Writer) {
	return func(w io.Writer) {
		if r.Text != nil {
			fmt.Fprintln(w, a.FormatAnswer(*r.Text))
		}
	}
}

// showCall prints a call, or reports err with the known result of the call. In both cases it prints
// the late outcomes of earlier calls, because they are not reported again.
func showCall(a *kit.App, result CallResult, err error, printResult func(io.Writer)) error {
	if !result.printsLateOutcomes || err != nil {
		for _, l := range result.LateOutcomes {
			a.PrintNote("earlier %s", l.format())
		}
	}
	for _, u := range result.Undetermined {
		a.PrintNote("%s", kit.EscapeLine(u))
	}
	if result.CutReason != "" {
		a.PrintNote("%s", cutRemark(result.CutReason))
	}
	if result.Resumed && err == nil {
		a.PrintNote("an earlier command had started this call, so the same bytes were sent again")
	}
	if err != nil {
		return &callError{err, result}
	}
	if err := a.Print(result, printResult); err != nil || !result.hasNewThread {
		return err
	}
	a.PrintNote("the agent remembers this thread; continue it with --context -, or later with --context %s", result.Context)
	return nil
}

func cutRemark(reason string) string {
	switch call.CutReason(reason) {
	case call.CutCanceled:
		return "the answer is incomplete: the call was canceled before the rest arrived"
	case call.CutLength:
		return "the answer is incomplete: the agent's model reached its limit (max_tokens, or its context length)"
	case call.CutBudget:
		return "the answer is incomplete: the rest of the agent's budget did not pay for more tokens; the daily budget is reset at 00:00 UTC"
	case call.CutUnknown:
		return "the answer may be incomplete: the agent's model ended it for an unknown reason"
	}
	return "the answer is incomplete: " + kit.EscapeLine(kit.Truncate(reason, 80))
}

type callError struct {
	error
	result CallResult
}

func (e *callError) Unwrap() error { return e.error }

// FailedCall returns the call's result for package kit, which adds it to the error output.
func (e *callError) FailedCall() any { return &e.result }
