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

var (
	readAccess   = op.Access{Key: billing.KeyRequirement{Scope: billing.ScopeVacants}}
	changeAccess = op.Access{Key: billing.KeyRequirement{Scope: billing.ScopeVacants, RequiresActive: true}}
)

// Only the operator may use ExportVacant, because its answer contains a private key. A thief of an
// account key could otherwise take over the tenant's vacants permanently.
var (
	CreateVacant        = op.Op[op.Body[Creation], Vacant]{Method: "POST", Path: vacantsPath, Status: http.StatusCreated, Access: changeAccess, MaxBody: maxCreationBytes, Wipe: true, Doc: "creates a vacant"}
	ListVacants         = op.Op[ListVacantsRequest, VacantPage]{Method: "GET", Path: vacantsPath, Access: readAccess, Doc: "lists vacants by name"}
	ShowVacant          = op.Op[VacantRef, Vacant]{Method: "GET", Path: vacantPath, Access: readAccess, Doc: "shows a vacant"}
	UpdateVacant        = op.Op[VacantRequest[Update], Vacant]{Method: "PATCH", Path: vacantPath, Access: changeAccess, Doc: "changes a vacant; 409 if it has changed since the time in seen"}
	DeleteVacant        = op.Op[VacantRef, Vacant]{Method: "DELETE", Path: vacantPath, Access: changeAccess, Doc: "deletes an archived vacant permanently"}
	CheckVacant         = op.Op[VacantRef, Check]{Method: "POST", Path: vacantPath + "/check", Access: changeAccess, Doc: "checks a vacant's agent with one question"}
	GetTools            = op.Op[VacantRef, Tools]{Method: "GET", Path: vacantPath + "/tools", Access: readAccess, Doc: "shows the tools that a vacant's agent is offered, and the tools that are left out"}
	GetToolTexts        = op.Op[ToolTextsRequest, ToolTexts]{Method: "GET", Path: vacantPath + "/tool-texts", Access: readAccess, Doc: "shows arguments and results of a caller's last tool calls, if the agent stores them"}
	PauseVacant         = op.Op[VacantRef, Vacant]{Method: "POST", Path: vacantPath + "/pause", Access: changeAccess, Doc: "pauses a vacant"}
	ResumeVacant        = op.Op[VacantRef, Vacant]{Method: "POST", Path: vacantPath + "/resume", Access: changeAccess, Doc: "lets a vacant answer again"}
	SinkVacant          = op.Op[VacantRef, Vacant]{Method: "POST", Path: vacantPath + "/sink", Access: changeAccess, Doc: "sinks a vacant"}
	ArchiveVacant       = op.Op[VacantRef, Vacant]{Method: "POST", Path: vacantPath + "/archive", Access: changeAccess, Doc: "archives a vacant"}
	ForgetConversations = op.Op[VacantRequest[Forgetting], Vacant]{Method: "POST", Path: vacantPath + "/forget", Access: changeAccess, Doc: "makes a vacant's agent forget earlier conversations"}
	ExportVacant        = op.Op[VacantRef, op.Raw[any]]{Method: "POST", Path: vacantPath + "/export", Wipe: true, Doc: "exports a vacant with its key in the clear"}
	PublishVacant       = op.Op[VacantRequest[Publication], Published]{Method: "POST", Path: vacantPath + "/publish", Access: changeAccess, Doc: "lists a vacant in the registry"}
	UnpublishVacant     = op.Op[VacantRef, Published]{Method: "POST", Path: vacantPath + "/unpublish", Access: changeAccess, Doc: "removes a vacant from search"}
	RevokeVacant        = op.Op[VacantRequest[Revocation], Published]{Method: "POST", Path: vacantPath + "/revoke", Access: changeAccess, Doc: "revokes a vacant's key permanently"}
	GetLogbook          = op.Op[LogbookRequest, Logbook]{Method: "GET", Path: vacantPath + "/logbook", Access: readAccess, Doc: "shows a vacant's logbook"}
	EraseClaim          = op.Op[ReviewRef, op.None]{Method: "DELETE", Path: vacantPath + "/reviews/{position}/claim", Doc: "erases the claim of a review"}
	GetPrice            = op.Op[PriceRequest, CurrentPrice]{Method: "GET", Path: vacantPath + "/price", Access: readAccess, Doc: "shows the price of calls of a vacant"}
	SetPrice            = op.Op[VacantRequest[NewPrice], Vacant]{Method: "PUT", Path: vacantPath + "/price", Access: changeAccess, Doc: "sets the next version of a vacant's price"}
	GetAgent            = op.Op[AgentRequest, Agent]{Method: "GET", Path: vacantPath + "/agent", Access: readAccess, Doc: "shows how a vacant answers"}
	SetAgent            = op.Op[SetAgentRequest, Agent]{Method: "PUT", Path: vacantPath + "/agent", Access: changeAccess, MaxBody: definition.MaxBlobBytes, Doc: "creates the next version of a vacant's agent"}
	GetPlan             = op.Op[VacantRef, Plan]{Method: "GET", Path: vacantPath + "/plan", Access: readAccess, Doc: "shows the plan of a composite"}
	SetPlan             = op.Op[VacantRequest[op.Raw[plan.Document]], Plan]{Method: "PUT", Path: vacantPath + "/plan", Access: changeAccess, Doc: "sets the plan of a composite"}
)

