package stacks

import (
	"maps"
	"slices"
	"strings"

	"github.com/vacancy-host/vacancy/infra/settings"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
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
	"github.com/vacancy-host/vacancy/shared/host/reviews"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/models"
	"github.com/vacancy-host/vacancy/shared/host/substrate/spend"
	"github.com/vacancy-host/vacancy/shared/host/substrate/worker"
	"github.com/vacancy-host/vacancy/shared/host/usage"
	"github.com/vacancy-host/vacancy/shared/host/usage/exports"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/host/workspace"
	"github.com/vacancy-host/vacancy/shared/host/workspace/locks"
	"github.com/vacancy-host/vacancy/shared/store"
)

// grants lists the rights of a function's role. Each role may also write its log. A box is a value that
// is encrypted under the sealing key; its KMS encryption context states its kind and owner.
type grants struct {
	rows      []string // operations on the table of rows
	docs      []access // access to documents
	indexes   []string // partitions of the sparse index of docs for queries
	snapshots []string // operations on the bucket's objects of the search index
	exports   bool     // may write daily usage to the bucket
	files     []string // operations on the bucket's objects of files in workspaces
	seals     bool     // may use Encrypt under the sealing key
	opens     []string // contexts of boxes that Decrypt may open
	sealsOnly []string // contexts of Encrypt; nil allows every context
	host      []string // operations on the host's key
	gate      []string // operations on the gate and its executions
	sends     []string // queues to which the function sends
	thinks    bool     // may invoke the function think
	finds     bool     // may invoke the function search
	folds     bool     // may read the DynamoDB stream of rows itself, to compute usage
	bedrock   []string // ids of models and inference profiles of Bedrock
	functions []string // ARNs of Lambda functions that are agents
}

// canStart reports whether a function with the grants may start f, directly or by a queue message. The
// gate's state machine is not considered, because its steps start no function.
func (g grants) canStart(f functions.Function) bool {
	return g.thinks && f == functions.Think || g.finds && f == functions.Search ||
		slices.ContainsFunc(f.Receives(), func(queue string) bool { return slices.Contains(g.sends, queue) })
}

func isRecursive(f functions.Function, allowed map[functions.Function]grants) bool {
	started := map[functions.Function]bool{}
	var visit func(functions.Function)
	visit = func(from functions.Function) {
		for _, to := range functions.All() {
			if !started[to] && allowed[from].canStart(to) {
				started[to] = true
				visit(to)
			}
		}
	}
	visit(f)
	return started[f]
}

// access is a list of operations on documents of some kinds. If documents is nil, it applies to all
// documents.
type access struct {
	operations []string
	documents  kinds
}

// kind is a kind of document, whose partition a grant names.
type kind interface{ Describe() store.Shape }

// kinds lists the kinds of documents of a grant.
type kinds []kind

func (o kinds) patterns() []string {
	list := make([]string, len(o))
	for i, k := range o {
		list[i] = pattern(k.Describe().Partition)
	}
	return list
}

func pattern(partition string) string {
	// In an IAM condition, * stands for the rest of the partition after its fixed beginning.
	literal, _, star := strings.Cut(partition, "*")
	if star {
		literal += "*"
	}
	return literal
}

// Patterns of the contexts of boxes: text keys, seeds of vacants, a software identity of the host,
// keys that this identity certifies, the secret of guests' keys, secrets of agents, keys of
// payments, and keys of workspaces.
const (
	textKeys     = "textkey:*"
	vacantSeeds  = "vacant:*"
	hostIdentity = "host:*"
	signingKeys  = "signkey:*"
	guestSecret  = "guest:*"
	secrets      = "secret:*"
	paymentKeys  = "paykey:*"
	fileKeys     = "workspace:*"
)

func chargeAccess() access {
	// Debits and refunds update balances and daily counters in the transaction that stores the call.
	return access{[]string{"UpdateItem"}, kinds{billing.BalanceDocs, billing.QuotaDocs}}
}

