package delegation

import (
	"context"
	"encoding/hex"
	"io"
	"slices"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/chain"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// ask sends a signed task to a child. If another call takes the position in the chain, ask signs
// the task for the next position.
func (r *run) ask(ctx context.Context, child identity.ID, task string) (string, call.CutReason, error) {
	pair := call.Pair{Caller: r.question.Vacant, Vacant: child}
	tip, err := r.loadTip(ctx, pair)
	if err != nil {
		return "", "", err
	}
	var b [16]byte
	if _, err := io.ReadFull(r.Rand, b[:]); err != nil {
		return "", "", problem.Wrap(problem.Unavailable, err, "no randomness")
	}
	messageID := hex.EncodeToString(b[:])
	e := envelope.Envelope{
		From: pair.Caller, To: pair.Vacant, IdempotencyKey: messageID,
		Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{task}, MessageID: &messageID},
	}
	for try := 1; ; try++ {
		e.Seq, e.Prev, e.Time = tip.Seq+1, tip.Hash, r.Now().UTC().Truncate(time.Microsecond)
		if !e.Time.After(tip.Floor) {
			e.Time = tip.Floor.Add(time.Microsecond)
		}
		err := r.vacants.WithSigner(ctx, pair.Caller, func(s identity.Signer) error {
			_, err := e.Sign(ctx, s)
			return err
		})
		if err != nil {
			return "", "", err
		}
		out := r.send(ctx, &e)
		switch {
		case out.Reply != nil:
			return out.Reply.Payload.Text(), out.CutReason, nil
		case out.Problem == nil:
			return "", "", problem.New(problem.Damaged, "it returned no answer")
		case out.State != "" || out.HasUnsearchedEpochs || !out.HasChain || !slices.Contains([]problem.Kind{problem.Replay, problem.Gap, problem.Fork, problem.BelowFloor}, out.Problem.Kind):
			return "", "", out.Problem
		}
		if err := r.backOff(ctx, try); err != nil {
			return "", "", problem.Wrap(problem.DeadlineExceeded, err, "other calls to it were accepted first in every attempt: %s", out.Problem.Text())
		}
		tip = chain.Tip{Seq: out.ExpectedSeq - 1, Hash: out.ChainTip, Floor: out.Floor}
	}
}

func (r *run) loadTip(ctx context.Context, p call.Pair) (chain.Tip, error) {
	row, err := r.Store.Tip(ctx, p.Requests())
	if err != nil {
		return chain.Tip{}, problem.Wrap(problem.Unavailable, err, "storage is unavailable")
	}
	if row.Position == 0 {
		return chain.Tip{}, nil
	}
	req, err := call.DecodeRequest(row)
	if err != nil {
		return chain.Tip{}, problem.Wrap(problem.Damaged, err, "the history of %s with it is damaged", p.Caller.Short())
	}
	return req.Tip(), nil
}

func (r *run) send(ctx context.Context, e *envelope.Envelope) call.Outcome {
	for try := 1; ; try++ {
		out := r.calls.Send(ctx, e.To, e)
		// If the outcome is unknown, the host may have accepted the envelope. Another envelope must
		// not take its position, so the same bytes are sent again.
		isUnknown := out.Problem != nil && out.Reply == nil && (out.State == call.Pending || out.Problem.Kind == problem.Unavailable)
		if !isUnknown || try == store.MaxTries || r.backOff(ctx, try) != nil {
			return out
		}
	}
}
