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

// grants lists the rights of a function's role. A box is a value that is encrypted under the
// sealing key, with its kind and owner as the KMS encryption context.
type grants struct {
	rowOperations      []string
	docAccesses        []docAccess
	indexPartitions    []string // partitions of the sparse index of docs for queries
	snapshotOperations []string // operations on objects of the search index
	canExportUsage     bool
	fileOperations     []string // operations on files in workspaces
	canSeal            bool     // may use Encrypt under the sealing key
	openContexts       []string // contexts of boxes that Decrypt may open
	sealContexts       []string // contexts of Encrypt; nil allows every context
	hostKeyOperations  []string
	gateOperations     []string
	sendQueues         []string
	canInvokeThink     bool
	canInvokeSearch    bool
	canReadRowStream   bool // may read the DynamoDB stream of rows itself
	bedrockModels      []string
	agentFunctionARNs  []string
}

func (g grants) canStart(f functions.Function) bool {
	return g.canInvokeThink && f == functions.Think || g.canInvokeSearch && f == functions.Search ||
		slices.ContainsFunc(f.QueueNames(), func(queue string) bool { return slices.Contains(g.sendQueues, queue) })
}

func isRecursive(f functions.Function, grantsByFunction map[functions.Function]grants) bool {
	reachable := map[functions.Function]bool{}
	var visit func(functions.Function)
	visit = func(from functions.Function) {
		for _, to := range functions.All() {
			if !reachable[to] && grantsByFunction[from].canStart(to) {
				reachable[to] = true
				visit(to)
			}
		}
	}
	visit(f)
	return reachable[f]
}

// docAccess allows operations on documents of some kinds, or of all kinds if docKinds is nil.
type docAccess struct {
	operations []string
	docKinds   docKinds
}

type docKind interface{ Describe() store.Shape }

type docKinds []docKind

func (o docKinds) partitionPatterns() []string {
	list := make([]string, len(o))
	for i, k := range o {
		list[i] = partitionPattern(k.Describe().Partition)
	}
	return list
}

func partitionPattern(partition string) string {
	// In an IAM condition, * stands for the rest of the partition after its fixed beginning.
	prefix, _, hasStar := strings.Cut(partition, "*")
	if hasStar {
		prefix += "*"
	}
	return prefix
}

const (
	textKeyPattern      = "textkey:*"
	vacantSeedPattern   = "vacant:*"
	hostIdentityPattern = "host:*"
	signingKeyPattern   = "signkey:*"
	guestSecretPattern  = "guest:*"
	agentSecretPattern  = "secret:*"
	paymentKeyPattern   = "paykey:*"
	fileKeyPattern      = "workspace:*"
)

func chargeAccess() docAccess {
	// Debits and refunds update balances and daily counters in the transaction that stores the call.
	return docAccess{[]string{"UpdateItem"}, docKinds{billing.BalanceDocs, billing.QuotaDocs}}
}

func (g grants) withFileAccess() grants {
	g.fileOperations = []string{"GetObject", "PutObject"}
	g.openContexts = append(g.openContexts, fileKeyPattern)
	if g.sealContexts != nil {
		g.sealContexts = append(g.sealContexts, fileKeyPattern)
	}
	g.docAccesses = append(g.docAccesses, docAccess{[]string{"PutItem", "UpdateItem"}, docKinds{workspace.CountDocs}}, docAccess{[]string{"UpdateItem"}, docKinds{locks.LockNumberDocs}},
		docAccess{[]string{"PutItem"}, docKinds{workspace.Docs, workspace.FileDocs, locks.Docs}}, docAccess{[]string{"Query"}, docKinds{workspace.Docs, workspace.FileDocs, locks.Docs}})
	return g
}

// allGrants returns the grants of the functions' roles.
//
// agent, message and worker write few kinds of documents. An attacker in one of them can change
// neither the operator's key nor a vacant's record.
func allGrants(s settings.Settings) map[functions.Function]grants {
	byFunction := urlGrants(s)
	for _, part := range []map[functions.Function]grants{agentGrants(s), {functions.Gateway: gatewayGrants(), functions.Think: thinkGrants(s)}, jobGrants(s), stepGrants()} {
		maps.Copy(byFunction, part)
	}
	return byFunction
}

