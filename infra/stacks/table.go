package stacks

import (
	"github.com/vacancy-host/vacancy/shared/host/substrate/resources"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cost"
	"github.com/vacancy-host/vacancy/infra/asl"
	"github.com/vacancy-host/vacancy/infra/settings"
)

// function is a directory of functions/ and how it runs.
type function struct {
	name, description string
	memory            int // MB
	timeout           int // seconds
	disk              int // MB of the temporary directory; 0: the free 512
	url               bool
	streams           bool     // the URL's answers are streams
	scheduled         bool     // a rule starts it at intervals
	environment       []string // beside VACANCY_STAGE
	grants            grants
}

// grants are what a function's role may do beside writing its log.
type grants struct {
	rows            []string // operations on the table of rows
	docs            []access // on documents
	listed          bool     // Query of the sparse index of docs, for registrations
	childrenIndexes bool     // Query of the index of parents' children
	openIndex       bool     // Query of the index of open vacants
	taskIndexes     bool     // Query of the index of owners' tasks
	bookingIndexes  bool     // Query of the index of venues' bookings
	tenantIndexes   bool     // Query of the index of tenants' vacants
	snapshots       []string // operations on the bucket's objects of the search index
	exports         bool     // writing usage of days to the bucket
	seals           bool     // Encrypt under the sealing key
	opens           []string // and Decrypt of boxes of these contexts
	sealsOnly       []string // and Encrypt of these contexts only; nil: of any
	host            []string // operations on the host's key
	stream          string   // the table whose stream feeds it: rows, docs, or none
	gate            []string // operations on the gate and its executions
	sends           []string // queues that it sends to
	receives        []string // queues whose messages start it
	thinks          bool     // Invoke of the function think
	finds           bool     // Invoke of the function search
	folds           bool     // reading the stream of rows itself
	bedrock         []string // ids of models and inference profiles at Bedrock
	functions       []string // ARNs of Lambda functions that are agents
}

// access is operations on documents of some partitions; of all if none are
// given.
type access struct {
	sid        string
	operations []string
	partitions []string // patterns
}

// longTimeout is for turns of a2a/task.MaxWork: 14 minutes, and time to end.
const longTimeout = 15 * 60

// thinkTimeout is that of a turn, and time for think to answer.
const thinkTimeout = 14*60 + 20

// The queues: turns that run in the background, and notices of events to push.
const (
	tasksQueue  = "tasks"
	pushesQueue = "pushes"
)

// The timeout for callers is below the 30 seconds of CloudFront, so that they
// get our answer.
const urlTimeout = 28

// Text keys: a pattern of their context, and their partition of docs.
const (
	textKeys         = "textkey:*"
	textKeyPartition = "textkey"
)

// Patterns of the other contexts: seeds of vacants, a software identity of the host, the keys
// that it certifies, the secret of guests' keys, secrets of agents, and keys of payments.
const (
	vacantSeeds  = "vacant:*"
	hostIdentity = "host:*"
	signingKeys  = "signkey:*"
	guestSecret  = "guest:*"
	secrets      = "secret:*"
	paymentKeys  = "paykey:*"
)

// Partitions of agents: secrets, totals of a day, budgets and the table of models.
const (
	secretPartitions = "secret#*"
	totals           = "spend#*"
	budgets          = "budget"
	modelTable       = "models"
)

// Partitions of the registry: registrations and manifests, what opened children,
// edges to children, revocations, and the transparency log.
const (
	registrations = "reg#*"
	opened        = "opened#*"
	kin           = "kin#*"
	revoked       = "revoked"
	log           = "tlog"
	// cosigned holds the log's cosignatures, which come from strangers.
	cosigned = "cosigned"
	// unreached are endpoints elsewhere that wait for a probe.
	unreached = "unreached"
	// slugs are claims of slugs; venues is the count of listed vacants.
	slugs  = "slug#*"
	venues = "venues"
	// inIndex is the index partition of registrations.
	inIndex = "registry"
	// readChildrenIndex are the index partitions of parents' children.
	readChildrenIndex = "children#*"
	// readOpenIndex is the index partition of open vacants.
	readOpenIndex = "open"
	// The host's own data, and its vacants.
	aboutHost = "host"
	records   = "v#*"
	// The gate's: attempts by child, attempt windows and successes of parents,
	// and call statistics.
	attempts  = "grad#*"
	tries     = "gradtry#*"
	successes = "gradwin#*"
	observed  = "obs#*"
	// Of A2A: tasks, counts of turns and of what is pushed, the secret of guests, and the index
	// of owners' tasks.
	tasks         = "task#*"
	turns         = "turns#*"
	pushed        = "pushed#*"
	guest         = "guest"
	readTaskIndex = "tasks#*"
)

