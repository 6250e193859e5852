package stacks

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cost"
	"github.com/vacancy-host/vacancy/infra/asl"
	"github.com/vacancy-host/vacancy/infra/settings"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/billing/paykeys"
	"github.com/vacancy-host/vacancy/shared/host/booking"
	"github.com/vacancy-host/vacancy/shared/host/due"
	"github.com/vacancy-host/vacancy/shared/host/family/graduation"
	"github.com/vacancy-host/vacancy/shared/host/keys/guests"
	"github.com/vacancy-host/vacancy/shared/host/keys/signingkey"
	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/registry/callstats"
	"github.com/vacancy-host/vacancy/shared/host/registry/translog"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/models"
	"github.com/vacancy-host/vacancy/shared/host/substrate/resources"
	"github.com/vacancy-host/vacancy/shared/host/substrate/spend"
	"github.com/vacancy-host/vacancy/shared/host/usage"
	"github.com/vacancy-host/vacancy/shared/host/usage/exports"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store"
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
	documents  of
}

// kind is a kind of document, whose partition a grant names.
type kind interface{ Describe() store.Shape }

// of are the kinds of document that a grant is for.
type of []kind

// patterns are the partitions of the kinds, as conditions of IAM name them: up to the first
// id or name.
func (o of) patterns() []string {
	all := make([]string, len(o))
	for i, k := range o {
		all[i] = pattern(k.Describe().Partition)
	}
	return all
}

func pattern(partition string) string {
	literal, _, star := strings.Cut(partition, "*")
	if star {
		literal += "*"
	}
	return literal
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

// Patterns of the contexts of boxes: text keys, seeds of vacants, a software identity of the
// host, the keys that it certifies, the secret of guests' keys, secrets of agents, and keys of
// payments.
const (
	textKeys     = "textkey:*"
	vacantSeeds  = "vacant:*"
	hostIdentity = "host:*"
	signingKeys  = "signkey:*"
	guestSecret  = "guest:*"
	secrets      = "secret:*"
	paymentKeys  = "paykey:*"
)

// charging is the access of a function that charges calls: debits and refunds update
// balances and day counters in the commit of the call.
func charging() access {
	return access{"Charges", []string{"UpdateItem"}, of{billing.BalanceDocs, billing.QuotaDocs}}
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
		grants: grants{rows: appends(), docs: append(written(s, []string{"GetItem"}, textkeys.KeyDocs, callstats.CallsDocs, billing.DueDocs), charging()), openIndex: true, seals: true, opens: []string{vacantSeeds, textKeys},
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
			{"Registry", []string{"PutItem"}, of{registry.RegistrationDocs, registry.KinDocs, registry.RevokedDocs, translog.CosignedDocs, registry.UnreachedDocs, registry.SlugDocs, registry.VenueCountDocs}},
			{"Venues", []string{"UpdateItem"}, of{registry.VenueCountDocs}},
			{"Docs", []string{"GetItem", "Query"}, of{registry.RegistrationDocs, registry.OpenedDocs, registry.KinDocs, registry.RevokedDocs, translog.HeadDocs, translog.CosignedDocs, vacants.SelfDocs, vacants.RecordDocs, registry.SlugDocs, registry.VenueCountDocs}},
		}},
	}, {
		name: "search", description: "searches vacants by capability",
		memory: 512, timeout: urlTimeout, disk: 2048, url: true,
		environment: append([]string{"VACANCY_DOCS", "VACANCY_BLOBS", "VACANCY_READS"}, edge...),
		grants: grants{docs: []access{{"Registrations", []string{"GetItem"}, of{registry.RegistrationDocs}}},
			listed: true, snapshots: []string{"GetObject"}},
	}, {
		name: "graduate", description: "accepts graduation requests and returns their outcome",
		memory: 128, timeout: urlTimeout, url: true,
		environment: with("VACANCY_URL", "VACANCY_GATE", "VACANCY_READS"),
		grants: grants{rows: appends(), gate: []string{"StartExecution", "GetExecutionHistory"}, docs: []access{
			{"Attempts", []string{"PutItem"}, of{graduation.StatusDocs, graduation.AttemptWindowDocs}},
			{"Docs", []string{"GetItem"}, of{graduation.StatusDocs, graduation.AttemptWindowDocs, registry.RegistrationDocs, registry.RevokedDocs, vacants.SelfDocs, vacants.RecordDocs}},
		}},
	}, gateway(s, edge)}
}

