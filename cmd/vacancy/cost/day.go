package cost

import (
	"fmt"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/host/a2a/push"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/queue"
	"github.com/vacancy-host/vacancy/shared/host/registry/search/snapshot"
	"github.com/vacancy-host/vacancy/shared/obs"
)

const (
	secondsPerDay = 86_400
	daysPerMonth  = 30.4

	// requestsPerConcurrency is Lambda's limit of requests per second for each unit of reserved concurrency. Lambda
	// refuses further requests free of charge.
	requestsPerConcurrency = 10
	// maxPageBytes is the size of the largest card. The read limit of the rows table bounds the cost of larger
	// answers.
	maxPageBytes    = 32 << 10
	maxRefusalBytes = 1 << 10
	// maxQuietLinesPerSecond limits an instance's log lines for requests that wrote no data. Failed requests and other
	// requests are limited separately.
	maxQuietLinesPerSecond = 2 * obs.LimitedLinesPerSecond
	minUnitsPerCall        = 2
	readUnitBytes          = 4 << 10
	writeUnitBytes         = 1 << 10
)

type Bounds struct {
	LineBytes   float64 `json:"line_bytes"`
	Vacants     float64 `json:"vacants"`
	Decryptions float64 `json:"openings"` // per key or secret, instance and day
	// Parents is the number of vacants per instance of message whose children all attempt to graduate.
	Parents  float64 `json:"parents"`
	Attempts float64 `json:"attempts"` // per parent and day
}

// DefaultBounds returns the default assumptions. An instance caches a key for ten minutes, and so decrypts it at most
// 144 times per day. The gate allows 96 attempts per day to the children of one parent.
func DefaultBounds() Bounds {
	return Bounds{LineBytes: 700, Vacants: 100, Decryptions: 144, Parents: 3, Attempts: 96}
}

func (b Bounds) parentCount(s Shape) float64 {
	instances := 1.0
	if f, ok := s.Function(functions.Message.Name); ok && f.Reserved != nil {
		instances = max(instances, float64(*f.Reserved))
	}
	return b.Parents * instances
}

type Day struct {
	Lines     []CostLine `json:"lines"`
	USD       float64    `json:"usd"`
	Unbounded []string   `json:"not_bounded"`
}

// WorstDay returns the highest cost of a day that the stage's limits allow.
func WorstDay(s Shape, l PriceList, b Bounds) Day {
	var d Day
	for _, f := range s.Functions {
		d.addFunction(f, s, l, b)
	}
	for _, t := range s.Tables {
		d.addTable(t, l)
	}
	d.addGateTransitions(s, l, b)
	d.addDataCosts(s, l, b)
	d.addBlobs(s, l)
	if s.Keys > 0 {
		d.Lines = append(d.Lines, keyRequestCost(s, l, "tables and logs", float64(len(s.Functions))*keyPeriodsPerDay))
	}
	for _, line := range append(MonthlyCosts(s, l), MonthlyMetricCosts(s, l)...) {
		line.Label, line.Formula = line.Label+", a day's share", line.Formula+fmt.Sprintf(" / %v days", daysPerMonth)
		line.Units, line.USD = line.Units/daysPerMonth, line.USD/daysPerMonth
		d.Lines = append(d.Lines, line)
	}
	d.USD = Sum(d.Lines)
	d.addUnbounded(s, l)
	return d
}

