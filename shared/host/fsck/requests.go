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

// requestEnd is the state at the end of a request chain.
type requestEnd struct {
	rows                    bool      // whether the chain has rows
	epoch, epochStart, back uint64    // back is the start of the previous epoch
	hash                    rehash    // zero at the start and after a reset
	floor                   time.Time // latest signed time so far
}

// rehash contains the stored hash of a row and the hash that was computed again from its envelope.
// If they differ, either may be damaged, and the next row may refer to either.
type rehash struct {
	stored, again identity.Hash // equal if the text cannot be read
	unsure        bool          // whether the text cannot be read although its key exists, so both hashes may be wrong
}

func sealedHash(h identity.Hash) rehash { return rehash{stored: h, again: h} }

func (h rehash) is(x identity.Hash) bool { return x == h.stored || x == h.again || h.unsure }

func (h rehash) isIntact() bool { return h.stored == h.again && !h.unsure }

func claimedEnd(q *call.RequestRow) requestEnd {
	p := requestEnd{rows: true, epoch: q.Epoch, epochStart: q.EpochStart, back: q.PrevEpochStart, floor: q.Floor}
	if q.Kind == call.RowCall {
		p.hash = sealedHash(q.Hash)
	}
	return p
}

// after returns the end of the chain after a request according to the rules. It uses the signed
// time only if the request's hash is intact.
func (p requestEnd) after(q *call.RequestRow, hash rehash) requestEnd {
	p.rows = true
	if hash.isIntact() && q.Time.After(p.floor) {
		p.floor = q.Time
	}
	p.hash = hash
	if q.Kind == call.RowReset {
		p.epoch, p.epochStart, p.back, p.hash = p.epoch+1, q.Position, p.epochStart, rehash{}
	}
	return p
}

// breach is a rule that a row violates.
type breach struct {
	check     Check
	want, got string
}

// breaches returns the rules that a request violates as the row after p.
func (p requestEnd) breaches(q *call.RequestRow) (b []breach) {
	add := func(c Check, want, got any) { b = append(b, breach{c, fmt.Sprint(want), fmt.Sprint(got)}) }
	want := p.after(q, sealedHash(q.Hash))
	if q.Epoch != want.epoch {
		add(Epoch, want.epoch, q.Epoch)
	}
	if q.EpochStart != want.epochStart {
		add(Seq, fmt.Sprintf("%d, in the epoch that began at row %d", q.Position-want.epochStart, want.epochStart),
			fmt.Sprintf("%d, by the row %d", q.Position-q.EpochStart, q.EpochStart))
	}
	if q.PrevEpochStart != want.back {
		add(PrevEpochStart, fmt.Sprintf("row %d", want.back), fmt.Sprintf("row %d", q.PrevEpochStart))
	}
	if !q.Floor.Equal(want.floor) {
		add(Floor, canon.FormatTime(want.floor), canon.FormatTime(q.Floor))
	}
	first := p.hash == (rehash{}) && p.epoch > 0
	if (q.Kind == call.RowReset && p.rows || q.Kind == call.RowCall && first) && !q.Time.After(p.floor) {
		add(Time, "later than "+canon.FormatTime(p.floor), canon.FormatTime(q.Time))
	}
	if q.Kind == call.RowCall && !p.hash.is(q.Prev) {
		add(Prev, p.hash.again, q.Prev)
	}
	return b
}

// summary contains the parts of a request that its response is compared with.
type summary struct {
	position uint64
	kind     call.RowKind // zero if the row is unreadable
	hash     rehash
	epoch    uint64 // epoch according to the rules
	claim    uint64 // epoch according to the row
	seen     uint64 // response tip that the request recorded
	paid     paid
}

// windowRows limits the requests of a pair in memory. Earlier requests are read again.
const windowRows = 4096

// requests checks the request stream of a pair row by row, as far as responses refer to it, and
// looks up requests.
type requests struct {
	*run
	pair    call.Pair
	rows    *reader
	known   bool                   // whether the end of the chain is known, which is false after an unreadable row
	rule    requestEnd             // end of the chain according to the rules
	claim   requestEnd             // end of the chain according to the last row
	done    bool                   // whether all rows were read
	older   []summary              // page of requests before the window
	decided []uint64               // one bit per request
	tip     uint64                 // last response position that is known
	prices  map[uint64]price.Price // prices of the vacant by version
	paying  bool                   // whether a request has a price
}

func (r *run) requests(p call.Pair) *requests {
	r.window = r.window[:0]
	return &requests{run: r, pair: p, rows: r.reader(p.Requests()), known: true}
}

func (q *requests) step(ctx context.Context) error {
	before := q.rows.at
	row, more, err := q.rows.next(ctx)
	if err != nil || !more {
		q.done = err == nil
		return err
	}
	if row.Position == 0 {
		for p := max(before, q.rows.at-min(q.rows.at, q.windowRows)); p < q.rows.at; p++ {
			q.remember(summary{position: p})
		}
		q.known = false
		return nil
	}
	r, ok := decode(q.run, q.pair.Requests(), row, call.DecodeRequest)
	if !ok {
		q.remember(summary{position: row.Position})
		q.known = false
		return nil
	}
	return q.check(ctx, &r)
}

func decode[R any](r *run, s store.Stream, row store.Row, read func(store.Row) (R, error)) (R, bool) {
	decoded, err := read(row)
	if err == nil {
		return decoded, true
	}
	if len(row.Data) > 0 && row.Data[0] != call.RowFormat {
		r.addFinding(inStream(s, row.Position, Format, fmt.Sprint(call.RowFormat), fmt.Sprint(row.Data[0])))
	} else {
		r.addFinding(inStream(s, row.Position, Row, "a row of this stream's kind", err.Error()))
	}
	return decoded, false
}

