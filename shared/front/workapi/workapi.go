// Package workapi is the HTTP API for workers. A worker leases turns (reserves them for a limited
// time) and returns their results.
package workapi

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/substrate/worker"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

const Path = "/v1/work"

func IsPath(path string) bool { return path == Path || strings.HasPrefix(path, Path+"/") }

const (
	// MaxWait limits the wait for a turn, in seconds.
	MaxWait      = 20
	retrySeconds = 2
	maxEvents    = 256
	maxBodyBytes = 512 << 10
)

var Access = billing.KeyRequirement{Scope: billing.ScopeWork, AllowsTest: true, RequiresActive: true}

type (
	LeaseRequest struct {
		Body NewLease `body:"json"`
	}
	// NewLease selects turns. If Vacant is empty, it selects all turns of the tenant.
	NewLease struct {
		Vacant string `json:"vacant,omitempty"`
		Wait   int64  `json:"wait,omitempty"`
	}
	// Offer contains a leased turn, or null. A worker should send Vacant in later requests, which
	// saves a search for the name.
	Offer struct {
		Turn       *worker.Leased `json:"turn"`
		Vacant     *identity.ID   `json:"vacant_id,omitempty"`
		RetryAfter int            `json:"retry_after,omitempty"`
	}
	LeaseRef struct {
		Lease string `path:"lease"`
	}
	// Renewal answers a heartbeat. Canceled is true if the turn has ended without an answer.
	Renewal struct {
		Canceled bool `json:"canceled"`
	}
	ReportRequest struct {
		LeaseRef
		Body Batch `body:"json"`
	}
	// Batch is numbered, so that the host recognizes a repeated request.
	Batch struct {
		Number int64          `json:"batch" canon:"required"`
		Events []worker.Event `json:"events" canon:"required"`
	}
	FinishRequest struct {
		LeaseRef
		Body worker.Result `body:"json"`
	}
)

// SetHeaders implements op.HeaderSetter.
func (o *Offer) SetHeaders(h http.Header) int {
	if o.RetryAfter > 0 {
		h.Set("Retry-After", fmt.Sprint(o.RetryAfter))
	}
	return 0
}

var (
	Lease     = newTwin[LeaseRequest, Offer](Path+"/lease", "leases a turn of a vacant to a worker")
	Heartbeat = newTwin[LeaseRef, Renewal](Path+"/{lease}/heartbeat", "renews a lease, and reports whether its turn was canceled")
	Report    = newTwin[ReportRequest, op.None](Path+"/{lease}/events", "reports events of a leased turn, such as pieces of the answer")
	Finish    = newTwin[FinishRequest, op.None](Path+"/{lease}/result", "ends a leased turn with its result")
)

func newTwin[In, Out any](path, doc string) op.Twin[In, Out] {
	operatorOp := op.Op[In, Out]{Method: "POST", Path: "/v1/admin" + strings.TrimPrefix(path, "/v1"), MaxBody: maxBodyBytes, Doc: doc}
	keyOp := operatorOp
	keyOp.Path, keyOp.Access.Key = path, Access
	return op.Twin[In, Out]{Operator: operatorOp, Key: keyOp}
}

type Config struct {
	Broker  *worker.Broker
	Vacants *vacants.Directory
	// MayWait reports whether the process may wait for a turn.
	MayWait bool
}

// OperatorRoutes is for workers of vacants without a tenant.
func OperatorRoutes(c Config) []op.Route { return c.routes(op.Server{OperatorOnly: true}) }

func Handler(c Config, keys *billing.Billing, log *slog.Logger, now func() time.Time) http.Handler {
	return httpapi.API{Name: "work", Log: log, Now: now, ReadLevel: slog.LevelDebug, Quiet: true}.Mux(op.RoutesByPath(c.routes(op.Server{Keys: keys})...))
}

func Operations() []op.Spec {
	return append(op.Specs(OperatorRoutes(Config{})), op.Specs(Config{}.routes(op.Server{}))...)
}

func workerOf(ctx context.Context) worker.Worker {
	k := op.CallerOf(ctx).Key
	if k == nil {
		return worker.Worker{Holder: "operator"}
	}
	return worker.Worker{Tenant: k.Tenant, Holder: k.Account + "/" + k.ID, Test: k.Test}
}

func (c Config) routes(s op.Server) []op.Route {
	return []op.Route{
		op.NewTwinRoute(s, Lease, c.leaseTurn),
		op.NewTwinRoute(s, Heartbeat, func(ctx context.Context, in LeaseRef) (r Renewal, err error) {
			r.Canceled, err = c.Broker.RenewLease(ctx, workerOf(ctx), in.Lease)
			return r, err
		}),
		op.NewTwinRoute(s, Report, func(ctx context.Context, in ReportRequest) (op.None, error) {
			if n := len(in.Body.Events); n == 0 || n > maxEvents {
				return op.None{}, problem.Invalid("events", fmt.Sprintf("1 to %d events", maxEvents), fmt.Sprint(n))
			}
			return op.None{}, c.Broker.AppendEvents(ctx, workerOf(ctx), in.Lease, int(in.Body.Number), in.Body.Events)
		}),
		op.NewTwinRoute(s, Finish, func(ctx context.Context, in FinishRequest) (op.None, error) {
			return op.None{}, c.Broker.FinishTurn(ctx, workerOf(ctx), in.Lease, in.Body)
		}),
	}
}

func (c Config) leaseTurn(ctx context.Context, in LeaseRequest) (o Offer, err error) {
	w, wait := workerOf(ctx), in.Body.Wait
	if wait < 0 || wait > MaxWait {
		return o, problem.Invalid("wait", fmt.Sprintf("0 to %d seconds", MaxWait), fmt.Sprint(wait))
	}
	if name := in.Body.Vacant; name != "" {
		if o.Vacant, err = c.findVacant(ctx, w, name); err != nil {
			return o, err
		}
	}
	if !c.MayWait {
		wait = 0
	}
	o.Turn, err = c.Broker.Lease(ctx, w, o.Vacant, time.Duration(wait)*time.Second)
	if o.Turn == nil && err == nil && !c.MayWait {
		o.RetryAfter = retrySeconds
	}
	return o, err
}

// findVacant does not check an id, because Broker.Lease searches only the tenant's turns.
func (c Config) findVacant(ctx context.Context, w worker.Worker, name string) (*identity.ID, error) {
	if id, err := identity.ParseID(name); err == nil {
		return &id, nil
	}
	asker := vacants.TenantAsker(w.Tenant)
	if w.Tenant == "" {
		asker = vacants.OperatorAsker()
	}
	r, err := c.Vacants.GetByName(ctx, asker, name)
	if err == nil && r.Tenant != w.Tenant {
		err = problem.New(problem.Forbidden, "vacant: expected a vacant without a tenant, got %s of tenant %s; workers of this vacant need a key of the tenant with the scope %s", r.Name, r.Tenant, billing.ScopeWork)
	}
	return &r.ID, err
}
