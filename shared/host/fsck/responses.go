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

// pair checks both streams of a pair: first the responses with the requests that they refer to,
// then the remaining requests.
func (r *run) pair(ctx context.Context, p call.Pair) error {
	if p.Caller == p.Vacant {
		r.addFinding(inStream(p.Requests(), 0, Stream, "two different ids", "the same id twice"))
	}
	q := r.requests(p)
	a := &responses{requests: q, rows: r.reader(p.Responses()), known: true}
	for more := true; more; {
		var err error
		if more, err = a.step(ctx); err != nil {
			return err
		}
	}
	for !q.done {
		if err := q.step(ctx); err != nil {
			return err
		}
	}
	if q.paying {
		r.tips[p.Requests()], r.tips[p.Responses()] = q.rows.at, a.rows.at
	}
	return nil
}

// responseEnd is the state at the end of a response chain.
type responseEnd struct {
	epoch uint64
	seq   int64
	hash  rehash
}

func claimedStand(a *call.ResponseRow) responseEnd {
	return responseEnd{a.Epoch, a.Seq, sealedHash(a.Hash)}
}

func (s responseEnd) breaches(a *call.ResponseRow) (b []breach) {
	add := func(c Check, want, got any) { b = append(b, breach{c, fmt.Sprint(want), fmt.Sprint(got)}) }
	if a.Kind == call.RowVoid {
		if got := claimedStand(a); got.epoch != s.epoch || got.seq != s.seq || !s.hash.is(a.Hash) {
			add(Void, s, got)
		}
		return b
	}
	next := responseEnd{seq: 1}
	if a.Epoch == s.epoch {
		next = responseEnd{seq: s.seq + 1, hash: s.hash}
	}
	if a.Epoch < s.epoch {
		add(Epoch, fmt.Sprintf("at least %d, as in the row before", s.epoch), a.Epoch)
	}
	if a.Seq != next.seq {
		add(Seq, next.seq, a.Seq)
	}
	if !next.hash.is(a.Prev) {
		add(Prev, next.hash.again, a.Prev)
	}
	return b
}

func (s responseEnd) String() string {
	return fmt.Sprintf("epoch %d, seq %d, hash %s", s.epoch, s.seq, s.hash.again)
}

type responses struct {
	*requests
	rows  *reader
	known bool        // whether the end of the chain is known
	rule  responseEnd // end of the chain according to the rules
	claim responseEnd // end of the chain according to the last row
}

func (a *responses) step(ctx context.Context) (more bool, err error) {
	row, more, err := a.rows.next(ctx)
	if !more || err != nil {
		return false, err
	}
	if row.Position == 0 {
		a.known = false
		return true, nil
	}
	r, ok := decode(a.run, a.pair.Responses(), row, call.DecodeResponse)
	if !ok {
		a.known = false
		return true, nil
	}
	if r.Kind == call.RowAnswer && r.Cut == "" && r.Usage != nil && r.Usage.Turns > 0 {
		a.kin.countOf(a.pair.Vacant).answers++
	}
	if r.Usage != nil {
		a.kin.countOf(a.pair.Vacant).cost += r.Usage.Cost
		if err := a.version(ctx, &r); err != nil {
			return false, err
		}
	}
	ruled := r
	if ruled.Epoch, err = a.decision(ctx, &r); err != nil {
		return false, err
	}
	return true, a.link(ctx, &r, &ruled)
}

func (a *responses) version(ctx context.Context, r *call.ResponseRow) error {
	// The record is read again, because it may be newer than the record that was checked.
	t := a.kin.countOf(a.pair.Vacant)
	if r.Usage.Agent <= t.versions {
		return nil
	}
	rec, d, err := vacants.RecordDocs.Get(ctx, a.view, vacants.RecordKey(a.pair.Vacant))
	if isDamaged(err) || err == nil && (d.Version == 0 || rec.IsDeleted()) {
		return nil // reported by another check
	}
	if err != nil {
		return err
	}
	if t.versions = uint64(rec.Agent); r.Usage.Agent > t.versions {
		a.addFinding(inStream(a.pair.Responses(), r.Position, Agent, fmt.Sprintf("one of the agent's %d versions", t.versions), fmt.Sprintf("version %d", r.Usage.Agent)))
	}
	return nil
}

// decision compares a response with the request that it refers to. It returns the epoch that an
// answer must have. For a void, or if the request cannot be determined, it returns the response's
// own epoch.
func (a *responses) decision(ctx context.Context, r *call.ResponseRow) (epoch uint64, err error) {
	epoch = r.Epoch
	wrong := func(c Check, want, got any) {
		a.addFinding(inStream(a.pair.Responses(), r.Position, c, fmt.Sprint(want), fmt.Sprint(got)))
	}
	q, ok, err := a.readRequest(ctx, r.Request)
	switch {
	case err != nil:
		return epoch, err
	case !ok:
		wrong(Request, "an existing call", fmt.Sprintf("request %d, which does not exist", r.Request))
		return epoch, nil
	case q.kind == 0:
		return epoch, nil // the unreadable request is reported with the requests
	case q.kind != call.RowCall:
		wrong(Request, "a call", fmt.Sprintf("request %d, a %v", r.Request, q.kind))
		return epoch, nil
	case !q.hash.is(r.RequestHash):
		wrong(Request, fmt.Sprintf("request %d by its hash %s", r.Request, q.hash.again), r.RequestHash)
		return epoch, nil
	}
	if r.RequestEpoch != q.epoch && r.RequestEpoch != q.claim {
		wrong(Epoch, fmt.Sprintf("%d, as in request %d", q.epoch, r.Request), r.RequestEpoch)
	}
	if r.Position <= q.seen {
		wrong(ResponseTip, fmt.Sprintf("a position after %d, which request %d had seen", q.seen, r.Request), r.Position)
	}
	if !a.decide(r.Request) {
		wrong(Decision, fmt.Sprintf("request %d decided once", r.Request), fmt.Sprintf("this %v after an earlier row", r.Kind))
	}
	if err := a.settle(ctx, q.paid, r); err != nil {
		return epoch, err
	}
	if r.Kind == call.RowAnswer {
		epoch = q.epoch
	}
	return epoch, nil
}

