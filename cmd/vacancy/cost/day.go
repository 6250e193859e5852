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
	// aDay is the length of a day in seconds, and aMonth the average length of a month in days.
	aDay   = 86_400
	aMonth = 30.4

	// perConcurrency is Lambda's limit of requests per second for each unit of reserved
	// concurrency. Lambda refuses further requests free of charge.
	perConcurrency = 10
	// largestPage is the size in bytes of the largest card that a host accepts. Larger answers are
	// read from the table of rows, so the throughput limit of that table bounds their cost.
	largestPage    = 32 << 10
	largestRefusal = 1 << 10 // bytes
	// quietLines limits the log lines per second of an instance for requests that wrote no data.
	// Failed requests and other requests are limited separately, so together they have twice the
	// limit.
	quietLines = 2 * obs.QuietPerSecond
	// unitsOfCall is the minimum number of write units that a call uses in the table of rows.
	unitsOfCall = 2
	// Bytes per strongly consistent read unit and per write unit.
	readUnitBytes  = 4 << 10
	writeUnitBytes = 1 << 10
)

// Bounds contains the assumptions of WorstDay in addition to the limits in the templates.
type Bounds struct {
	LineBytes float64 `json:"line_bytes"` // longest log line
	Vacants   float64 `json:"vacants"`    // hosted vacants that are called
	Openings  float64 `json:"openings"`   // decryptions of each key or secret per instance and day
	// Parents is the number of vacants, for each instance of the function message, whose children
	// all attempt to graduate (to become public).
	Parents  float64 `json:"parents"`
	Attempts float64 `json:"attempts"` // attempts per day of all children of one parent
}

// DefaultBounds returns bounds that assume a hundred vacants, whose keys an instance caches for ten
// minutes, and three parents per instance of message. The gate (the checks before a graduation)
// allows 96 attempts per day to all children of one parent, and 32 to a child whose parent is on
// another host, so three such children count as one parent.
func DefaultBounds() Bounds {
	return Bounds{LineBytes: 700, Vacants: 100, Openings: 144, Parents: 3, Attempts: 96}
}

// parents returns the number of parents of a stage: b.Parents for each instance of message, of
// which there is at least one.
func (b Bounds) parents(s Shape) float64 {
	n := 1.0
	if f, ok := s.Function(functions.Message.Name); ok && f.Reserved != nil {
		n = max(n, float64(*f.Reserved))
	}
	return b.Parents * n
}

// Day is the cost of the worst day of a stage.
type Day struct {
	Lines []Line  `json:"lines"`
	USD   float64 `json:"usd"`
	// Unbounded describes, in sentences, the costs that the stage's limits do not bound.
	Unbounded []string `json:"not_bounded"`
}

// WorstDay returns the highest cost of a day that the limits in the templates allow.
func WorstDay(s Shape, l List, b Bounds) Day {
	var d Day
	for _, f := range s.Functions {
		d.function(f, s, l, b)
	}
	for _, t := range s.Tables {
		d.table(t, l)
	}
	d.gate(s, l, b)
	d.data(s, l, b)
	d.blobs(s, l)
	if s.Keys > 0 {
		d.Lines = append(d.Lines, keyRequests(s, l, "tables and logs", float64(len(s.Functions))*keyPeriods))
	}
	for _, line := range append(Month(s, l), EveryHour(s, l)...) {
		line.What, line.Formula = line.What+", a day's share", line.Formula+fmt.Sprintf(" / %v days", aMonth)
		line.Units, line.USD = line.Units/aMonth, line.USD/aMonth
		d.Lines = append(d.Lines, line)
	}
	d.USD = Sum(d.Lines)
	d.addUnbounded(s, l)
	return d
}

