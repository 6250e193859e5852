// Package admin implements the operator's API. It creates, lists, shows, publishes, exports and
// deletes vacants, creates their children, sets their plans, changes their states, and manages the
// gate's policy and the host's identity.
//
// The host decides who may use the API. On a single machine it is served at a Unix socket that only
// its owner can open, never at the public listener. On AWS it is served at a public URL behind
// RequireKey, which accepts only the operator's key. Two other handlers serve some of the routes.
// SignedChildrenHandler serves parents that request children with their own signature, and
// TenantHandler serves tenants that manage their own vacants with a key of their account.
//
// Pages in a browser cannot use the API. A tenant gets no information about vacants of other
// tenants. A body must be strict JSON. A seed (the private key of a vacant) leaves the host only by
// an export; an imported seed is never shown.
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

// SocketHost is the Host header of requests to the admin socket of a single machine. The name never
// resolves (RFC 6761), so no page can be served from it, and no other name can be rebound to reach
// the handler.
const SocketHost = "admin.vacancy.invalid"

// Prefix is the prefix of all paths of the operator's routes.
const Prefix = "/v1/admin/"

const backupPath = Prefix + "backup"

// Config contains the handler's dependencies. If the host lacks an optional feature, for example
// BackupHandler, Billing or Gate, its field is nil, and the operations of the feature answer
// NotFound.
type Config struct {
	Vacants *vacants.Directory
	// Answers checks the agents of vacants. Calls reads the arguments and results of their tool
	// calls.
	Answers *answer.Answerer
	Calls   *call.Host
	Reviews *reviews.Service
	// Host is the only accepted Host header. If it is "", any Host is accepted; a key must then
	// guard the handler.
	Host string
	// VerifyHandler answers GET /v1/admin/verify, and ChainHandler answers GET
	// /v1/admin/chain/{from}/{to} with the path values from and to. Both answers are streams.
	Verify, Chain http.Handler
	// Backup answers POST /v1/admin/backup with the complete host, including its keys.
	Backup http.Handler
	// Status describes a host on a single machine. Reindex rebuilds its search index.
	Status  func(context.Context) (Status, error)
	Reindex func(context.Context) (Reindexed, error)
	// RenewKeys is called after the host's URL has been set, and creates the key that signs
	// receipts. If RenewKeys is nil, another process creates the key.
	RenewKeys func(context.Context) error
	Seal      func(context.Context) (Sealed, error)
	// Graduations answers POST /v1/graduations, for operators whose host does not serve its public
	// listener.
	Graduations http.Handler
	// Billing contains the accounts of tenants. It is nil on a host without accounts and prices.
	Billing *billing.Billing
	// PaymentKeys contains the keys of the payment provider. It is unused if Billing is nil.
	PaymentKeys *secrets.Secrets
	Receipts    *account.Receipts
	// More contains routes of other packages, for example of agp.Operator.
	More []op.Route
	// Recount computes usage again from the rows of calls and corrects it.
	Recount func(ctx context.Context) (usage.RecountResult, error)
	Gate    Gate
	// ChildReport returns a page of a vacant's children with statistics of its calls to them.
	ChildReport func(ctx context.Context, by vacants.Asker, parent identity.ID, cursor string, n int) ([]delegation.Child, string, error)
	// GET /v1/admin/host reports these values. HasKeyService is true if a key service stores the
	// host's identity key. Stage is the name of the deployment.
	KeyService     bool
	Stage, Version string
	Log            *slog.Logger
}

// Handler returns the handler of all operations: the operations of this package (ops.go) and of
// accounts (account.Operator), the routes in c.More, and POST /v1/graduations, which the public
// handler also serves. A refusal is a JSON object with the members "detail" and "code", and "field"
// if a single input is wrong.
func Handler(c Config) http.Handler {
	d := &api{c}
	routes := op.Routes(slices.Concat(d.routes(op.Server{Operator: true}), d.streams(), account.Operator(c.Billing, c.Receipts), c.More)...)
	routes[GraduationsPath] = httpapi.Methods{http.MethodPost: stream(c.Graduations)}
	return d.guard(d.http().Mux(routes))
}

// Operations lists the operations of a host on which all features are enabled.
func Operations() []op.Spec {
	none := &api{Config{Vacants: &vacants.Directory{Config: vacants.Config{Resources: &resources.Resources{}}}}}
	return op.Specs(append(none.routes(op.Server{}), none.streams()...))
}