// link compares a response with the chain and its envelope with its hash. ruledResp is the response
// with the epoch of its request.
func (a *responses) link(ctx context.Context, r, ruled *call.ResponseRow) error {
	s := a.pair.Responses()
	if a.known {
		if b := a.rule.breaches(ruled); len(b) > 0 && len(a.claim.breaches(r)) > 0 {
			for _, b := range b {
				a.addFinding(inStream(s, r.Position, b.check, b.want, b.got))
			}
		} else if len(b) > 0 {
			a.rule = a.claim // the row before was wrong and was reported
		}
	} else if r.Epoch < a.rule.epoch {
		a.addFinding(inStream(s, r.Position, Epoch, fmt.Sprintf("at least %d", a.rule.epoch), fmt.Sprint(r.Epoch)))
	}
	a.claim = claimedStand(r)
	if err := a.cause(ctx, r); err != nil {
		return err
	}
	switch {
	case r.Kind == call.RowVoid && a.known:
	case r.Kind == call.RowVoid:
		a.rule = a.claim
	default:
		hash, err := a.reread(ctx, r)
		if err != nil {
			return err
		}
		a.follow(ruled, hash)
	}
	a.known = true
	return nil
}

func (a *responses) cause(ctx context.Context, r *call.ResponseRow) error {
	// A sealed cause is not counted in SealedRows, because a void has no hash or signature that
	// would remain unchecked.
	text, bound, ok := r.SealedCause(a.pair)
	if !ok {
		return nil
	}
	s := a.pair.Responses()
	plain, err := a.texts.Open(ctx, bound, text)
	if errors.Is(err, textkeys.ErrDestroyed) || errors.Is(err, textkeys.ErrKeyDamaged) {
		return nil
	}
	if err == nil {
		_, err = call.ParseCause(plain)
	} else if !isDamaged(err) {
		return err
	}
	if err != nil {
		a.addFinding(inStream(s, r.Position, Text, "the cause of a void", err.Error()))
	}
	return nil
}

func (a *responses) follow(r *call.ResponseRow, hash rehash) {
	next := responseEnd{r.Epoch, r.Seq, hash}
	switch {
	case !a.known:
	case r.Epoch > a.rule.epoch:
		next.seq = 1
	case r.Epoch == a.rule.epoch:
		next.seq = a.rule.seq + 1
	default:
		return // the answer has an earlier epoch
	}
	a.rule = next
}

// reread returns the stored hash and, if the text is readable, the hash of the rebuilt envelope.
// The envelope names the request of the row, so an answer to another request has another hash.
func (a *responses) reread(ctx context.Context, r *call.ResponseRow) (rehash, error) {
	s := a.pair.Responses()
	text, bound := r.SealedText(a.pair)
	plain, unsure, err := a.open(ctx, s, r.Position, text, bound)
	if plain == nil || err != nil {
		return rehash{r.Hash, r.Hash, unsure}, err
	}
	e, err := r.Envelope(a.pair, plain)
	if err != nil {
		a.addFinding(inStream(s, r.Position, Text, "a message", err.Error()))
		return rehash{r.Hash, r.Hash, true}, nil
	}
	if e.Payload.Role != envelope.RoleAgent {
		a.addFinding(inStream(s, r.Position, MessageForm, "an answer by "+string(envelope.RoleAgent), string(e.Payload.Role)))
	}
	return rehash{r.Hash, a.checkSigned(s, r.Position, &e, r.Hash), false}, nil
}

// open opens a text. It returns nil if the text cannot be read, and counts or reports this.
// isUncertain means that the text should open but does not, so the row is damaged.
func (r *run) open(ctx context.Context, s store.Stream, position uint64, text textkeys.Sealed, bound []byte) (plain []byte, unsure bool, err error) {
	plain, err = r.texts.Open(ctx, bound, text)
	switch {
	case err == nil && plain == nil:
		return []byte{}, false, nil
	case err == nil:
		return plain, false, nil
	case errors.Is(err, textkeys.ErrDestroyed):
		r.result.SealedRows++
	case errors.Is(err, textkeys.ErrKeyDamaged):
		r.result.SealedRows++
		if !r.damagedKeyDays[text.Day] {
			r.damagedKeyDays[text.Day] = true
			r.addFinding(inDocument(textkeys.Key(text.Day), Key, "a text key that opens", err.Error()))
		}
	case isDamaged(err):
		r.addFinding(inStream(s, position, Text, "a text that opens", err.Error()))
		return nil, true, nil
	default:
		return nil, false, err
	}
	return nil, false, nil
}

func (r *run) checkSigned(s store.Stream, position uint64, e *envelope.Envelope, stored identity.Hash) identity.Hash {
	b := e.AppendSigning(nil)
	h := identity.Sum(b)
	if h != stored {
		r.addFinding(inStream(s, position, Hash, h.String(), stored.String()))
	}
	r.verify(b, e.Signature, e.From, inStream(s, position, Signature, "a signature by "+e.From.String(), "an invalid signature"))
	return h
}