func (d *Day) addFunction(f Function, s Shape, l PriceList, b Bounds) {
	if f.IsGateStep {
		d.addGateStep(f, s, l, b)
		return
	}
	if f.MemoryMB == 0 {
		d.Unbounded = append(d.Unbounded, fmt.Sprintf("function %s is from another release: its cost is unknown", f.Name))
		return
	}
	if f.Reserved == nil {
		d.Unbounded = append(d.Unbounded, fmt.Sprintf(
			"function %s has no reserved concurrency: only the account's limit of concurrent executions bounds it", f.Name))
		return
	}
	if f.OnRowChange {
		return // only changed rows start it, and no function changes rows
	}
	if f.RunsPerDay > 0 && !f.URL { // requests may start a function with a URL all day
		busySeconds := min(f.RunsPerDay*f.TimeoutSeconds, *f.Reserved*secondsPerDay)
		d.Lines = append(d.Lines, l.newLine(f.Name+": compute", computeItem(f), float64(busySeconds)*memoryGB(f), "each run takes its whole timeout",
			"%d runs x %d s x %d MB", f.RunsPerDay, f.TimeoutSeconds, f.MemoryMB))
		return
	}
	instances := float64(*f.Reserved)
	requests := requestsPerConcurrency * instances * secondsPerDay
	rateFormula := "%d x %d a second x 86,400 s"
	d.Lines = append(d.Lines, l.newLine(f.Name+": compute", computeItem(f), instances*memoryGB(f)*secondsPerDay, "every instance busy all day",
		"%d x %d MB x 86,400 s", *f.Reserved, f.MemoryMB))
	switch {
	case f.Queued:
		tasks, notices := messageRates(s)
		retryRate := instances * waitingLines / queue.FullRetryInterval.Seconds()
		starts := tasks + retryRate + notices
		requests := requestsPerMessage*tasks + requestsPerRetry*retryRate + requestsPerMessage*notices
		d.Lines = append(d.Lines, l.newLine(f.Name+": requests to its queues", QueueRequests, requests*secondsPerDay,
			"each message is sent, received and deleted individually; each instance constantly retries messages whose turns cannot start yet", "%s requests a second x 86,400 s", formatNumber(roundToHundredths(requests))),
			l.newLine(f.Name+": fair requests to its queue of notices", FairRequests, requestsPerMessage*notices*secondsPerDay,
				"each notice names its sender", "%d x %s messages a second x 86,400 s", requestsPerMessage, formatNumber(roundToHundredths(notices))),
			l.newLine(f.Name+": requests", LambdaRequests, starts*secondsPerDay, "each message starts the function, and so does each retry", "%s a second x 86,400 s", formatNumber(roundToHundredths(starts))))
	case f.URL || f.Invoked:
		d.Lines = append(d.Lines, l.newLine(f.Name+": requests", LambdaRequests, requests, "requests beyond this limit are refused and cost nothing", rateFormula, *f.Reserved, requestsPerConcurrency))
	default:
		return // a stream starts it, in batches
	}
	d.Lines = append(d.Lines,
		l.newLine(f.Name+": log lines", LogBytes, instances*maxQuietLinesPerSecond*secondsPerDay*(b.LineBytes+logOverhead)/gib, "further lines of requests that write nothing are summarized",
			"(%s + %d bytes) x %d x %s a second x 86,400 s", formatNumber(b.LineBytes), logOverhead, *f.Reserved, formatNumber(maxQuietLinesPerSecond)))
	if f.ObjectWrites > 0 {
		const assumption, formula = "every instance reaches its limit all day", "%d instances x %s a second x 86,400 s"
		d.Lines = append(d.Lines,
			l.newLine(f.Name+": writes of files", BlobWrites, instances*f.ObjectWrites*secondsPerDay, assumption, formula, *f.Reserved, formatNumber(f.ObjectWrites)),
			l.newLine(f.Name+": reads of files", BlobReads, instances*f.ObjectReads*secondsPerDay, assumption, formula, *f.Reserved, formatNumber(f.ObjectReads)))
	}
	switch label := f.Name + ": opening seeds"; {
	case f.OpensSeeds && f.Name == functions.Gateway.Name:
		d.Lines = append(d.Lines, l.newLine(label, KMSRequests, instances*gatewayKeys*b.Decryptions, "each instance caches the payment keys and the key that signs receipts",
			"%d instances x %d keys x %s a day", *f.Reserved, gatewayKeys, formatNumber(b.Decryptions)))
	case f.OpensSeeds:
		d.Lines = append(d.Lines, l.newLine(label, KMSRequests, instances*b.Vacants*b.Decryptions, "each instance caches a decrypted seed or secret",
			"%d instances x %s vacants x %s a day", *f.Reserved, formatNumber(b.Vacants), formatNumber(b.Decryptions)))
	}
	if f.Invoked || f.Queued {
		return
	}
	if s.Edge {
		return // transfer to CloudFront is free, and CloudFront's own price is listed separately
	}
	pageBytes, assumption := float64(maxRefusalBytes), "every request without the operator's key is refused"
	if f.Name == functions.Message.Name || f.Name == functions.Agent.Name {
		pageBytes, assumption = maxPageBytes, "every answer is the largest card that a host takes"
	}
	d.Lines = append(d.Lines, l.newLine(f.Name+": pages", TransferOut, requests*pageBytes/gib, assumption,
		"%s bytes x "+rateFormula, formatNumber(pageBytes), *f.Reserved, requestsPerConcurrency))
}

// gatewayKeys counts two keys for payments, and the key for receipts and bookings.
const gatewayKeys = 3

// requestsPerMessage counts sending, receiving and deleting a message.
const requestsPerMessage = 3

// waitingLines counts a line for accounts and a line for other callers. Messages wait in a line while too many turns
// run.
const waitingLines = 2

// requestsPerRetry counts receiving a message and hiding it again.
const requestsPerRetry = 2