func (d *Day) function(f Function, s Shape, l List, b Bounds) {
	if f.Step {
		d.step(f, s, l, b)
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
		return // only a changed or removed row starts it, and no function changes or removes rows
	}
	if f.Runs > 0 && !f.URL { // requests may start a function with a URL all day
		busy := min(f.Runs*f.Seconds, *f.Reserved*aDay)
		d.Lines = append(d.Lines, l.line(f.Name+": compute", compute(f), float64(busy)*gigabytes(f), "each run takes its whole timeout",
			"%d runs x %d s x %d MB", f.Runs, f.Seconds, f.MemoryMB))
		return
	}
	n := float64(*f.Reserved)
	requests := perConcurrency * n * aDay
	rate := "%d x %d a second x 86,400 s"
	d.Lines = append(d.Lines, l.line(f.Name+": compute", compute(f), n*gigabytes(f)*aDay, "every instance busy all day",
		"%d x %d MB x 86,400 s", *f.Reserved, f.MemoryMB))
	switch {
	case f.Queued:
		tasks, notices := messages(s)
		waits := n * linesOfRoom / queue.FullRetryInterval.Seconds()
		starts := tasks + waits + notices
		requests := requestsOfMessage*tasks + requestsOfWait*waits + requestsOfMessage*notices
		d.Lines = append(d.Lines, l.line(f.Name+": requests to its queues", QueueRequests, requests*aDay,
			"each message is sent, received and deleted alone, and each instance retries messages whose turns cannot start yet all the time", "%s requests a second x 86,400 s", number(round(requests))),
			l.line(f.Name+": fair requests to its queue of notices", FairRequests, requestsOfMessage*notices*aDay,
				"each notice names its sender", "%d x %s messages a second x 86,400 s", requestsOfMessage, number(round(notices))),
			l.line(f.Name+": requests", LambdaRequests, starts*aDay, "each message starts the function, and so does each retry", "%s a second x 86,400 s", number(round(starts))))
	case f.URL || f.Invoked:
		d.Lines = append(d.Lines, l.line(f.Name+": requests", LambdaRequests, requests, "requests beyond this limit are refused and cost nothing", rate, *f.Reserved, perConcurrency))
	default:
		return // a stream starts it, in batches
	}
	d.Lines = append(d.Lines,
		l.line(f.Name+": log lines", LogBytes, n*quietLines*aDay*(b.LineBytes+logOverhead)/gib, "further lines of requests that write nothing are summarized",
			"(%s + %d bytes) x %d x %s a second x 86,400 s", number(b.LineBytes), logOverhead, *f.Reserved, number(quietLines)))
	if f.Puts > 0 {
		const assumes, formula = "every instance reaches its limit all day", "%d instances x %s a second x 86,400 s"
		d.Lines = append(d.Lines,
			l.line(f.Name+": writes of files", BlobWrites, n*f.Puts*aDay, assumes, formula, *f.Reserved, number(f.Puts)),
			l.line(f.Name+": reads of files", BlobReads, n*f.Gets*aDay, assumes, formula, *f.Reserved, number(f.Gets)))
	}
	switch opening := f.Name + ": opening seeds"; {
	case f.Seeds && f.Name == functions.Gateway.Name:
		d.Lines = append(d.Lines, l.line(opening, KMSRequests, n*keysOfGateway*b.Openings, "each instance keeps the keys of payments, and the one that signs receipts",
			"%d instances x %d keys x %s a day", *f.Reserved, keysOfGateway, number(b.Openings)))
	case f.Seeds:
		d.Lines = append(d.Lines, l.line(opening, KMSRequests, n*b.Vacants*b.Openings, "each instance keeps an opened seed or secret",
			"%d instances x %s vacants x %s a day", *f.Reserved, number(b.Vacants), number(b.Openings)))
	}
	if f.Invoked || f.Queued {
		return
	}
	if s.Edge {
		// Transfer to CloudFront is free. CloudFront's own price is listed separately.
		return
	}
	page, assumes := float64(largestRefusal), "every request without the operator's key is refused"
	if f.Name == functions.Message.Name || f.Name == functions.Agent.Name {
		page, assumes = largestPage, "every answer is the largest card that a host takes"
	}
	d.Lines = append(d.Lines, l.line(f.Name+": pages", TransferOut, requests*page/gib, assumes,
		"%s bytes x "+rate, number(page), *f.Reserved, perConcurrency))
}

// keysOfGateway counts the two payment keys and the key that signs receipts and bookings.
const keysOfGateway = 3

// requestsOfMessage is the number of SQS requests for a message: to send, receive and delete it.
const requestsOfMessage = 3

// linesOfRoom is the number of waiting lines in an instance: one for accounts, and one for other
// callers. A message waits in its line while the limit of running turns prevents its turn from
// starting.
const linesOfRoom = 2

// requestsOfWait is the number of SQS requests for each retry of a waiting message: to receive it, and
// to hide it again.
const requestsOfWait = 2

// pushedOfUnit is the maximum number of bytes of push notifications for each write unit of the table
// docs. A task sends notifications of at most push.MaxTaskBytes. It writes its texts and, for each
// attempt to send, three documents in one transaction. limits_test.go checks the ratio.
const pushedOfUnit = 4200

