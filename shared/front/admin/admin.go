// Package admin implements the operator's API. It creates, publishes, exports and deletes vacants,
// creates their children, and manages the gate's policy and the host's identity.
//
// On a single machine, the API is served at a Unix socket that only its owner can open. On AWS, it
// is served at a public URL behind RequireKey, which accepts only the operator's key.
// SignedChildrenHandler serves parents that request children with their own signature, and
// TenantHandler serves tenants that manage their own vacants.
//
// A seed (the private key of a vacant) leaves the host only by an export.
package admin

import (
	"cmp"
	"context"
	"encoding/hex"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"strconv"

	"github.com/vacancy-host/vacancy/shared/front/account"
	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/host/answer"
	"github.com/vacancy-host/vacancy/shared/host/answer/delegation"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/keys/secrets"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/reviews"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/models"
	"github.com/vacancy-host/vacancy/shared/host/substrate/resources"
	"github.com/vacancy-host/vacancy/shared/host/substrate/spend"
	"github.com/vacancy-host/vacancy/shared/host/usage"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// SocketHost is the only Host header that the admin socket of a single machine accepts. The name
// never resolves (RFC 6761), so no page in a browser has this host.
const SocketHost = "admin.vacancy.invalid"

const Prefix = "/v1/admin/"

const backupPath = Prefix + "backup"

// Config contains the handler's dependencies. If the field of an optional feature is nil, for
// example Billing or Gate, the operations of the feature answer NotFound.
type Config struct {
	Vacants *vacants.Directory
	Answers *answer.Answerer
	Calls   *call.Host
	Reviews *reviews.Service
	// AllowedHost is the only accepted Host header. If it is "", any Host is accepted; a key must then
	// guard the handler.
	AllowedHost                 string
	VerifyHandler, ChainHandler http.Handler
	// BackupHandler answers with the complete host, including its keys.
	BackupHandler http.Handler
	Status        func(context.Context) (Status, error)
	Reindex       func(context.Context) (Reindexed, error)
	// If RenewReceiptKey is nil, another process creates the key that signs receipts.
	RenewReceiptKey    func(context.Context) error
	Seal               func(context.Context) (Sealed, error)
	GraduationsHandler http.Handler
	Billing            *billing.Billing
	PaymentKeys        *secrets.Secrets
	Receipts           *account.Receipts
	ExtraRoutes        []op.Route
	Recount            func(ctx context.Context) (usage.RecountResult, error)
	Gate               Gate
	ChildReport        func(ctx context.Context, by vacants.Asker, parent identity.ID, cursor string, n int) ([]delegation.Child, string, error)
	HasKeyService      bool
	Stage, Version     string
	Log                *slog.Logger
}

// Handler returns the handler of all operations of the operator's API.
func Handler(c Config) http.Handler {
	d := &api{c}
	routes := op.RoutesByPath(slices.Concat(d.routes(op.Server{OperatorOnly: true}), d.streamRoutes(), account.OperatorRoutes(c.Billing, c.Receipts), c.ExtraRoutes)...)
	routes[GraduationsPath] = httpapi.Methods{http.MethodPost: streamHandler(c.GraduationsHandler)}
	return d.guard(d.httpAPI().Mux(routes))
}

func Operations() []op.Spec {
	emptyAPI := &api{Config{Vacants: &vacants.Directory{Config: vacants.Config{Resources: &resources.Resources{}}}}}
	return op.Specs(append(emptyAPI.routes(op.Server{}), emptyAPI.streamRoutes()...))
}

func (d *api) streamRoutes() []op.Route {
	mediaTypes := []string{"application/x-ndjson"}
	return []op.Route{
		op.NewHandlerRoute(op.Spec{
			Method: "GET", Path: Prefix + "verify", Status: http.StatusOK, Doc: "checks the whole host", In: reflect.TypeFor[op.None](),
			AnswerMedia: mediaTypes, AnswerDoc: "JSON lines: each finding, progress, and the result or an error. Without the last line the report is incomplete.",
		}, streamHandler(d.VerifyHandler)),
		op.NewHandlerRoute(op.Spec{
			Method: "GET", Path: Prefix + "chain/{from}/{to}", Status: http.StatusOK, Doc: "shows the calls of a pair", In: reflect.TypeFor[CallsRequest](),
			AnswerMedia: mediaTypes, AnswerDoc: "JSON lines: the pair, each entry, and the end or an error. Without the last line the history is incomplete.",
		}, streamHandler(d.ChainHandler)),
		op.NewHandlerRoute(op.Spec{
			Method: "POST", Path: backupPath, Status: http.StatusOK, Doc: "copies a host on one machine, with its keys",
			AnswerMedia: []string{"application/x-tar"}, AnswerDoc: "A tar archive. Without its end it is incomplete.",
		}, streamHandler(d.BackupHandler)),
	}
}

func (d *api) routes(s op.Server) []op.Route {
	c := d.Config
	agentSecretsAPI, paymentKeysAPI := secretsAPI{c.Vacants.Resources.Secrets, true}, secretsAPI{c.PaymentKeys, false}
	return slices.Concat(
		[]op.Route{
			op.NewRoute(s, CreateVacant, d.createVacant),
			op.NewRoute(s, ListVacants, d.listVacants),
			op.NewRoute(s, ShowVacant, withVacant(d, d.showVacant)),
			op.NewRoute(s, UpdateVacant, d.updateVacant),
			op.NewRoute(s, DeleteVacant, d.commandHandler(c.Vacants.Delete)),
			op.NewRoute(s, CheckVacant, withVacant(d, d.checkAgent)), op.NewRoute(s, GetTools, withVacant(d, d.tools)), op.NewRoute(s, GetToolTexts, withVacant(d, d.toolTexts)),
			op.NewRoute(s, PauseVacant, d.commandHandler(c.Vacants.Pause)),
			op.NewRoute(s, ResumeVacant, d.commandHandler(c.Vacants.Resume)),
			op.NewRoute(s, SinkVacant, d.commandHandler(c.Vacants.Sink)),
			op.NewRoute(s, ArchiveVacant, d.commandHandler(c.Vacants.Archive)),
			op.NewRoute(s, ForgetConversations, withVacant(d, func(ctx context.Context, rec *vacants.Record, in VacantRequest[Forgetting]) (Vacant, error) {
				updated, err := c.Vacants.ForgetAnswers(ctx, rec.ID, in.Body.Caller, in.Body.ContextID)
				return vacantOf(&updated), err
			})),
			op.NewRoute(s, ExportVacant, withVacant(d, d.exportVacant)),
			op.NewRoute(s, PublishVacant, d.publishVacant),
			op.NewRoute(s, UnpublishVacant, withVacant(d, func(ctx context.Context, rec *vacants.Record, _ VacantRef) (Published, error) {
				return publishedOf(c.Vacants.Unpublish(ctx, rec.ID))
			})),
			op.NewRoute(s, RevokeVacant, withVacant(d, func(ctx context.Context, rec *vacants.Record, in VacantRequest[Revocation]) (Published, error) {
				return publishedOf(c.Vacants.Revoke(ctx, rec.ID, in.Body.Reason))
			})),
			op.NewRoute(s, GetLogbook, withVacant(d, d.logbook)),
			op.NewRoute(s, EraseClaim, withVacant(d, func(ctx context.Context, rec *vacants.Record, in ReviewRef) (op.None, error) {
				return op.None{}, c.Reviews.EraseClaim(ctx, rec.ID, in.Position, nil)
			})),
			op.NewRoute(s, GetAgent, withVacant(d, d.agentVersion)),
			op.NewRoute(s, SetAgent, d.setAgent),
			op.NewRoute(s, GetPlan, withVacant(d, d.plan)),
			op.NewRoute(s, SetPlan, d.setPlan),
			op.NewRoute(s, SpawnChild, d.spawnChild),
			op.NewRoute(s, GetManifest, d.manifest),
			op.NewRoute(s, StoreManifest, d.storeManifest),
			op.NewRoute(s, SignGraduation, d.signGraduation),
			op.NewRoute(s, GetHost, d.showHost),
			op.NewRoute(s, SetHost, d.setHost),
			op.NewRoute(s, GetRoot, d.root),
			op.NewRoute(s, SetRoot, d.setRoot),
			op.NewRoute(s, ListNames, d.names),
			op.NewRoute(s, ReleaseName, func(ctx context.Context, in NameRef) (Name, error) {
				released, err := c.Vacants.ReleaseName(ctx, in.Name)
				return nameOf(&released), err
			}),
			op.NewRoute(s, RecordRestore, d.raiseFloors),
		},
		op.RoutesIf(c.Billing != nil, "this host has no accounts, so calls have no prices",
			op.NewRoute(s, GetPrice, withVacant(d, d.price)),
			op.NewRoute(s, SetPrice, withVacant(d, d.setPrice)),
			op.NewRoute(s, PaymentKeys.List, paymentKeysAPI.list),
			op.NewRoute(s, PaymentKeys.Set, paymentKeysAPI.set),
			op.NewRoute(s, PaymentKeys.Delete, paymentKeysAPI.delete)),
		op.RoutesIf(c.Gate != nil, "this host has no gate",
			op.NewRoute(s, GetGraduation, d.graduation),
			op.NewRoute(s, GetGate, d.gatePolicy),
			op.NewRoute(s, SetGate, d.setGatePolicy)),
		op.RoutesIf(c.Vacants.Resources.Secrets != nil, "this host stores no secrets",
			op.NewRoute(s, AgentSecrets.List, agentSecretsAPI.list),
			op.NewRoute(s, AgentSecrets.Set, agentSecretsAPI.set),
			op.NewRoute(s, AgentSecrets.Delete, agentSecretsAPI.delete)),
		op.RoutesIf(c.Vacants.Resources.Budgets != nil, "this host has no paid models",
			op.NewRoute(s, GetModels, ignoreInput[op.None](c.Vacants.Resources.Models.Current)),
			op.NewRoute(s, SetModels, func(ctx context.Context, in op.Body[op.Raw[models.TableDocument]]) (models.Table, error) {
				t, err := models.Parse(in.Body)
				if err != nil {
					return t, err
				}
				return c.Vacants.Resources.Models.Set(ctx, t)
			}),
			op.NewRoute(s, GetBudget, func(ctx context.Context, in TenantRef) (spend.Budget, error) {
				return c.Vacants.Resources.Budgets.Budget(ctx, in.Tenant)
			}),
			op.NewRoute(s, SetBudget, func(ctx context.Context, in TenantRequest[DailyBudget]) (spend.Budget, error) {
				daily := in.Body.Daily
				if daily < 0 {
					return spend.Budget{}, problem.Invalid("daily", "0 or more micro-dollars", strconv.FormatInt(int64(daily), 10))
				}
				return c.Vacants.Resources.Budgets.SetBudget(ctx, in.Tenant, daily)
			})),
		op.RoutesIf(c.Vacants.Registry != nil, "this host has no registry", op.NewRoute(s, SetListing, d.setListing)),
		op.RoutesIf(c.ChildReport != nil, "this host does not list children", op.NewRoute(s, ListChildren, withVacant(d, d.children))),
		op.RoutesIf(c.Recount != nil, "this host does not recount usage", op.NewRoute(s, RecountUsage, ignoreInput[op.None](c.Recount))),
		op.RoutesIf(c.Seal != nil, "another process seals the log of this host", op.NewRoute(s, SealLog, ignoreInput[op.IgnoredBody](c.Seal))),
		op.RoutesIf(c.Status != nil, "this host has no status", op.NewRoute(s, GetStatus, ignoreInput[op.None](c.Status))),
		op.RoutesIf(c.Reindex != nil, "another process rebuilds the index of this host", op.NewRoute(s, Reindex, ignoreInput[op.IgnoredBody](c.Reindex))),
	)
}

func ignoreInput[In op.None | op.IgnoredBody, Out any](f func(context.Context) (Out, error)) func(context.Context, In) (Out, error) {
	return func(ctx context.Context, _ In) (Out, error) { return f(ctx) }
}

type api struct{ Config }

func (d *api) httpAPI() httpapi.API {
	return httpapi.API{Name: "admin", Log: d.Log, ReadLevel: slog.LevelDebug}
}

// guard refuses requests from browsers, which send Origin or Sec-Fetch headers. It also checks
// Host, which contains the name of the page's site after DNS rebinding.
func (d *api) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case d.AllowedHost != "" && r.Host != d.AllowedHost:
			httpapi.Fail(w, problem.New(problem.Forbidden, "Host: expected %s", d.AllowedHost))
		case r.Header["Origin"] != nil || r.Header["Sec-Fetch-Site"] != nil || r.Header["Sec-Fetch-Mode"] != nil:
			httpapi.Fail(w, problem.New(problem.Forbidden, "this API refuses requests from browsers"))
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func streamHandler(h http.Handler) httpapi.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if h == nil {
			return problem.New(problem.NotFound, "this host does not serve %s", r.URL.Path)
		}
		h.ServeHTTP(w, r)
		return nil
	}
}

