package cost

import "github.com/vacancy-host/vacancy/shared/front/onlambda/functions"

// Model contains the units (request units, bytes, milliseconds) that the estimate assumes for a call.
// Tests count them in a real call.
type Model struct {
	WriteUnits float64 `json:"write_units"` // the request row and the response row
	// ReadUnits covers the vacant's record, the list of revocations and the tips of both streams.
	ReadUnits float64 `json:"read_units"`
	LineBytes float64 `json:"line_bytes"` // log line of a call
	// BilledMS is the billed time of a warm call: three round trips and CPU time.
	BilledMS    float64 `json:"billed_ms"`
	AnswerBytes float64 `json:"answer_bytes"` // answer with headers
	AskBytes    float64 `json:"ask_bytes"`    // request with headers
	ColdShare   float64 `json:"cold_share"`   // share of calls that start an instance
	ColdMS      float64 `json:"cold_ms"`      // billed time of a start
	ColdKMS     float64 `json:"cold_kms"`     // KMS requests of a cold call
	// ColdReads is the number of additional read units of a cold call for the text key, which an
	// instance caches.
	ColdReads float64 `json:"cold_reads"`
	RowBytes  float64 `json:"row_bytes"` // size of a row in the table
}

// DefaultModel returns the model of a call with texts of 64 bytes to a host that has cached no data
// about the caller and the vacant.
func DefaultModel() Model {
	return Model{
		WriteUnits: 2, ReadUnits: 4, LineBytes: 500, BilledMS: 15, AnswerBytes: 1250, AskBytes: 1300,
		ColdShare: 0.001, ColdMS: 250, ColdKMS: 1, ColdReads: 1, RowBytes: 1024,
	}
}

// logOverhead is the number of bytes that CloudWatch Logs adds to each event.
const logOverhead = 26

// calls is the unit in most formulas.
const calls = "calls"

func (m Model) Calls(s Shape, l List, n float64, edge bool) []Line {
	// If edge is true, the calls go through CloudFront, and otherwise to the Function URL.
	f, ok := s.Function(functions.Message.Name)
	if !ok {
		f = Function{MemoryMB: functions.Message.Memory, Arm: true}
	}
	lines := []Line{
		l.line("invocations", LambdaRequests, n, "", "1 request x %s %s", number(n), calls),
		l.line("compute", compute(f), n*(m.BilledMS+m.ColdShare*m.ColdMS)/1000*gigabytes(f),
			"billed by the millisecond; starting an instance is billed too",
			"%d MB x (%s ms + %s cold x %s ms) x %s %s", f.MemoryMB, number(m.BilledMS), number(m.ColdShare), number(m.ColdMS), number(n), calls),
		l.line("rows written", WriteUnits, n*m.WriteUnits, "both rows at most 1 KB; a refused write costs as much",
			"%s units x %s %s", number(m.WriteUnits), number(n), calls),
		l.line("reads", ReadUnits, n*(m.ReadUnits+m.ColdShare*m.ColdReads),
			"record, revocations and two tips, none of them cached, and an instance's text key; strongly consistent, at most 4 KB each",
			"(%s units + %s cold x %s) x %s %s", number(m.ReadUnits), number(m.ColdShare), number(m.ColdReads), number(n), calls),
		l.line("stream of rows", StreamReads, n*m.WriteUnits, "read by Lambda, which is free; the filter wakes no function for new rows",
			"%s records x %s %s", number(m.WriteUnits), number(n), calls),
		l.line("log lines", LogBytes, n*(m.LineBytes+logOverhead)/gib, "one line a call, with its metrics in it",
			"(%s + %d bytes) x %s %s / 2^30", number(m.LineBytes), logOverhead, number(n), calls),
		l.line("opening seeds", KMSRequests, n*m.ColdShare*m.ColdKMS, "a warm instance keeps a vacant's key",
			"%s requests x %s cold x %s %s", number(m.ColdKMS), number(m.ColdShare), number(n), calls),
	}
	if !edge {
		return append(lines, l.line("answers to the Internet", TransferOut, n*m.AnswerBytes/gib, "",
			"%s bytes x %s %s / 2^30", number(m.AnswerBytes), number(n), calls))
	}
	lines = append(lines,
		l.line("CloudFront requests", EdgeRequests, n, "HTTPS, viewers in North America or Europe", "1 request x %s %s", number(n), calls),
		l.line("CloudFront to the caller", EdgeTransferOut, n*m.AnswerBytes/gib, "from Lambda to CloudFront is free",
			"%s bytes x %s %s / 2^30", number(m.AnswerBytes), number(n), calls),
		l.line("CloudFront to the function", EdgeTransferInner, n*m.AskBytes/gib, "",
			"%s bytes x %s %s / 2^30", number(m.AskBytes), number(n), calls))
	if s.ACLs > 0 {
		lines = append(lines, l.line("WAF", WAFRequests, n, "", "1 request x %s %s", number(n), calls))
	}
	return lines
}