func offerAccess() docAccess {
	return docAccess{[]string{"PutItem"}, docKinds{worker.WaitingDocs, worker.TurnDocs}}
}
func withdrawOfferAccess() docAccess {
	return docAccess{[]string{"DeleteItem"}, docKinds{worker.WaitingDocs}}
}

func appendOperations() []string { return []string{"PutItem", "Query", "GetItem"} }

func urlGrants(s settings.Settings) map[functions.Function]grants {
	allDocs := func(operations ...string) []docAccess { return []docAccess{{operations: operations}} }
	messageDocs := append(writerAccess(s, []string{"GetItem"}, textkeys.KeyDocs, callstats.CallsDocs, task.HeadDocs, billing.DueDocs), chargeAccess(), docAccess{[]string{"UpdateItem"}, docKinds{task.BackgroundCountDocs}})
	return map[functions.Function]grants{
		functions.Message: {rowOperations: appendOperations(), docAccesses: append(messageDocs, offerAccess(), withdrawOfferAccess()), indexPartitions: []string{vacants.RecordDocs.Index}, canSeal: true, openContexts: []string{vacantSeedPattern, textKeyPattern},
			sealContexts: withHostIdentity(s, textKeyPattern), hostKeyOperations: []string{"GetPublicKey"}, canInvokeThink: true, sendQueues: []string{functions.TaskQueue}},
		functions.Admin: {rowOperations: appendOperations(), docAccesses: allDocs("GetItem", "PutItem", "UpdateItem", "Query", "DeleteItem"), indexPartitions: []string{registry.RegistrationDocs.Index, task.HeadDocs.Index, task.DispatchedDocs.Index, booking.BookingDocs.Index, vacants.NameDocs.Index}, canSeal: true, openContexts: []string{vacantSeedPattern, textKeyPattern, guestSecretPattern, hostIdentityPattern, signingKeyPattern, fileKeyPattern},
			fileOperations: []string{"GetObject", "PutObject"}, hostKeyOperations: []string{"GetPublicKey", "Sign"}, gateOperations: []string{"GetExecutionHistory"}, canInvokeThink: true, sendQueues: []string{functions.TaskQueue}},
		functions.Export: {rowOperations: []string{"Scan", "Query", "GetItem"}, docAccesses: allDocs("GetItem", "Query"), indexPartitions: []string{registry.RegistrationDocs.Index, workspace.Docs.Index}, openContexts: []string{textKeyPattern}},
		functions.Registry: {rowOperations: appendOperations(), docAccesses: []docAccess{
			{[]string{"PutItem"}, docKinds{registry.RegistrationDocs, registry.ChildEdgeDocs, registry.RevokedDocs, translog.CosignatureDocs, registry.PendingProbeDocs, registry.SlugDocs, registry.ListedCountDocs}},
			{[]string{"PutItem", "GetItem", "Query", "DeleteItem"}, docKinds{reviews.BookDocs, reviews.RecentReviewDocs}},
			{[]string{"GetItem"}, docKinds{billing.AccountDocs, billing.LinkDocs}},
			{[]string{"UpdateItem"}, docKinds{registry.ListedCountDocs}},
			{[]string{"GetItem", "Query"}, docKinds{registry.RegistrationDocs, registry.OpeningDocs, registry.ChildEdgeDocs, registry.RevokedDocs, translog.HeadDocs, translog.CosignatureDocs, vacants.HostIdentityDocs, vacants.RecordDocs, registry.SlugDocs, registry.ListedCountDocs}},
		}},
		functions.Search: {docAccesses: []docAccess{{[]string{"GetItem"}, docKinds{registry.RegistrationDocs}}}, indexPartitions: []string{registry.RegistrationDocs.Index}, snapshotOperations: []string{"GetObject"}},
		functions.Web:    {},
		functions.Graduate: {rowOperations: appendOperations(), gateOperations: []string{"StartExecution", "GetExecutionHistory"}, docAccesses: []docAccess{
			{[]string{"PutItem"}, docKinds{graduation.StatusDocs, graduation.AttemptWindowDocs}},
			{[]string{"GetItem"}, docKinds{graduation.StatusDocs, graduation.AttemptWindowDocs, registry.RegistrationDocs, registry.RevokedDocs, vacants.HostIdentityDocs, vacants.RecordDocs}},
		}},
	}
}

