// Package admin is the operator's API: it creates, lists, shows, publishes,
// exports and deletes vacants, creates their children, sets their plans,
// changes their states, and holds the gate's policy and the host's identity.
//
// The host decides who may reach it. On one machine it is a Unix socket that
// only its owner can open, never the public listener. On AWS it is a public URL
// behind RequireKey, which admits the operator's key only. Some routes have a
// second handler: SignedChildren, where a parent requests children by its own
// signature, and Tenants, where a tenant manages its own vacants by a key of its
// account. The invariants: a page in a browser gets nothing. A tenant learns
// nothing of vacants of others. A body is strict
// JSON or refused. An imported seed is shown nowhere, and a seed leaves the
// host by export only.
package admin

import (
	"context"
	"log/slog"
	"maps"
	"net/http"

	"github.com/vacancy-host/vacancy/shared/front/account"
	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/host/answer"
	"github.com/vacancy-host/vacancy/shared/host/answer/delegation"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/keys/secrets"
	"github.com/vacancy-host/vacancy/shared/host/usage"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// SocketHost is the Host of requests at the admin socket of one machine. The
// name never resolves (RFC 6761), so no page can be served from it, and no
// other name can be rebound to reach the handler.
const SocketHost = "admin.vacancy.invalid"

// Prefix begins the path of every route of the operator.
const Prefix = "/v1/admin/"

// Config is what the handler needs.
type Config struct {
	Vacants *vacants.Directory
	// Answers checks what answers for vacants.
	Answers *answer.Answerer
	// Host is the only accepted Host header; "" accepts any, where a key guards
	// the handler.
	Host string
	// Verify answers GET /v1/admin/verify, Chain GET
	// /v1/admin/chain/{from}/{to} (path values from and to); both stream. nil:
	// no such route.
	Verify, Chain http.Handler
	// Backup answers POST /v1/admin/backup with all of the host, its keys too. nil: no
	// such route.
	Backup http.Handler
	// Status answers GET /v1/admin/status. nil: no such route.
	Status http.Handler
	// Reindex answers POST /v1/admin/reindex. nil: no such route.
	Reindex http.Handler
	// RenewKeys makes the key that signs receipts, when the host's URL is set; nil: this
	// process makes none.
	RenewKeys func(context.Context) error
	// Seal answers POST /v1/admin/log/seal. nil: no such route.
	Seal http.Handler
	// Graduations answers POST /v1/graduations, for operators whose host may
	// not serve its public listener. nil: no such route.
	Graduations http.Handler
	// Billing has the accounts of tenants; nil: this host has none, and no prices.
	Billing *billing.Billing
	// PaymentKeys are the keys of the provider of payments; unused if Billing is nil.
	PaymentKeys *secrets.Secrets
	Receipts    *account.Receipts
	// More are the routes of other packages (agp.Operator).
	More map[string]httpapi.Methods
	// Recount corrects usage by the rows; nil: no such route.
	Recount func(ctx context.Context) (usage.Recounted, error)
	// Gate reads graduations and the gate's policy; nil: no such routes.
	Gate Gate
	// ChildReport returns a page of a vacant's children, with figures of its
	// calls to them; nil: no such route.
	ChildReport func(ctx context.Context, by vacants.Asker, parent identity.ID, cursor string, n int) ([]delegation.Child, string, error)
	// GET /v1/admin/host reports KeyService (whether a key service holds the
	// host's identity), Stage and Version.
	KeyService     bool
	Stage, Version string
	Log            *slog.Logger
}

// Handler returns the handler:
//
//	POST /v1/admin/vacants                        create            201
//	GET  /v1/admin/vacants?all=&cursor=&limit=    list; all=true also deleted vacants
//	GET  /v1/admin/vacants/{vacant}               show: by name, id or its beginning
//	PATCH /v1/admin/vacants/{vacant}              {"name", "capability", "substrate", "seen"}; 409 if changed since seen
//	DELETE /v1/admin/vacants/{vacant}             one that is archived, for good
//	POST /v1/admin/vacants/{vacant}/check         ask its agent once; {"ok", "failure"}
//	POST /v1/admin/vacants/{vacant}/pause         also resume, sink, archive
//	GET  /v1/admin/vacants/{vacant}/price?version= what calls cost; PUT sets the next version
//	POST /v1/admin/vacants/{vacant}/forget        {"caller", "context_id"}: what its agent remembers
//	POST /v1/admin/vacants/{vacant}/export        a bundle, its key in the clear
//	POST /v1/admin/vacants/{vacant}/publish       {"capability", "visibility", "listing"}, also /unpublish
//	POST /v1/admin/vacants/{vacant}/revoke        {"reason"}: its key, for good
//	GET  /v1/admin/vacants/{vacant}/logbook?from=&limit=
//	POST /v1/admin/vacants/{vacant}/children      a child                    201; 200 if it was there
//	GET  /v1/admin/vacants/{vacant}/children?cursor=&limit=
//	GET  /v1/admin/vacants/{vacant}/manifest      what binds a child; POST keeps one that both have signed
//	GET  /v1/admin/vacants/{vacant}/plan          what a composite answers by; PUT sets it
//	GET  /v1/admin/vacants/{vacant}/agent?version=  how it answers; PUT ?after= makes the next version
//	POST /v1/admin/vacants/{vacant}/graduation-signature  {"parent_id", "child_id", "capability_text"}
//	GET  /v1/admin/vacants/{vacant}/graduation?position=  what has come of an attempt, of the last if none is named
//	POST /v1/graduations                    as at the public handler
//	GET  /v1/admin/gate?tenant=                   what graduations are judged by; PUT sets it
//	GET  /v1/admin/secrets?tenant=                the secrets of agents, without values
//	PUT  /v1/admin/secrets/{name}?tenant=         {"value", "hosts"}; also DELETE
//	GET  /v1/admin/payments                       the keys of the provider of payments, without values
//	PUT  /v1/admin/payments/{name}                {"value", "hosts"}: stripe, stripe-webhook; also DELETE
//	GET  /v1/admin/models                         prices of models; PUT {"models"} sets the next version
//	GET  /v1/admin/budgets?tenant=                the daily budget for models; PUT {"daily"} sets it
//	POST /v1/admin/usage/recount                  correct usage by the rows
//	/v1/admin/accounts…                           accounts of tenants (account.Operator)
//	/v1/admin/bookings…, /v1/admin/metrics        bookings and counters of AGP (agp.Operator)
//	PUT  /v1/admin/listings/{vacant}      what the operator says of one that is registered
//	POST /v1/admin/log/seal                       the registry's log, now
//	GET  /v1/admin/host?challenge=                who the host is, and a proof of it
//	PUT  /v1/admin/host                           its public URL
//	GET  /v1/admin/root                           the vacant at its own address
//	PUT  /v1/admin/root                           another one, or none
//	POST /v1/admin/restored?cursor=               its data came back from a backup
//	GET  /v1/admin/status                         what a host on one machine does
//	POST /v1/admin/reindex                        rebuild the search index of a host on one machine
//	POST /v1/admin/backup                         a copy of a host on one machine, with its keys
//	GET  /v1/admin/verify, /v1/admin/chain/{from}/{to}  streams
//
// Refusals are {"detail", "code"} and, where one input is wrong, "field".
func Handler(c Config) http.Handler {
	d := &api{c}
	routes := d.http().Mux(d.routes())
	return d.guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		routes.ServeHTTP(w, r.WithContext(withAsker(r.Context(), vacants.Operator())))
	}))
}