func (g grants) withFileAccess() grants {
	// The function also creates a missing workspace with its key.
	g.files = []string{"GetObject", "PutObject"}
	g.opens = append(g.opens, fileKeys)
	if g.sealsOnly != nil {
		g.sealsOnly = append(g.sealsOnly, fileKeys)
	}
	g.docs = append(g.docs, access{[]string{"PutItem", "UpdateItem"}, kinds{workspace.CountDocs}}, access{[]string{"UpdateItem"}, kinds{locks.NumberDocs}},
		access{[]string{"PutItem"}, kinds{workspace.Docs, workspace.FileDocs, locks.Docs}}, access{[]string{"Query"}, kinds{workspace.Docs, workspace.FileDocs, locks.Docs}})
	return g
}

// allGrants returns the grants of the functions' roles.
//
// agent, message and worker create text keys and write call statistics and tasks, and they move
// money in the commits of calls. message reads no task, agent creates the secret of guests, and
// worker dispatches bookings. agent and worker also read and write files in workspaces. They write
// no other documents, so an attacker in one of them can change neither the operator's key nor a
// vacant's record. agent and message also create a software identity if a caller sends the first
// request of the stage. registry writes its documents and reviews, and accepts cosignatures, but does
// not write the log. search writes no document.
func allGrants(s settings.Settings) map[functions.Function]grants {
	byFunction := urlGrants(s)
	for _, more := range []map[functions.Function]grants{agentGrants(s), {functions.Gateway: gatewayGrants(), functions.Think: thinkGrants(s)}, jobGrants(s), stepGrants()} {
		maps.Copy(byFunction, more)
	}
	return byFunction
}

// offerAccess returns the access to documents that offers a call to workers. withdrawAccess returns the
// access that withdraws the offer.
func offerAccess() access {
	return access{[]string{"PutItem"}, kinds{worker.WaitingDocs, worker.TurnDocs}}
}
func withdrawAccess() access { return access{[]string{"DeleteItem"}, kinds{worker.WaitingDocs}} }

func appendActions() []string { return []string{"PutItem", "Query", "GetItem"} }

func urlGrants(s settings.Settings) map[functions.Function]grants {
	any := func(operations ...string) []access { return []access{{operations: operations}} }
	message := append(writerAccess(s, []string{"GetItem"}, textkeys.KeyDocs, callstats.CallsDocs, task.HeadDocs, billing.DueDocs), chargeAccess(), access{[]string{"UpdateItem"}, kinds{task.TurnDocs}})
	return map[functions.Function]grants{
		functions.Message: {rows: appendActions(), docs: append(message, offerAccess(), withdrawAccess()), indexes: []string{vacants.RecordDocs.Index}, seals: true, opens: []string{vacantSeeds, textKeys},
			sealsOnly: sealContexts(s, textKeys), host: []string{"GetPublicKey"}, thinks: true, sends: []string{functions.Tasks}},
		functions.Admin: {rows: appendActions(), docs: any("GetItem", "PutItem", "UpdateItem", "Query", "DeleteItem"), indexes: []string{registry.RegistrationDocs.Index, task.HeadDocs.Index, task.DispatchedDocs.Index, booking.BookingDocs.Index, vacants.NameDocs.Index}, seals: true, opens: []string{vacantSeeds, textKeys, guestSecret, hostIdentity, signingKeys, fileKeys},
			files: []string{"GetObject", "PutObject"}, host: []string{"GetPublicKey", "Sign"}, gate: []string{"GetExecutionHistory"}, thinks: true, sends: []string{functions.Tasks}},
		functions.Export: {rows: []string{"Scan", "Query", "GetItem"}, docs: any("GetItem", "Query"), indexes: []string{registry.RegistrationDocs.Index, workspace.Docs.Index}, opens: []string{textKeys}},
		functions.Registry: {rows: appendActions(), docs: []access{
			{[]string{"PutItem"}, kinds{registry.RegistrationDocs, registry.KinDocs, registry.RevokedDocs, translog.CosignedDocs, registry.UnreachedDocs, registry.SlugDocs, registry.VenueCountDocs}},
			{[]string{"PutItem", "GetItem", "Query", "DeleteItem"}, kinds{reviews.BookDocs, reviews.RecentDocs}},
			{[]string{"GetItem"}, kinds{billing.AccountDocs, billing.LinkDocs}},
			{[]string{"UpdateItem"}, kinds{registry.VenueCountDocs}},
			{[]string{"GetItem", "Query"}, kinds{registry.RegistrationDocs, registry.OpenedDocs, registry.KinDocs, registry.RevokedDocs, translog.HeadDocs, translog.CosignedDocs, vacants.SelfDocs, vacants.RecordDocs, registry.SlugDocs, registry.VenueCountDocs}},
		}},
		functions.Search: {docs: []access{{[]string{"GetItem"}, kinds{registry.RegistrationDocs}}}, indexes: []string{registry.RegistrationDocs.Index}, snapshots: []string{"GetObject"}},
		functions.Web:    {},
		functions.Graduate: {rows: appendActions(), gate: []string{"StartExecution", "GetExecutionHistory"}, docs: []access{
			{[]string{"PutItem"}, kinds{graduation.StatusDocs, graduation.AttemptWindowDocs}},
			{[]string{"GetItem"}, kinds{graduation.StatusDocs, graduation.AttemptWindowDocs, registry.RegistrationDocs, registry.RevokedDocs, vacants.SelfDocs, vacants.RecordDocs}},
		}},
	}
}