// DocsOfTurn is the number of write units of the table docs for a background turn that fails because
// it could not start in time. Other turns write more. A test counts the units.
const DocsOfTurn = 12

// messages returns the maximum numbers of queue messages per second: tasks, one for each background
// turn, and notices, which are about push configurations. A turn with a push configuration sends a
// notice when it begins and when it ends. The write limit of docs bounds these messages. While a turn
// runs, a further notice checks each of its push configurations, at most once per
// push.FirstCheckInterval.
func messages(s Shape) (tasks, notices float64) {
	const noticesOfTurn, docsOfPushedTurn = 2, 6
	for _, t := range s.Tables {
		if t.Write != nil && !t.Index && !strings.EqualFold(t.Name, "rows") {
			tasks += float64(*t.Write) / DocsOfTurn
			notices += noticesOfTurn * float64(*t.Write) / docsOfPushedTurn
		}
	}
	for _, name := range []string{functions.Agent.Name, functions.Worker.Name} {
		if f, ok := s.Function(name); ok && f.Reserved != nil {
			notices += float64(*f.Reserved) * task.MaxPushConfigs / push.FirstCheckInterval.Seconds()
		}
	}
	return tasks, notices
}

// step adds the cost of a function that the gate's state machine starts, at most once for each attempt
// to graduate. The gate limits the attempts.
func (d *Day) step(f Function, s Shape, l List, b Bounds) {
	parents := b.parents(s)
	attempts := parents * b.Attempts
	format := "%s parents x %s attempts"
	d.Lines = append(d.Lines,
		l.line(f.Name+": requests", LambdaRequests, attempts, "", format, number(parents), number(b.Attempts)),
		l.line(f.Name+": compute", compute(f), attempts*float64(f.Seconds)*gigabytes(f), "each attempt takes its whole timeout",
			format+" x %d s x %d MB", number(parents), number(b.Attempts), f.Seconds, f.MemoryMB),
		l.line(f.Name+": log lines", LogBytes, attempts*(b.LineBytes+logOverhead)/gib, "", format+" x (%s + %d bytes)",
			number(parents), number(b.Attempts), number(b.LineBytes), logOverhead))
}

func (d *Day) gate(s Shape, l List, b Bounds) {
	if s.Transitions == 0 {
		return
	}
	parents := b.parents(s)
	d.Lines = append(d.Lines, l.line("transitions of the gate", Transitions, parents*b.Attempts*float64(s.Transitions),
		"every attempt comes to its end, and none is tried again", "%s parents x %s attempts x %d", number(parents), number(b.Attempts), s.Transitions))
	d.Unbounded = append(d.Unbounded, fmt.Sprintf(
		"attempts to graduate of children of more than %s parents: each parent beyond them adds up to %s a day", number(parents), number(b.Attempts)))
}

func (d *Day) table(t Table, l List) {
	addLine := func(kind string, item Item, ceiling *int) {
		if ceiling == nil {
			d.Unbounded = append(d.Unbounded, fmt.Sprintf("%s has no ceiling for %ss", t.Name, kind))
			return
		}
		d.Lines = append(d.Lines, l.line(t.Name+": "+kind+"s", item, float64(*ceiling)*aDay, "", "%d units a second x 86,400 s", *ceiling))
	}
	addLine("write", WriteUnits, t.Write)
	addLine("read", ReadUnits, t.Read)
}

// data adds the costs of a day's reads and writes other than request units: notifications, log
// lines of requests that write, storage and its backup, and data transfer.
func (d *Day) data(s Shape, l List, b Bounds) {
	var written, read float64 // bytes per second
	lines, docs := 0.0, 0.0
	for _, t := range s.Tables {
		if t.Index || t.Read == nil || t.Write == nil {
			continue // already reported as unbounded
		}
		if strings.EqualFold(t.Name, "rows") {
			lines += float64(*t.Write) / unitsOfCall
		} else {
			docs = float64(*t.Write)
			lines += docs
		}
		written += float64(*t.Write) * writeUnitBytes
		read += float64(*t.Read) * readUnitBytes
	}
	d.Lines = append(d.Lines, l.line("notifications to the Internet", TransferOut, docs*pushedOfUnit*aDay/gib,
		"every task sends as many notifications as it may", "%s units a second x %d bytes x 86,400 s / 2^30", number(docs), pushedOfUnit))
	gb := written * aDay / gib
	d.Lines = append(d.Lines,
		l.line("log lines of requests that write", LogBytes, lines*aDay*(b.LineBytes+logOverhead)/gib, "a call writes two units of rows, another request one of docs",
			"(%s + %d bytes) x %s a second x 86,400 s", number(b.LineBytes), logOverhead, number(lines)),
		l.line("storage of that day's writes", TableStorage, gb/aMonth, "", "%s GB / %v days", number(round(gb)), aMonth),
		l.line("its backup", TableBackups, gb/aMonth, "", "%s GB / %v days", number(round(gb)), aMonth))
	if !s.Edge {
		d.Lines = append(d.Lines, l.line("texts to the Internet", TransferOut, (read+written)*aDay/gib,
			"answers consist of data that was read or written, 4 KB and 1 KB a unit", "(%s + %s bytes a second) x 86,400 s / 2^30", number(read), number(written)))
	}
}

