// Package documents lists all kinds of stored documents. "vacancy verify", the host's export and
// the access policies in the directory infra use the list.
//
// To add a kind, declare a store.DocKind in the file documents.go of its package, and add it to the
// list in this package.
package documents

import (
	"slices"
	"strings"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/billing/paykeys"
	"github.com/vacancy-host/vacancy/shared/host/booking"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/due"
	"github.com/vacancy-host/vacancy/shared/host/family/graduation"
	"github.com/vacancy-host/vacancy/shared/host/family/spawning"
	"github.com/vacancy-host/vacancy/shared/host/keys/guests"
	"github.com/vacancy-host/vacancy/shared/host/keys/operator"
	"github.com/vacancy-host/vacancy/shared/host/keys/signingkey"
	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/queue/local"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/registry/callstats"
	"github.com/vacancy-host/vacancy/shared/host/registry/translog"
	"github.com/vacancy-host/vacancy/shared/host/reviews"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/models"
	"github.com/vacancy-host/vacancy/shared/host/substrate/spend"
	"github.com/vacancy-host/vacancy/shared/host/substrate/worker"
	"github.com/vacancy-host/vacancy/shared/host/tenant/quota"
	"github.com/vacancy-host/vacancy/shared/host/upgrade"
	"github.com/vacancy-host/vacancy/shared/host/usage"
	"github.com/vacancy-host/vacancy/shared/host/usage/exports"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/host/workspace"
	"github.com/vacancy-host/vacancy/shared/host/workspace/locks"
	"github.com/vacancy-host/vacancy/shared/store"
)

var kinds = []store.AnyDocKind{
	billing.AccountDocs.Any(), billing.TenantDocs.Any(), billing.BalanceDocs.Any(), billing.IdempotentChangeDocs.Any(), billing.SecretDocs.Any(), billing.KeyDocs.Any(),
	billing.KeyUseDocs.Any(), billing.FreeUseDocs.Any(), billing.LinkDocs.Any(), billing.LinkedDocs.Any(), billing.PaymentDocs.Any(), billing.QuotaDocs.Any(),
	billing.EndingDocs.Any(), billing.IssuerDocs.Any(), billing.SubjectDocs.Any(), billing.ActiveAgentDocs.Any(), billing.DueDocs.Any(),
	booking.BookingDocs.Any(), booking.DetailsDocs.Any(), booking.EventDocs.Any(), booking.ConfirmDocs.Any(), booking.SlotDocs.Any(), booking.BreakerDocs.Any(),
	booking.CounterDocs.Any(), booking.DueDocs.Any(),
	call.UnsettledAnswerDocs.Any(),
	callstats.CallsDocs.Any(),
	definition.SecretDocs.Any(),
	due.OffsetDocs.Any(),
	graduation.StatusDocs.Any(), graduation.AttemptWindowDocs.Any(), graduation.WindowDocs.Any(), graduation.PolicyDocs.Any(),
	guests.SecretDocs.Any(),
	local.MessageDocs.Any(),
	locks.Docs.Any(), locks.LockNumberDocs.Any(),
	models.CurrentDocs.Any(), models.VersionDocs.Any(),
	operator.KeyDocs.Any(),
	paykeys.KeyDocs.Any(),
	price.VersionDocs.Any(),
	quota.UsageDocs.Any(),
	registry.RegistrationDocs.Any(), registry.ManifestDocs.Any(), registry.OpeningDocs.Any(), registry.ChildEdgeDocs.Any(), registry.RevokedDocs.Any(), registry.RevokedListDocs.Any(),
	registry.PendingProbeDocs.Any(), registry.SlugDocs.Any(), registry.ListedCountDocs.Any(),
	reviews.BookDocs.Any(), reviews.ClaimDocs.Any(), reviews.ReviewedCallDocs.Any(), reviews.PartyDocs.Any(), reviews.BlindedDocs.Any(), reviews.RecentReviewDocs.Any(),
	signingkey.KeyDocs.Any(),
	spawning.SpawnsDocs.Any(),
	spend.VacantTotalDocs.Any(), spend.TenantTotalDocs.Any(), spend.HostTotalDocs.Any(), spend.BudgetDocs.Any(),
	task.HeadDocs.Any(), task.EventDocs.Any(), task.PushDocs.Any(), task.BackgroundCountDocs.Any(), task.RunningCountDocs.Any(), task.PushedByteDocs.Any(), task.RecentDocs.Any(),
	task.DispatchedDocs.Any(), task.UnfinishedDocs.Any(), task.TraceDocs.Any(), task.LogDocs.Any(),
	textkeys.KeyDocs.Any(),
	translog.HeadDocs.Any(), translog.LeaseDocs.Any(), translog.TileDocs.Any(), translog.CheckpointDocs.Any(), translog.EpochDocs.Any(), translog.CosignatureDocs.Any(),
	upgrade.VersionDocs.Any(),
	usage.PaidDocs.Any(), usage.SubjectDocs.Any(), usage.EarnedDocs.Any(), usage.SpentDocs.Any(), usage.OffsetDocs.Any(), exports.LastDayDocs.Any(),
	vacants.RecordDocs.Any(), vacants.AgentDocs.Any(), vacants.PlanDocs.Any(), vacants.ChainDocs.Any(), vacants.ForgetMarkDocs.Any(), vacants.NameDocs.Any(), vacants.NameOwnerDocs.Any(),
	vacants.NamelessTombstoneDocs.Any(), vacants.HostIdentityDocs.Any(), vacants.URLDocs.Any(), vacants.ReadyDocs.Any(), vacants.RootDocs.Any(),
	workspace.Docs.Any(), workspace.CountDocs.Any(), workspace.FileDocs.Any(),
	worker.WaitingDocs.Any(), worker.TurnDocs.Any(), worker.TextDocs.Any(), worker.ConnectionDocs.Any(),
}

func All() []store.AnyDocKind { return kinds }

// Find returns the kind of the document with key k. If several patterns match, it returns the most
// specific one.
func Find(k store.Key) (kind store.AnyDocKind, ok bool) {
	longest := -1
	for _, candidate := range kinds {
		if length := literalLength(candidate.Partition + candidate.Sort); length > longest && candidate.Matches(k) {
			kind, longest = candidate, length
		}
	}
	return kind, longest >= 0
}

func IsExported(k store.Key) bool {
	kind, ok := Find(k)
	return ok && kind.Verify != store.VerifySkip
}

func IsListed(r store.Range) bool {
	// A partition is omitted if it also matches a more specific kind with store.VerifySkip.
	return slices.ContainsFunc(kinds, func(kind store.AnyDocKind) bool {
		return kind.Verify != store.VerifySkip && kind.HasRange(r) && (r.Index || !slices.ContainsFunc(kinds, func(other store.AnyDocKind) bool {
			return other.Verify == store.VerifySkip && other.HasPartition(r.Partition) && literalLength(other.Partition) > literalLength(kind.Partition)
		}))
	})
}

func literalLength(pattern string) int { return len(pattern) - strings.Count(pattern, "*") }
