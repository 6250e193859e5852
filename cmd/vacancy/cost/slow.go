package cost

import "github.com/vacancy-host/vacancy/shared/front/onlambda/functions"

// SlowModel is a signed call of a slow vacant, whose turn worker runs: it is accepted, sent again
// until its answer is there, and then answered. A test counts its units.
type SlowModel struct {
	WriteUnits  float64 `json:"write_units"`       // both rows, the task's head with its entry in the index, its events, and the counts of its shares
	ReadUnits   float64 `json:"read_units"`        // of accept and turn
	Resends     float64 `json:"resends"`           // while the turn runs
	ResendReads float64 `json:"resend_reads"`      // of each
	TurnMS      float64 `json:"milliseconds_turn"` // how long the vacant takes, while worker waits
	// Heartbeats are reads and writes of the task's head while the turn runs.
	HeartbeatReads, HeartbeatWrites float64
}

// DefaultSlow has a vacant that takes a minute: worker looks at the task each second and renews
// its lease each 20 seconds, and the caller of the vacancy command sends the call again 15 times.
func DefaultSlow() SlowModel {
	return SlowModel{WriteUnits: 37, ReadUnits: 17, Resends: 15, ResendReads: 6, TurnMS: 60_000, HeartbeatReads: 60, HeartbeatWrites: 9}
}

// Calls returns the lines for n calls. It returns nothing for a stage without the functions message
// and worker.
func (m SlowModel) Calls(s Shape, l List, n float64) []Line {
	message, ok := s.Function(functions.Message.Name)
	worker, found := s.Function(functions.Worker.Name)
	if !ok || !found {
		return nil
	}
	call := DefaultModel()
	requests := 1 + m.Resends
	writes, reads := m.WriteUnits+m.HeartbeatWrites, m.ReadUnits+m.HeartbeatReads+m.Resends*m.ResendReads
	return []Line{
		l.line("invocations", LambdaRequests, n*(requests+2), "message, and worker twice", "(%s + 2) x %s %s", number(requests), number(n), calls),
		l.line("compute of message", compute(message), n*requests*call.BilledMS/1000*gigabytes(message), "", "%s x %d MB x %s ms x %s %s", number(requests), message.MemoryMB, number(call.BilledMS), number(n), calls),
		l.line("compute of worker", compute(worker), n*m.TurnMS/1000*gigabytes(worker), "worker waits for the vacant", "%d MB x %s ms x %s %s", worker.MemoryMB, number(m.TurnMS), number(n), calls),
		l.line("written", WriteUnits, n*writes, "", "%s units x %s %s", number(writes), number(n), calls),
		l.line("read", ReadUnits, n*reads, "", "%s units x %s %s", number(reads), number(n), calls),
		l.line("log lines", LogBytes, n*(requests+2)*(call.LineBytes+logOverhead)/gib, "", "%s x (%s + %d bytes) x %s %s / 2^30", number(requests+2), number(call.LineBytes), logOverhead, number(n), calls),
		l.line("requests to the queue", QueueRequests, n*requestsOfMessage, "", "%d x %s %s", requestsOfMessage, number(n), calls),
	}
}
