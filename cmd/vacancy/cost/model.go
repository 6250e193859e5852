package cost

import "github.com/vacancy-host/vacancy/shared/front/onlambda/functions"

// CallModel contains the assumptions about a call. Tests compare them with a real call.
type CallModel struct {
	WriteUnits float64 `json:"write_units"`
	// ReadUnits covers the vacant's record, revocations and two tips.
	ReadUnits float64 `json:"read_units"`
	LineBytes float64 `json:"line_bytes"`
	// BilledMS is the time of a warm call.
	BilledMS     float64 `json:"billed_ms"`
	AnswerBytes  float64 `json:"answer_bytes"`
	RequestBytes float64 `json:"ask_bytes"`
	ColdShare    float64 `json:"cold_share"` // share of calls that start an instance
	ColdMS       float64 `json:"cold_ms"`
	ColdKMS      float64 `json:"cold_kms"`
	// ColdReads covers the text key.
	ColdReads float64 `json:"cold_reads"`
	RowBytes  float64 `json:"row_bytes"`
}

// DefaultModel returns the model of a call with texts of 64 bytes to a host with empty caches.
func DefaultModel() CallModel {
	return CallModel{
		WriteUnits: 2, ReadUnits: 4, LineBytes: 500, BilledMS: 15, AnswerBytes: 1250, RequestBytes: 1300,
		ColdShare: 0.001, ColdMS: 250, ColdKMS: 1, ColdReads: 1, RowBytes: 1024,
	}
}

// logOverhead is the number of bytes that CloudWatch Logs adds to each event.
const logOverhead = 26

const callsUnit = "calls"

func (m CallModel) CallCosts(s Shape, l PriceList, n float64, edge bool) []CostLine {
	f, ok := s.Function(functions.Message.Name)
	if !ok {
		f = Function{MemoryMB: functions.Message.MemoryMB, Arm: true}
	}
	lines := []CostLine{
		l.newLine("invocations", LambdaRequests, n, "", "1 request x %s %s", formatNumber(n), callsUnit),
		l.newLine("compute", computeItem(f), n*(m.BilledMS+m.ColdShare*m.ColdMS)/1000*memoryGB(f),
			"billed by the millisecond; starting an instance is billed too",
			"%d MB x (%s ms + %s cold x %s ms) x %s %s", f.MemoryMB, formatNumber(m.BilledMS), formatNumber(m.ColdShare), formatNumber(m.ColdMS), formatNumber(n), callsUnit),
		l.newLine("rows written", WriteUnits, n*m.WriteUnits, "both rows at most 1 KB; a refused write costs as much",
			"%s units x %s %s", formatNumber(m.WriteUnits), formatNumber(n), callsUnit),
		l.newLine("reads", ReadUnits, n*(m.ReadUnits+m.ColdShare*m.ColdReads),
			"record, revocations and two tips, none of them cached, and an instance's text key; strongly consistent, at most 4 KB each",
			"(%s units + %s cold x %s) x %s %s", formatNumber(m.ReadUnits), formatNumber(m.ColdShare), formatNumber(m.ColdReads), formatNumber(n), callsUnit),
		l.newLine("stream of rows", StreamReads, n*m.WriteUnits, "read by Lambda, which is free; the filter wakes no function for new rows",
			"%s records x %s %s", formatNumber(m.WriteUnits), formatNumber(n), callsUnit),
		l.newLine("log lines", LogBytes, n*(m.LineBytes+logOverhead)/gib, "one line a call, with its metrics in it",
			"(%s + %d bytes) x %s %s / 2^30", formatNumber(m.LineBytes), logOverhead, formatNumber(n), callsUnit),
		l.newLine("opening seeds", KMSRequests, n*m.ColdShare*m.ColdKMS, "a warm instance caches a vacant's key",
			"%s requests x %s cold x %s %s", formatNumber(m.ColdKMS), formatNumber(m.ColdShare), formatNumber(n), callsUnit),
	}
	if !edge {
		return append(lines, l.newLine("answers to the Internet", TransferOut, n*m.AnswerBytes/gib, "",
			"%s bytes x %s %s / 2^30", formatNumber(m.AnswerBytes), formatNumber(n), callsUnit))
	}
	lines = append(lines,
		l.newLine("CloudFront requests", EdgeRequests, n, "HTTPS, viewers in North America or Europe", "1 request x %s %s", formatNumber(n), callsUnit),
		l.newLine("CloudFront to the caller", EdgeTransferOut, n*m.AnswerBytes/gib, "from Lambda to CloudFront is free",
			"%s bytes x %s %s / 2^30", formatNumber(m.AnswerBytes), formatNumber(n), callsUnit),
		l.newLine("CloudFront to the function", EdgeTransferInner, n*m.RequestBytes/gib, "",
			"%s bytes x %s %s / 2^30", formatNumber(m.RequestBytes), formatNumber(n), callsUnit))
	if s.ACLs > 0 {
		lines = append(lines, l.newLine("WAF", WAFRequests, n, "", "1 request x %s %s", formatNumber(n), callsUnit))
	}
	return lines
}

func computeItem(f Function) Item {
	if f.Arm {
		return LambdaArm
	}
	return LambdaX86
}

