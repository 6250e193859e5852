package call

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
)

type settlementError struct{ cause error }

func (e *settlementError) Error() string { return "not settled: " + e.cause.Error() }

func (e *settlementError) Unwrap() error { return e.cause }

type answerCharge struct {
	FinalCharge
	unsettledVersion uint64 // version in UnsettledAnswerDocs, or zero
}

func (s *answerCharge) writes(pair Pair, row *RequestRow) []store.Write {
	if s.unsettledVersion == 0 {
		return s.Writes
	}
	return append(append([]store.Write{}, s.Writes...), store.Delete{Key: unsettledKey(pair, row.Position), IfVersion: s.unsettledVersion})
}

// settleAndAnswer settles a call and answers it. If the ledger may settle late, it stores the
// answer first. If the process then dies, a resend or the sweeper retries the settlement.
func (h *Host) settleAndAnswer(ctx context.Context, r *request, row *RequestRow, tip ResponseRow, msg envelope.Message, start time.Time) (reply *envelope.Envelope, isDiscarded bool, err error) {
	elapsed := func() time.Duration { return h.Now().Sub(start) }
	var charge answerCharge
	if h.allowsLateSettlement(row) {
		if charge.unsettledVersion, err = h.storeUnsettled(ctx, r, row, &msg, elapsed()); err != nil || charge.unsettledVersion == 0 {
			return nil, err == nil, err
		}
	}
	if charge.FinalCharge, err = h.settleCharge(ctx, r, row, false); err != nil {
		return nil, false, err
	}
	return h.storeAnswer(ctx, r, row, tip, msg, elapsed, charge)
}

// If settleCharge fails, the error is ErrUncertain, has kind Unavailable, or is a *settlementError.
func (h *Host) settleCharge(ctx context.Context, r *request, row *RequestRow, isRetry bool) (charge FinalCharge, err error) {
	if row.PaidBy == Unpriced {
		return charge, nil
	}
	req := SettlementRequest{Pair: r.pair, Row: row, Usage: r.out.Usage, IsRetry: isRetry}
	if p := r.vacant.Price; p != nil && p.Version == row.PriceVersion {
		req.Price = p
	}
	charge, err = h.Ledger.Settle(ctx, req)
	switch {
	case err == nil && (charge.Charge < 0 || uint64(charge.Charge) > row.Price):
		err = &settlementError{problem.New(problem.Internal, "the charge of %s is above the hold of %d", charge.Charge, row.Price)}
	case err == nil, errors.Is(err, ErrUncertain) && h.Ledger.CanSettleLate(row):
	case errors.Is(err, store.ErrUnavailable), problem.Is(err, problem.Unavailable):
		err = h.unavailableError(err)
	default:
		err = &settlementError{err}
	}
	return charge, err
}

func (h *Host) allowsLateSettlement(row *RequestRow) bool {
	return row.PaidBy != Unpriced && h.Ledger.CanSettleLate(row)
}

// UnsettledAnswerDocs also contains an empty document for a call that was voided before it had an
// answer.
var UnsettledAnswerDocs = store.DocKind[[]byte]{
	Shape: store.Shape{Name: "answer that waits for its settlement", Partition: "kept#*#*", Sort: "*", Verify: store.VerifySkip},
	Codec: store.BytesCodec(),
}

func unsettledKey(p Pair, position uint64) store.Key {
	return UnsettledAnswerDocs.Key(p.Caller.String(), p.Vacant.String(), fmt.Sprintf("%020d", position))
}

const unsettledFormat = 1

const (
	unsettledHasUsage = 1 << iota
	unsettledHasCut
)

// voidMarkerLifetime must exceed the longest run of a behaviour. Otherwise, a call could be charged
// after its void.
const voidMarkerLifetime = 48 * time.Hour

// storeUnsettled returns the version of the new document. If the call is voided or already has an
// unsettled answer, it returns 0.
func (h *Host) storeUnsettled(ctx context.Context, r *request, row *RequestRow, msg *envelope.Message, duration time.Duration) (uint64, error) {
	writeID, err := h.newWriteID()
	if err != nil {
		return 0, err
	}
	key := unsettledKey(r.pair, row.Position)
	text, err := h.Texts.Seal(ctx, additionalData(r.pair.Responses(), row.Hash), appendTools(encodePayload(msg, ""), r.tools))
	if err != nil {
		return 0, h.unavailableError(err)
	}
	b := binary.AppendUvarint([]byte{unsettledFormat}, uint64(min(max(duration.Milliseconds(), 0), math.MaxInt32)))
	flags := byte(0)
	if r.out.Usage != nil {
		flags |= unsettledHasUsage
	}
	if r.cutReason != "" {
		flags |= unsettledHasCut
	}
	b = append(b, flags)
	if r.out.Usage != nil {
		b = appendUsage(b, r.out.Usage)
	}
	if r.cutReason != "" {
		b = append(b, r.cutReason.code())
	}
	err = h.commit(ctx, store.Put{Key: key, WriteID: writeID, Data: appendText(b, text)})
	switch {
	case err == nil:
		return 1, nil
	case store.IsConflict(err):
		return 0, nil
	case errors.Is(err, store.ErrTooLarge):
		return 0, problem.Wrap(problem.SubstrateTooLarge, err, "%s", problem.SubstrateTooLarge.Forms().DefaultMessage)
	}
	return 0, h.unavailableError(err)
}