var (
	SpawnChild     = op.Op[VacantRequest[Spawning], Spawned]{Method: "POST", Path: vacantPath + "/children", Status: http.StatusCreated, Access: changeAccess, Doc: "creates a child of a vacant; 200 if the child exists already"}
	ListChildren   = op.Op[ChildrenRequest, Children]{Method: "GET", Path: vacantPath + "/children", Access: readAccess, Doc: "lists a vacant's children"}
	GetManifest    = op.Op[VacantRef, Manifest]{Method: "GET", Path: vacantPath + "/manifest", Access: readAccess, Doc: "shows the manifest of a child"}
	StoreManifest  = op.Op[VacantRequest[op.Raw[composite.ManifestDocument]], Manifest]{Method: "POST", Path: vacantPath + "/manifest", Access: changeAccess, Doc: "stores a manifest that parent and child have signed"}
	SignGraduation = op.Op[VacantRequest[GraduationRequest], GraduationSignature]{Method: "POST", Path: vacantPath + "/graduation-signature", Access: changeAccess, Doc: "signs a request to graduate as parent or child"}
	GetGraduation  = op.Op[AttemptRef, graduation.View]{Method: "GET", Path: vacantPath + "/graduation", Access: readAccess, Doc: "shows a graduation attempt; without a position, the last attempt"}
	GetGate        = op.Op[TenantRef, GatePolicy]{Method: "GET", Path: Prefix + "gate", Doc: "shows the policy of graduations"}
	SetGate        = op.Op[TenantRequest[op.Raw[gate.Policy]], GatePolicy]{Method: "PUT", Path: Prefix + "gate", Doc: "sets the policy of graduations"}
)

var (
	SetListing    = op.Op[VacantRequest[Listing], Listed]{Method: "PUT", Path: Prefix + "listings/{vacant}", Doc: "sets the listing of a registered vacant by its operator"}
	ListNames     = op.Op[NamesRequest, Names]{Method: "GET", Path: Prefix + "names", Doc: "lists the reserved names of vacants of a tenant, or of the operator"}
	ReleaseName   = op.Op[NameRef, Name]{Method: "DELETE", Path: Prefix + "names/{name}", Doc: "releases a reserved name for all tenants"}
	GetModels     = op.Op[op.None, models.Table]{Method: "GET", Path: Prefix + "models", Doc: "shows prices of models"}
	SetModels     = op.Op[op.Body[op.Raw[models.TableDocument]], models.Table]{Method: "PUT", Path: Prefix + "models", MaxBody: models.MaxTableBytes, Doc: "sets the next version of prices of models"}
	GetBudget     = op.Op[TenantRef, spend.Budget]{Method: "GET", Path: Prefix + "budgets", Doc: "shows the daily budget for models"}
	SetBudget     = op.Op[TenantRequest[DailyBudget], spend.Budget]{Method: "PUT", Path: Prefix + "budgets", Doc: "sets the daily budget for models"}
	RecountUsage  = op.Op[op.None, usage.RecountResult]{Method: "POST", Path: Prefix + "usage/recount", Doc: "corrects usage from the rows"}
	GetHost       = op.Op[HostRequest, Host]{Method: "GET", Path: Prefix + "host", Doc: "shows the identity of the host, with a proof"}
	SetHost       = op.Op[op.Body[HostURL], Host]{Method: "PUT", Path: Prefix + "host", Doc: "sets the host's public URL"}
	GetRoot       = op.Op[op.None, Root]{Method: "GET", Path: Prefix + "root", Doc: "shows the vacant at the host's own address"}
	SetRoot       = op.Op[op.Body[Root], Root]{Method: "PUT", Path: Prefix + "root", Doc: "sets the vacant at the host's own address, or none"}
	RecordRestore = op.Op[RestoreRequest, Restored]{Method: "POST", Path: Prefix + "restored", Doc: "records that the data of the host were restored from a backup"}
	SealLog       = op.Op[op.IgnoredBody, Sealed]{Method: "POST", Path: Prefix + "log/seal", Doc: "seals the registry's log now"}
	GetStatus     = op.Op[op.None, Status]{Method: "GET", Path: Prefix + "status", Doc: "shows the status of a host on one machine"}
	Reindex       = op.Op[op.IgnoredBody, Reindexed]{Method: "POST", Path: Prefix + "reindex", Doc: "rebuilds the search index of a host on one machine"}
)