func (d *api) createVacant(ctx context.Context, in op.Body[Creation]) (Vacant, error) {
	defer clear(in.Body.Import) // the import may contain a seed
	spec, err := in.Body.createSpec()
	if err != nil {
		return Vacant{}, err
	}
	if spec.Key != nil {
		defer spec.Key.Wipe()
	}
	if tenant, ok := askerOf(ctx).AsTenant(); ok {
		if spec.Tenant != "" && spec.Tenant != tenant {
			return Vacant{}, problem.New(problem.Forbidden, "tenant: expected %s, the tenant of this key, or none, got %s", tenant, quoteTruncated(spec.Tenant))
		}
		spec.Tenant = tenant
	}
	if err := d.chooseModel(ctx, spec.Agent); err != nil {
		return Vacant{}, err
	}
	spec.Asker = askerOf(ctx)
	rec, err := d.Vacants.Create(ctx, spec)
	return vacantOf(&rec), err
}

func (d *api) listVacants(ctx context.Context, in ListVacantsRequest) (VacantPage, error) {
	listPage := d.Vacants.List
	if in.All {
		listPage = d.Vacants.ListAll
	}
	records, next, err := listPage(ctx, askerOf(ctx), in.Cursor, int(cmp.Or(in.Limit, vacants.MaxPage)))
	if err != nil {
		return VacantPage{}, err
	}
	page := VacantPage{Vacants: make([]Vacant, 0, len(records)), Next: next}
	for i := range records {
		page.Vacants = append(page.Vacants, vacantOf(&records[i]))
	}
	return page, d.enrichVacants(ctx, page.Vacants)
}