// pushBytesPerUnit is the maximum number of bytes of push notifications per write unit of docs. limits_test.go checks
// it.
const pushBytesPerUnit = 4200

// DocsUnitsPerTurn is the number of write units of docs for a background turn that could not start in time. Other turns
// write more.
const DocsUnitsPerTurn = 12

// messageRates returns the maximum numbers of queue messages per second. A task is a background turn, and a notice
// concerns push notifications.
func messageRates(s Shape) (tasks, notices float64) {
	const noticesPerTurn, pushedTurnDocs = 2, 6
	for _, t := range s.Tables {
		if t.WriteLimit != nil && !t.IsIndex && !strings.EqualFold(t.Name, "rows") {
			tasks += float64(*t.WriteLimit) / DocsUnitsPerTurn
			notices += noticesPerTurn * float64(*t.WriteLimit) / pushedTurnDocs
		}
	}
	for _, name := range []string{functions.Agent.Name, functions.Worker.Name} {
		if f, ok := s.Function(name); ok && f.Reserved != nil {
			notices += float64(*f.Reserved) * task.MaxPushConfigs / push.FirstCheckInterval.Seconds()
		}
	}
	return tasks, notices
}

func (d *Day) addGateStep(f Function, s Shape, l PriceList, b Bounds) {
	parents := b.parentCount(s)
	attempts := parents * b.Attempts
	format := "%s parents x %s attempts"
	d.Lines = append(d.Lines,
		l.newLine(f.Name+": requests", LambdaRequests, attempts, "", format, formatNumber(parents), formatNumber(b.Attempts)),
		l.newLine(f.Name+": compute", computeItem(f), attempts*float64(f.TimeoutSeconds)*memoryGB(f), "each attempt takes its whole timeout",
			format+" x %d s x %d MB", formatNumber(parents), formatNumber(b.Attempts), f.TimeoutSeconds, f.MemoryMB),
		l.newLine(f.Name+": log lines", LogBytes, attempts*(b.LineBytes+logOverhead)/gib, "", format+" x (%s + %d bytes)",
			formatNumber(parents), formatNumber(b.Attempts), formatNumber(b.LineBytes), logOverhead))
}

func (d *Day) addGateTransitions(s Shape, l PriceList, b Bounds) {
	if s.Transitions == 0 {
		return
	}
	parents := b.parentCount(s)
	d.Lines = append(d.Lines, l.newLine("transitions of the gate", Transitions, parents*b.Attempts*float64(s.Transitions),
		"every attempt ends, and no attempt is repeated", "%s parents x %s attempts x %d", formatNumber(parents), formatNumber(b.Attempts), s.Transitions))
	d.Unbounded = append(d.Unbounded, fmt.Sprintf(
		"attempts to graduate by children of more than %s parents: each further parent adds up to %s a day", formatNumber(parents), formatNumber(b.Attempts)))
}

func (d *Day) addTable(t Table, l PriceList) {
	addLine := func(kind string, item Item, limit *int) {
		if limit == nil {
			d.Unbounded = append(d.Unbounded, fmt.Sprintf("%s has no ceiling for %ss", t.Name, kind))
			return
		}
		d.Lines = append(d.Lines, l.newLine(t.Name+": "+kind+"s", item, float64(*limit)*secondsPerDay, "", "%d units a second x 86,400 s", *limit))
	}
	addLine("write", WriteUnits, t.WriteLimit)
	addLine("read", ReadUnits, t.ReadLimit)
}

func (d *Day) addDataCosts(s Shape, l PriceList, b Bounds) {
	var writtenBytes, readBytes float64 // per second
	lineRate, docsUnits := 0.0, 0.0
	for _, t := range s.Tables {
		if t.IsIndex || t.ReadLimit == nil || t.WriteLimit == nil {
			continue // already reported as unbounded
		}
		if strings.EqualFold(t.Name, "rows") {
			lineRate += float64(*t.WriteLimit) / minUnitsPerCall
		} else {
			docsUnits = float64(*t.WriteLimit)
			lineRate += docsUnits
		}
		writtenBytes += float64(*t.WriteLimit) * writeUnitBytes
		readBytes += float64(*t.ReadLimit) * readUnitBytes
	}
	d.Lines = append(d.Lines, l.newLine("notifications to the Internet", TransferOut, docsUnits*pushBytesPerUnit*secondsPerDay/gib,
		"every task sends as many notifications as it may", "%s units a second x %d bytes x 86,400 s / 2^30", formatNumber(docsUnits), pushBytesPerUnit))
	writtenGB := writtenBytes * secondsPerDay / gib
	d.Lines = append(d.Lines,
		l.newLine("log lines of requests that write", LogBytes, lineRate*secondsPerDay*(b.LineBytes+logOverhead)/gib, "a call writes two units of rows, another request one of docs",
			"(%s + %d bytes) x %s a second x 86,400 s", formatNumber(b.LineBytes), logOverhead, formatNumber(lineRate)),
		l.newLine("storage of that day's writes", TableStorage, writtenGB/daysPerMonth, "", "%s GB / %v days", formatNumber(roundToHundredths(writtenGB)), daysPerMonth),
		l.newLine("its backup", TableBackups, writtenGB/daysPerMonth, "", "%s GB / %v days", formatNumber(roundToHundredths(writtenGB)), daysPerMonth))
	if !s.Edge {
		d.Lines = append(d.Lines, l.newLine("texts to the Internet", TransferOut, (readBytes+writtenBytes)*secondsPerDay/gib,
			"answers consist of data that was read or written, 4 KB and 1 KB a unit", "(%s + %s bytes a second) x 86,400 s / 2^30", formatNumber(readBytes), formatNumber(writtenBytes)))
	}
}