func (d *api) streams() []op.Route {
	lines := []string{"application/x-ndjson"}
	return []op.Route{
		op.Handle(op.Spec{
			Method: "GET", Path: Prefix + "verify", Status: http.StatusOK, Doc: "checks the whole host", In: reflect.TypeFor[op.None](),
			Gives: lines, Answer: "JSON lines: each finding, progress, and the result or an error. Without the last line the report is incomplete.",
		}, stream(d.Verify)),
		op.Handle(op.Spec{
			Method: "GET", Path: Prefix + "chain/{from}/{to}", Status: http.StatusOK, Doc: "shows the calls of a pair", In: reflect.TypeFor[Calls](),
			Gives: lines, Answer: "JSON lines: the pair, each entry, and the end or an error. Without the last line the history is incomplete.",
		}, stream(d.Chain)),
		op.Handle(op.Spec{
			Method: "POST", Path: backupPath, Status: http.StatusOK, Doc: "copies a host on one machine, with its keys",
			Gives: []string{"application/x-tar"}, Answer: "A tar archive. Without its end it is incomplete.",
		}, stream(d.Backup)),
	}
}

func (d *api) routes(s op.Server) []op.Route {
	c := d.Config
	agents, payments := secretsAPI{c.Vacants.Resources.Secrets, true}, secretsAPI{c.PaymentKeys, false}
	return slices.Concat(
		[]op.Route{
			op.On(s, CreateVacant, d.create),
			op.On(s, ListVacants, d.list),
			op.On(s, ShowVacant, onVacant(d, d.show)),
			op.On(s, UpdateVacant, d.update),
			op.On(s, DeleteVacant, d.change(c.Vacants.Delete)),
			op.On(s, CheckVacant, onVacant(d, d.check)), op.On(s, GetTools, onVacant(d, d.tools)), op.On(s, GetToolTexts, onVacant(d, d.toolTexts)),
			op.On(s, PauseVacant, d.change(c.Vacants.Pause)),
			op.On(s, ResumeVacant, d.change(c.Vacants.Resume)),
			op.On(s, SinkVacant, d.change(c.Vacants.Sink)),
			op.On(s, ArchiveVacant, d.change(c.Vacants.Archive)),
			op.On(s, ForgetThread, onVacant(d, func(ctx context.Context, rec *vacants.Record, in With[Forgetting]) (Vacant, error) {
				changed, err := c.Vacants.ForgetAnswers(ctx, rec.ID, in.Body.Caller, in.Body.ContextID)
				return vacantOf(&changed), err
			})),
			op.On(s, ExportVacant, onVacant(d, d.export)),
			op.On(s, PublishVacant, d.publish),
			op.On(s, UnpublishVacant, onVacant(d, func(ctx context.Context, rec *vacants.Record, _ VacantRequest) (Published, error) {
				return publishedOf(c.Vacants.Unpublish(ctx, rec.ID))
			})),
			op.On(s, RevokeVacant, onVacant(d, func(ctx context.Context, rec *vacants.Record, in With[Revocation]) (Published, error) {
				return publishedOf(c.Vacants.Revoke(ctx, rec.ID, in.Body.Reason))
			})),
			op.On(s, GetLogbook, onVacant(d, d.logbook)),
			op.On(s, EraseClaim, onVacant(d, func(ctx context.Context, rec *vacants.Record, in ReviewOf) (op.None, error) {
				return op.None{}, c.Reviews.EraseClaim(ctx, rec.ID, in.Position, nil)
			})),
			op.On(s, GetAgent, onVacant(d, d.agent)),
			op.On(s, SetAgent, d.setAgent),
			op.On(s, GetPlan, onVacant(d, d.plan)),
			op.On(s, SetPlan, d.setPlan),
			op.On(s, SpawnChild, d.spawn),
			op.On(s, GetManifest, d.manifest),
			op.On(s, StoreManifest, d.storeManifest),
			op.On(s, SignGraduation, d.signGraduation),
			op.On(s, GetHost, d.host),
			op.On(s, SetHost, d.setHost),
			op.On(s, GetRoot, d.root),
			op.On(s, SetRoot, d.setRoot),
			op.On(s, ListNames, d.names),
			op.On(s, ReleaseName, func(ctx context.Context, in OneName) (Name, error) {
				released, err := c.Vacants.ReleaseName(ctx, in.Name)
				return nameOf(&released), err
			}),
			op.On(s, RestoredFromBackup, d.raiseFloors),
		},
		op.RoutesIf(c.Billing != nil, "this host has no accounts, so calls have no prices",
			op.On(s, GetPrice, onVacant(d, d.price)),
			op.On(s, SetPrice, onVacant(d, d.setPrice)),
			op.On(s, PaymentKeys.List, payments.list),
			op.On(s, PaymentKeys.Set, payments.set),
			op.On(s, PaymentKeys.Delete, payments.delete)),
		op.RoutesIf(c.Gate != nil, "this host has no gate",
			op.On(s, GetGraduation, d.graduation),
			op.On(s, GetGate, d.policy),
			op.On(s, SetGate, d.setPolicy)),
		op.RoutesIf(c.Vacants.Resources.Secrets != nil, "this host stores no secrets",
			op.On(s, AgentSecrets.List, agents.list),
			op.On(s, AgentSecrets.Set, agents.set),
			op.On(s, AgentSecrets.Delete, agents.delete)),
		op.RoutesIf(c.Vacants.Resources.Spend != nil, "this host has no paid models",
			op.On(s, GetModels, ignoreInput[op.None](c.Vacants.Resources.Models.Current)),
			op.On(s, SetModels, func(ctx context.Context, in op.Body[op.Raw[models.TableDocument]]) (models.Table, error) {
				t, err := models.Parse(in.Body)
				if err != nil {
					return t, err
				}
				return c.Vacants.Resources.Models.Set(ctx, t)
			}),
			op.On(s, GetBudget, func(ctx context.Context, in OfTenant) (spend.Budget, error) {
				return c.Vacants.Resources.Spend.Budget(ctx, in.Tenant)
			}),
			op.On(s, SetBudget, func(ctx context.Context, in TenantWith[DailyBudget]) (spend.Budget, error) {
				daily := in.Body.Daily
				if daily < 0 {
					return spend.Budget{}, problem.Invalid("daily", "0 or more micro-dollars", strconv.FormatInt(int64(daily), 10))
				}
				return c.Vacants.Resources.Spend.SetBudget(ctx, in.Tenant, daily)
			})),
		op.RoutesIf(c.Vacants.Registry != nil, "this host has no registry", op.On(s, SetListing, d.setListing)),
		op.RoutesIf(c.ChildReport != nil, "this host does not list children", op.On(s, ListChildren, onVacant(d, d.children))),
		op.RoutesIf(c.Recount != nil, "this host does not recount usage", op.On(s, RecountUsage, ignoreInput[op.None](c.Recount))),
		op.RoutesIf(c.Seal != nil, "this host does not seal its log here", op.On(s, SealLog, ignoreInput[op.IgnoreBody](c.Seal))),
		op.RoutesIf(c.Status != nil, "this host has no status", op.On(s, GetStatus, ignoreInput[op.None](c.Status))),
		op.RoutesIf(c.Reindex != nil, "this host does not rebuild its index here", op.On(s, Reindex, ignoreInput[op.IgnoreBody](c.Reindex))),
	)
}