// gatewayGrants returns the grants of gateway, which serves accounts and AGP. Only gateway opens
// the keys of payments. gateway signs receipts with a certified key and cannot sign as the host.
func gatewayGrants() grants {
	return grants{rowOperations: appendOperations(), hostKeyOperations: []string{"GetPublicKey"}, sendQueues: []string{functions.TaskQueue}, canInvokeSearch: true, indexPartitions: []string{booking.BookingDocs.Index}, docAccesses: append(tokenAccess(), []docAccess{
		{[]string{"PutItem"}, docKinds{billing.AccountDocs, billing.SecretDocs, billing.LinkDocs, billing.EndingDocs, billing.PaymentDocs}},
		{[]string{"DeleteItem"}, docKinds{billing.AccountDocs, billing.SecretDocs, billing.EndingDocs}},
		{[]string{"PutItem"}, docKinds{booking.BookingDocs, booking.DueDocs, booking.EventDocs, booking.ConfirmDocs, billing.KeyUseDocs}},
		{[]string{"DeleteItem"}, docKinds{booking.BookingDocs, booking.DueDocs}},
		{[]string{"UpdateItem"}, docKinds{billing.BalanceDocs, billing.QuotaDocs, booking.SlotDocs, booking.CounterDocs, billing.ActiveAgentDocs}},
		{[]string{"Query"}, docKinds{billing.AccountDocs, billing.ActiveAgentDocs, billing.SubjectDocs, booking.EventDocs, usage.AllDocs}},
		{[]string{"GetItem"}, docKinds{billing.AccountDocs, billing.SecretDocs, billing.KeyUseDocs, billing.LinkDocs, billing.EndingDocs, billing.BalanceDocs, price.VersionDocs, booking.BookingDocs, booking.DueDocs, booking.ConfirmDocs, booking.BreakerDocs,
			registry.RegistrationDocs, registry.RevokedDocs, registry.SlugDocs, registry.ListedCountDocs, vacants.RecordDocs, vacants.HostIdentityDocs, billing.PaymentDocs, paykeys.KeyDocs, signingkey.KeyDocs, billing.SubjectDocs}},
	}...), openContexts: []string{paymentKeyPattern, signingKeyPattern}}
}

func writerAccess(s settings.Settings, readOperations []string, writableKinds ...docKind) []docAccess {
	if s.HostKey != "kms" {
		writableKinds = append(writableKinds, vacants.HostIdentityDocs)
	}
	return []docAccess{{[]string{"PutItem"}, writableKinds}, {operations: readOperations}}
}

func withHostIdentity(s settings.Settings, contexts ...string) []string {
	if s.HostKey != "kms" {
		contexts = append(contexts, hostIdentityPattern)
	}
	return contexts
}

func tokenAccess() []docAccess {
	return []docAccess{
		{[]string{"PutItem"}, docKinds{billing.SubjectDocs}},
		{[]string{"Query"}, docKinds{billing.IssuerDocs}},
	}
}