// gatewayGrants returns the grants of gateway, which serves accounts and AGP. It writes keys,
// links, bookings and balances, but no usage. Only gateway opens the keys of payments, and it opens
// no text key. It signs receipts with a key that the host certified, and cannot sign as the host.
func gatewayGrants() grants {
	return grants{rows: appendActions(), host: []string{"GetPublicKey"}, sends: []string{functions.Tasks}, finds: true, indexes: []string{booking.BookingDocs.Index}, docs: append(tokenAccess(), []access{
		{[]string{"PutItem"}, kinds{billing.AccountDocs, billing.SecretDocs, billing.LinkDocs, billing.EndingDocs, billing.PaymentDocs}},
		{[]string{"DeleteItem"}, kinds{billing.AccountDocs, billing.SecretDocs, billing.EndingDocs}},
		{[]string{"PutItem"}, kinds{booking.BookingDocs, booking.DueDocs, booking.EventDocs, booking.OnceDocs, billing.UseDocs}},
		{[]string{"DeleteItem"}, kinds{booking.BookingDocs, booking.DueDocs}},
		{[]string{"UpdateItem"}, kinds{billing.BalanceDocs, billing.QuotaDocs, booking.SlotDocs, booking.CounterDocs, billing.ActiveDocs}},
		{[]string{"Query"}, kinds{billing.AccountDocs, billing.ActiveDocs, billing.SubjectDocs, booking.EventDocs, usage.AllDocs}},
		{[]string{"GetItem"}, kinds{billing.AccountDocs, billing.SecretDocs, billing.UseDocs, billing.LinkDocs, billing.EndingDocs, billing.BalanceDocs, price.VersionDocs, booking.BookingDocs, booking.DueDocs, booking.OnceDocs, booking.BreakerDocs,
			registry.RegistrationDocs, registry.RevokedDocs, registry.SlugDocs, registry.VenueCountDocs, vacants.RecordDocs, vacants.SelfDocs, billing.PaymentDocs, paykeys.KeyDocs, signingkey.KeyDocs, billing.SubjectDocs}},
	}...), opens: []string{paymentKeys, signingKeys}}
}

func writerAccess(s settings.Settings, reads []string, partitions ...kind) []access {
	// The function may create a software identity.
	if s.HostKey != "kms" {
		partitions = append(partitions, vacants.SelfDocs)
	}
	return []access{{[]string{"PutItem"}, partitions}, {operations: reads}}
}

func sealContexts(s settings.Settings, contexts ...string) []string {
	if s.HostKey != "kms" {
		contexts = append(contexts, hostIdentity)
	}
	return contexts
}

func tokenAccess() []access {
	return []access{
		{[]string{"PutItem"}, kinds{billing.SubjectDocs}},
		{[]string{"Query"}, kinds{billing.IssuerDocs}},
	}
}