// gateway serves accounts and AGP. It writes keys, links, bookings and balances, and no usage.
// It alone opens the keys of payments, and no text key. It signs receipts by a key that the
// host certified, and cannot sign as the host.
func gateway(s settings.Settings, edge []string) function {
	g := grants{rows: appends(), host: []string{"GetPublicKey"}, sends: []string{tasksQueue}, finds: true, bookingIndexes: true, docs: []access{
		{"Accounts", []string{"PutItem"}, of{billing.AccountDocs, billing.SecretDocs, billing.LinkDocs, billing.PaymentDocs}},
		{"Unlink", []string{"DeleteItem"}, of{billing.AccountDocs}},
		{"Bookings", []string{"PutItem"}, of{booking.BookingDocs, booking.DueDocs, booking.EventDocs, booking.OnceDocs, billing.UseDocs}},
		{"BookingsEnd", []string{"DeleteItem"}, of{booking.BookingDocs, booking.DueDocs}},
		{"Counts", []string{"UpdateItem"}, of{billing.BalanceDocs, billing.QuotaDocs, booking.SlotDocs, booking.CounterDocs, billing.ActiveDocs}},
		{"Lists", []string{"Query"}, of{billing.AccountDocs, billing.ActiveDocs, booking.EventDocs, usage.All}},
		{"Docs", []string{"GetItem"}, of{billing.AccountDocs, billing.SecretDocs, billing.UseDocs, billing.LinkDocs, billing.BalanceDocs, price.VersionDocs, booking.BookingDocs, booking.DueDocs, booking.OnceDocs, booking.BreakerDocs,
			registry.RegistrationDocs, registry.RevokedDocs, registry.SlugDocs, registry.VenueCountDocs, vacants.RecordDocs, vacants.SelfDocs, billing.PaymentDocs, paykeys.KeyDocs, signingkey.KeyDocs}},
	}, opens: []string{paymentKeys, signingKeys}}
	environment := append([]string{"VACANCY_ROWS", "VACANCY_DOCS", "VACANCY_SEAL_KEY", "VACANCY_HOST_KEY", "VACANCY_URL", "VACANCY_READS", "VACANCY_TASKS", "VACANCY_SEARCH", "VACANCY_BOOKING_PRICE", "VACANCY_KEY_PREFIX", "VACANCY_AGP_KEY_PREFIX"}, edge...)
	return function{
		name: "gateway", description: "accounts, payments, keys, usage, receipts and AGP",
		memory: 256, timeout: urlTimeout, url: true, environment: environment, grants: g,
	}
}

// written are the rights of a function that writes documents of some partitions and
// reads all. It may create a software identity.
func written(s settings.Settings, reads []string, partitions ...kind) []access {
	if s.HostKey != "kms" {
		partitions = append(partitions, vacants.SelfDocs)
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
	agent := written(s, []string{"GetItem"}, textkeys.KeyDocs, callstats.CallsDocs, task.HeadDocs, guests.SecretDocs, billing.DueDocs)
	agent = append(agent, charging(), access{"Tasks", []string{"Query"}, of{task.HeadDocs}}, access{"Turns", []string{"UpdateItem"}, of{task.TurnDocs}})
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
			{"Calls", []string{"PutItem"}, of{textkeys.KeyDocs, callstats.CallsDocs, task.HeadDocs, guests.SecretDocs, billing.DueDocs}},
			{"Tasks", []string{"Query"}, of{task.HeadDocs}},
			{"Turns", []string{"UpdateItem"}, of{task.TurnDocs, task.PushedDocs}},
			charging(),
			{"Bookings", []string{"PutItem"}, of{booking.BookingDocs, booking.DueDocs, booking.EventDocs, booking.BreakerDocs}},
			{"BookingsEnd", []string{"DeleteItem"}, of{booking.DueDocs, booking.BreakerDocs}},
			{"BookingCounts", []string{"UpdateItem"}, of{booking.SlotDocs, booking.CounterDocs}},
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
			{"Spend", []string{"PutItem", "UpdateItem"}, of{spend.VacantDocs}},
			{"Docs", []string{"GetItem"}, of{vacants.RecordDocs, registry.RegistrationDocs, registry.OpenedDocs, definition.SecretDocs, spend.VacantDocs, spend.BudgetDocs, models.CurrentDocs, task.HeadDocs}},
		}},
	}
}

