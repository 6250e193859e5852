package simulation

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/vacancy-host/vacancy/shared/front/message"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/call/calltest"
	"github.com/vacancy-host/vacancy/shared/host/substrate/spend"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// record holds the observations of the world from outside.
type record struct {
	envelopes [][]byte // every body on the wire, and answers as requests: the attacker's material
	known     map[string]known
	outside   map[string]identity.Hash // bodies of unrelated callers
	ran       map[identity.Hash]int
	final     map[identity.Hash]bool          // reported as `unanswered`
	released  map[identity.Hash]identity.Hash // answers that were sent, and their requests
	met       map[string]int                  // how often things happened
	tips      []tip                           // tips of the request stream, in order
}

// wanted lists the events that a series of worlds must have met: otherwise the
// series proves little.
var wanted = []string{
	"call", "reset", "answer", "void", // rows
	"an epoch closed without a row", "a late answer of an old epoch", "a refund",
	"a read fails", "a write is lost", "a write is applied, its ack lost", "a write is delayed", "a write is applied twice",
	"a delayed write lands", "a delayed write comes too late", "a behaviour fails", "a behaviour ends after its due", "patience to retry ends",
	"a host dies", "a caller dies", "a request is lost", "a request is doubled", "a reply is lost", "a caller stops waiting",
	"a stranger repeats: call", "a stranger repeats: reset", "a stranger repeats: answer", "an outsider tries a closed child",
	"200", "400", "402", "409", "421", "423", "500", "503", "504",
	"pending", "answered", "unanswered", "unknown",
}

// tip is the state of a chain, as hosts report it.
type tip struct {
	position uint64
	expected int64
	hash     identity.Hash
}

// lookAtTip records the tip of the request chain, if it has moved.
func (w *world) lookAtTip() {
	row, err := w.truth.Tip(w.t.Context(), w.pair.Requests())
	w.must(err)
	if n := len(w.seen.tips); n > 0 && w.seen.tips[n-1].position == row.Position {
		return
	}
	x := tip{expected: 1}
	if row.Position > 0 {
		r, err := call.DecodeRequest(row)
		w.must(err)
		x = tip{r.Position, r.Tip().Seq + 1, r.Tip().Hash}
	}
	w.seen.tips = append(w.seen.tips, x)
}

// known is the content of a body.
type known struct {
	hash identity.Hash
	kind string // call, reset or answer
	seq  int64
	text string
}

// met counts something that happened.
func (w *world) met(what string) { w.seen.met[what]++ }

func newRecord() record {
	return record{known: map[string]known{}, outside: map[string]identity.Hash{}, ran: map[identity.Hash]int{}, final: map[identity.Hash]bool{}, released: map[identity.Hash]identity.Hash{}, met: map[string]int{}}
}

// remember stores a body for the attacker.
func (w *world) remember(body []byte, e *envelope.Envelope, kind string) known {
	if k, ok := w.seen.known[string(body)]; ok {
		return k
	}
	k := known{hash: e.Hash(), kind: kind, seq: e.Seq, text: e.Payload.Text()}
	w.seen.known[string(body)] = k
	w.seen.envelopes = append(w.seen.envelopes, body)
	return k
}

func (w *world) nameOf(body []byte) string {
	k := w.seen.known[string(body)]
	if h, outside := w.seen.outside[string(body)]; outside {
		k = known{kind: "outsider's call", hash: h}
	}
	return fmt.Sprintf("%s %d %q %.6s", k.kind, k.seq, k.text, k.hash)
}

// posted records that a caller sends a body to a route.
func (w *world) posted(c *caller, route string, body []byte) {
	if _, ok := w.seen.known[string(body)]; ok {
		return
	}
	req, err := envelope.DecodeResetRequest(body)
	if err != nil {
		w.violate("%s posts what does not decode: %v", c.name, err)
		return
	}
	kind := "call"
	if route == message.ResetPath {
		kind = "reset"
	}
	k := w.remember(body, &req.Envelope, kind)
	if kind == "call" {
		c.signed[k.hash] = true
	}
}

