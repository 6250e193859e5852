package fsck

import (
	"context"
	"fmt"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

type requestEnd struct {
	hasRows                           bool
	epoch, epochStart, prevEpochStart uint64    // a start is the position of the reset, or zero
	hash                              rowHash   // zero at the start and after a reset
	floor                             time.Time // latest signed time so far
}

// rowHash contains a row's stored hash and the hash of its rebuilt envelope. If they differ, the
// next row may refer to either.
type rowHash struct {
	stored, computed identity.Hash // equal if the text cannot be read
	isUncertain      bool          // whether the text is damaged; any hash then matches
}

func uncheckedHash(h identity.Hash) rowHash { return rowHash{stored: h, computed: h} }

func (h rowHash) matches(x identity.Hash) bool {
	return x == h.stored || x == h.computed || h.isUncertain
}

func (h rowHash) isIntact() bool { return h.stored == h.computed && !h.isUncertain }

func claimedRequestEnd(req *call.RequestRow) requestEnd {
	p := requestEnd{hasRows: true, epoch: req.Epoch, epochStart: req.EpochStart, prevEpochStart: req.PrevEpochStart, floor: req.Floor}
	if req.Kind == call.RowCall {
		p.hash = uncheckedHash(req.Hash)
	}
	return p
}

// endAfter returns the end of the chain after a request according to the rules.
func (p requestEnd) endAfter(req *call.RequestRow, hash rowHash) requestEnd {
	p.hasRows = true
	if hash.isIntact() && req.Time.After(p.floor) {
		p.floor = req.Time
	}
	p.hash = hash
	if req.Kind == call.RowReset {
		p.epoch, p.epochStart, p.prevEpochStart, p.hash = p.epoch+1, req.Position, p.epochStart, rowHash{}
	}
	return p
}

// breach is a rule that a row violates.
type breach struct {
	check     Check
	want, got string
}

// findBreaches returns the rules that a request after p violates.
func (p requestEnd) findBreaches(req *call.RequestRow) (b []breach) {
	add := func(c Check, want, got any) { b = append(b, breach{c, fmt.Sprint(want), fmt.Sprint(got)}) }
	want := p.endAfter(req, uncheckedHash(req.Hash))
	if req.Epoch != want.epoch {
		add(Epoch, want.epoch, req.Epoch)
	}
	if req.EpochStart != want.epochStart {
		add(Seq, fmt.Sprintf("%d, in the epoch that began at row %d", req.Position-want.epochStart, want.epochStart),
			fmt.Sprintf("%d, counted from row %d", req.Position-req.EpochStart, req.EpochStart))
	}
	if req.PrevEpochStart != want.prevEpochStart {
		add(PrevEpochStart, fmt.Sprintf("row %d", want.prevEpochStart), fmt.Sprintf("row %d", req.PrevEpochStart))
	}
	if !req.Floor.Equal(want.floor) {
		add(Floor, canon.FormatTime(want.floor), canon.FormatTime(req.Floor))
	}
	isFirstCall := p.hash == (rowHash{}) && p.epoch > 0
	if (req.Kind == call.RowReset && p.hasRows || req.Kind == call.RowCall && isFirstCall) && !req.Time.After(p.floor) {
		add(Time, "later than "+canon.FormatTime(p.floor), canon.FormatTime(req.Time))
	}
	if req.Kind == call.RowCall && !p.hash.matches(req.Prev) {
		add(Prev, p.hash.computed, req.Prev)
	}
	return b
}

type requestSummary struct {
	position     uint64
	kind         call.RowKind // zero if the row is unreadable
	hash         rowHash
	epoch        uint64
	claimedEpoch uint64 // epoch that the row claims
	responseTip  uint64
	payment      requestPayment
}

// windowRows limits the requests of a pair in memory.
const windowRows = 4096

// requestChecker checks the request stream of a pair and looks up the requests of responses.
type requestChecker struct {
	*run
	pair           call.Pair
	rows           *reader
	isEndKnown     bool // false after an unreadable row
	ruleEnd        requestEnd
	claimEnd       requestEnd
	allRead        bool
	olderPage      []requestSummary // page of requests before the window
	decidedBits    []uint64         // one bit per request
	lastResponse   uint64
	prices         map[uint64]price.Price // keyed by version
	hasPricedCalls bool
}

func (r *run) newRequestChecker(p call.Pair) *requestChecker {
	r.window = r.window[:0]
	return &requestChecker{run: r, pair: p, rows: r.newReader(p.Requests()), isEndKnown: true}
}

func (q *requestChecker) checkNextRequest(ctx context.Context) error {
	prevPosition := q.rows.nextPosition
	row, more, err := q.rows.next(ctx)
	if err != nil || !more {
		q.allRead = err == nil
		return err
	}
	if row.Position == 0 {
		for p := max(prevPosition, q.rows.nextPosition-min(q.rows.nextPosition, q.windowRows)); p < q.rows.nextPosition; p++ {
			q.addToWindow(requestSummary{position: p})
		}
		q.isEndKnown = false
		return nil
	}
	req, ok := decodeRow(q.run, q.pair.Requests(), row, call.DecodeRequest)
	if !ok {
		q.addToWindow(requestSummary{position: row.Position})
		q.isEndKnown = false
		return nil
	}
	return q.checkRequest(ctx, &req)
}

func decodeRow[R any](r *run, s store.Stream, row store.Row, decodeData func(store.Row) (R, error)) (R, bool) {
	decoded, err := decodeData(row)
	if err == nil {
		return decoded, true
	}
	if len(row.Data) > 0 && row.Data[0] != call.RowFormat {
		r.addFinding(newStreamFinding(s, row.Position, Format, fmt.Sprint(call.RowFormat), fmt.Sprint(row.Data[0])))
	} else {
		r.addFinding(newStreamFinding(s, row.Position, Row, "a row of this stream's kind", err.Error()))
	}
	return decoded, false
}

func (q *requestChecker) checkRequest(ctx context.Context, req *call.RequestRow) error {
	s := q.pair.Requests()
	if q.isEndKnown {
		if b := q.ruleEnd.findBreaches(req); len(b) > 0 && len(q.claimEnd.findBreaches(req)) > 0 {
			for _, b := range b {
				q.addFinding(newStreamFinding(s, req.Position, b.check, b.want, b.got))
			}
		} else if len(b) > 0 {
			q.ruleEnd = q.claimEnd // the row before was wrong and was reported
		}
	} else if req.Epoch < q.ruleEnd.epoch || req.Floor.Before(q.ruleEnd.floor) {
		q.addFinding(newStreamFinding(s, req.Position, Epoch, fmt.Sprintf("at least %d, and a floor not before %s", q.ruleEnd.epoch, canon.FormatTime(q.ruleEnd.floor)),
			fmt.Sprintf("%d, %s", req.Epoch, canon.FormatTime(req.Floor))))
	}
	hash, err := q.rebuildHash(ctx, req)
	if err != nil {
		return err
	}
	if q.claimEnd = claimedRequestEnd(req); q.isEndKnown {
		q.ruleEnd = q.ruleEnd.endAfter(req, hash)
	} else if q.ruleEnd = q.claimEnd; req.Kind == call.RowCall {
		q.ruleEnd.hash = hash
	}
	q.isEndKnown = true
	q.addToWindow(requestSummary{req.Position, req.Kind, hash, q.ruleEnd.epoch, req.Epoch, req.ResponseTip, paymentOf(req)})
	if err := q.checkHold(ctx, req); err != nil {
		return err
	}
	return q.checkResponseTip(ctx, req)
}

// rebuildHash returns the stored hash and, if the text is readable, the hash of the rebuilt
// envelope.
func (q *requestChecker) rebuildHash(ctx context.Context, req *call.RequestRow) (rowHash, error) {
	s := q.pair.Requests()
	sealedText, additionalData := req.SealedText(q.pair)
	plaintext, isUncertain, err := q.openText(ctx, s, req.Position, sealedText, additionalData)
	if plaintext == nil || err != nil {
		return rowHash{req.Hash, req.Hash, isUncertain}, err
	}
	e, err := req.Envelope(q.pair, plaintext)
	if err != nil {
		q.addFinding(newStreamFinding(s, req.Position, Text, "a message", err.Error()))
		return rowHash{req.Hash, req.Hash, true}, nil
	}
	if e.IsReset() != (req.Kind == call.RowReset) {
		q.addFinding(newStreamFinding(s, req.Position, Kind, "a reset with the text of a reset, or a call with another text", fmt.Sprintf("a %v with the text %.40q", req.Kind, e.Payload.Text())))
	}
	if req.Kind == call.RowCall && e.Payload.Role == envelope.RoleAgent || envelope.IsReplyKey(e.IdempotencyKey) {
		q.addFinding(newStreamFinding(s, req.Position, MessageForm, "a request", fmt.Sprintf("role %s, key %.40q", e.Payload.Role, e.IdempotencyKey)))
	}
	return rowHash{req.Hash, q.checkHashAndSignature(s, req.Position, &e, req.Hash), false}, nil
}

func (q *requestChecker) checkResponseTip(ctx context.Context, req *call.RequestRow) error {
	if req.ResponseTip <= q.lastResponse {
		return nil
	}
	rows, err := q.view.Rows(ctx, q.pair.Responses(), afterAllRows, 1, store.Descending)
	switch {
	case isDamaged(err):
		q.lastResponse = afterAllRows // reported with the responses
	case err != nil:
		return err
	case len(rows) > 0:
		q.lastResponse = rows[0].Position
	}
	if req.ResponseTip > q.lastResponse {
		q.addFinding(newStreamFinding(q.pair.Requests(), req.Position, ResponseTip, fmt.Sprintf("at most %d, the last response", q.lastResponse), fmt.Sprint(req.ResponseTip)))
	}
	return nil
}

func (q *requestChecker) addToWindow(s requestSummary) {
	i := int(s.position % q.windowRows)
	for len(q.window) <= i {
		q.window = append(q.window, requestSummary{})
	}
	q.window[i] = s
}

// readRequest checks the stream up to position and returns the request at position. ok is false if
// the request does not exist.
func (q *requestChecker) readRequest(ctx context.Context, position uint64) (request requestSummary, ok bool, err error) {
	for !q.allRead && q.rows.nextPosition <= position {
		if err := q.checkNextRequest(ctx); err != nil {
			return request, false, err
		}
	}
	if position == 0 || position >= q.rows.nextPosition {
		return request, false, nil
	}
	if i := position % q.windowRows; i < uint64(len(q.window)) && q.window[i].position == position {
		return q.window[i], true, nil
	}
	return q.readOlder(ctx, position)
}

func (q *requestChecker) readOlder(ctx context.Context, position uint64) (request requestSummary, ok bool, err error) {
	// The defects of these rows were already reported.
	for _, s := range q.olderPage {
		if s.position == position {
			return s, true, nil
		}
	}
	rows, err := q.view.Rows(ctx, q.pair.Requests(), position, q.pageRows, store.Ascending)
	if err != nil && !isDamaged(err) {
		return request, false, err
	}
	q.olderPage = append(q.olderPage[:0], requestSummary{position: position})
	for _, row := range rows {
		s := requestSummary{position: row.Position}
		if req, err := call.DecodeRequest(row); err == nil {
			s = requestSummary{req.Position, req.Kind, uncheckedHash(req.Hash), req.Epoch, req.Epoch, req.ResponseTip, paymentOf(&req)}
		}
		if row.Position == position {
			q.olderPage[0] = s
		} else {
			q.olderPage = append(q.olderPage, s)
		}
	}
	return q.olderPage[0], true, nil
}

// markDecided returns false if the request was already decided.
func (q *requestChecker) markDecided(position uint64) bool {
	word, bit := position/64, uint64(1)<<(position%64)
	for uint64(len(q.decidedBits)) <= word {
		q.decidedBits = append(q.decidedBits, 0)
	}
	isFirst := q.decidedBits[word]&bit == 0
	q.decidedBits[word] |= bit
	return isFirst
}