// unsettledVoidWrite returns the write of a void that stores an empty document, or deletes the
// existing one. If storeUnsettled stores an answer concurrently, the commit of the void fails. If
// an unsettled answer exists and the void is not final, the error is ErrUncertain.
func (h *Host) unsettledVoidWrite(ctx context.Context, pair Pair, row *RequestRow, id store.WriteID, isFinal bool) (store.Write, error) {
	key := unsettledKey(pair, row.Position)
	doc, err := h.Store.Doc(ctx, key)
	switch {
	case err != nil:
		return nil, h.unavailableError(err)
	case doc.Version == 0:
		return store.Put{Key: key, WriteID: id, Expires: h.Now().UTC().Truncate(time.Second).Add(voidMarkerLifetime)}, nil
	case len(doc.Data) > 0 && !isFinal:
		return nil, ErrUncertain
	}
	return store.Delete{Key: key, IfVersion: doc.Version}, nil
}

// retrySettlement returns undecided if the request has no unsettled answer.
func (h *Host) retrySettlement(ctx context.Context, pair Pair, row *RequestRow) (resolution, error) {
	if !h.allowsLateSettlement(row) {
		return undecided, nil
	}
	doc, err := h.Store.Doc(ctx, unsettledKey(pair, row.Position))
	if err != nil || len(doc.Data) == 0 {
		return undecided, h.unavailableError(err)
	}
	answer, err := h.openUnsettled(ctx, pair, row, doc)
	usage, duration := answer.usage, answer.duration
	switch {
	case errors.Is(err, textkeys.ErrDestroyed):
		return h.voidCall(ctx, pair, row, voidReason{usage: usage, hasRun: true, isFinal: true})
	case err != nil:
		return undecided, err
	}
	r := &request{pair: pair, hash: row.Hash, cutReason: answer.cutReason, tools: answer.tools}
	r.out.Usage = usage
	if hosted, err := h.fetchSigner(ctx, r); err != nil {
		return undecided, err
	} else if !hosted {
		return h.voidCall(ctx, pair, row, voidReason{usage: usage, hasRun: true, isFinal: true})
	}
	charge := answerCharge{unsettledVersion: doc.Version}
	var settlementErr *settlementError
	if charge.FinalCharge, err = h.settleCharge(ctx, r, row, true); errors.As(err, &settlementErr) {
		return h.voidCall(ctx, pair, row, voidReason{cause: NewCause(settlementErr.cause, duration), failure: settlementErr.cause, usage: usage, hasRun: true, isFinal: true})
	}
	if err != nil {
		return undecided, err
	}
	decidingRow, tip, err := h.findDecidingRow(ctx, pair, row)
	switch {
	case err != nil:
		return undecided, err
	case decidingRow != nil:
		return decidingRow.resolution(), nil
	}
	_, isDiscarded, err := h.storeAnswer(ctx, r, row, tip, answer.msg, func() time.Duration { return duration }, charge)
	switch {
	case err != nil:
		if decidingRow, _, readErr := h.findDecidingRow(ctx, pair, row); readErr == nil && decidingRow != nil {
			return decidingRow.resolution(), nil
		}
		return undecided, err
	case isDiscarded:
		return decidedVoid, nil
	}
	return decidedAnswer, nil
}

type unsettledAnswer struct {
	msg       envelope.Message
	tools     []RecordedToolCall
	duration  time.Duration
	usage     *Usage
	cutReason CutReason
}

func (h *Host) openUnsettled(ctx context.Context, pair Pair, row *RequestRow, doc store.Doc) (answer unsettledAnswer, err error) {
	d := &reader{b: doc.Data}
	format := d.readByte()
	answer.duration = time.Duration(d.readUvarint(math.MaxInt32)) * time.Millisecond
	flags := d.readByte()
	if flags&unsettledHasUsage != 0 {
		answer.usage = d.readUsage()
	}
	if flags&unsettledHasCut != 0 {
		answer.cutReason = d.readCutReason()
	}
	text := d.readText()
	if d.bad || format != unsettledFormat || flags > unsettledHasUsage|unsettledHasCut {
		return answer, h.damagedError(pair.Responses(), fmt.Errorf("%w: the unsettled answer to request %d", errInvalidRow, row.Position))
	}
	plain, err := h.Texts.Open(ctx, additionalData(pair.Responses(), row.Hash), text)
	switch {
	case errors.Is(err, textkeys.ErrDestroyed):
		return answer, err // only the message and the tools are missing
	case err != nil:
		return answer, h.unavailableError(err)
	}
	answer.msg, _, answer.tools, err = parsePayloadAndTools(plain)
	return answer, h.damagedError(pair.Responses(), err)
}