func agentGrants(s settings.Settings) map[functions.Function]grants {
	agent := writerAccess(s, []string{"GetItem"}, textkeys.KeyDocs, callstats.CallsDocs, task.HeadDocs, task.RecentDocs, task.DispatchedDocs, task.UnfinishedDocs, guests.SecretDocs, billing.DueDocs)
	agent = append(agent, tokenAccess()...)
	agent = append(agent, chargeAccess(), access{[]string{"Query"}, kinds{task.HeadDocs, task.RecentDocs, task.UnfinishedDocs}}, access{[]string{"UpdateItem"}, kinds{task.TurnDocs, task.RunningDocs}},
		access{[]string{"DeleteItem"}, kinds{task.UnfinishedDocs}})
	agent = append(agent, offerAccess(), withdrawAccess(), access{[]string{"Query"}, kinds{worker.WaitingDocs}}, access{[]string{"PutItem"}, kinds{worker.SeenDocs}})
	return map[functions.Function]grants{
		functions.Agent: grants{rows: appendActions(), docs: append(agent, access{[]string{"DeleteItem"}, kinds{workspace.Docs, locks.Docs, locks.NumberDocs}}), indexes: []string{vacants.RecordDocs.Index, vacants.NameDocs.Index, task.HeadDocs.Index, task.DispatchedDocs.Index}, seals: true, opens: []string{vacantSeeds, textKeys, guestSecret},
			sealsOnly: sealContexts(s, textKeys, guestSecret), host: []string{"GetPublicKey"}, thinks: true, finds: true, sends: []string{functions.Tasks, functions.Pushes}}.withFileAccess(),
		functions.Worker: grants{rows: appendActions(), docs: []access{
			{[]string{"PutItem"}, kinds{textkeys.KeyDocs, callstats.CallsDocs, task.HeadDocs, guests.SecretDocs, billing.DueDocs}},
			{[]string{"Query"}, kinds{task.HeadDocs}},
			{[]string{"UpdateItem"}, kinds{task.TurnDocs, task.RunningDocs, task.PushedDocs}},
			chargeAccess(),
			{[]string{"PutItem"}, kinds{booking.BookingDocs, booking.DueDocs, booking.EventDocs, booking.BreakerDocs}},
			{[]string{"DeleteItem"}, kinds{booking.DueDocs, booking.BreakerDocs, task.UnfinishedDocs}},
			{[]string{"UpdateItem"}, kinds{booking.SlotDocs, booking.CounterDocs}},
			{operations: []string{"GetItem"}}, offerAccess(), withdrawAccess()},
			seals: true, opens: []string{vacantSeeds, textKeys, guestSecret, signingKeys}, sealsOnly: []string{textKeys, guestSecret}, host: []string{"GetPublicKey"}, thinks: true,
			sends: []string{functions.Tasks, functions.Pushes}}.withFileAccess(),
	}
}

// thinkGrants returns the grants of think, which calls models for agent, message, worker and admin,
// because these cannot decrypt secrets of agents. think writes only totals, and decrypts only secrets.
// It reads the heads of tasks, which contain no texts, to stop a turn whose task has ended.
func thinkGrants(s settings.Settings) grants {
	var owned []string
	for _, owner := range slices.Sorted(maps.Keys(s.TenantFunctions)) {
		owned = append(owned, s.TenantFunctions[owner]...)
	}
	return grants{opens: []string{secrets}, bedrock: s.BedrockModels, functions: owned, docs: []access{
		{[]string{"PutItem", "UpdateItem"}, kinds{spend.VacantDocs}},
		{[]string{"GetItem"}, kinds{vacants.RecordDocs, registry.RegistrationDocs, registry.OpenedDocs, definition.SecretDocs, spend.VacantDocs, spend.BudgetDocs, models.CurrentDocs, task.HeadDocs}},
	}}
}