func ignoreInput[In op.None | op.IgnoreBody, Out any](f func(context.Context) (Out, error)) func(context.Context, In) (Out, error) {
	return func(ctx context.Context, _ In) (Out, error) { return f(ctx) }
}

type api struct{ Config }

func (d *api) http() httpapi.API {
	return httpapi.API{Name: "admin", Log: d.Log, ReadLevel: slog.LevelDebug}
}

// guard refuses requests that do not come from a command-line client. Browsers reveal themselves by
// Origin or Sec-Fetch headers, and a rebound name appears in Host. Answers have no CORS header, so
// a page cannot even read a refusal.
func (d *api) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case d.Host != "" && r.Host != d.Host:
			httpapi.Fail(w, problem.New(problem.Forbidden, "Host: expected %s", d.Host))
		case r.Header["Origin"] != nil || r.Header["Sec-Fetch-Site"] != nil || r.Header["Sec-Fetch-Mode"] != nil:
			httpapi.Fail(w, problem.New(problem.Forbidden, "this API refuses requests from browsers"))
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func stream(h http.Handler) httpapi.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if h == nil {
			return problem.New(problem.NotFound, "this host does not serve %s", r.URL.Path)
		}
		h.ServeHTTP(w, r)
		return nil
	}
}

func (d *api) create(ctx context.Context, in op.Body[Creation]) (Vacant, error) {
	defer clear(in.Body.Import) // the import may contain a seed
	spec, err := in.Body.spec()
	if err != nil {
		return Vacant{}, err
	}
	if spec.Key != nil {
		defer spec.Key.Wipe()
	}
	if tenant, ok := askerOf(ctx).OfTenant(); ok { // tenants may create only vacants of their own
		if spec.Tenant != "" && spec.Tenant != tenant {
			return Vacant{}, problem.New(problem.Forbidden, "tenant: expected %s, the tenant of this key, or none, got %s", tenant, clip(spec.Tenant))
		}
		spec.Tenant = tenant
	}
	if err := d.chooseModel(ctx, spec.Agent); err != nil {
		return Vacant{}, err
	}
	spec.By = askerOf(ctx)
	made, err := d.Vacants.Create(ctx, spec)
	return vacantOf(&made), err
}