func (d *api) showVacant(ctx context.Context, rec *vacants.Record, _ VacantRef) (Vacant, error) {
	list := []Vacant{vacantOf(rec)}
	err := d.enrichVacants(ctx, list)
	return list[0], err
}

func (d *api) enrichVacants(ctx context.Context, list []Vacant) error {
	if d.Vacants.Registry != nil {
		ids := make([]identity.ID, len(list))
		for i := range list {
			ids[i] = list[i].ID
		}
		registrations, err := d.Vacants.Registry.GetMany(ctx, ids)
		if err != nil {
			return err
		}
		for i := range registrations {
			if g := &registrations[i]; g.FirstSeq > 0 && g.Status == registry.StatusActive && g.Visibility != lifecycle.Hidden {
				list[i].Published = g.Visibility
			}
		}
	}
	for i := range list {
		v := &list[i]
		if s, err := substrate.Parse(v.Substrate); err != nil || s.Kind != substrate.KindWorker || v.DeletedAt != "" || d.Answers == nil {
			continue
		}
		err := d.Answers.CheckAgent(ctx, v.ID)
		if v.NoWorker = problem.Is(err, problem.NoWorker); problem.Is(err, problem.Unavailable) {
			return err
		}
	}
	if d.Billing == nil {
		return nil
	}
	// The inner map is nil for a tenant whose usage is too large to sum up.
	callsByTenant := map[string]map[identity.ID]uint64{}
	for i := range list {
		v := &list[i]
		calls, isCached := callsByTenant[v.Tenant]
		if !isCached {
			var err error
			if calls, err = usage.CallsOfDay(ctx, d.Billing.Store, v.Tenant, d.Billing.Now()); err != nil {
				return err
			}
			callsByTenant[v.Tenant] = calls
		}
		if calls != nil && v.DeletedAt == "" {
			n := calls[v.ID]
			v.CallsToday = &n
		}
	}
	return nil
}