// Partitions of money: accounts, keys, links, day counters, balances, reminders of priced
// calls, and usage, which only the meter writes.
const (
	accounts     = "acct#*"
	keySecrets   = "key#*"
	keyUse       = "keyuse#*"
	links        = "link#*"
	balances     = "bal#*"
	quotas       = "quota#*"
	dueCalls     = "due#*"
	prices       = "price#*"
	usages       = "use#*"
	spentDays    = "use#spent#*"
	folded       = "meter"
	exported     = "export"
	tenants      = "tenant"
	sweeps       = "sweep"
	activeAgents = "active#*"
	payments     = "pay#*"
	// paymentKeyPartition has the sealed keys of payments.
	paymentKeyPartition = "paykey#*"
	// signingKeyPartition has the sealed keys that sign receipts and bookings.
	signingKeyPartition = "signkey"
)

// Partitions of bookings and AGP: bookings, reminders, events, idempotency keys, taken slots,
// circuit breakers of venues, and counters.
const (
	bookings      = "bkg#*"
	dueBookings   = "bookdue#*"
	bookingEvents = "bookevent#*"
	bookingKeys   = "bookidem#*"
	slots         = "slot-taken#*"
	breakers      = "breaker#*"
	counters      = "metric#*"
	// readBookingIndex are the index partitions of venues' bookings.
	readBookingIndex = "bookings#*"
	// readTenantIndex are the index partitions of tenants' vacants.
	readTenantIndex = "vacants#*"
)

// charging is the access of a function that charges calls: debits and refunds update
// balances and day counters in the commit of the call.
func charging() access {
	return access{"Charges", []string{"UpdateItem"}, []string{balances, quotas}}
}

// table lists the functions: agent first and worker after gateway, because others are told
// their URLs.
//
// Memory determines the share of a core: 256 MB are a seventh. A call needs
// about two milliseconds of it between its waits for DynamoDB, and the programs
// need less than 64 MB, so more would be paid for waiting. search and indexer
// take 512, because their index is on disk: 244 MB for 100,000 cards, beside the
// one that replaces it, and for the indexer also the archive and the merge.
// graduate and functions that nobody waits for have Lambda's minimum.
//
// Limits and their shares of the worst day are in package cost.
//
// agent, message and worker create text keys and write call statistics; agent and worker
// also write tasks, and agent makes the secret of guests. All three move money in the
// commits of calls, and worker dispatches bookings. They write no other documents:
// whoever takes one over can change neither the operator's key nor a vacant's record. agent
// and message also create a software identity, if strangers come before the operator. registry writes the registry's documents and accepts cosignatures,
// but writes nothing of the log; search writes nothing.
func table(s settings.Settings) []function {
	agents := agents(s)
	return slices.Concat(agents[:1], urlFunctions(s), agents[1:], []function{think(s)}, jobs(s), steps())
}

// appends are all operations that rows allow.
func appends() []string { return []string{"PutItem", "Query", "GetItem"} }

// reads is what an instance of registry, search or graduate may read, and gateway for
// those without a known key, as units-per-second:burst. Together they take half of the documents' ceiling,
// and those that read rows (all but search) at most half of the rows': the
// rest is for calls. The burst is four seconds of the share. Without
// reservations more instances take more.
func reads(s settings.Settings) string {
	const saved = 4       // seconds of the instance's share
	const revoking = 1.25 // of registry: revocations have a quarter more
	l := s.Limits
	ofRows := revoking*float64(l["registry"]) + float64(l["graduate"]) + float64(l["gateway"])
	share := min(float64(l[cost.DocsReads])/(ofRows+float64(l["search"])), float64(l[cost.RowsReads])/ofRows) / 2
	return rate(share, saved)
}

// pageReads is what an instance of message may read for pages, such as cards: a
// quarter of the documents' ceiling for all instances together.
func pageReads(s settings.Settings) string {
	const saved = 4
	return rate(float64(s.Limits[cost.DocsReads])/4/float64(s.Limits["message"]), saved)
}

