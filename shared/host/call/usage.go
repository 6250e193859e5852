package call

import (
	"context"
	"encoding/binary"
	"math"
	"sync"
	"time"
)

// Usage counts the work of a vacant's agent for a call. The row that decides the
// call keeps it. It contains only numbers.
type Usage struct {
	In     uint64 `json:"in"` // tokens, as the provider counts them
	Out    uint64 `json:"out"`
	Cached uint64 `json:"cached"` // a part of In
	Turns  uint64 `json:"turns"`  // requests to a model
	Tools  uint64 `json:"tools"`  // calls of tools
	Agent  uint64 `json:"agent_version"`
	// Fallback: the fallback model, not the first, was asked last.
	Fallback bool `json:"fallback"`
	// Unreported counts the turns for which the provider reported no usage. It is at least 1 if
	// In or Out contains an estimate.
	Unreported uint64 `json:"unreported"`
	Cost       uint64 `json:"cost"` // micro-dollars
	// Prices is the version of the host's table of models that Cost is based on; 0 if
	// the call was free, or if the agent states its price.
	Prices uint64 `json:"price_version"`
}

// bytesPerToken is the estimate for texts that no provider has counted.
const bytesPerToken = 4

// EstimatedTokens estimates the tokens of a text of so many bytes, rounded up.
func EstimatedTokens(bytes int) uint64 { return uint64((bytes + bytesPerToken - 1) / bytesPerToken) }

// meter collects the usage of one call, whether its answer was cut off, and its AgentLog.
type meter struct {
	now func() time.Time

	mu    sync.Mutex
	usage *Usage
	cut   Cut
	log   AgentLog // without tools
	tools []*toolRun
	kept  int // bytes of the texts of tools
}

type meterKey struct{}

// Note keeps what the behaviour whose context this is has used so far, in place of
// what was noted before. Elsewhere it does nothing.
func Note(ctx context.Context, u Usage) {
	if m, ok := ctx.Value(meterKey{}).(*meter); ok {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.usage = &u
	}
}

// NoteCut marks the answer that the behaviour whose context this is returns next. Elsewhere it
// does nothing.
func NoteCut(ctx context.Context, why Cut) {
	if m, ok := ctx.Value(meterKey{}).(*meter); ok {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.cut = why
	}
}

// noted sets in r what was noted until now.
func (m *meter) noted(r *request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r.out.Usage, r.cut, r.out.AgentLog, r.tools = m.usage, m.cut, m.agentLog(), m.toolTexts()
}

// usedBit, in the kind of a response row, says that the row has a Usage. A row without
// one has the bytes that it always had.
const usedBit RowKind = 0x80

// paidBit, in the kind of a call or an answer, says that the call has a price. Rows of
// other calls have the bytes that they always had.
const paidBit RowKind = 0x40

// shownBit, in the kind of a call with a price, says that its answer can be read while it
// comes.
const shownBit RowKind = 0x20

// subjectBit marks a request that a subject of the paying account sent. It is not part of a
// kind.
const subjectBit RowKind = 0x10

// cutBit, in the kind of an answer, says that the row has the reason of a Cut. Rows of whole
// answers have the bytes that they always had.
const cutBit RowKind = 0x20

// numbers are the fields in their order in a row. Later versions append to them.
func (u *Usage) numbers() []*uint64 {
	return []*uint64{&u.In, &u.Out, &u.Cached, &u.Turns, &u.Tools, &u.Agent, &u.Unreported, &u.Cost, &u.Prices}
}

// freeNumbers is the number of numbers in a row without Cost and Prices.
const freeNumbers = 7

// appendUsage appends the number of numbers, the numbers, and a byte of flags.
func appendUsage(b []byte, u *Usage) []byte {
	all := u.numbers()
	if u.Cost == 0 && u.Prices == 0 {
		all = all[:freeNumbers]
	}
	b = append(b, byte(len(all)))
	for _, n := range all {
		b = binary.AppendUvarint(b, min(*n, math.MaxInt64))
	}
	flags := byte(0)
	if u.Fallback {
		flags |= 1
	}
	return append(b, flags)
}

func (d *reader) usage() *Usage {
	u := &Usage{}
	all := u.numbers()
	switch int(d.byte()) {
	case freeNumbers:
		all = all[:freeNumbers]
	case len(all):
	default:
		d.bad = true
		return u
	}
	for _, n := range all {
		*n = d.uvarint(math.MaxInt64)
	}
	flags := d.byte()
	d.bad = d.bad || flags > 1
	u.Fallback = flags == 1
	return u
}
