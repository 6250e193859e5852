// Package documents lists the kinds of stored documents. Who has to know all of them ranges
// over this list: vacancy verify checks what Shape.Verify says, the export serves the
// documents that verify reads, and infra's grants name the partitions of kinds.
//
// A new kind is a variable of type store.Kind, in the file documents.go of the package that
// keeps the documents, and its name here.
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
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/models"
	"github.com/vacancy-host/vacancy/shared/host/substrate/spend"
	"github.com/vacancy-host/vacancy/shared/host/usage"
	"github.com/vacancy-host/vacancy/shared/host/usage/exports"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store"
)

// kinds are all of them, by package.
var kinds = []store.AnyKind{
	billing.AccountDocs, billing.TenantDocs, billing.BalanceDocs, billing.MoveDocs, billing.SecretDocs, billing.KeyDocs,
	billing.UseDocs, billing.FreeUseDocs, billing.LinkDocs, billing.LinkedDocs, billing.PaymentDocs, billing.QuotaDocs,
	billing.ActiveDocs, billing.DueDocs,
	booking.BookingDocs, booking.DetailsDocs, booking.EventDocs, booking.OnceDocs, booking.SlotDocs, booking.BreakerDocs,
	booking.CounterDocs, booking.DueDocs,
	call.KeptDocs,
	callstats.CallsDocs,
	definition.SecretDocs,
	due.OffsetDocs,
	graduation.StatusDocs, graduation.AttemptWindowDocs, graduation.WindowDocs, graduation.PolicyDocs,
	guests.SecretDocs,
	local.MessageDocs,
	models.CurrentDocs, models.VersionDocs,
	operator.KeyDocs,
	paykeys.KeyDocs,
	price.VersionDocs,
	registry.RegistrationDocs, registry.ManifestDocs, registry.OpenedDocs, registry.KinDocs, registry.RevokedDocs, registry.RevokedListDocs,
	registry.UnreachedDocs, registry.SlugDocs, registry.VenueCountDocs,
	signingkey.KeyDocs,
	spawning.SpawnsDocs,
	spend.VacantDocs, spend.TenantDocs, spend.HostDocs, spend.BudgetDocs,
	task.HeadDocs, task.EventDocs, task.PushDocs, task.TurnDocs, task.PushedDocs,
	textkeys.KeyDocs,
	translog.HeadDocs, translog.LeaseDocs, translog.TileDocs, translog.CheckpointDocs, translog.EpochDocs, translog.CosignedDocs,
	usage.PaidDocs, usage.OwnedDocs, usage.SpentDocs, usage.OffsetDocs, exports.OffsetDocs,
	vacants.RecordDocs, vacants.AgentDocs, vacants.PlanDocs, vacants.ChainDocs, vacants.ForgetDocs, vacants.NameDocs,
	vacants.FormerDocs, vacants.SelfDocs, vacants.URLDocs, vacants.ReadyDocs, vacants.RootDocs,
}

// All returns the kinds.
func All() []store.AnyKind { return kinds }

// Of returns the kind of the document at a key; nil if there is none. Where the patterns of
// several kinds match, it is the one that says more.
func Of(k store.Key) (kind store.AnyKind) {
	says := -1
	for _, one := range kinds {
		s := one.Describe()
		if literal := len(s.Partition) + len(s.Sort) - strings.Count(s.Partition+s.Sort, "*"); literal > says && s.Matches(k) {
			kind, says = one, literal
		}
	}
	return kind
}

// Exported reports whether the export serves the document at a key.
func Exported(k store.Key) bool {
	kind := Of(k)
	return kind != nil && kind.Describe().Verify != store.Unread
}

// Listed reports whether the export lists a range.
func Listed(r store.Range) bool {
	return slices.ContainsFunc(kinds, func(kind store.AnyKind) bool {
		s := kind.Describe()
		return s.Verify != store.Unread && s.Ranges(r)
	})
}