// routes are all routes.
func (d *api) routes() map[string]httpapi.Methods {
	c := d.Config
	gate := only(func() bool { return c.Gate != nil }, "this host has no gate")
	agents := secretsAPI{func() *secrets.Secrets { return c.Vacants.Resources.Secrets }, true}
	payments := secretsAPI{func() *secrets.Secrets { return c.PaymentKeys }, false}
	stored := only(func() bool { return c.Vacants.Resources.Secrets != nil }, "this host stores no secrets")
	paid := only(func() bool { return c.Vacants.Resources.Spend != nil }, "this host has no paid models")
	charges := only(func() bool { return c.Billing != nil }, "this host has no accounts, so calls have no prices")
	routes := map[string]httpapi.Methods{
		"/v1/admin/vacants":                               {http.MethodGet: d.list, http.MethodPost: d.create},
		"/v1/admin/vacants/{vacant}/publish":              {http.MethodPost: d.publish},
		"/v1/admin/vacants/{vacant}/unpublish":            {http.MethodPost: d.unpublish},
		"/v1/admin/vacants/{vacant}/revoke":               {http.MethodPost: d.revoke},
		"/v1/admin/listings/{vacant}":                     {http.MethodPut: d.setListing},
		"/v1/admin/log/seal":                              {http.MethodPost: stream(c.Seal)},
		"/v1/admin/vacants/{vacant}":                      {http.MethodGet: d.show, http.MethodPatch: d.update, http.MethodDelete: d.change(c.Vacants.Delete)},
		"/v1/admin/vacants/{vacant}/check":                {http.MethodPost: d.check},
		"/v1/admin/vacants/{vacant}/price":                {http.MethodGet: charges(d.price), http.MethodPut: charges(d.setPrice)},
		"/v1/admin/vacants/{vacant}/pause":                {http.MethodPost: d.change(c.Vacants.Pause)},
		"/v1/admin/vacants/{vacant}/resume":               {http.MethodPost: d.change(c.Vacants.Resume)},
		"/v1/admin/vacants/{vacant}/sink":                 {http.MethodPost: d.change(c.Vacants.Sink)},
		"/v1/admin/vacants/{vacant}/archive":              {http.MethodPost: d.change(c.Vacants.Archive)},
		"/v1/admin/vacants/{vacant}/forget":               {http.MethodPost: d.forget},
		"/v1/admin/vacants/{vacant}/export":               {http.MethodPost: d.export},
		"/v1/admin/vacants/{vacant}/logbook":              {http.MethodGet: d.logbook},
		"/v1/admin/vacants/{vacant}/children":             {http.MethodGet: d.children, http.MethodPost: d.spawn},
		"/v1/admin/vacants/{vacant}/manifest":             {http.MethodGet: d.manifest, http.MethodPost: d.storeManifest},
		"/v1/admin/vacants/{vacant}/plan":                 {http.MethodGet: d.plan, http.MethodPut: d.setPlan},
		"/v1/admin/vacants/{vacant}/agent":                {http.MethodGet: d.agent, http.MethodPut: d.setAgent},
		"/v1/admin/vacants/{vacant}/graduation-signature": {http.MethodPost: d.signGraduation},
		"/v1/admin/vacants/{vacant}/graduation":           {http.MethodGet: gate(d.graduation)},
		GraduationsPath:                                   {http.MethodPost: stream(c.Graduations)},
		"/v1/admin/gate":                                  {http.MethodGet: gate(d.policy), http.MethodPut: gate(d.setPolicy)},
		SecretsPath:                                       {http.MethodGet: stored(agents.list)},
		SecretsPath + "/{name}":                           {http.MethodPut: stored(agents.set), http.MethodDelete: stored(agents.delete)},
		PaymentsPath:                                      {http.MethodGet: charges(payments.list)},
		PaymentsPath + "/{name}":                          {http.MethodPut: charges(payments.set), http.MethodDelete: charges(payments.delete)},
		"/v1/admin/models":                                {http.MethodGet: paid(d.models), http.MethodPut: paid(d.setModels)},
		"/v1/admin/budgets":                               {http.MethodGet: paid(d.budget), http.MethodPut: paid(d.setBudget)},
		"/v1/admin/host":                                  {http.MethodGet: d.host, http.MethodPut: d.setHost},
		"/v1/admin/root":                                  {http.MethodGet: d.root, http.MethodPut: d.setRoot},
		"/v1/admin/restored":                              {http.MethodPost: d.restored},
		"/v1/admin/backup":                                {http.MethodPost: stream(c.Backup)},
		"/v1/admin/reindex":                               {http.MethodPost: stream(c.Reindex)},
		"/v1/admin/status":                                {http.MethodGet: stream(c.Status)},
		"/v1/admin/verify":                                {http.MethodGet: stream(c.Verify)},
		"/v1/admin/chain/{from}/{to}":                     {http.MethodGet: stream(c.Chain)},
	}
	if c.Recount != nil {
		routes["/v1/admin/usage/recount"] = httpapi.Methods{http.MethodPost: d.recount}
	}
	maps.Copy(routes, account.Operator(c.Billing, c.Receipts))
	maps.Copy(routes, c.More)
	return routes
}