// largeBodies is how many KB of large bodies an instance takes from one address,
// so that all instances together write for it at most half of the table's
// ceiling: of rows in message, of documents in registry.
func largeBodies(s settings.Settings, function string) string {
	const saved = 60 // for one body of the largest size with the least limits
	ceiling := s.Limits[cost.RowsWrites]
	if function == "registry" {
		ceiling = s.Limits[cost.DocsWrites]
	}
	return rate(float64(ceiling)/2/float64(max(1, s.Limits[function])), saved)
}

// rate is a rate for the environment, with a burst of some seconds. Functions
// accept a thousandth at least.
func rate(perSecond, saved float64) string {
	perSecond = max(math.Floor(perSecond*1000), 1) / 1000
	return strconv.FormatFloat(perSecond, 'f', -1, 64) + ":" + strconv.Itoa(max(1, int(saved*perSecond)))
}

// urlFunctions are the functions with a URL.
func urlFunctions(s settings.Settings) []function {
	tables := []string{"VACANCY_ROWS", "VACANCY_DOCS"}
	edge := []string{"VACANCY_EDGE_SECRET", "VACANCY_EDGE_SECRET_BEFORE", "VACANCY_RATE", "VACANCY_PAIR_RATE"}
	with := func(names ...string) []string { return append(append(names, tables...), edge...) }
	any := func(operations ...string) []access { return []access{{sid: "Docs", operations: operations}} }
	return []function{{
		name: "message", description: "signed calls, resets, asks, cards and health",
		memory: 256, timeout: urlTimeout, url: true,
		environment: with("VACANCY_SEAL_KEY", "VACANCY_HOST_KEY", "VACANCY_PAGE_READS", "VACANCY_BYTES", "VACANCY_THINK", "VACANCY_MODEL_BUDGET", "VACANCY_MOCK"),
		grants: grants{rows: appends(), docs: append(written(s, []string{"GetItem"}, textKeyPartition, observed, dueCalls), charging()), openIndex: true, seals: true, opens: []string{vacantSeeds, textKeys},
			sealsOnly: sealed(s, textKeys), host: []string{"GetPublicKey"}, thinks: true},
	}, {
		name: "admin", description: "the admin API, for the operator's key",
		memory: 256, timeout: urlTimeout, url: true,
		environment: with("VACANCY_SEAL_KEY", "VACANCY_HOST_KEY", "VACANCY_URL", "VACANCY_GATE", "VACANCY_THINK", "VACANCY_MODEL_BUDGET", "VACANCY_MOCK", "VACANCY_TENANT_FUNCTIONS", "VACANCY_FEE", "VACANCY_KEY_PREFIX", "VACANCY_AGP_KEY_PREFIX"),
		grants: grants{rows: appends(), docs: any("GetItem", "PutItem", "UpdateItem", "Query", "DeleteItem"), bookingIndexes: true, tenantIndexes: true, seals: true, opens: []string{vacantSeeds, textKeys, hostIdentity, signingKeys},
			host: []string{"GetPublicKey", "Sign"}, gate: []string{"GetExecutionHistory"}, thinks: true},
	}, {
		name: "export", description: "the paged export that verify reads, for the operator's key",
		memory: 256, timeout: urlTimeout, url: true,
		environment: with("VACANCY_SEAL_KEY"),
		grants: grants{rows: []string{"Scan", "Query", "GetItem"}, docs: any("GetItem", "Query"), listed: true,
			opens: []string{textKeys}},
	}, {
		name: "registry", description: "publishing, revoking, cards, events and the transparency log",
		memory: 256, timeout: urlTimeout, url: true,
		environment: with("VACANCY_URL", "VACANCY_READS", "VACANCY_BYTES"),
		grants: grants{rows: appends(), docs: []access{
			{"Registry", []string{"PutItem"}, []string{registrations, kin, revoked, cosigned, unreached, slugs, venues}},
			{"Venues", []string{"UpdateItem"}, []string{venues}},
			{"Docs", []string{"GetItem", "Query"}, []string{registrations, opened, kin, revoked, log, cosigned, aboutHost, records, slugs, venues}},
		}},
	}, {
		name: "search", description: "searches vacants by capability",
		memory: 512, timeout: urlTimeout, disk: 2048, url: true,
		environment: append([]string{"VACANCY_DOCS", "VACANCY_BLOBS", "VACANCY_READS"}, edge...),
		grants: grants{docs: []access{{"Registrations", []string{"GetItem"}, []string{registrations}}},
			listed: true, snapshots: []string{"GetObject"}},
	}, {
		name: "graduate", description: "accepts graduation requests and returns their outcome",
		memory: 128, timeout: urlTimeout, url: true,
		environment: with("VACANCY_URL", "VACANCY_GATE", "VACANCY_READS"),
		grants: grants{rows: appends(), gate: []string{"StartExecution", "GetExecutionHistory"}, docs: []access{
			{"Attempts", []string{"PutItem"}, []string{attempts, tries}},
			{"Docs", []string{"GetItem"}, []string{attempts, tries, registrations, revoked, aboutHost, records}},
		}},
	}, gateway(s, edge)}
}