func (q *requests) check(ctx context.Context, r *call.RequestRow) error {
	s := q.pair.Requests()
	if q.known {
		if b := q.rule.breaches(r); len(b) > 0 && len(q.claim.breaches(r)) > 0 {
			for _, b := range b {
				q.addFinding(inStream(s, r.Position, b.check, b.want, b.got))
			}
		} else if len(b) > 0 {
			q.rule = q.claim // the row before was wrong and was reported
		}
	} else if r.Epoch < q.rule.epoch || r.Floor.Before(q.rule.floor) {
		q.addFinding(inStream(s, r.Position, Epoch, fmt.Sprintf("at least %d, and a floor not before %s", q.rule.epoch, canon.FormatTime(q.rule.floor)),
			fmt.Sprintf("%d, %s", r.Epoch, canon.FormatTime(r.Floor))))
	}
	hash, err := q.reread(ctx, r)
	if err != nil {
		return err
	}
	if q.claim = claimedEnd(r); q.known {
		q.rule = q.rule.after(r, hash)
	} else if q.rule = q.claim; r.Kind == call.RowCall {
		q.rule.hash = hash
	}
	q.known = true
	q.remember(summary{r.Position, r.Kind, hash, q.rule.epoch, r.Epoch, r.ResponseTip, paymentOf(r)})
	if err := q.hold(ctx, r); err != nil {
		return err
	}
	return q.checkSeen(ctx, r)
}

// reread returns the stored hash and, if the text is readable, the hash of the rebuilt envelope.
func (q *requests) reread(ctx context.Context, r *call.RequestRow) (rehash, error) {
	s := q.pair.Requests()
	text, bound := r.SealedText(q.pair)
	plain, unsure, err := q.open(ctx, s, r.Position, text, bound)
	if plain == nil || err != nil {
		return rehash{r.Hash, r.Hash, unsure}, err
	}
	e, err := r.Envelope(q.pair, plain)
	if err != nil {
		q.addFinding(inStream(s, r.Position, Text, "a message", err.Error()))
		return rehash{r.Hash, r.Hash, true}, nil
	}
	if e.IsReset() != (r.Kind == call.RowReset) {
		q.addFinding(inStream(s, r.Position, Kind, "a reset with the text of a reset, or a call with another text", fmt.Sprintf("a %v with the text %.40q", r.Kind, e.Payload.Text())))
	}
	if r.Kind == call.RowCall && e.Payload.Role == envelope.RoleAgent || envelope.IsReplyKey(e.IdempotencyKey) {
		q.addFinding(inStream(s, r.Position, MessageForm, "a request", fmt.Sprintf("role %s, key %.40q", e.Payload.Role, e.IdempotencyKey)))
	}
	return rehash{r.Hash, q.checkSigned(s, r.Position, &e, r.Hash), false}, nil
}

func (q *requests) checkSeen(ctx context.Context, r *call.RequestRow) error {
	if r.ResponseTip <= q.tip {
		return nil
	}
	rows, err := q.view.Rows(ctx, q.pair.Responses(), last, 1, store.Descending)
	switch {
	case isDamaged(err):
		q.tip = last // reported with the responses
	case err != nil:
		return err
	case len(rows) > 0:
		q.tip = rows[0].Position
	}
	if r.ResponseTip > q.tip {
		q.addFinding(inStream(q.pair.Requests(), r.Position, ResponseTip, fmt.Sprintf("at most %d, the last response", q.tip), fmt.Sprint(r.ResponseTip)))
	}
	return nil
}

func (q *requests) remember(s summary) {
	i := int(s.position % q.windowRows)
	for len(q.window) <= i {
		q.window = append(q.window, summary{})
	}
	q.window[i] = s
}

// readRequest returns the request at a position after checking the stream up to it. ok is false if the
// request does not exist.
func (q *requests) readRequest(ctx context.Context, p uint64) (found summary, ok bool, err error) {
	for !q.done && q.rows.at <= p {
		if err := q.step(ctx); err != nil {
			return found, false, err
		}
	}
	if p == 0 || p >= q.rows.at {
		return found, false, nil
	}
	if i := p % q.windowRows; i < uint64(len(q.window)) && q.window[i].position == p {
		return q.window[i], true, nil
	}
	return q.readOlder(ctx, p)
}

func (q *requests) readOlder(ctx context.Context, p uint64) (found summary, ok bool, err error) {
	// The page is read again. The defects of its rows were already reported.
	for _, s := range q.older {
		if s.position == p {
			return s, true, nil
		}
	}
	rows, err := q.view.Rows(ctx, q.pair.Requests(), p, q.pageRows, store.Ascending)
	if err != nil && !isDamaged(err) {
		return found, false, err
	}
	q.older = append(q.older[:0], summary{position: p})
	for _, row := range rows {
		s := summary{position: row.Position}
		if r, err := call.DecodeRequest(row); err == nil {
			s = summary{r.Position, r.Kind, sealedHash(r.Hash), r.Epoch, r.Epoch, r.ResponseTip, paymentOf(&r)}
		}
		if row.Position == p {
			q.older[0] = s
		} else {
			q.older = append(q.older, s)
		}
	}
	return q.older[0], true, nil
}

// decide marks the request at a position as decided. It returns false if the request was already
// decided.
func (q *requests) decide(p uint64) bool {
	word, bit := p/64, uint64(1)<<(p%64)
	for uint64(len(q.decided)) <= word {
		q.decided = append(q.decided, 0)
	}
	first := q.decided[word]&bit == 0
	q.decided[word] |= bit
	return first
}
