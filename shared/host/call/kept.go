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

// unsettledError is the failure of a settlement, which voids the call.
type unsettledError struct{ cause error }

func (e *unsettledError) Error() string { return "not settled: " + e.cause.Error() }

func (e *unsettledError) Unwrap() error { return e.cause }

// settlement is a FinalCharge and the version of the document with the unsettled answer. An
// unsettled answer is an answer that is stored in UnsettledAnswerDocs until its charge is settled.
// If the answer has no such document, the version is zero.
type settlement struct {
	FinalCharge
	kept uint64
}

func (s *settlement) writes(pair Pair, row *RequestRow) []store.Write {
	if s.kept == 0 {
		return s.Writes
	}
	return append(append([]store.Write{}, s.Writes...), store.Delete{Key: keptKey(pair, row.Position), If: s.kept})
}

// settleAndAnswer settles a call and answers it. If the settlement may be uncertain, the answer is
// first stored in UnsettledAnswerDocs. If the process then crashes, or if the settlement is
// uncertain, the next resend or the sweeper retries the settlement. If this process can no longer
// answer the call, closed is true.
func (h *Host) settleAndAnswer(ctx context.Context, r *request, row *RequestRow, tip ResponseRow, msg envelope.Message, began time.Time) (reply *envelope.Envelope, closed bool, err error) {
	took := func() time.Duration { return h.Now().Sub(began) }
	var paid settlement
	if h.maySettleLate(row) {
		if paid.kept, err = h.keep(ctx, r, row, &msg, took()); err != nil || paid.kept == 0 {
			return nil, err == nil, err
		}
	}
	if paid.FinalCharge, err = h.settleCharge(ctx, r, row, false); err != nil {
		return nil, false, err
	}
	return h.storeAnswer(ctx, r, row, tip, msg, took, paid)
}

// settleCharge asks the ledger for the charge of a call. Its error is ErrUncertain, a problem of kind
// Unavailable, or an *unsettledError.
func (h *Host) settleCharge(ctx context.Context, r *request, row *RequestRow, again bool) (s FinalCharge, err error) {
	if row.PaidBy == Unpriced {
		return s, nil
	}
	q := Settlement{Pair: r.pair, Row: row, Usage: r.out.Usage, IsRetry: again}
	if p := r.vacant.Price; p != nil && p.Version == row.PriceVersion {
		q.Price = p
	}
	s, err = h.Ledger.Settle(ctx, q)
	switch {
	case err == nil && (s.Charge < 0 || uint64(s.Charge) > row.Price):
		err = &unsettledError{problem.New(problem.Internal, "the charge of %s is above the hold of %d", s.Charge, row.Price)}
	case err == nil, errors.Is(err, ErrUncertain) && h.Ledger.Late(row):
	case errors.Is(err, store.ErrUnavailable), problem.Is(err, problem.Unavailable):
		err = h.unavailableError(err)
	default:
		err = &unsettledError{err}
	}
	return s, err
}

func (h *Host) maySettleLate(row *RequestRow) bool {
	return row.PaidBy != Unpriced && h.Ledger.Late(row)
}

// UnsettledAnswerDocs contains the answers that wait for their settlement, by caller, vacant and
// position. An empty document means that the call was voided before it had an answer.
var UnsettledAnswerDocs = store.Kind[[]byte]{
	Shape: store.Shape{Name: "answer that waits for its settlement", Partition: "kept#*#*", Sort: "*", Verify: store.VerifyNot},
	Codec: store.Bytes(),
}

func keptKey(p Pair, position uint64) store.Key {
	return UnsettledAnswerDocs.Key(p.Caller.String(), p.Vacant.String(), fmt.Sprintf("%020d", position))
}

// keptFormat is the first byte of an unsettled answer.
const keptFormat = 1

// Flags of an unsettled answer for its optional parts.
const (
	keptUsage = 1 << iota
	keptCut
)

// keptVoid is the lifetime of the empty document that marks a voided call. It must exceed the
// longest behaviour.
const keptVoid = 48 * time.Hour

// keep stores an unsettled answer, sealed, and returns the version of its document. If the call has
// been voided, or already has an unsettled answer, keep returns 0.
func (h *Host) keep(ctx context.Context, r *request, row *RequestRow, msg *envelope.Message, took time.Duration) (uint64, error) {
	writeID, err := h.newWriteID()
	if err != nil {
		return 0, err
	}
	key := keptKey(r.pair, row.Position)
	text, err := h.Texts.Seal(ctx, additionalData(r.pair.Responses(), row.Hash), appendTools(encodePayload(msg, ""), r.tools))
	if err != nil {
		return 0, h.unavailableError(err)
	}
	b := binary.AppendUvarint([]byte{keptFormat}, uint64(min(max(took.Milliseconds(), 0), math.MaxInt32)))
	flags := byte(0)
	if r.out.Usage != nil {
		flags |= keptUsage
	}
	if r.cut != "" {
		flags |= keptCut
	}
	b = append(b, flags)
	if r.out.Usage != nil {
		b = appendUsage(b, r.out.Usage)
	}
	if r.cut != "" {
		b = append(b, r.cut.code())
	}
	err = h.commit(ctx, store.Put{Key: key, WriteID: writeID, Data: appendText(b, text)})
	switch {
	case err == nil:
		return 1, nil
	case store.IsConflict(err):
		return 0, nil
	case errors.Is(err, store.ErrTooLarge):
		return 0, problem.Wrap(problem.SubstrateTooLarge, err, "%s", problem.SubstrateTooLarge.Row().Text)
	}
	return 0, h.unavailableError(err)
}

