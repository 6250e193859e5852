package fsck

import (
	"context"
	"errors"
	"fmt"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func pairOf(ids []identity.ID) call.Pair { return call.Pair{Caller: ids[0], Vacant: ids[1]} }

// checkPair checks the responses together with their requests, and then the remaining requests.
func (r *run) checkPair(ctx context.Context, p call.Pair) error {
	if p.Caller == p.Vacant {
		r.addFinding(newStreamFinding(p.Requests(), 0, Stream, "two different ids", "the same id twice"))
	}
	q := r.newRequestChecker(p)
	a := &responseChecker{requestChecker: q, rows: r.newReader(p.Responses()), isEndKnown: true}
	for more := true; more; {
		var err error
		if more, err = a.checkNextResponse(ctx); err != nil {
			return err
		}
	}
	for !q.allRead {
		if err := q.checkNextRequest(ctx); err != nil {
			return err
		}
	}
	if q.hasPricedCalls {
		r.nextPositions[p.Requests()], r.nextPositions[p.Responses()] = q.rows.nextPosition, a.rows.nextPosition
	}
	return nil
}

type responseEnd struct {
	epoch uint64
	seq   int64
	hash  rowHash
}

func claimedResponseEnd(resp *call.ResponseRow) responseEnd {
	return responseEnd{resp.Epoch, resp.Seq, uncheckedHash(resp.Hash)}
}

func (s responseEnd) findBreaches(resp *call.ResponseRow) (b []breach) {
	add := func(c Check, want, got any) { b = append(b, breach{c, fmt.Sprint(want), fmt.Sprint(got)}) }
	if resp.Kind == call.RowVoid {
		if got := claimedResponseEnd(resp); got.epoch != s.epoch || got.seq != s.seq || !s.hash.matches(resp.Hash) {
			add(Void, s, got)
		}
		return b
	}
	next := responseEnd{seq: 1}
	if resp.Epoch == s.epoch {
		next = responseEnd{seq: s.seq + 1, hash: s.hash}
	}
	if resp.Epoch < s.epoch {
		add(Epoch, fmt.Sprintf("at least %d, as in the row before", s.epoch), resp.Epoch)
	}
	if resp.Seq != next.seq {
		add(Seq, next.seq, resp.Seq)
	}
	if !next.hash.matches(resp.Prev) {
		add(Prev, next.hash.computed, resp.Prev)
	}
	return b
}

func (s responseEnd) String() string {
	return fmt.Sprintf("epoch %d, seq %d, hash %s", s.epoch, s.seq, s.hash.computed)
}

type responseChecker struct {
	*requestChecker
	rows       *reader
	isEndKnown bool
	ruleEnd    responseEnd
	claimEnd   responseEnd
}

func (a *responseChecker) checkNextResponse(ctx context.Context) (more bool, err error) {
	row, more, err := a.rows.next(ctx)
	if !more || err != nil {
		return false, err
	}
	if row.Position == 0 {
		a.isEndKnown = false
		return true, nil
	}
	resp, ok := decodeRow(a.run, a.pair.Responses(), row, call.DecodeResponse)
	if !ok {
		a.isEndKnown = false
		return true, nil
	}
	if resp.Kind == call.RowAnswer && resp.CutReason == "" && resp.Usage != nil && resp.Usage.Turns > 0 {
		a.kin.inferenceTotalsOf(a.pair.Vacant).answers++
	}
	if resp.Usage != nil {
		a.kin.inferenceTotalsOf(a.pair.Vacant).cost += resp.Usage.Cost
		if err := a.checkAgentVersion(ctx, &resp); err != nil {
			return false, err
		}
	}
	ruledResp := resp
	if ruledResp.Epoch, err = a.checkDecision(ctx, &resp); err != nil {
		return false, err
	}
	return true, a.checkLink(ctx, &resp, &ruledResp)
}

func (a *responseChecker) checkAgentVersion(ctx context.Context, resp *call.ResponseRow) error {
	// The record is read again, because a version may have been added since the record was checked.
	t := a.kin.inferenceTotalsOf(a.pair.Vacant)
	if resp.Usage.AgentVersion <= t.versions {
		return nil
	}
	rec, d, err := vacants.RecordDocs.Get(ctx, a.view, vacants.RecordKey(a.pair.Vacant))
	if isDamaged(err) || err == nil && (d.Version == 0 || rec.IsDeleted()) {
		return nil // reported by another check
	}
	if err != nil {
		return err
	}
	if t.versions = uint64(rec.AgentVersion); resp.Usage.AgentVersion > t.versions {
		a.addFinding(newStreamFinding(a.pair.Responses(), resp.Position, Agent, fmt.Sprintf("one of the agent's %d versions", t.versions), fmt.Sprintf("version %d", resp.Usage.AgentVersion)))
	}
	return nil
}

// checkDecision compares a response with its request. It returns the epoch that the response must
// have.
func (a *responseChecker) checkDecision(ctx context.Context, resp *call.ResponseRow) (epoch uint64, err error) {
	epoch = resp.Epoch
	addWrong := func(c Check, want, got any) {
		a.addFinding(newStreamFinding(a.pair.Responses(), resp.Position, c, fmt.Sprint(want), fmt.Sprint(got)))
	}
	req, ok, err := a.readRequest(ctx, resp.RequestPosition)
	switch {
	case err != nil:
		return epoch, err
	case !ok:
		addWrong(Request, "an existing call", fmt.Sprintf("request %d, which does not exist", resp.RequestPosition))
		return epoch, nil
	case req.kind == 0:
		return epoch, nil // reported with the requests
	case req.kind != call.RowCall:
		addWrong(Request, "a call", fmt.Sprintf("request %d, a %v", resp.RequestPosition, req.kind))
		return epoch, nil
	case !req.hash.matches(resp.RequestHash):
		addWrong(Request, fmt.Sprintf("request %d by its hash %s", resp.RequestPosition, req.hash.computed), resp.RequestHash)
		return epoch, nil
	}
	if resp.RequestEpoch != req.epoch && resp.RequestEpoch != req.claimedEpoch {
		addWrong(Epoch, fmt.Sprintf("%d, as in request %d", req.epoch, resp.RequestPosition), resp.RequestEpoch)
	}
	if resp.Position <= req.responseTip {
		addWrong(ResponseTip, fmt.Sprintf("a position after %d, which request %d had seen", req.responseTip, resp.RequestPosition), resp.Position)
	}
	if !a.markDecided(resp.RequestPosition) {
		addWrong(Decision, fmt.Sprintf("request %d decided once", resp.RequestPosition), fmt.Sprintf("this %v after an earlier row", resp.Kind))
	}
	if err := a.checkCharge(ctx, req.payment, resp); err != nil {
		return epoch, err
	}
	if resp.Kind == call.RowAnswer {
		epoch = req.epoch
	}
	return epoch, nil
}

// checkLink compares a response with the chain. ruledResp has the epoch that checkDecision
// returned.
func (a *responseChecker) checkLink(ctx context.Context, resp, ruledResp *call.ResponseRow) error {
	s := a.pair.Responses()
	if a.isEndKnown {
		if b := a.ruleEnd.findBreaches(ruledResp); len(b) > 0 && len(a.claimEnd.findBreaches(resp)) > 0 {
			for _, b := range b {
				a.addFinding(newStreamFinding(s, resp.Position, b.check, b.want, b.got))
			}
		} else if len(b) > 0 {
			a.ruleEnd = a.claimEnd // the row before was wrong and was reported
		}
	} else if resp.Epoch < a.ruleEnd.epoch {
		a.addFinding(newStreamFinding(s, resp.Position, Epoch, fmt.Sprintf("at least %d", a.ruleEnd.epoch), fmt.Sprint(resp.Epoch)))
	}
	a.claimEnd = claimedResponseEnd(resp)
	if err := a.checkCause(ctx, resp); err != nil {
		return err
	}
	switch {
	case resp.Kind == call.RowVoid && a.isEndKnown:
	case resp.Kind == call.RowVoid:
		a.ruleEnd = a.claimEnd
	default:
		hash, err := a.rebuildHash(ctx, resp)
		if err != nil {
			return err
		}
		a.advance(ruledResp, hash)
	}
	a.isEndKnown = true
	return nil
}

func (a *responseChecker) checkCause(ctx context.Context, resp *call.ResponseRow) error {
	// SealedRows counts only requests and answers, so a sealed cause is not counted.
	sealedText, additionalData, ok := resp.SealedCause(a.pair)
	if !ok {
		return nil
	}
	s := a.pair.Responses()
	plaintext, err := a.texts.Open(ctx, additionalData, sealedText)
	if errors.Is(err, textkeys.ErrDestroyed) || errors.Is(err, textkeys.ErrKeyDamaged) {
		return nil
	}
	if err == nil {
		_, err = call.ParseCause(plaintext)
	} else if !isDamaged(err) {
		return err
	}
	if err != nil {
		a.addFinding(newStreamFinding(s, resp.Position, Text, "the cause of a void", err.Error()))
	}
	return nil
}

func (a *responseChecker) advance(resp *call.ResponseRow, hash rowHash) {
	next := responseEnd{resp.Epoch, resp.Seq, hash}
	switch {
	case !a.isEndKnown:
	case resp.Epoch > a.ruleEnd.epoch:
		next.seq = 1
	case resp.Epoch == a.ruleEnd.epoch:
		next.seq = a.ruleEnd.seq + 1
	default:
		return // the answer has an earlier epoch
	}
	a.ruleEnd = next
}

// rebuildHash returns the stored hash and, if the text is readable, the hash of the rebuilt
// envelope.
func (a *responseChecker) rebuildHash(ctx context.Context, resp *call.ResponseRow) (rowHash, error) {
	s := a.pair.Responses()
	sealedText, additionalData := resp.SealedText(a.pair)
	plaintext, isUncertain, err := a.openText(ctx, s, resp.Position, sealedText, additionalData)
	if plaintext == nil || err != nil {
		return rowHash{resp.Hash, resp.Hash, isUncertain}, err
	}
	e, err := resp.Envelope(a.pair, plaintext)
	if err != nil {
		a.addFinding(newStreamFinding(s, resp.Position, Text, "a message", err.Error()))
		return rowHash{resp.Hash, resp.Hash, true}, nil
	}
	if e.Payload.Role != envelope.RoleAgent {
		a.addFinding(newStreamFinding(s, resp.Position, MessageForm, "an answer by "+string(envelope.RoleAgent), string(e.Payload.Role)))
	}
	return rowHash{resp.Hash, a.checkHashAndSignature(s, resp.Position, &e, resp.Hash), false}, nil
}

// openText counts or reports a text that cannot be read, and returns nil for it. isUncertain means
// that the row is damaged.
func (r *run) openText(ctx context.Context, s store.Stream, position uint64, sealedText textkeys.Sealed, additionalData []byte) (plaintext []byte, isUncertain bool, err error) {
	plaintext, err = r.texts.Open(ctx, additionalData, sealedText)
	switch {
	case err == nil && plaintext == nil:
		return []byte{}, false, nil
	case err == nil:
		return plaintext, false, nil
	case errors.Is(err, textkeys.ErrDestroyed):
		r.result.SealedRows++
	case errors.Is(err, textkeys.ErrKeyDamaged):
		r.result.SealedRows++
		if !r.damagedKeyDays[sealedText.Day] {
			r.damagedKeyDays[sealedText.Day] = true
			r.addFinding(newDocumentFinding(textkeys.DocKey(sealedText.Day), Key, "a text key that opens", err.Error()))
		}
	case isDamaged(err):
		r.addFinding(newStreamFinding(s, position, Text, "a text that opens", err.Error()))
		return nil, true, nil
	default:
		return nil, false, err
	}
	return nil, false, nil
}

func (r *run) checkHashAndSignature(s store.Stream, position uint64, e *envelope.Envelope, storedHash identity.Hash) identity.Hash {
	b := e.AppendSignedBytes(nil)
	h := identity.Sum(b)
	if h != storedHash {
		r.addFinding(newStreamFinding(s, position, Hash, h.String(), storedHash.String()))
	}
	r.queueSignature(b, e.Signature, e.From, newStreamFinding(s, position, Signature, "a signature by "+e.From.String(), "an invalid signature"))
	return h
}