func compute(f Function) Item {
	if f.Arm {
		return LambdaArm
	}
	return LambdaX86
}

func gigabytes(f Function) float64 { return float64(f.MemoryMB) / 1024 }

func (m Model) RowStorage(l List, n float64) []Line {
	// The rows of a call are never deleted, so their cost recurs each month.
	gb := n * 2 * m.RowBytes / gib
	return []Line{
		l.line("rows kept", TableStorage, gb, "rows are never deleted", "2 rows x %s bytes x %s %s / 2^30", number(m.RowBytes), number(n), calls),
		l.line("their backup", TableBackups, gb, "point-in-time recovery is billed by the size of the table", "as above"),
	}
}

// Metrics per stage and function. Each handler has calls, ms, failed and refused. Message also has
// trips, wcu and rcu. The stage also has tampered and canaries.
const (
	metricsPerFunction = 4
	metricsOfMessage   = 3
	metricsOfTamper    = 2
)

func Month(s Shape, l List) []Line {
	var lines []Line
	count := func(what string, item Item, n int, assumes string) {
		if n > 0 {
			lines = append(lines, l.line(what, item, float64(n), assumes, "%d x 1 month", n))
		}
	}
	count("KMS keys", KMSKeys, s.Keys, "one more for each year of key rotation, at most two")
	count("secrets", Secrets, s.Secrets, "")
	count("alarms", Alarms, s.Alarms, "standard resolution; an alarm over several metrics counts for each")
	count("dashboard", Dashboards, s.Dashboards, "")
	count("WAF web ACL", WAFACLs, s.ACLs, "")
	count("WAF rules", WAFRules, s.Rules, "")
	if s.Queues > 0 {
		lines = append(lines, l.line("queues without messages", QueueRequests, float64(s.Queues*pollsAMinute*60*24)*aMonth, "Lambda polls each queue all the time",
			"%d x %d a minute x %v days", s.Queues, pollsAMinute, aMonth))
	}
	if n := len(s.Functions); n > 0 {
		lines = append(lines, l.line("zips of a deploy", BlobStorage, float64(n)*zipBytes/gib, "in the CDK's bucket, which never deletes them: each deploy of changed code adds as much",
			"%d x %s bytes / 2^30", n, number(zipBytes)))
	}
	return lines
}

// ScheduledRuns returns the monthly cost of scheduled runs that find nothing to do. Functions for
// which the table in package functions has no cost of such a run are omitted. WorstDay omits these
// lines, because it includes the limits of those functions and of the tables.
func ScheduledRuns(s Shape, l List) (lines []Line) {
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
		if n := row.Idle.Listings; n > 0 {
			lines = append(lines, l.line(f.Name+": listings of the bucket", BlobWrites, float64(n)*aMonth, "more beyond a thousand files", "%d a day x %v days", n, aMonth))
		}
		if stream > 0 {
			lines = append(lines, l.line(f.Name+": requests to the stream", StreamRequests, runs*stream, "", of+" x %s", number(float64(f.Runs)), aMonth, number(stream)))
		}
	}
	return lines
}

func EveryHour(s Shape, l List) []Line {
	// This is the additional monthly cost if every handler is used in every hour.
	handlers := s.publicFunctions()
	if handlers == 0 {
		return nil
	}
	return []Line{l.line("metrics", Metrics, float64(handlers*metricsPerFunction+metricsOfMessage+metricsOfTamper),
		"billed by the hour in which a function logs a call",
		"%d for each of %d handlers, and %d", metricsPerFunction, handlers, metricsOfMessage+metricsOfTamper)}
}

// zipBytes is the average size of a function's zip file. tests/lambda limits each size.
const zipBytes = 8 << 20

// pollsAMinute is the number of times per minute that Lambda polls an empty queue: five pollers
// poll for 20 seconds each.
const pollsAMinute = 15

func (s Shape) publicFunctions() (n int) {
	// The functions that log calls include think and worker.
	for _, f := range s.Functions {
		if f.URL || f.Invoked || f.Queued {
			n++
		}
	}
	return n
}