// closeKept returns a write for the commit that voids a call whose settlement may be uncertain. The
// write conflicts with the write of a concurrent keep. If the call has an unsettled answer and
// final is not set, the call cannot be voided, and the error is ErrUncertain.
func (h *Host) closeKept(ctx context.Context, pair Pair, row *RequestRow, id store.WriteID, final bool) (store.Write, error) {
	key := keptKey(pair, row.Position)
	doc, err := h.Store.Doc(ctx, key)
	switch {
	case err != nil:
		return nil, h.unavailableError(err)
	case doc.Version == 0:
		return store.Put{Key: key, WriteID: id, Expires: h.Now().UTC().Truncate(time.Second).Add(keptVoid)}, nil
	case len(doc.Data) > 0 && !final:
		return nil, ErrUncertain
	}
	return store.Delete{Key: key, If: doc.Version}, nil
}

// finishKept retries the settlement of an unsettled answer and decides its request. If the request
// has no unsettled answer, it returns undecided. If the settlement is still uncertain, the error is
// ErrUncertain.
func (h *Host) finishKept(ctx context.Context, pair Pair, row *RequestRow) (decision, error) {
	if !h.maySettleLate(row) {
		return undecided, nil
	}
	doc, err := h.Store.Doc(ctx, keptKey(pair, row.Position))
	if err != nil || len(doc.Data) == 0 {
		return undecided, h.unavailableError(err)
	}
	kept, err := h.openKept(ctx, pair, row, doc)
	used, took := kept.used, kept.took
	switch {
	case errors.Is(err, textkeys.ErrDestroyed):
		return h.voidCall(ctx, pair, row, voidReason{used: used, ran: true, final: true})
	case err != nil:
		return undecided, err
	}
	r := &request{pair: pair, hash: row.Hash, cut: kept.cut, tools: kept.tools}
	r.out.Usage = used
	if hosted, err := h.fetchSigner(ctx, r); err != nil {
		return undecided, err
	} else if !hosted {
		return h.voidCall(ctx, pair, row, voidReason{used: used, ran: true, final: true})
	}
	paid := settlement{kept: doc.Version}
	var unsettled *unsettledError
	if paid.FinalCharge, err = h.settleCharge(ctx, r, row, true); errors.As(err, &unsettled) {
		return h.voidCall(ctx, pair, row, voidReason{cause: CauseOf(unsettled.cause, took), failure: unsettled.cause, used: used, ran: true, final: true})
	}
	if err != nil {
		return undecided, err
	}
	d, tip, err := h.decided(ctx, pair, row)
	switch {
	case err != nil:
		return undecided, err
	case d != nil:
		return d.decision(), nil
	}
	_, closed, err := h.storeAnswer(ctx, r, row, tip, kept.msg, func() time.Duration { return took }, paid)
	switch {
	case err != nil:
		// Another process may have answered with the same settlement.
		if d, _, readErr := h.decided(ctx, pair, row); readErr == nil && d != nil {
			return d.decision(), nil
		}
		return undecided, err
	case closed:
		return decidedVoid, nil
	}
	return decidedAnswer, nil
}

type keptAnswer struct {
	msg   envelope.Message
	tools []RecordedToolCall
	took  time.Duration
	used  *Usage
	cut   CutReason
}

func (h *Host) openKept(ctx context.Context, pair Pair, row *RequestRow, doc store.Doc) (k keptAnswer, err error) {
	d := &reader{b: doc.Data}
	format := d.byte()
	k.took = time.Duration(d.uvarint(math.MaxInt32)) * time.Millisecond
	flags := d.byte()
	if flags&keptUsage != 0 {
		k.used = d.usage()
	}
	if flags&keptCut != 0 {
		k.cut = d.cut()
	}
	text := d.text()
	if d.bad || format != keptFormat || flags > keptUsage|keptCut {
		return k, h.damagedError(pair.Responses(), fmt.Errorf("%w: the unsettled answer to request %d", errRow, row.Position))
	}
	plain, err := h.Texts.Open(ctx, additionalData(pair.Responses(), row.Hash), text)
	switch {
	case errors.Is(err, textkeys.ErrDestroyed):
		return k, err // only the message and the tools are missing in k
	case err != nil:
		return k, h.unavailableError(err)
	}
	k.msg, _, k.tools, err = parseSealed(plain)
	return k, h.damagedError(pair.Responses(), err)
}