// steps are the functions of the gate, started by its state machine only. They
// reserve nothing, because attempts limit them. Each check only reads.
// collusion opens text keys and no seed, commit seeds and no text; record
// writes only attempts, and only commit writes a parent's successes.
func steps() []function {
	tables := []string{"VACANCY_ROWS", "VACANCY_DOCS"}
	reads := func(operations []string, partitions ...kind) []access {
		return []access{{"Docs", operations, append(of{graduation.StatusDocs}, partitions...)}}
	}
	get, looked := []string{"GetItem"}, []string{"Query"}
	step := func(name, description string, environment []string, g grants) function {
		return function{name: name, description: description, memory: 128, timeout: asl.TaskSeconds, environment: environment, grants: g}
	}
	return []function{
		step("consent", "first step of the gate: both signatures, and the child's manifest", tables,
			grants{rows: looked, docs: reads(get, registry.RegistrationDocs, registry.RevokedDocs)}),
		step("ratelimit", "second step of the gate: the graduations of the parent in 24 hours", tables,
			grants{rows: looked, docs: reads(get, graduation.WindowDocs, registry.RegistrationDocs)}),
		step("collusion", "third step of the gate: the similarity of the child to its parent and siblings", append(tables, "VACANCY_SEAL_KEY"),
			grants{rows: looked, docs: reads([]string{"GetItem", "Query"}, registry.RegistrationDocs, registry.OpenedDocs, vacants.RecordDocs, registry.KinDocs, callstats.CallsDocs, textkeys.KeyDocs),
				childrenIndexes: true, opens: []string{textKeys}}),
		step("commit", "last step of the gate: opens the child, in one transaction", append(tables, "VACANCY_SEAL_KEY", "VACANCY_URL"),
			grants{rows: appends(), opens: []string{vacantSeeds}, docs: append(reads(get, graduation.WindowDocs, registry.RegistrationDocs, registry.OpenedDocs, registry.RevokedDocs, vacants.RecordDocs, vacants.SelfDocs, registry.VenueCountDocs),
				access{"Venues", []string{"UpdateItem"}, of{registry.VenueCountDocs}},
				access{"Commit", []string{"PutItem"}, of{graduation.StatusDocs, graduation.WindowDocs, registry.RegistrationDocs, registry.OpenedDocs, vacants.RecordDocs, registry.UnreachedDocs, registry.VenueCountDocs}})}),
		step(asl.Recorder, "records the outcome of a graduation attempt", tables,
			grants{rows: looked, docs: []access{{"Attempts", []string{"GetItem", "PutItem"}, of{graduation.StatusDocs}}}}),
	}
}

// jobs are the functions that nobody waits for.
func jobs(s settings.Settings) []function {
	checkpointer := grants{rows: []string{"Query"}, host: []string{"GetPublicKey", "Sign"}, seals: true, sealsOnly: []string{signingKeys}, docs: []access{
		{"Log", []string{"GetItem", "PutItem"}, of{translog.HeadDocs, signingkey.KeyDocs}}}}
	if s.HostKey != "kms" { // the identity is sealed in docs
		checkpointer.opens = []string{hostIdentity}
		checkpointer.docs = append(checkpointer.docs, access{"Identity", []string{"GetItem"}, of{vacants.SelfDocs}})
	}
	return []function{{
		name: "sweeper", description: "decides overdue calls, has overdue bookings followed and destroys expired text keys, every minute",
		memory: 128, timeout: 30, scheduled: true,
		environment: []string{"VACANCY_ROWS", "VACANCY_DOCS", "VACANCY_TASKS"},
		grants: grants{rows: appends(), sends: []string{tasksQueue}, docs: []access{
			{"TextKeys", []string{"PutItem"}, of{textkeys.KeyDocs, due.OffsetDocs}},
			{"Refunds", []string{"UpdateItem"}, of{billing.BalanceDocs}},
			{"Reminders", []string{"DeleteItem"}, of{billing.DueDocs, booking.DueDocs}},
			{sid: "Docs", operations: []string{"Query", "GetItem"}}}},
	}, {
		name: "meter", description: "folds rows into usage, every minute, and exports that of days that are over",
		memory: 128, timeout: 30, scheduled: true,
		environment: []string{"VACANCY_ROWS", "VACANCY_DOCS", "VACANCY_ROWS_STREAM", "VACANCY_BLOBS"},
		grants: grants{rows: []string{"Query"}, folds: true, exports: true, docs: []access{
			{"Usage", []string{"PutItem"}, of{usage.All, usage.OffsetDocs, exports.OffsetDocs}},
			{"Spent", []string{"UpdateItem"}, of{usage.SpentDocs}},
			{"Lists", []string{"Query"}, of{usage.OffsetDocs, billing.TenantDocs, usage.All, booking.EventDocs}},
			{"Docs", []string{"GetItem"}, of{usage.All, usage.OffsetDocs, exports.OffsetDocs, vacants.RecordDocs, price.VersionDocs, billing.AccountDocs}}}},
	}, {
		name: "prober", description: "probes endpoints elsewhere and lists those that answer, every minute",
		memory: 128, timeout: 6, scheduled: true,
		environment: []string{"VACANCY_DOCS"},
		grants: grants{docs: []access{
			{"Queue", []string{"Query", "DeleteItem"}, of{registry.UnreachedDocs}},
			{"Venues", []string{"GetItem", "UpdateItem"}, of{registry.VenueCountDocs}},
			{"Docs", []string{"GetItem", "PutItem"}, of{registry.UnreachedDocs, registry.RegistrationDocs}}}},
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
