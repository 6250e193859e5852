package cost

import (
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
)

// PricedModel is a call with a flat price, which a linked account pays. A test counts its
// units.
type PricedModel struct {
	WriteUnits float64 `json:"write_units"` // both rows, the debit, and its reminder, which the sweeper deletes
	ReadUnits  float64 `json:"read_units"`  // for a call, and for link, account and price
	BilledMS   float64 `json:"billed_ms"`
	// RowsWrites and DocsWrites are WriteUnits by their tables.
	RowsWrites, DocsWrites float64
}

// DefaultPriced has an account whose balance suffices in one shard.
func DefaultPriced() PricedModel {
	return PricedModel{WriteUnits: 8, ReadUnits: 7, BilledMS: 20, RowsWrites: 3, DocsWrites: 5}
}

// usageUnits are the write units of a row's part in usage.
const usageUnits = 0.1

// Calls returns the lines for n calls by Function URL, before transfer out.
func (m PricedModel) Calls(s Shape, l List, n float64) []Line {
	f, ok := s.Function(functions.Message.Name)
	if !ok {
		return nil
	}
	call := DefaultModel()
	return []Line{
		l.line("invocations", LambdaRequests, n, "", "1 request x %s %s", number(n), calls),
		l.line("compute", compute(f), n*m.BilledMS/1000*gigabytes(f), "", "%d MB x %s ms x %s %s", f.MemoryMB, number(m.BilledMS), number(n), calls),
		l.line("written", WriteUnits, n*m.WriteUnits, "both rows at most 1 KB; three more by tokens, for a call that fails, and for each cap of a day two",
			"%s units x %s %s", number(m.WriteUnits), number(n), calls),
		l.line("usage", WriteUnits, n*2*usageUnits, "a thousand rows of ten accounts in one commit", "2 rows x %s units x %s %s", number(usageUnits), number(n), calls),
		l.line("reads", ReadUnits, n*m.ReadUnits, "none remembered", "%s units x %s %s", number(m.ReadUnits), number(n), calls),
		l.line("log lines", LogBytes, n*(call.LineBytes+logOverhead)/gib, "", "(%s + %d bytes) x %s %s / 2^30", number(call.LineBytes), logOverhead, number(n), calls),
	}
}

// BookingModel is a booking by AGP that a vacant of the host answers at once. A test counts
// its units.
type BookingModel struct {
	WriteUnits float64 `json:"write_units"` // confirm, and its dispatch: three states, and a call
	ReadUnits  float64 `json:"read_units"`
	BilledMS   float64 `json:"billed_ms"` // of gateway, which waits, and of worker
}

// DefaultBooking has no idempotency key, and no slot.
func DefaultBooking() BookingModel {
	return BookingModel{WriteUnits: 57, ReadUnits: 40, BilledMS: 400}
}

// Bookings returns the lines for n bookings. It returns nothing for a stage without gateway.
func (m BookingModel) Bookings(s Shape, l List, n float64) []Line {
	f, ok := s.Function(functions.Gateway.Name)
	if !ok {
		return nil
	}
	const of = "%s bookings"
	return []Line{
		l.line("invocations", LambdaRequests, 2*n, "gateway and worker", "2 x "+of, number(n)),
		l.line("compute", compute(f), 2*n*m.BilledMS/1000*gigabytes(f), "", "2 x %d MB x %s ms x "+of, f.MemoryMB, number(m.BilledMS), number(n)),
		l.line("written", WriteUnits, n*m.WriteUnits, "", "%s units x "+of, number(m.WriteUnits), number(n)),
		l.line("read", ReadUnits, n*m.ReadUnits, "", "%s units x "+of, number(m.ReadUnits), number(n)),
		l.line("requests to the queue", QueueRequests, n*requestsOfMessage, "", "%d x "+of, requestsOfMessage, number(n)),
		l.line("log lines", LogBytes, 2*n*(DefaultModel().LineBytes+logOverhead)/gib, "", "2 x (%s + %d bytes) x "+of+" / 2^30", number(DefaultModel().LineBytes), logOverhead, number(n)),
	}
}

// Scheduled returns a month's lines for the functions that a schedule starts often enough to count. WorstDay leaves
// these lines out, because it counts the limits of those functions and of the tables.
func Scheduled(s Shape, l List) (lines []Line) {
	for _, row := range functions.All() {
		f, ok := s.Function(row.Name)
		if !ok || f.Runs == 0 || row.Idle == (functions.Idle{}) {
			continue
		}
		runs := float64(f.Runs) * aMonth
		const of = "%s a day x %v days"
		units, ms, stream := float64(row.Idle.ReadUnits), float64(row.Idle.Milliseconds), float64(row.Idle.StreamRequests)
		lines = append(lines,
			l.line(f.Name+": runs", LambdaRequests, runs, "", of, number(float64(f.Runs)), aMonth),
			l.line(f.Name+": compute", compute(f), runs*ms/1000*gigabytes(f), "nothing is due", of+" x %s ms x %d MB", number(float64(f.Runs)), aMonth, number(ms), f.MemoryMB),
			l.line(f.Name+": reads", ReadUnits, runs*units, "", of+" x %s units", number(float64(f.Runs)), aMonth, number(units)))
		lines = append(lines, keyRequests(s, l, f.Name, min(float64(f.Runs), keyPeriods)*aMonth))
		if stream > 0 {
			lines = append(lines, l.line(f.Name+": requests to the stream", StreamRequests, runs*stream, "", of+" x %s", number(float64(f.Runs)), aMonth, number(stream)))
		}
	}
	return lines
}

// pricedCalls are the calls a second with a price that the ceilings admit, 0 if one is
// missing.
func (s Shape) pricedCalls() float64 {
	m, least := DefaultPriced(), s.calls()
	for _, t := range s.Tables {
		if t.Index || t.Write == nil {
			continue
		}
		units := m.DocsWrites
		if strings.EqualFold(t.Name, "rows") {
			units = m.RowsWrites
		}
		least = min(least, float64(*t.Write)/units)
	}
	return least
}