type api struct{ Config }

// http is the API's routing and log. Requests that change nothing are logged at
// Debug.
func (d *api) http() httpapi.API {
	return httpapi.API{Name: "admin", Log: d.Log, ReadLevel: slog.LevelDebug}
}

// guard refuses requests that do not come from a command-line client. Browsers
// say where a request comes from (Origin, Sec-Fetch-Site), and a rebound name
// shows in Host. No answer has a CORS header, so a page could not even read a
// refusal.
func (d *api) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case d.Host != "" && r.Host != d.Host:
			httpapi.Fail(w, problem.New(problem.Forbidden, "Host: expected %s", d.Host))
		case r.Header["Origin"] != nil || r.Header["Sec-Fetch-Site"] != nil || r.Header["Sec-Fetch-Mode"] != nil:
			httpapi.Fail(w, problem.New(problem.Forbidden, "requests of a browser are refused here"))
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// only wraps handlers of routes that some hosts do not have. Where there is false,
// requests are refused with NotFound and the reason.
func only(there func() bool, reason string) func(httpapi.Handler) httpapi.Handler {
	return func(h httpapi.Handler) httpapi.Handler {
		return func(w http.ResponseWriter, r *http.Request) error {
			if !there() {
				return problem.New(problem.NotFound, "%s", reason)
			}
			return h(w, r)
		}
	}
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

func (d *api) create(w http.ResponseWriter, r *http.Request) error {
	n, err := read[Creation](w, r)
	if err != nil {
		return err
	}
	defer clear(n.Import) // it may contain a seed
	spec, err := n.spec()
	if err != nil {
		return err
	}
	if spec.Key != nil {
		defer spec.Key.Wipe()
	}
	if spec.Tenant, err = ownTenant(r.Context(), spec.Tenant); err != nil {
		return err
	}
	if err := d.choose(r.Context(), spec.Agent); err != nil {
		return err
	}
	spec.By = askerOf(r.Context())
	made, err := d.Vacants.Create(r.Context(), spec)
	if err != nil {
		return err
	}
	return httpapi.Answer(w, http.StatusCreated, vacantOf(&made))
}

func (d *api) list(w http.ResponseWriter, r *http.Request) error {
	limit, err := number(r.URL.Query(), "limit", vacants.MaxPage)
	if err != nil {
		return err
	}
	list := d.Vacants.List
	switch all := r.URL.Query().Get("all"); all {
	case "", "false":
	case "true":
		list = d.Vacants.ListAll
	default:
		return problem.Invalid("all", "true or false", httpapi.Clip(all))
	}
	records, next, err := list(r.Context(), askerOf(r.Context()), r.URL.Query().Get("cursor"), int(limit))
	if err != nil {
		return err
	}
	page := Page{Vacants: make([]Vacant, 0, len(records)), Next: next}
	for i := range records {
		page.Vacants = append(page.Vacants, vacantOf(&records[i]))
	}
	return httpapi.Answer(w, http.StatusOK, page)
}

func (d *api) show(w http.ResponseWriter, r *http.Request) error {
	rec, err := d.find(r.Context(), r.PathValue("vacant"))
	if err != nil {
		return err
	}
	return httpapi.Answer(w, http.StatusOK, vacantOf(&rec))
}

// change serves a command on one vacant.
func (d *api) change(command func(context.Context, identity.ID) (vacants.Record, error)) httpapi.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := noBody(r); err != nil {
			return err
		}
		rec, err := d.find(r.Context(), r.PathValue("vacant"))
		if err != nil {
			return err
		}
		if rec, err = command(r.Context(), rec.ID); err != nil {
			return err
		}
		return httpapi.Answer(w, http.StatusOK, vacantOf(&rec))
	}
}

// export returns a key. Nothing between here and the operator may store it.
func (d *api) export(w http.ResponseWriter, r *http.Request) error {
	if err := noBody(r); err != nil {
		return err
	}
	rec, err := d.find(r.Context(), r.PathValue("vacant"))
	if err != nil {
		return err
	}
	b, _, err := d.Vacants.Export(r.Context(), rec.ID)
	if err != nil {
		return err
	}
	defer clear(b)
	w.Header().Set("Cache-Control", "no-store") // it contains the key
	httpapi.Send(w, http.StatusOK, b)
	return nil
}

func (d *api) logbook(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	limit, err := number(query, "limit", vacants.MaxPage)
	if err != nil {
		return err
	}
	from, err := number(query, "from", 1)
	if err != nil {
		return err
	}
	rec, err := d.find(r.Context(), r.PathValue("vacant"))
	if err != nil {
		return err
	}
	placed, err := d.Vacants.Logbook(r.Context(), rec.ID, from, int(limit))
	if err != nil {
		return err
	}
	page := Logbook{Entries: make([]Entry, len(placed))}
	for i := range placed {
		page.Entries[i] = entryOf(&placed[i])
		page.Next = placed[i].Position + 1
	}
	return httpapi.Answer(w, http.StatusOK, page)
}