type SecretOps struct {
	List   op.Op[TenantRef, Secrets]
	Set    op.Op[SetSecretRequest, secrets.Info]
	Delete op.Op[SecretRef, op.None]
}

func newSecretOps(path, kind string) SecretOps {
	return SecretOps{
		List:   op.Op[TenantRef, Secrets]{Method: "GET", Path: path, Doc: "lists " + kind + ", without values"},
		Set:    op.Op[SetSecretRequest, secrets.Info]{Method: "PUT", Path: path + "/{name}", MaxBody: 64 << 10, Wipe: true, Doc: "sets one of " + kind + ", as its next version"},
		Delete: op.Op[SecretRef, op.None]{Method: "DELETE", Path: path + "/{name}", Doc: "deletes one of " + kind},
	}
}

var (
	AgentSecrets = newSecretOps(Prefix+"secrets", "the secrets of agents")
	PaymentKeys  = newSecretOps(Prefix+"payments", "the keys of the payment provider")
)

// VacantRef names a vacant by its name, its id or a prefix of its id.
type VacantRef struct {
	Vacant string `path:"vacant"`
}

func (o VacantRef) vacant() string { return o.Vacant }

type VacantRequest[Body any] struct {
	VacantRef
	Body Body `body:"json"`
}

type ReviewRef struct {
	VacantRef
	Position uint64 `path:"position"`
}

func NewVacantRequest[Body any](vacant string, body Body) VacantRequest[Body] {
	return VacantRequest[Body]{VacantRef{vacant}, body}
}

type TenantRef struct {
	Tenant string `query:"tenant"`
}

func NewTenantRequest[Body any](tenant string, body Body) TenantRequest[Body] {
	return TenantRequest[Body]{TenantRef{tenant}, body}
}

type TenantRequest[Body any] struct {
	TenantRef
	Body Body `body:"json"`
}

type DailyBudget struct {
	Daily money.Amount `json:"daily" canon:"required"`
}

type (
	ListVacantsRequest struct {
		All    bool   `query:"all"`
		Cursor string `query:"cursor"`
		Limit  uint64 `query:"limit"`
	}
	NamesRequest struct {
		TenantRef
		Cursor string `query:"cursor"`
		Limit  uint64 `query:"limit"`
	}
	NameRef struct {
		Name string `path:"name"`
	}
	// ToolTextsRequest selects the last ended calls of a caller. Last defaults to its maximum, 20.
	ToolTextsRequest struct {
		VacantRef
		Caller identity.ID `query:"caller"`
		Last   uint64      `query:"last"`
	}
	LogbookRequest struct {
		VacantRef
		From  uint64 `query:"from"`
		Limit uint64 `query:"limit"`
	}
	// PriceRequest names a version of a vacant's price. 0 means the current version.
	PriceRequest struct {
		VacantRef
		Version uint64 `query:"version"`
	}
	AgentRequest struct {
		VacantRef
		Version Version `query:"version"`
	}
	// SetAgentRequest is the next version of a vacant's agent. If After is nil, it replaces any
	// current version.
	SetAgentRequest struct {
		VacantRequest[op.Raw[definition.Agent]]
		After *Version `query:"after"`
	}
	ChildrenRequest struct {
		VacantRef
		Cursor string `query:"cursor"`
		Limit  uint64 `query:"limit"`
	}
	// AttemptRef names a graduation attempt by its position in the child's logbook. 0 means the last
	// attempt.
	AttemptRef struct {
		VacantRef
		Position uint64 `query:"position"`
	}
	// CallsRequest requests the last calls of a pair, or all calls if Last is 0. If From names an
	// identity of the reader, OwnIdentity is the id of this identity.
	CallsRequest struct {
		From        string `path:"from"`
		To          string `path:"to"`
		OwnIdentity string `query:"own"`
		Last        uint64 `query:"last"`
	}
	SecretRef struct {
		TenantRef
		Name string `path:"name"`
	}
	SetSecretRequest struct {
		SecretRef
		Body SecretSetting `body:"json"`
	}
	HostRequest struct {
		Challenge []string `query:"challenge"`
	}
	RestoreRequest struct {
		Cursor string `query:"cursor"`
	}
)