// stepGrants returns the grants of the gate's steps. Each check only reads. collusion opens text
// keys but no seeds, and commit opens seeds but no texts. record writes only attempts. Only commit
// writes a parent's successes.
func stepGrants() map[functions.Function]grants {
	reads := func(operations []string, partitions ...kind) []access {
		return []access{{operations, append(kinds{graduation.StatusDocs}, partitions...)}}
	}
	get, looked := []string{"GetItem"}, []string{"Query"}
	return map[functions.Function]grants{
		functions.Consent:   {rows: looked, docs: reads(get, registry.RegistrationDocs, registry.RevokedDocs)},
		functions.RateLimit: {rows: looked, docs: reads(get, graduation.WindowDocs, registry.RegistrationDocs)},
		functions.Collusion: {rows: looked, docs: reads([]string{"GetItem", "Query"}, registry.RegistrationDocs, registry.OpenedDocs, vacants.RecordDocs, registry.KinDocs, callstats.CallsDocs, textkeys.KeyDocs),
			indexes: []string{registry.ManifestDocs.Index}, opens: []string{textKeys}},
		functions.Commit: {rows: appendActions(), opens: []string{vacantSeeds}, docs: append(reads(get, graduation.WindowDocs, registry.RegistrationDocs, registry.OpenedDocs, registry.RevokedDocs, vacants.RecordDocs, vacants.SelfDocs, registry.VenueCountDocs),
			access{[]string{"UpdateItem"}, kinds{registry.VenueCountDocs}},
			access{[]string{"PutItem"}, kinds{graduation.StatusDocs, graduation.WindowDocs, registry.RegistrationDocs, registry.OpenedDocs, vacants.RecordDocs, registry.UnreachedDocs, registry.VenueCountDocs}})},
		functions.Record: {rows: looked, docs: []access{{[]string{"GetItem", "PutItem"}, kinds{graduation.StatusDocs}}}},
	}
}

func jobGrants(s settings.Settings) map[functions.Function]grants {
	checkpointer := grants{rows: []string{"Query"}, host: []string{"GetPublicKey", "Sign"}, seals: true, sealsOnly: []string{signingKeys}, docs: []access{
		{[]string{"GetItem", "PutItem"}, kinds{translog.HeadDocs, signingkey.KeyDocs}}}}
	if s.HostKey != "kms" { // the identity is sealed in docs
		checkpointer.opens = []string{hostIdentity}
		checkpointer.docs = append(checkpointer.docs, access{[]string{"GetItem"}, kinds{vacants.SelfDocs}})
	}
	return map[functions.Function]grants{
		functions.Sweeper: {rows: appendActions(), sends: []string{functions.Tasks}, files: []string{"DeleteObject"}, docs: []access{
			{[]string{"DeleteItem"}, kinds{workspace.FileDocs}}, {[]string{"PutItem"}, kinds{workspace.CountDocs}},
			{[]string{"PutItem"}, kinds{textkeys.KeyDocs, due.OffsetDocs}},
			{[]string{"UpdateItem"}, kinds{billing.BalanceDocs}},
			{[]string{"DeleteItem"}, kinds{billing.DueDocs, booking.DueDocs}},
			// The function completes revocations that a crash interrupted, and writes these documents.
			{[]string{"PutItem"}, kinds{billing.AccountDocs, billing.SecretDocs, billing.LinkDocs}},
			{[]string{"DeleteItem"}, kinds{billing.AccountDocs, billing.EndingDocs}},
			{operations: []string{"Query", "GetItem"}}}},
		functions.Meter: {rows: []string{"Query"}, folds: true, exports: true, docs: []access{
			{[]string{"PutItem"}, kinds{usage.AllDocs, usage.OffsetDocs, exports.OffsetDocs}},
			{[]string{"UpdateItem"}, kinds{usage.SpentDocs}},
			{[]string{"Query"}, kinds{usage.OffsetDocs, billing.TenantDocs, usage.AllDocs, booking.EventDocs}},
			{[]string{"GetItem"}, kinds{usage.AllDocs, usage.OffsetDocs, exports.OffsetDocs, vacants.RecordDocs, price.VersionDocs, billing.AccountDocs}}}},
		functions.Prober: {docs: []access{
			{[]string{"Query", "DeleteItem"}, kinds{registry.UnreachedDocs}},
			{[]string{"GetItem", "UpdateItem"}, kinds{registry.VenueCountDocs}},
			{[]string{"GetItem", "PutItem"}, kinds{registry.UnreachedDocs, registry.RegistrationDocs}}}},
		functions.Tamper:       {},
		functions.Indexer:      {indexes: []string{registry.RegistrationDocs.Index}, snapshots: []string{"GetObject", "PutObject", "DeleteObject"}},
		functions.Checkpointer: checkpointer,
	}
}
