package admin

import (
	"net/http"

	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/family/graduation"
	"github.com/vacancy-host/vacancy/shared/host/keys/secrets"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/models"
	"github.com/vacancy-host/vacancy/shared/host/substrate/plan"
	"github.com/vacancy-host/vacancy/shared/host/substrate/spend"
	"github.com/vacancy-host/vacancy/shared/host/usage"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

const (
	vacantsPath = Prefix + "vacants"
	vacantPath  = vacantsPath + "/{vacant}"
)

// The access of account keys to operations on vacants. A request for another party's vacant gets
// the same answer, byte for byte, as a request for a vacant that does not exist.
var (
	reads   = op.Access{Key: billing.Demand{Scope: billing.ScopeVacants}}
	changes = op.Access{Key: billing.Demand{Scope: billing.ScopeVacants, Active: true}}
)

// The operations on vacants. Only the operator may use ExportVacant, because its answer contains
// the private key of a vacant. Otherwise a thief of an account key could permanently take over the
// vacants of its tenant.
var (
	CreateVacant    = op.Op[op.Body[Creation], Vacant]{Method: "POST", Path: vacantsPath, Status: http.StatusCreated, Access: changes, Limit: maxCreation, Wipe: true, Doc: "creates a vacant"}
	ListVacants     = op.Op[VacantList, VacantPage]{Method: "GET", Path: vacantsPath, Access: reads, Doc: "lists vacants by name"}
	ShowVacant      = op.Op[VacantRequest, Vacant]{Method: "GET", Path: vacantPath, Access: reads, Doc: "shows a vacant"}
	UpdateVacant    = op.Op[With[Update], Vacant]{Method: "PATCH", Path: vacantPath, Access: changes, Doc: "changes a vacant; 409 if it has changed since the time in seen"}
	DeleteVacant    = op.Op[VacantRequest, Vacant]{Method: "DELETE", Path: vacantPath, Access: changes, Doc: "deletes an archived vacant permanently"}
	CheckVacant     = op.Op[VacantRequest, Check]{Method: "POST", Path: vacantPath + "/check", Access: changes, Doc: "checks a vacant's agent with one question"}
	GetTools        = op.Op[VacantRequest, Tools]{Method: "GET", Path: vacantPath + "/tools", Access: reads, Doc: "shows the tools that a vacant's agent is offered, and the tools that are left out"}
	GetToolTexts    = op.Op[ToolTextsOf, ToolTexts]{Method: "GET", Path: vacantPath + "/tool-texts", Access: reads, Doc: "shows arguments and results of a caller's last tool calls, if the agent stores them"}
	PauseVacant     = op.Op[VacantRequest, Vacant]{Method: "POST", Path: vacantPath + "/pause", Access: changes, Doc: "pauses a vacant"}
	ResumeVacant    = op.Op[VacantRequest, Vacant]{Method: "POST", Path: vacantPath + "/resume", Access: changes, Doc: "lets a vacant answer again"}
	SinkVacant      = op.Op[VacantRequest, Vacant]{Method: "POST", Path: vacantPath + "/sink", Access: changes, Doc: "sinks a vacant"}
	ArchiveVacant   = op.Op[VacantRequest, Vacant]{Method: "POST", Path: vacantPath + "/archive", Access: changes, Doc: "archives a vacant"}
	ForgetThread    = op.Op[With[Forgetting], Vacant]{Method: "POST", Path: vacantPath + "/forget", Access: changes, Doc: "makes a vacant's agent forget earlier conversations"}
	ExportVacant    = op.Op[VacantRequest, op.Raw[any]]{Method: "POST", Path: vacantPath + "/export", Wipe: true, Doc: "exports a vacant with its key in the clear"}
	PublishVacant   = op.Op[With[Publication], Published]{Method: "POST", Path: vacantPath + "/publish", Access: changes, Doc: "lists a vacant in the registry"}
	UnpublishVacant = op.Op[VacantRequest, Published]{Method: "POST", Path: vacantPath + "/unpublish", Access: changes, Doc: "removes a vacant from search"}
	RevokeVacant    = op.Op[With[Revocation], Published]{Method: "POST", Path: vacantPath + "/revoke", Access: changes, Doc: "revokes a vacant's key permanently"}
	GetLogbook      = op.Op[LogbookPart, Logbook]{Method: "GET", Path: vacantPath + "/logbook", Access: reads, Doc: "shows a vacant's logbook"}
	EraseClaim      = op.Op[ReviewOf, op.None]{Method: "DELETE", Path: vacantPath + "/reviews/{position}/claim", Doc: "erases the claim of a review"}
	GetPrice        = op.Op[PriceVersion, CurrentPrice]{Method: "GET", Path: vacantPath + "/price", Access: reads, Doc: "shows the price of calls of a vacant"}
	SetPrice        = op.Op[With[NewPrice], Vacant]{Method: "PUT", Path: vacantPath + "/price", Access: changes, Doc: "sets the next version of a vacant's price"}
	GetAgent        = op.Op[AgentVersion, Agent]{Method: "GET", Path: vacantPath + "/agent", Access: reads, Doc: "shows how a vacant answers"}
	SetAgent        = op.Op[NewAgent, Agent]{Method: "PUT", Path: vacantPath + "/agent", Access: changes, Limit: definition.MaxBlob, Doc: "creates the next version of a vacant's agent"}
	GetPlan         = op.Op[VacantRequest, Plan]{Method: "GET", Path: vacantPath + "/plan", Access: reads, Doc: "shows the plan of a composite"}
	SetPlan         = op.Op[With[op.Raw[plan.Document]], Plan]{Method: "PUT", Path: vacantPath + "/plan", Access: changes, Doc: "sets the plan of a composite"}
)

var (
	SpawnChild     = op.Op[With[Spawning], Spawned]{Method: "POST", Path: vacantPath + "/children", Status: http.StatusCreated, Access: changes, Doc: "creates a child of a vacant; 200 if the child exists already"}
	ListChildren   = op.Op[ChildList, Children]{Method: "GET", Path: vacantPath + "/children", Access: reads, Doc: "lists a vacant's children"}
	GetManifest    = op.Op[VacantRequest, Manifest]{Method: "GET", Path: vacantPath + "/manifest", Access: reads, Doc: "shows the manifest of a child"}
	StoreManifest  = op.Op[With[op.Raw[composite.ManifestDocument]], Manifest]{Method: "POST", Path: vacantPath + "/manifest", Access: changes, Doc: "stores a manifest that parent and child have signed"}
	SignGraduation = op.Op[With[GraduationRequest], GraduationSignature]{Method: "POST", Path: vacantPath + "/graduation-signature", Access: changes, Doc: "signs a request to graduate as parent or child"}
	GetGraduation  = op.Op[Attempt, graduation.View]{Method: "GET", Path: vacantPath + "/graduation", Access: reads, Doc: "shows a graduation attempt; without a position, the last attempt"}
	GetGate        = op.Op[OfTenant, GatePolicy]{Method: "GET", Path: Prefix + "gate", Doc: "shows the policy of graduations"}
	SetGate        = op.Op[TenantWith[op.Raw[gate.Policy]], GatePolicy]{Method: "PUT", Path: Prefix + "gate", Doc: "sets the policy of graduations"}
)

var (
	SetListing         = op.Op[With[Listing], Listed]{Method: "PUT", Path: Prefix + "listings/{vacant}", Doc: "sets the listing of a registered vacant by its operator"}
	ListNames          = op.Op[NameList, Names]{Method: "GET", Path: Prefix + "names", Doc: "lists the reserved names of vacants of a tenant, or of the operator"}
	ReleaseName        = op.Op[OneName, Name]{Method: "DELETE", Path: Prefix + "names/{name}", Doc: "releases a reserved name for all tenants"}
	GetModels          = op.Op[op.None, models.Table]{Method: "GET", Path: Prefix + "models", Doc: "shows prices of models"}
	SetModels          = op.Op[op.Body[op.Raw[models.TableDocument]], models.Table]{Method: "PUT", Path: Prefix + "models", Limit: models.MaxTable, Doc: "sets the next version of prices of models"}
	GetBudget          = op.Op[OfTenant, spend.Budget]{Method: "GET", Path: Prefix + "budgets", Doc: "shows the daily budget for models"}
	SetBudget          = op.Op[TenantWith[DailyBudget], spend.Budget]{Method: "PUT", Path: Prefix + "budgets", Doc: "sets the daily budget for models"}
	RecountUsage       = op.Op[op.None, usage.RecountResult]{Method: "POST", Path: Prefix + "usage/recount", Doc: "corrects usage from the rows"}
	GetHost            = op.Op[Challenged, Host]{Method: "GET", Path: Prefix + "host", Doc: "shows the identity of the host, with a proof"}
	SetHost            = op.Op[op.Body[HostURL], Host]{Method: "PUT", Path: Prefix + "host", Doc: "sets the host's public URL"}
	GetRoot            = op.Op[op.None, Root]{Method: "GET", Path: Prefix + "root", Doc: "shows the vacant at the host's own address"}
	SetRoot            = op.Op[op.Body[Root], Root]{Method: "PUT", Path: Prefix + "root", Doc: "sets the vacant at the host's own address, or none"}
	RestoredFromBackup = op.Op[RestoredFrom, Restored]{Method: "POST", Path: Prefix + "restored", Doc: "records that the data of the host were restored from a backup"}
	SealLog            = op.Op[op.IgnoreBody, Sealed]{Method: "POST", Path: Prefix + "log/seal", Doc: "seals the registry's log now"}
	GetStatus          = op.Op[op.None, Status]{Method: "GET", Path: Prefix + "status", Doc: "shows the status of a host on one machine"}
	Reindex            = op.Op[op.IgnoreBody, Reindexed]{Method: "POST", Path: Prefix + "reindex", Doc: "rebuilds the search index of a host on one machine"}
)

// SecretOps contains the operations on secrets of one kind: the secrets of agents, or the keys of
// the payment provider.
type SecretOps struct {
	List   op.Op[OfTenant, Secrets]
	Set    op.Op[NewSecret, secrets.Info]
	Delete op.Op[OneSecret, op.None]
}

func secretOps(path, what string) SecretOps {
	return SecretOps{
		List:   op.Op[OfTenant, Secrets]{Method: "GET", Path: path, Doc: "lists " + what + ", without values"},
		Set:    op.Op[NewSecret, secrets.Info]{Method: "PUT", Path: path + "/{name}", Limit: 64 << 10, Wipe: true, Doc: "sets one of " + what + ", as its next version"},
		Delete: op.Op[OneSecret, op.None]{Method: "DELETE", Path: path + "/{name}", Doc: "deletes one of " + what},
	}
}

// AgentSecrets belong to the host or to a tenant. PaymentKeys belong to the host: the keys of the
// payment provider (stripe, stripe-webhook).
var (
	AgentSecrets = secretOps(Prefix+"secrets", "the secrets of agents")
	PaymentKeys  = secretOps(Prefix+"payments", "the keys of the payment provider")
)

// VacantRequest names a vacant by its name, its id or a prefix of its id.
type VacantRequest struct {
	Vacant string `path:"vacant"`
}

func (o VacantRequest) vacant() string { return o.Vacant }

type With[Body any] struct {
	VacantRequest
	Body Body `body:"json"`
}

// ReviewOf names a review of a vacant by its position.
type ReviewOf struct {
	VacantRequest
	Position uint64 `path:"position"`
}

func ForVacant[Body any](vacant string, body Body) With[Body] {
	return With[Body]{VacantRequest{vacant}, body}
}

// OfTenant names a tenant. "" means the host itself.
type OfTenant struct {
	Tenant string `query:"tenant"`
}

func ForTenant[Body any](tenant string, body Body) TenantWith[Body] {
	return TenantWith[Body]{OfTenant{tenant}, body}
}

// TenantWith is a request with a body about a tenant or the host.
type TenantWith[Body any] struct {
	OfTenant
	Body Body `body:"json"`
}

// DailyBudget is a daily budget in micro-dollars.
type DailyBudget struct {
	Daily money.Amount `json:"daily" canon:"required"`
}

// Other requests.
type (
	// VacantList requests a page of vacants. If All is set, it includes deleted vacants.
	VacantList struct {
		All    bool   `query:"all"`
		Cursor string `query:"cursor"`
		Limit  uint64 `query:"limit"`
	}
	// NameList requests a page of reserved names. If Tenant is empty, they are the operator's
	// names.
	NameList struct {
		OfTenant
		Cursor string `query:"cursor"`
		Limit  uint64 `query:"limit"`
	}
	OneName struct {
		Name string `path:"name"`
	}
	// ToolTextsOf selects the last calls of a caller that were answered or have failed. The default
	// and the maximum of Last are 20.
	ToolTextsOf struct {
		VacantRequest
		Caller identity.ID `query:"caller"`
		Last   uint64      `query:"last"`
	}
	// LogbookPart requests the part of a vacant's logbook that begins at a position.
	LogbookPart struct {
		VacantRequest
		From  uint64 `query:"from"`
		Limit uint64 `query:"limit"`
	}
	// PriceVersion names a version of a vacant's price. 0 means the current version.
	PriceVersion struct {
		VacantRequest
		Version uint64 `query:"version"`
	}
	// AgentVersion names a version of a vacant's agent. 0 means the current version.
	AgentVersion struct {
		VacantRequest
		Version Version `query:"version"`
	}
	// NewAgent is the next version of a vacant's agent. After is the expected current version. If
	// After is nil, any current version is replaced.
	NewAgent struct {
		With[op.Raw[definition.Agent]]
		After *Version `query:"after"`
	}
	ChildList struct {
		VacantRequest
		Cursor string `query:"cursor"`
		Limit  uint64 `query:"limit"`
	}
	// Attempt names a graduation attempt by its position in the child's logbook. 0 means the last
	// attempt.
	Attempt struct {
		VacantRequest
		Position uint64 `query:"position"`
	}
	// Calls requests the last calls of a pair, or all calls if Last is 0. From is a name or id of a
	// caller. If From is the name of an identity of the reader, OwnIdentity is the id of this
	// identity.
	Calls struct {
		From string `path:"from"`
		To   string `path:"to"`
		Own  string `query:"own"`
		Last uint64 `query:"last"`
	}
	OneSecret struct {
		OfTenant
		Name string `path:"name"`
	}
	NewSecret struct {
		OneSecret
		Body SecretSetting `body:"json"`
	}
	// Challenged requests the identity of the host. If it contains a challenge, the answer also
	// contains the host's signature of the challenge.
	Challenged struct {
		Challenge []string `query:"challenge"`
	}
	// RestoredFrom reports a restore from a backup for one page of the host's vacants. An empty
	// Cursor means the first page.
	RestoredFrom struct {
		Cursor string `query:"cursor"`
	}
)