// gateway serves accounts and AGP. It writes keys, links, bookings and balances, and no usage.
// It alone opens the keys of payments, and no text key. It signs receipts by a key that the
// host certified, and cannot sign as the host.
func gateway(s settings.Settings, edge []string) function {
	g := grants{rows: appends(), host: []string{"GetPublicKey"}, sends: []string{tasksQueue}, finds: true, bookingIndexes: true, docs: []access{
		{"Accounts", []string{"PutItem"}, []string{accounts, keySecrets, links, payments}},
		{"Unlink", []string{"DeleteItem"}, []string{accounts}},
		{"Bookings", []string{"PutItem"}, []string{bookings, dueBookings, bookingEvents, bookingKeys, keyUse}},
		{"BookingsEnd", []string{"DeleteItem"}, []string{bookings, dueBookings}},
		{"Counts", []string{"UpdateItem"}, []string{balances, quotas, slots, counters, activeAgents}},
		{"Lists", []string{"Query"}, []string{accounts, activeAgents, bookingEvents, usages}},
		{"Docs", []string{"GetItem"}, []string{accounts, keySecrets, keyUse, links, balances, prices, bookings, dueBookings, bookingKeys, breakers,
			registrations, revoked, slugs, venues, records, aboutHost, payments, paymentKeyPartition, signingKeyPartition}},
	}, opens: []string{paymentKeys, signingKeys}}
	environment := append([]string{"VACANCY_ROWS", "VACANCY_DOCS", "VACANCY_SEAL_KEY", "VACANCY_HOST_KEY", "VACANCY_URL", "VACANCY_READS", "VACANCY_TASKS", "VACANCY_SEARCH", "VACANCY_BOOKING_PRICE", "VACANCY_KEY_PREFIX", "VACANCY_AGP_KEY_PREFIX"}, edge...)
	return function{
		name: "gateway", description: "accounts, payments, keys, usage, receipts and AGP",
		memory: 256, timeout: urlTimeout, url: true, environment: environment, grants: g,
	}
}

// written are the rights of a function that writes documents of some partitions and
// reads all. It may create a software identity.
func written(s settings.Settings, reads []string, partitions ...string) []access {
	if s.HostKey != "kms" {
		partitions = append(partitions, aboutHost)
	}
	return []access{{"Calls", []string{"PutItem"}, partitions}, {sid: "Docs", operations: reads}}
}

// sealed are the contexts under which such a function seals.
func sealed(s settings.Settings, contexts ...string) []string {
	if s.HostKey != "kms" {
		contexts = append(contexts, hostIdentity)
	}
	return contexts
}