// ran records that a behaviour starts for the envelope of hash h.
func (w *world) ran(t *task, h identity.Hash) {
	w.seen.ran[h]++
	for _, of := range w.seen.outside {
		if of == h {
			w.violate("I15: a closed child ran for an outsider")
		}
	}
	if n := w.seen.ran[h]; n > 1 {
		w.violate("I2: %.6s ran %d times", h, n)
	}
	if t.route != message.SendPath || t.exchange != nil && t.exchange.meant != message.SendPath {
		w.violate("I14: %.6s ran though it was only asked for", h)
	}
	for _, k := range w.seen.known {
		if k.hash == h && k.kind != "call" {
			w.violate("I10: the %s %.6s ran as a call", k.kind, h)
		}
	}
}

// told records what a host reports.
type told struct {
	State    string          `json:"state"`
	Reply    json.RawMessage `json:"reply"`
	Expected int64           `json:"expected_seq"`
	Tip      identity.Hash   `json:"chain_tip"`
}

// left records that a reply leaves a host.
func (w *world) left(t *task) {
	w.met(strconv.Itoa(t.reply.status))
	if _, outside := w.seen.outside[string(t.request)]; outside {
		w.turnedAway(t)
		return
	}
	asked := w.seen.known[string(t.request)]
	var answer *envelope.Envelope
	if t.route == message.SendPath && t.reply.status == 200 {
		e, err := envelope.DecodeResponse(t.reply.body)
		if err != nil {
			w.violate("I8: a 200 without an answer: %v", err)
			return
		}
		answer = &e
	} else {
		var x told
		if err := json.Unmarshal(t.reply.body, &x); err != nil {
			w.violate("a host says what is no JSON: %v: %s", err, t.reply.body)
			return
		}
		if x.Expected > 0 && asked.kind != "answer" && !slices.ContainsFunc(w.seen.tips[t.since:], func(s tip) bool {
			return s.expected == x.Expected && s.hash == x.Tip
		}) {
			w.violate("I11: %s tells of seq %d after %.6s, where the chain did not stand while it looked", t.name, x.Expected, x.Tip)
		}
		if x.State != "" {
			w.met(x.State)
		}
		if x.State == string(call.Unanswered) {
			w.seen.final[asked.hash] = true
		}
		if x.Reply != nil {
			e, err := envelope.DecodeMessage(x.Reply)
			if err != nil {
				w.violate("I8: a stored reply does not decode: %v", err)
				return
			}
			answer = &e
		}
	}
	if answer == nil {
		return
	}
	k := w.remember(request(answer), answer, "answer")
	w.seen.released[k.hash] = asked.hash
	if answer.IdempotencyKey != envelope.ReplyKey(asked.hash) {
		w.violate("I7: the answer to %.6s is bound to %q", asked.hash, answer.IdempotencyKey)
	}
}

// turnedAway checks that to an unrelated caller a closed child does not exist,
// whatever state it and its chains are in. A store that cannot be reached is
// the same for all.
func (w *world) turnedAway(t *task) {
	var x told
	switch {
	case json.Unmarshal(t.reply.body, &x) != nil, x.Expected > 0, x.State != "", x.Reply != nil, !x.Tip.IsZero():
		w.violate("I15: %s tells an outsider of a closed child: %s", t.name, t.reply.body)
	case t.reply.status != http.StatusMisdirectedRequest && t.reply.status != http.StatusServiceUnavailable:
		w.violate("I15: %s says %d to an outsider of a closed child", t.name, t.reply.status)
	}
}