func agentGrants(s settings.Settings) map[functions.Function]grants {
	agentDocs := writerAccess(s, []string{"GetItem"}, textkeys.KeyDocs, callstats.CallsDocs, task.HeadDocs, task.RecentDocs, task.DispatchedDocs, task.UnfinishedDocs, guests.SecretDocs, billing.DueDocs)
	agentDocs = append(agentDocs, tokenAccess()...)
	agentDocs = append(agentDocs, chargeAccess(), docAccess{[]string{"Query"}, docKinds{task.HeadDocs, task.RecentDocs, task.UnfinishedDocs}}, docAccess{[]string{"UpdateItem"}, docKinds{task.BackgroundCountDocs, task.RunningCountDocs}},
		docAccess{[]string{"DeleteItem"}, docKinds{task.UnfinishedDocs}})
	agentDocs = append(agentDocs, offerAccess(), withdrawOfferAccess(), docAccess{[]string{"Query"}, docKinds{worker.WaitingDocs}}, docAccess{[]string{"PutItem"}, docKinds{worker.ConnectionDocs}})
	return map[functions.Function]grants{
		functions.Agent: grants{rowOperations: appendOperations(), docAccesses: append(agentDocs, docAccess{[]string{"DeleteItem"}, docKinds{workspace.Docs, locks.Docs, locks.LockNumberDocs}}), indexPartitions: []string{vacants.RecordDocs.Index, vacants.NameDocs.Index, task.HeadDocs.Index, task.DispatchedDocs.Index}, canSeal: true, openContexts: []string{vacantSeedPattern, textKeyPattern, guestSecretPattern},
			sealContexts: withHostIdentity(s, textKeyPattern, guestSecretPattern), hostKeyOperations: []string{"GetPublicKey"}, canInvokeThink: true, canInvokeSearch: true, sendQueues: []string{functions.TaskQueue, functions.PushQueue}}.withFileAccess(),
		functions.Worker: grants{rowOperations: appendOperations(), docAccesses: []docAccess{
			{[]string{"PutItem"}, docKinds{textkeys.KeyDocs, callstats.CallsDocs, task.HeadDocs, guests.SecretDocs, billing.DueDocs}},
			{[]string{"Query"}, docKinds{task.HeadDocs}},
			{[]string{"UpdateItem"}, docKinds{task.BackgroundCountDocs, task.RunningCountDocs, task.PushedByteDocs}},
			chargeAccess(),
			{[]string{"PutItem"}, docKinds{booking.BookingDocs, booking.DueDocs, booking.EventDocs, booking.BreakerDocs}},
			{[]string{"DeleteItem"}, docKinds{booking.DueDocs, booking.BreakerDocs, task.UnfinishedDocs}},
			{[]string{"UpdateItem"}, docKinds{booking.SlotDocs, booking.CounterDocs}},
			{operations: []string{"GetItem"}}, offerAccess(), withdrawOfferAccess()},
			canSeal: true, openContexts: []string{vacantSeedPattern, textKeyPattern, guestSecretPattern, signingKeyPattern}, sealContexts: []string{textKeyPattern, guestSecretPattern}, hostKeyOperations: []string{"GetPublicKey"}, canInvokeThink: true,
			sendQueues: []string{functions.TaskQueue, functions.PushQueue}}.withFileAccess(),
	}
}

// thinkGrants returns the grants of think, which calls models for functions that cannot decrypt
// secrets of agents.
func thinkGrants(s settings.Settings) grants {
	var functionARNs []string
	for _, owner := range slices.Sorted(maps.Keys(s.TenantFunctions)) {
		functionARNs = append(functionARNs, s.TenantFunctions[owner]...)
	}
	return grants{openContexts: []string{agentSecretPattern}, bedrockModels: s.BedrockModels, agentFunctionARNs: functionARNs, docAccesses: []docAccess{
		{[]string{"PutItem", "UpdateItem"}, docKinds{spend.VacantTotalDocs}},
		{[]string{"GetItem"}, docKinds{vacants.RecordDocs, registry.RegistrationDocs, registry.OpeningDocs, definition.SecretDocs, spend.VacantTotalDocs, spend.BudgetDocs, models.CurrentDocs, task.HeadDocs}},
	}}
}