func memoryGB(f Function) float64 { return float64(f.MemoryMB) / 1024 }

func (m CallModel) RowStorageCosts(l PriceList, n float64) []CostLine {
	// Rows are never deleted, so their cost recurs each month.
	gb := n * 2 * m.RowBytes / gib
	return []CostLine{
		l.newLine("rows kept", TableStorage, gb, "rows are never deleted", "2 rows x %s bytes x %s %s / 2^30", formatNumber(m.RowBytes), formatNumber(n), callsUnit),
		l.newLine("their backup", TableBackups, gb, "point-in-time recovery is billed by the size of the table", "as above"),
	}
}

// Each handler has calls, ms, failed and refused; message also has trips, wcu and rcu. A stage has
// tampered and canaries.
const (
	metricsPerFunction = 4
	messageMetrics     = 3
	tamperMetrics      = 2
)

func MonthlyCosts(s Shape, l PriceList) []CostLine {
	var lines []CostLine
	addLine := func(label string, item Item, n int, assumption string) {
		if n > 0 {
			lines = append(lines, l.newLine(label, item, float64(n), assumption, "%d x 1 month", n))
		}
	}
	addLine("KMS keys", KMSKeys, s.Keys, "one more for each year of key rotation, at most two")
	addLine("secrets", Secrets, s.Secrets, "")
	addLine("alarms", Alarms, s.Alarms, "standard resolution; an alarm over several metrics counts for each")
	addLine("dashboard", Dashboards, s.Dashboards, "")
	addLine("WAF web ACL", WAFACLs, s.ACLs, "")
	addLine("WAF rules", WAFRules, s.Rules, "")
	if s.Queues > 0 {
		lines = append(lines, l.newLine("queues without messages", QueueRequests, float64(s.Queues*pollsPerMinute*60*24)*daysPerMonth, "Lambda polls each queue all the time",
			"%d x %d a minute x %v days", s.Queues, pollsPerMinute, daysPerMonth))
	}
	if n := len(s.Functions); n > 0 {
		lines = append(lines, l.newLine("zips of a deploy", BlobStorage, float64(n)*zipBytes/gib, "in the CDK's bucket, which never deletes them: each deploy of changed code adds as much",
			"%d x %s bytes / 2^30", n, formatNumber(zipBytes)))
	}
	return lines
}

// ScheduledRunCosts returns the monthly cost of scheduled runs that find no work.
func ScheduledRunCosts(s Shape, l PriceList) (lines []CostLine) {
	for _, row := range functions.All() {
		f, ok := s.Function(row.Name)
		if !ok || f.RunsPerDay == 0 || row.Idle == (functions.Idle{}) {
			continue
		}
		runs := float64(f.RunsPerDay) * daysPerMonth
		const runsFormula = "%s a day x %v days"
		units, ms, stream := float64(row.Idle.ReadUnits), float64(row.Idle.Milliseconds), float64(row.Idle.StreamRequests)
		lines = append(lines,
			l.newLine(f.Name+": runs", LambdaRequests, runs, "", runsFormula, formatNumber(float64(f.RunsPerDay)), daysPerMonth),
			l.newLine(f.Name+": compute", computeItem(f), runs*ms/1000*memoryGB(f), "nothing is due", runsFormula+" x %s ms x %d MB", formatNumber(float64(f.RunsPerDay)), daysPerMonth, formatNumber(ms), f.MemoryMB),
			l.newLine(f.Name+": reads", ReadUnits, runs*units, "", runsFormula+" x %s units", formatNumber(float64(f.RunsPerDay)), daysPerMonth, formatNumber(units)))
		lines = append(lines, keyRequestCost(s, l, f.Name, min(float64(f.RunsPerDay), keyPeriodsPerDay)*daysPerMonth))
		if n := row.Idle.Listings; n > 0 {
			lines = append(lines, l.newLine(f.Name+": listings of the bucket", BlobWrites, float64(n)*daysPerMonth, "more beyond a thousand files", "%d a day x %v days", n, daysPerMonth))
		}
		if stream > 0 {
			lines = append(lines, l.newLine(f.Name+": requests to the stream", StreamRequests, runs*stream, "", runsFormula+" x %s", formatNumber(float64(f.RunsPerDay)), daysPerMonth, formatNumber(stream)))
		}
	}
	return lines
}

func MonthlyMetricCosts(s Shape, l PriceList) []CostLine {
	handlers := s.countHandlers()
	if handlers == 0 {
		return nil
	}
	return []CostLine{l.newLine("metrics", Metrics, float64(handlers*metricsPerFunction+messageMetrics+tamperMetrics),
		"billed by the hour in which a function logs a call",
		"%d for each of %d handlers, and %d", metricsPerFunction, handlers, messageMetrics+tamperMetrics)}
}

// zipBytes is an average; tests/lambda limits each size.
const zipBytes = 8 << 20

// pollsPerMinute is the rate of Lambda's five pollers, which poll for 20 seconds each.
const pollsPerMinute = 15

func (s Shape) countHandlers() (n int) {
	for _, f := range s.Functions {
		if f.URL || f.Invoked || f.Queued {
			n++
		}
	}
	return n
}