// check checks the final rows, and the reports about them. The numbers are the
// model's.
func (w *world) check() {
	if len(w.wrong) > 0 {
		return
	}
	ctx := w.t.Context()
	s, err := calltest.ReadStreams(ctx, w.truth, w.pair)
	w.must(err)
	for _, err := range s.Check() { // I1, I3, I4, I5
		w.violate("%v", err)
	}
	outside, err := calltest.ReadStreams(ctx, w.truth, call.Pair{Caller: outsiderKey.ID(), Vacant: w.pair.Vacant})
	w.must(err)
	if len(outside.Requests)+len(outside.Responses) > 0 {
		w.violate("I15: an outsider has rows with a closed child")
	}
	turned, err := calltest.ReadStreams(ctx, w.truth, call.Pair{Caller: w.pair.Vacant, Vacant: w.pair.Caller})
	w.must(err)
	if len(turned.Requests) > 0 {
		w.violate("I10: an answer was accepted as a request")
	}
	stored := map[identity.Hash]bool{}
	spent := int64(0)
	for i := range s.Requests {
		r := &s.Requests[i]
		d := s.Decision(r.Position)
		w.checkKind(r)
		w.count(&s, r, d)
		switch {
		case d == nil:
			spent += int64(r.Price)
		case d.Kind == call.RowAnswer:
			spent += int64(d.Charge)
		}
		if d == nil {
			if r.Price > 0 {
				w.violate("I6: priced request %d is neither settled nor refunded", r.Position)
			}
			continue
		}
		if d.Kind != call.RowAnswer {
			continue
		}
		stored[d.Hash] = true
		if w.seen.final[r.Hash] {
			w.violate("I9: request %d is answered, and unanswered was told", r.Position)
		}
		w.checkLearnt(&s, r)
	}
	// I8: every answer that was sent is stored, and the answers are one chain
	// per epoch.
	for a := range w.seen.released {
		if !stored[a] {
			w.violate("I8: answer %.6s left the host and has no row", a)
		}
	}
	if w.spend != nil {
		w.checkSpent(ctx, &s)
	}
	if w.price != nil {
		w.checkMoney(ctx, &s, spent)
	}
}

// checkSpent checks I16: no day costs more than its budget, and rows cost no more than
// was counted.
func (w *world) checkSpent(ctx context.Context, s *calltest.Streams) {
	days, _, err := w.truth.Docs(ctx, spend.VacantTotalDocs.Range(w.pair.Vacant.String()), store.MaxPage, "")
	w.must(err)
	counted, rows := int64(0), int64(0)
	for _, d := range days {
		counted += d.Number
		if err := spend.CheckVacantTotal(d); err != nil || d.Number > dayBudget || d.Number < 0 {
			w.violate("I16: %d is spent on %s, %v", d.Number, d.Key.Sort, err)
		}
		shared, err := w.truth.Doc(ctx, store.Key{Partition: "spend#host", Sort: d.Key.Sort})
		w.must(err)
		if shared.Number != d.Number {
			w.violate("I16: the vacant has spent %d on %s, the host %d", d.Number, d.Key.Sort, shared.Number)
		}
	}
	for i := range s.Responses {
		if u := s.Responses[i].Usage; u != nil {
			rows += int64(u.Cost)
		}
	}
	if rows > counted {
		w.violate("I16: rows cost %d, and %d was counted", rows, counted)
	}
	if rows > 0 {
		w.met("a call that costs money")
	}
}

// count records what the rows show.
func (w *world) count(s *calltest.Streams, r *call.RequestRow, d *call.ResponseRow) {
	w.met(r.Kind.String())
	switch {
	case r.Kind == call.RowReset:
	case d == nil:
		w.met("an epoch closed without a row")
	case d.Kind == call.RowVoid && r.Price > 0:
		w.met("a refund")
	}
	if d == nil {
		return
	}
	w.met(d.Kind.String())
	if d.Kind == call.RowAnswer && s.Requests[len(s.Requests)-1].Epoch > r.Epoch && d.Time.After(r.Due) {
		w.met("a late answer of an old epoch")
	}
}

// checkKind: a row signed as a reset is a reset, and one signed as a call is a
// call.
func (w *world) checkKind(r *call.RequestRow) {
	for _, k := range w.seen.known {
		if k.hash == r.Hash && k.kind != r.Kind.String() {
			w.violate("I10: the %s %.6s stands as a %v", k.kind, r.Hash, r.Kind)
		}
	}
}

// epochsSearched is the number of epochs back in which a host looks for an
// envelope (PROTOCOL §6).
const epochsSearched = 8

// checkLearnt: our caller has learnt the stored answer to r, if it is its own
// and within the epochs that hosts search.
func (w *world) checkLearnt(s *calltest.Streams, r *call.RequestRow) {
	if last := s.Requests[len(s.Requests)-1].Epoch; last >= r.Epoch+epochsSearched {
		return
	}
	for _, c := range w.callers {
		if !c.cfg.reference && c.signed[r.Hash] && !c.learnt[r.Hash] {
			w.violate("I7: %s never learnt the answer to request %d, %.6s", c.name, r.Position, r.Hash)
		}
	}
}