// stepGrants returns the grants of the gate's steps. No step opens both texts and seeds: collusion
// opens text keys, and commit opens seeds.
func stepGrants() map[functions.Function]grants {
	readAccess := func(operations []string, readableKinds ...docKind) []docAccess {
		return []docAccess{{operations, append(docKinds{graduation.StatusDocs}, readableKinds...)}}
	}
	getItem, query := []string{"GetItem"}, []string{"Query"}
	return map[functions.Function]grants{
		functions.Consent:   {rowOperations: query, docAccesses: readAccess(getItem, registry.RegistrationDocs, registry.RevokedDocs)},
		functions.RateLimit: {rowOperations: query, docAccesses: readAccess(getItem, graduation.WindowDocs, registry.RegistrationDocs)},
		functions.Collusion: {rowOperations: query, docAccesses: readAccess([]string{"GetItem", "Query"}, registry.RegistrationDocs, registry.OpeningDocs, vacants.RecordDocs, registry.ChildEdgeDocs, callstats.CallsDocs, textkeys.KeyDocs),
			indexPartitions: []string{registry.ManifestDocs.Index}, openContexts: []string{textKeyPattern}},
		functions.Commit: {rowOperations: appendOperations(), openContexts: []string{vacantSeedPattern}, docAccesses: append(readAccess(getItem, graduation.WindowDocs, registry.RegistrationDocs, registry.OpeningDocs, registry.RevokedDocs, vacants.RecordDocs, vacants.HostIdentityDocs, registry.ListedCountDocs),
			docAccess{[]string{"UpdateItem"}, docKinds{registry.ListedCountDocs}},
			docAccess{[]string{"PutItem"}, docKinds{graduation.StatusDocs, graduation.WindowDocs, registry.RegistrationDocs, registry.OpeningDocs, vacants.RecordDocs, registry.PendingProbeDocs, registry.ListedCountDocs}})},
		functions.Record: {rowOperations: query, docAccesses: []docAccess{{[]string{"GetItem", "PutItem"}, docKinds{graduation.StatusDocs}}}},
	}
}

func jobGrants(s settings.Settings) map[functions.Function]grants {
	checkpointer := grants{rowOperations: []string{"Query"}, hostKeyOperations: []string{"GetPublicKey", "Sign"}, canSeal: true, sealContexts: []string{signingKeyPattern}, docAccesses: []docAccess{
		{[]string{"GetItem", "PutItem"}, docKinds{translog.HeadDocs, signingkey.KeyDocs}}}}
	if s.HostKey != "kms" { // the identity is sealed in docs
		checkpointer.openContexts = []string{hostIdentityPattern}
		checkpointer.docAccesses = append(checkpointer.docAccesses, docAccess{[]string{"GetItem"}, docKinds{vacants.HostIdentityDocs}})
	}
	return map[functions.Function]grants{
		functions.Sweeper: {rowOperations: appendOperations(), sendQueues: []string{functions.TaskQueue}, fileOperations: []string{"DeleteObject"}, docAccesses: []docAccess{
			{[]string{"DeleteItem"}, docKinds{workspace.FileDocs}}, {[]string{"PutItem"}, docKinds{workspace.CountDocs}},
			{[]string{"PutItem"}, docKinds{textkeys.KeyDocs, due.OffsetDocs}},
			{[]string{"UpdateItem"}, docKinds{billing.BalanceDocs}},
			{[]string{"DeleteItem"}, docKinds{billing.DueDocs, booking.DueDocs}},
			// The function completes revocations that a crash interrupted, and writes these documents.
			{[]string{"PutItem"}, docKinds{billing.AccountDocs, billing.SecretDocs, billing.LinkDocs}},
			{[]string{"DeleteItem"}, docKinds{billing.AccountDocs, billing.EndingDocs}},
			{operations: []string{"Query", "GetItem"}}}},
		functions.Meter: {rowOperations: []string{"Query"}, canReadRowStream: true, canExportUsage: true, docAccesses: []docAccess{
			{[]string{"PutItem"}, docKinds{usage.AllDocs, usage.OffsetDocs, exports.LastDayDocs}},
			{[]string{"UpdateItem"}, docKinds{usage.SpentDocs}},
			{[]string{"Query"}, docKinds{usage.OffsetDocs, billing.TenantDocs, usage.AllDocs, booking.EventDocs}},
			{[]string{"GetItem"}, docKinds{usage.AllDocs, usage.OffsetDocs, exports.LastDayDocs, vacants.RecordDocs, price.VersionDocs, billing.AccountDocs}}}},
		functions.Prober: {docAccesses: []docAccess{
			{[]string{"Query", "DeleteItem"}, docKinds{registry.PendingProbeDocs}},
			{[]string{"GetItem", "UpdateItem"}, docKinds{registry.ListedCountDocs}},
			{[]string{"GetItem", "PutItem"}, docKinds{registry.PendingProbeDocs, registry.RegistrationDocs}}}},
		functions.Tamper:       {},
		functions.Indexer:      {indexPartitions: []string{registry.RegistrationDocs.Index}, snapshotOperations: []string{"GetObject", "PutObject", "DeleteObject"}},
		functions.Checkpointer: checkpointer,
	}
}