func (d *api) commandHandler(command func(context.Context, identity.ID) (vacants.Record, error)) func(context.Context, VacantRef) (Vacant, error) {
	return withVacant(d, func(ctx context.Context, rec *vacants.Record, _ VacantRef) (Vacant, error) {
		updated, err := command(ctx, rec.ID)
		return vacantOf(&updated), err
	})
}

func (d *api) exportVacant(ctx context.Context, rec *vacants.Record, _ VacantRef) (op.Raw[any], error) {
	b, _, err := d.Vacants.Export(ctx, rec.ID)
	return b, err
}

func (d *api) logbook(ctx context.Context, rec *vacants.Record, in LogbookRequest) (Logbook, error) {
	logEntries, err := d.Vacants.Logbook(ctx, rec.ID, max(in.From, 1), int(cmp.Or(in.Limit, vacants.MaxPage)))
	if err != nil {
		return Logbook{}, err
	}
	page := Logbook{Entries: make([]Entry, len(logEntries))}
	for i := range logEntries {
		e := &logEntries[i].Entry
		page.Entries[i] = Entry{
			Position: logEntries[i].Position, Hash: e.Hash(), Kind: e.Kind, Payload: e.Payload,
			Prev: e.Prev, Signature: hex.EncodeToString(e.Signature), Time: canon.FormatTime(e.Time),
		}
		page.Next = logEntries[i].Position + 1
	}
	return page, nil
}