func (d *api) list(ctx context.Context, in VacantList) (VacantPage, error) {
	list := d.Vacants.List
	if in.All {
		list = d.Vacants.ListAll
	}
	records, next, err := list(ctx, askerOf(ctx), in.Cursor, int(cmp.Or(in.Limit, vacants.MaxPage)))
	if err != nil {
		return VacantPage{}, err
	}
	page := VacantPage{Vacants: make([]Vacant, 0, len(records)), Next: next}
	for i := range records {
		page.Vacants = append(page.Vacants, vacantOf(&records[i]))
	}
	return page, d.enrich(ctx, page.Vacants)
}

func (d *api) show(ctx context.Context, rec *vacants.Record, _ VacantRequest) (Vacant, error) {
	list := []Vacant{vacantOf(rec)}
	err := d.enrich(ctx, list)
	return list[0], err
}

// enrich adds data that vacants' records do not contain: their visibility in the registry, whether
// a worker is connected, and today's calls. It reads one registration per vacant, and the usage of
// the day once per tenant.
func (d *api) enrich(ctx context.Context, list []Vacant) error {
	if d.Vacants.Registry != nil {
		ids := make([]identity.ID, len(list))
		for i := range list {
			ids[i] = list[i].ID
		}
		found, err := d.Vacants.Registry.GetMany(ctx, ids)
		if err != nil {
			return err
		}
		for i := range found {
			if g := &found[i]; g.FirstSeq > 0 && g.Status == registry.StatusActive && g.Visibility != lifecycle.Hidden {
				list[i].Published = g.Visibility
			}
		}
	}
	for i := range list {
		v := &list[i]
		if s, err := substrate.Parse(v.Substrate); err != nil || s.Kind != substrate.KindWorker || v.Deleted != "" || d.Answers == nil {
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
	// The keys of callsByTenant are tenants and vacants. The inner map is nil for a tenant whose usage
	// is too large to sum up.
	tenants := map[string]map[identity.ID]uint64{}
	for i := range list {
		v := &list[i]
		calls, isCached := tenants[v.Tenant]
		if !isCached {
			var err error
			if calls, err = usage.CallsOfDay(ctx, d.Billing.Store, v.Tenant, d.Billing.Now()); err != nil {
				return err
			}
			tenants[v.Tenant] = calls
		}
		if calls != nil && v.Deleted == "" {
			n := calls[v.ID]
			v.CallsToday = &n
		}
	}
	return nil
}

func (d *api) change(command func(context.Context, identity.ID) (vacants.Record, error)) func(context.Context, VacantRequest) (Vacant, error) {
	return onVacant(d, func(ctx context.Context, rec *vacants.Record, _ VacantRequest) (Vacant, error) {
		changed, err := command(ctx, rec.ID)
		return vacantOf(&changed), err
	})
}

// export returns a vacant with its private key. Intermediaries must not store the answer.
func (d *api) export(ctx context.Context, rec *vacants.Record, _ VacantRequest) (op.Raw[any], error) {
	b, _, err := d.Vacants.Export(ctx, rec.ID)
	return b, err
}

func (d *api) logbook(ctx context.Context, rec *vacants.Record, in LogbookPart) (Logbook, error) {
	placed, err := d.Vacants.Logbook(ctx, rec.ID, max(in.From, 1), int(cmp.Or(in.Limit, vacants.MaxPage)))
	if err != nil {
		return Logbook{}, err
	}
	page := Logbook{Entries: make([]Entry, len(placed))}
	for i := range placed {
		e := &placed[i].Entry
		page.Entries[i] = Entry{
			Position: placed[i].Position, Hash: e.Hash(), Kind: e.Kind, Payload: e.Payload,
			Prev: e.Prev, Signature: hex.EncodeToString(e.Signature), Time: canon.FormatTime(e.Time),
		}
		page.Next = placed[i].Position + 1
	}
	return page, nil
}
