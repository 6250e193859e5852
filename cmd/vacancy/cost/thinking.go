package cost

import "github.com/vacancy-host/vacancy/shared/front/onlambda/functions"

// ThinkingModel is a call that one turn of a paid model answers, besides the units of a
// call that an echo answers. A test counts its units.
type ThinkingModel struct {
	WriteUnits float64 `json:"write_units"`       // a reservation and its settlement in two totals, and the entry in the logbook
	ReadUnits  float64 `json:"read_units"`        // record, agent, budgets and totals, and what is cached at most ten seconds
	LineBytes  float64 `json:"line_bytes"`        // the log line of think
	TurnMS     float64 `json:"milliseconds_turn"` // how long the model takes, while both functions wait
}

// DefaultThinking has a model that takes three seconds.
func DefaultThinking() ThinkingModel {
	return ThinkingModel{WriteUnits: 9, ReadUnits: 12, LineBytes: 450, TurnMS: 3000}
}

// Calls returns the lines for n calls, without the lines of Model.Calls and without the
// bill of the model's provider. It returns nothing for a stage without the function
// think.
func (m ThinkingModel) Calls(s Shape, l List, n float64) []Line {
	f, ok := s.Function(functions.Think.Name)
	asking, found := s.Function(functions.Message.Name)
	if !ok || !found {
		return nil
	}
	return []Line{
		l.line("invocations", LambdaRequests, n, "", "1 request x %s %s", number(n), calls),
		l.line("compute", compute(f), n*m.TurnMS/1000*(gigabytes(f)+gigabytes(asking)), "message and think wait together",
			"(%d + %d MB) x %s ms x %s %s", f.MemoryMB, asking.MemoryMB, number(m.TurnMS), number(n), calls),
		l.line("written", WriteUnits, n*m.WriteUnits, "", "%s units x %s %s", number(m.WriteUnits), number(n), calls),
		l.line("read", ReadUnits, n*m.ReadUnits, "", "%s units x %s %s", number(m.ReadUnits), number(n), calls),
		l.line("log lines", LogBytes, n*(m.LineBytes+logOverhead)/gib, "", "(%s + %d bytes) x %s %s / 2^30", number(m.LineBytes), logOverhead, number(n), calls),
	}
}