// agents are the functions of A2A. A stream lasts as long as its turn.
func agents(s settings.Settings) []function {
	both := []string{"VACANCY_ROWS", "VACANCY_DOCS", "VACANCY_SEAL_KEY", "VACANCY_TASKS", "VACANCY_PUSHES", "VACANCY_THINK", "VACANCY_MODEL_BUDGET", "VACANCY_MOCK"}
	agent := written(s, []string{"GetItem"}, textKeyPartition, observed, tasks, guest, dueCalls)
	agent = append(agent, charging(), access{"Tasks", []string{"Query"}, []string{tasks}}, access{"Turns", []string{"UpdateItem"}, []string{turns}})
	return []function{{
		name: "agent", description: "A2A: messages, tasks, streams and agent cards, and signed calls beside",
		memory: 256, timeout: longTimeout, url: true, streams: true,
		environment: append([]string{"VACANCY_HOST_KEY", "VACANCY_URL", "VACANCY_PAGE_READS", "VACANCY_BYTES",
			"VACANCY_EDGE_SECRET", "VACANCY_EDGE_SECRET_BEFORE", "VACANCY_RATE", "VACANCY_PAIR_RATE"}, both...),
		grants: grants{rows: appends(), docs: agent, openIndex: true, taskIndexes: true, seals: true, opens: []string{vacantSeeds, textKeys, guestSecret},
			sealsOnly: sealed(s, textKeys, guestSecret), host: []string{"GetPublicKey"}, thinks: true, sends: []string{tasksQueue, pushesQueue}},
	}, {
		name: "worker", description: "runs turns in the background, and pushes the events of tasks",
		memory: 256, timeout: longTimeout,
		environment: append([]string{"VACANCY_HOST_KEY", "VACANCY_URL", "VACANCY_GATEWAY_URL"}, both...),
		grants: grants{rows: appends(), docs: []access{
			{"Calls", []string{"PutItem"}, []string{textKeyPartition, observed, tasks, guest, dueCalls}},
			{"Tasks", []string{"Query"}, []string{tasks}},
			{"Turns", []string{"UpdateItem"}, []string{turns, pushed}},
			charging(),
			{"Bookings", []string{"PutItem"}, []string{bookings, dueBookings, bookingEvents, breakers}},
			{"BookingsEnd", []string{"DeleteItem"}, []string{dueBookings, breakers}},
			{"BookingCounts", []string{"UpdateItem"}, []string{slots, counters}},
			{sid: "Docs", operations: []string{"GetItem"}}},
			seals: true, opens: []string{vacantSeeds, textKeys, guestSecret, signingKeys}, sealsOnly: []string{textKeys, guestSecret}, host: []string{"GetPublicKey"}, thinks: true,
			sends: []string{pushesQueue}, receives: []string{tasksQueue, pushesQueue}},
	}}
}

// think asks models for agent, message, worker and admin, which have no secret. It writes
// nothing but totals and opens nothing but secrets. It reads the heads of tasks, which have
// no text, to end with them. Its callers take part in no turn of a
// model, so think needs as much memory as they, for TLS and JSON.
func think(s settings.Settings) function {
	var functions []string
	owned, _ := resources.ParseFunctions(s.TenantFunctions) // checked by package settings
	for _, owner := range slices.Sorted(maps.Keys(owned)) {
		functions = append(functions, owned[owner]...)
	}
	return function{
		name: "think", description: "asks models, functions and MCP servers, one turn or tool each time, for the functions that run turns",
		memory: 256, timeout: thinkTimeout,
		environment: []string{"VACANCY_DOCS", "VACANCY_SEAL_KEY", "VACANCY_MODEL_BUDGET", "VACANCY_MOCK", "VACANCY_TENANT_FUNCTIONS"},
		grants: grants{opens: []string{secrets}, bedrock: s.BedrockModels, functions: functions, docs: []access{
			{"Spend", []string{"PutItem", "UpdateItem"}, []string{totals}},
			{"Docs", []string{"GetItem"}, []string{records, registrations, opened, secretPartitions, totals, budgets, modelTable, tasks}},
		}},
	}
}

// steps are the functions of the gate, started by its state machine only. They
// reserve nothing, because attempts limit them. Each check only reads.
// collusion opens text keys and no seed, commit seeds and no text; record
// writes only attempts, and only commit writes a parent's successes.
func steps() []function {
	tables := []string{"VACANCY_ROWS", "VACANCY_DOCS"}
	reads := func(operations []string, partitions ...string) []access {
		return []access{{"Docs", operations, append([]string{attempts}, partitions...)}}
	}
	get, looked := []string{"GetItem"}, []string{"Query"}
	step := func(name, description string, environment []string, g grants) function {
		return function{name: name, description: description, memory: 128, timeout: asl.TaskSeconds, environment: environment, grants: g}
	}
	return []function{
		step("consent", "first step of the gate: both signatures, and the child's manifest", tables,
			grants{rows: looked, docs: reads(get, registrations, revoked)}),
		step("ratelimit", "second step of the gate: the graduations of the parent in 24 hours", tables,
			grants{rows: looked, docs: reads(get, successes, registrations)}),
		step("collusion", "third step of the gate: the similarity of the child to its parent and siblings", append(tables, "VACANCY_SEAL_KEY"),
			grants{rows: looked, docs: reads([]string{"GetItem", "Query"}, registrations, opened, records, kin, observed, textKeyPartition),
				childrenIndexes: true, opens: []string{textKeys}}),
		step("commit", "last step of the gate: opens the child, in one transaction", append(tables, "VACANCY_SEAL_KEY", "VACANCY_URL"),
			grants{rows: appends(), opens: []string{vacantSeeds}, docs: append(reads(get, successes, registrations, opened, revoked, records, aboutHost, venues),
				access{"Venues", []string{"UpdateItem"}, []string{venues}},
				access{"Commit", []string{"PutItem"}, []string{attempts, successes, registrations, opened, records, unreached, venues}})}),
		step(asl.Recorder, "records the outcome of a graduation attempt", tables,
			grants{rows: looked, docs: []access{{"Attempts", []string{"GetItem", "PutItem"}, []string{attempts}}}}),
	}
}