// keyPeriodsPerDay counts five-minute periods. A service that uses a key sends KMS one request in each period.
const keyPeriodsPerDay = secondsPerDay / 300

// keyRequestCost prices the KMS requests of DynamoDB and CloudWatch Logs. periods is the sum of keyPeriodsPerDay over
// all functions.
func keyRequestCost(s Shape, l PriceList, label string, periods float64) CostLine {
	tables := 0
	for _, t := range s.Tables {
		if !t.IsIndex {
			tables++
		}
	}
	return l.newLine(label+": requests for their key", KMSRequests, periods*float64(tables+1), "a service asks every five minutes for each function that runs",
		"%s x (%d tables + 1 log)", formatNumber(periods), tables)
}

// A run of indexer writes an archive and a manifest, lists archives (priced like a write) and reads the manifest.
const (
	blobWritesPerIndex = 3
	blobReadsPerIndex  = 1
)

func (d *Day) addBlobs(s Shape, l PriceList) {
	if f, ok := s.Function(functions.Search.Name); ok && f.Reserved != nil {
		d.Lines = append(d.Lines, l.newLine("search: requests to the bucket", BlobReads, float64(*f.Reserved)*secondsPerDay/snapshot.CheckInterval.Seconds(),
			"each instance asks whether there is a newer index", "%d instances x 86,400 s / %s s", *f.Reserved, formatNumber(snapshot.CheckInterval.Seconds())))
	}
	if _, ok := s.Function(functions.Indexer.Name); ok {
		const indexesPerDay = secondsPerDay / 300
		assumption := "a new index every 300 seconds, the default of context value indexSeconds"
		d.Lines = append(d.Lines,
			l.newLine("indexer: writes to the bucket", BlobWrites, indexesPerDay*blobWritesPerIndex, assumption, "%d x %d", indexesPerDay, blobWritesPerIndex),
			l.newLine("indexer: reads of the bucket", BlobReads, indexesPerDay*blobReadsPerIndex, assumption, "%d x %d", indexesPerDay, blobReadsPerIndex))
	}
}

func roundToHundredths(f float64) float64 { return float64(int(f*100+0.5)) / 100 }

func (d *Day) addUnbounded(s Shape, l PriceList) {
	if s.Edge {
		d.Unbounded = append(d.Unbounded, fmt.Sprintf(
			"CloudFront: %s and %s, including answers from its cache; its cost has no limit, but the functions behind it are limited as above",
			l.Prices[EdgeRequests].format(), l.Prices[EdgeTransferOut].format()))
		if s.ACLs > 0 {
			d.Unbounded = append(d.Unbounded, fmt.Sprintf(
				"WAF: %s, including blocked requests; a blocked request costs nothing at CloudFront", l.Prices[WAFRequests].format()))
		}
	}
	if s.ModelUSD > 0 {
		d.Unbounded = append(d.Unbounded, fmt.Sprintf(
			"models: at most $%s more for vacants without a tenant and all vacants at Bedrock (context value modelBudget); the budgets of tenants limit the cost of their other models (vacancy budget)", formatNumber(s.ModelUSD)))
	}
	d.Unbounded = append(d.Unbounded,
		"DynamoDB treats its ceilings as targets: bursts may exceed them for minutes",
		"every later month: rows are never deleted, so storage and backup grow with every accepted call",
		fmt.Sprintf("files in workspaces: their bytes are stored at %s, at most 1 GB for each account", l.Prices[BlobStorage].format()),
		fmt.Sprintf("usage of the day before: two files in the bucket for each account that was used, at %s", l.Prices[BlobWrites].format()),
		"the cost of the vacants' programs and functions, and of the operator's reads and exports")
}