// keyPeriods is the number of five-minute periods per day. A service that uses a key sends KMS one
// request in each period.
const keyPeriods = aDay / 300

// keyRequests prices the KMS requests of DynamoDB and CloudWatch Logs for the key that encrypts the
// tables and the functions' logs. periods is the sum of keyPeriods over all functions.
func keyRequests(s Shape, l List, what string, periods float64) Line {
	tables := 0
	for _, t := range s.Tables {
		if !t.Index {
			tables++
		}
	}
	return l.line(what+": requests for their key", KMSRequests, periods*float64(tables+1), "a service asks every five minutes for each function that runs",
		"%s x (%d tables + 1 log)", number(periods), tables)
}

// Requests to the bucket per run of indexer. A run writes an archive and a manifest, and lists old
// archives, which is priced like a write. It reads the current manifest.
const (
	blobWritesOfIndex = 3
	blobReadsOfIndex  = 1
)

func (d *Day) blobs(s Shape, l List) {
	if f, ok := s.Function(functions.Search.Name); ok && f.Reserved != nil {
		d.Lines = append(d.Lines, l.line("search: requests to the bucket", BlobReads, float64(*f.Reserved)*aDay/snapshot.CheckEvery.Seconds(),
			"each instance asks whether there is a newer index", "%d instances x 86,400 s / %s s", *f.Reserved, number(snapshot.CheckEvery.Seconds())))
	}
	if _, ok := s.Function(functions.Indexer.Name); ok {
		const indexes = aDay / 300
		assumes := "a new index every 300 seconds, the default of context value indexSeconds"
		d.Lines = append(d.Lines,
			l.line("indexer: writes to the bucket", BlobWrites, indexes*blobWritesOfIndex, assumes, "%d x %d", indexes, blobWritesOfIndex),
			l.line("indexer: reads of the bucket", BlobReads, indexes*blobReadsOfIndex, assumes, "%d x %d", indexes, blobReadsOfIndex))
	}
}

func round(f float64) float64 { return float64(int(f*100+0.5)) / 100 }

func (d *Day) addUnbounded(s Shape, l List) {
	if s.Edge {
		d.Unbounded = append(d.Unbounded, fmt.Sprintf(
			"CloudFront: %s and %s, answers from its cache included; it has no ceiling, and the functions behind it are bounded as above",
			l.Prices[EdgeRequests].words(), l.Prices[EdgeTransferOut].words()))
		if s.ACLs > 0 {
			d.Unbounded = append(d.Unbounded, fmt.Sprintf(
				"WAF: %s, blocked ones too; a blocked request costs nothing at CloudFront", l.Prices[WAFRequests].words()))
		}
	}
	if s.ModelUSD > 0 {
		d.Unbounded = append(d.Unbounded, fmt.Sprintf(
			"models: vacants without a tenant, and all vacants at Bedrock, cost at most $%s more (context value modelBudget); other models of tenants cost what their budgets allow (vacancy budget)", number(s.ModelUSD)))
	}
	d.Unbounded = append(d.Unbounded,
		"DynamoDB treats its ceilings as targets: bursts may exceed them for minutes",
		"every month after: rows are never deleted, so storage and backup grow with every accepted call",
		fmt.Sprintf("files in workspaces: their bytes are stored at %s, at most 1 GB for each account", l.Prices[BlobStorage].words()),
		fmt.Sprintf("usage of the day before: two files in the bucket for each account that was used, at %s", l.Prices[BlobWrites].words()),
		"the cost of the vacants' programs and functions, and of the operator's reads and exports")
}
