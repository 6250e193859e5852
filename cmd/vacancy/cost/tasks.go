package cost

import "github.com/vacancy-host/vacancy/shared/front/onlambda/functions"

// TaskModel adds the units of an A2A task from a caller without a key to Model, which has
// the units of its calls. A test counts them.
type TaskModel struct {
	WriteUnits float64 `json:"write_units"` // both rows, the task's head with its entry in the index, and one event; more in the background
	ReadUnits  float64 `json:"read_units"`  // of an instance that knows the vacant
	LineBytes  float64 `json:"line_bytes"`
	BilledMS   float64 `json:"billed_ms"`
	// A task in the background has a message, and starts the worker.
	QueuedWrites, QueuedReads float64
}

// DefaultTask is a task with texts of TextBytes, without a model.
func DefaultTask() TaskModel {
	return TaskModel{WriteUnits: 9, ReadUnits: 3, LineBytes: 480, BilledMS: 20, QueuedWrites: 35, QueuedReads: 12}
}

// Tasks returns the cost lines of n tasks whose callers wait, and of n tasks in the background.
// It returns nothing for a stage without the function agent.
func (m TaskModel) Tasks(s Shape, l List, n float64) (waited, queued []Line) {
	f, ok := s.Function(functions.Agent.Name)
	if !ok {
		return nil, nil
	}
	lines := func(starts, writes, reads float64) []Line {
		return []Line{
			l.line("invocations", LambdaRequests, starts*n, "", "%s x %s tasks", number(starts), number(n)),
			l.line("compute", compute(f), starts*n*m.BilledMS/1000*gigabytes(f), "without a model", "%s x %d MB x %s ms x %s tasks", number(starts), f.MemoryMB, number(m.BilledMS), number(n)),
			l.line("written", WriteUnits, n*writes, "", "%s units x %s tasks", number(writes), number(n)),
			l.line("read", ReadUnits, n*reads, "", "%s units x %s tasks", number(reads), number(n)),
			l.line("log lines", LogBytes, starts*n*(m.LineBytes+logOverhead)/gib, "", "%s x (%s + %d bytes) x %s tasks / 2^30", number(starts), number(m.LineBytes), logOverhead, number(n)),
		}
	}
	waited, queued = lines(1, m.WriteUnits, m.ReadUnits), lines(2, m.QueuedWrites, m.QueuedReads)
	return waited, append(queued, l.line("requests to the queue", QueueRequests, n*requestsOfMessage, "", "%d x %s tasks", requestsOfMessage, number(n)))
}