// jobs are the functions that nobody waits for.
func jobs(s settings.Settings) []function {
	checkpointer := grants{rows: []string{"Query"}, host: []string{"GetPublicKey", "Sign"}, seals: true, sealsOnly: []string{signingKeys}, docs: []access{
		{"Log", []string{"GetItem", "PutItem"}, []string{log, signingKeyPartition}}}}
	if s.HostKey != "kms" { // the identity is sealed in docs
		checkpointer.opens = []string{hostIdentity}
		checkpointer.docs = append(checkpointer.docs, access{"Identity", []string{"GetItem"}, []string{aboutHost}})
	}
	return []function{{
		name: "sweeper", description: "decides overdue calls, has overdue bookings followed and destroys expired text keys, every minute",
		memory: 128, timeout: 30, scheduled: true,
		environment: []string{"VACANCY_ROWS", "VACANCY_DOCS", "VACANCY_TASKS"},
		grants: grants{rows: appends(), sends: []string{tasksQueue}, docs: []access{
			{"TextKeys", []string{"PutItem"}, []string{textKeyPartition, sweeps}},
			{"Refunds", []string{"UpdateItem"}, []string{balances}},
			{"Reminders", []string{"DeleteItem"}, []string{dueCalls, dueBookings}},
			{sid: "Docs", operations: []string{"Query", "GetItem"}}}},
	}, {
		name: "meter", description: "folds rows into usage, every minute, and exports that of days that are over",
		memory: 128, timeout: 30, scheduled: true,
		environment: []string{"VACANCY_ROWS", "VACANCY_DOCS", "VACANCY_ROWS_STREAM", "VACANCY_BLOBS"},
		grants: grants{rows: []string{"Query"}, folds: true, exports: true, docs: []access{
			{"Usage", []string{"PutItem"}, []string{usages, folded, exported}},
			{"Spent", []string{"UpdateItem"}, []string{spentDays}},
			{"Lists", []string{"Query"}, []string{folded, tenants, usages, bookingEvents}},
			{"Docs", []string{"GetItem"}, []string{usages, folded, exported, records, prices, accounts}}}},
	}, {
		name: "prober", description: "probes endpoints elsewhere and lists those that answer, every minute",
		memory: 128, timeout: 6, scheduled: true,
		environment: []string{"VACANCY_DOCS"},
		grants: grants{docs: []access{
			{"Queue", []string{"Query", "DeleteItem"}, []string{unreached}},
			{"Venues", []string{"GetItem", "UpdateItem"}, []string{venues}},
			{"Docs", []string{"GetItem", "PutItem"}, []string{unreached, registrations}}}},
	}, {
		name: "tamper", description: "reports rows that were changed or removed",
		memory: 128, timeout: 30,
		grants: grants{stream: "rows"},
	}, {
		name: "indexer", description: "publishes the search index when registrations have changed",
		memory: 512, timeout: 300, disk: 4096,
		environment: []string{"VACANCY_DOCS", "VACANCY_BLOBS"},
		grants:      grants{listed: true, snapshots: []string{"GetObject", "PutObject", "DeleteObject"}, stream: "docs"},
	}, {
		name: "checkpointer", description: "seals the transparency log and certifies the keys that sign receipts, every five minutes",
		memory: 128, timeout: 120, scheduled: true,
		environment: []string{"VACANCY_ROWS", "VACANCY_DOCS", "VACANCY_HOST_KEY", "VACANCY_SEAL_KEY"},
		grants:      checkpointer,
	}}
}

// Names lists the functions.
func Names() (names []string) {
	for _, f := range table(settings.Settings{}) {
		names = append(names, f.name)
	}
	return names
}
