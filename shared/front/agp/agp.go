// Package agp serves AGP, the protocol of the network AGNT for finding and booking venues. At
// /a2a/v1, each request contains one envelope and gets one JSON answer. The package also serves the
// status of AGP and the bookings that are made through AGP.
//
// The key of a request is checked before its content. Each request is counted once: by the commit
// that makes its booking, or otherwise by a commit at the end of the request. Only bookings cost
// money.
package agp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/vacancy-host/vacancy/shared/front/caller"
	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	bookings "github.com/vacancy-host/vacancy/shared/host/booking"
	"github.com/vacancy-host/vacancy/shared/host/registry/search"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

const (
	Path         = "/a2a/v1"
	StatusPath   = Path + "/status"
	BookingsPath = "/v1/bookings"
	// MetricsPath is the public path of the metrics. It is served only if Config.Metrics is true.
	// The operator uses metricsPath.
	MetricsPath = "/metrics"
)

const NetworkVersion = "1.0"

// IsPath reports whether Handler serves a path.
func IsPath(path string, metrics bool) bool {
	return path == Path || path == Path+"/" || path == StatusPath || path == BookingsPath || strings.HasPrefix(path, BookingsPath+"/") || metrics && path == MetricsPath
}

// Config configures the handlers. All fields except Metrics are required.
type Config struct {
	Bookings *bookings.Service
	Search   func(ctx context.Context, r search.Request) (search.Page, error)
	// TenantOf returns the tenant that owns a vacant, or "" if the operator owns it or it is unknown.
	TenantOf func(ctx context.Context, id identity.ID) (string, error)
	Callers  caller.Verifier
	// Metrics makes MetricsPath public.
	Metrics bool
	Log     *slog.Logger
	Now     func() time.Time
	Rand    io.Reader // safe for concurrent use
}

type api struct {
	Config
	searches *lru.Cache[string, *cachedSearch]
	status   cached[statusAnswer]
	metrics  cached[[]byte]
}

const maxCachedSearches = 1024

func newAPI(c Config) *api {
	searches, err := lru.New[string, *cachedSearch](maxCachedSearches)
	if err != nil {
		panic(err) // only if the size is not positive
	}
	return &api{Config: c, searches: searches}
}

func Handler(c Config) http.Handler {
	return httpapi.API{Name: "agp", Log: c.Log, Now: c.Now}.Mux(op.RoutesByPath(newAPI(c).publicRoutes(op.Server{Keys: c.Bookings.Billing, IdentifyVacant: c.Callers.Identify})...))
}

var sendRequirement = billing.KeyRequirement{Scope: billing.ScopeAGP, AllowsTest: true, RequiresActive: true}

func (d *api) publicRoutes(s op.Server) []op.Route {
	postRoute := op.NewHandlerRoute(op.Spec{
		Method: "POST", Path: Path, Status: http.StatusOK, Access: op.Access{Key: sendRequirement}, Doc: "receives an envelope of AGP, and answers according to its intent",
		In: reflect.TypeFor[op.Body[op.Raw[Post]]](), Out: reflect.TypeFor[op.Raw[any]](), ErrorType: reflect.TypeFor[failure](), AnswerMedia: []string{"application/json", envelopeType}, IgnoresUnknown: true,
	}, d.withRequestID(d.receiveEnvelope))
	slashRoute := postRoute
	slashRoute.Path += "/{$}"
	routes := append(d.bookingRoutes(s), postRoute, slashRoute,
		op.NewHandlerRoute(op.Spec{Method: "GET", Path: StatusPath, Status: http.StatusOK, Access: op.Access{Anybody: true}, Doc: "shows the status of AGP on this host", In: reflect.TypeFor[op.None](), Out: reflect.TypeFor[statusAnswer]()}, d.serveStatus))
	if d.Metrics {
		routes = append(routes, d.metricsRoute(MetricsPath, op.Access{Anybody: true}))
	}
	return routes
}

func (d *api) metricsRoute(path string, access op.Access) op.Route {
	return op.NewHandlerRoute(op.Spec{Method: "GET", Path: path, Status: http.StatusOK, Access: access, Doc: "shows the host's metrics as text", AnswerMedia: []string{"text/plain"}, AnswerDoc: "The text format of Prometheus, 0.0.4."},
		func(w http.ResponseWriter, r *http.Request) error {
			text, err := d.metrics.get(d.Now(), func() ([]byte, error) { return d.Bookings.WriteMetrics(r.Context()) })
			if err != nil {
				return err
			}
			w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
			w.Header().Set("Cache-Control", "no-store")
			httpapi.Send(w, http.StatusOK, text)
			return nil
		})
}

// Operations lists the operations of a host on which all features are enabled.
func Operations() []op.Spec {
	emptyAPI := newAPI(Config{Metrics: true})
	return op.Specs(append(emptyAPI.operatorRoutes(op.Server{OperatorOnly: true}), emptyAPI.publicRoutes(op.Server{})...))
}

// withRequestID returns a handler that gives each request an id and sends errors in AGP's form.
func (d *api) withRequestID(h httpapi.Handler) httpapi.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		var b [8]byte
		if _, err := io.ReadFull(d.Rand, b[:]); err != nil {
			return sendError(w, "", problem.Wrap(problem.Unavailable, err, "cannot read random bytes"))
		}
		id := hex.EncodeToString(b[:])
		w.Header().Set("X-Request-Id", id)
		if err := h(w, r); err != nil {
			return sendError(w, id, err)
		}
		return nil
	}
}

// envelopeRequest is the state of a request with one envelope.
type envelopeRequest struct {
	*api
	r         *http.Request
	key       billing.Key
	env       Envelope
	allowance billing.Allowance
	header    http.Header // header of the answer
	counted   bool        // true if the commit of a booking has counted the request
	replayed  bool
}

// receiveEnvelope checks a request in the order that AGP requires, and answers its envelope.
func (d *api) receiveEnvelope(w http.ResponseWriter, r *http.Request) error {
	ctx, c := r.Context(), &envelopeRequest{api: d, r: r, header: w.Header()}
	key, err := d.Bookings.Billing.AuthenticateRequest(ctx, r, sendRequirement)
	if err != nil {
		return err
	}
	c.key = *key
	if c.allowance, err = d.Bookings.Billing.CheckQuota(ctx, &c.key); err != nil {
		return err
	}
	// A missing content type, or one that ends with +json, is accepted as application/json.
	ct := r.Header.Get("Content-Type")
	if media, _, err := mime.ParseMediaType(ct); ct == "" || err == nil && strings.HasSuffix(media, "+json") {
		r.Header.Set("Content-Type", "application/json")
	}
	body, err := httpapi.ReadBody(w, r, MaxBody)
	if err == nil {
		c.env, err = parseEnvelope(body)
	}
	if err != nil {
		return c.countRequest(ctx, "rejected", err)
	}
	answer, err := c.dispatch(ctx)
	switch {
	case err != nil:
		err = c.countRequest(ctx, "error", err)
	case c.replayed:
		err = c.countRequest(ctx, "replay", nil)
	case !c.counted:
		err = c.countRequest(ctx, "ok", nil)
	}
	if err != nil {
		return err
	}
	setRateLimitHeaders(w, c.allowance)
	if body, err = c.encodeAnswer(answer); err != nil {
		return err
	}
	if c.acceptsEnvelope() {
		w.Header().Set("Content-Type", envelopeType)
	}
	w.Header().Set("Cache-Control", "no-store")
	httpapi.Send(w, http.StatusOK, body)
	return nil
}

// countRequest counts the request in one commit. If the commit fails, it returns the error of the
// commit, otherwise err.
func (c *envelopeRequest) countRequest(ctx context.Context, status string, err error) error {
	var problemErr *problem.Error
	if errors.As(err, &problemErr) && problemErr.Kind == problem.Unavailable {
		return err // the store may be unreachable, and the client will retry
	}
	counter := bookings.CounterWrite("a2a_rejected_total", 1, "reason", "envelope")
	if status != "rejected" {
		counter = c.requestCounter(status)
	}
	countErr := c.Bookings.CommitCounters(ctx, func(ctx context.Context, tx *store.Tx) error {
		allowance, isNewAgent, err := c.Bookings.Billing.CountUse(ctx, tx, &c.key, c.agent())
		if err != nil {
			return err
		}
		c.allowance = allowance
		if c.key.Test {
			return nil // metrics do not count requests with test keys
		}
		tx.AddWrites(counter)
		if isNewAgent {
			tx.AddWrites(c.Bookings.Billing.AgentSeenWrite(c.agent()))
		}
		return nil
	})
	if countErr != nil {
		return countErr
	}
	return err
}

func (c *envelopeRequest) agent() string { return cmp.Or(c.env.Agent(), c.key.ID) }

func (c *envelopeRequest) requestCounter(status string) store.Write {
	intent := c.env.Intent
	if c.intentHandler() == nil {
		intent = "unknown"
	}
	return bookings.CounterWrite("a2a_requests_total", 1, "intent", intent, "tier", string(c.key.Tier), "status", status)
}

func (c *envelopeRequest) intentHandler() func(context.Context) (any, error) {
	switch c.env.Intent {
	case "network.ping":
		return c.ping
	case "booking.search":
		return c.searchVenues
	case "venue.list":
		return c.listVenues
	case bookings.IntentConfirm:
		return c.confirmBooking
	}
	return nil
}

const networkPrefix = "network:"

func (c *envelopeRequest) dispatch(ctx context.Context) (any, error) {
	e := &c.env
	if e.Protocol != Protocol && e.Protocol != ProtocolShort {
		return nil, newRefusal("unsupported_protocol", problem.Malformed, "protocol: expected %s or %s, got %s", Protocol, ProtocolShort, httpapi.QuoteTruncated(e.Protocol))
	}
	handle := c.intentHandler()
	if handle == nil {
		return nil, newRefusal("unknown_intent", problem.Malformed, "intent: expected network.ping, booking.search, venue.list or booking.confirm, got %s", httpapi.QuoteTruncated(e.Intent))
	}
	isSender := func(agent string) bool { return e.From == agent || strings.HasPrefix(e.From, agent+":") }
	if agents := c.key.AgentIDs; len(agents) > 0 && !slices.ContainsFunc(agents, isSender) {
		return nil, newRefusal("sender_mismatch", problem.Forbidden, "from: expected an agent of the key, got %s", httpapi.QuoteTruncated(e.From))
	}
	if e.Intent == bookings.IntentConfirm && c.key.Tier != billing.Pro && c.key.Tier != billing.Enterprise {
		return nil, newRefusal("tier_required", problem.Forbidden, "%s needs a key of tier pro or enterprise; the tier of this key is %s", e.Intent, c.key.Tier)
	}
	if name, ok := strings.CutPrefix(e.To, networkPrefix); ok && name != "agnt" && name != "vacancy" {
		return nil, newRefusal("unknown_destination", problem.NotFound, "to: unknown network %s; expected %sagnt or a venue", httpapi.QuoteTruncated(name), networkPrefix)
	} else if !ok && e.Intent != bookings.IntentConfirm {
		if _, err := c.findVenue(ctx, e.To); err != nil {
			return nil, convertNotFound("unknown_destination", err)
		}
	}
	return handle(ctx)
}

func convertNotFound(code string, err error) error {
	if problem.Is(err, problem.NotFound) {
		return &refusal{code, problem.AsError(err)}
	}
	return err
}

// envelopeType is the media type with which a client requests an answer in an envelope.
const envelopeType = "application/vnd.agp.envelope+json"

func (c *envelopeRequest) acceptsEnvelope() bool {
	return strings.Contains(c.r.Header.Get("Accept"), envelopeType)
}

func (c *envelopeRequest) encodeAnswer(answer any) ([]byte, error) {
	b, err := httpapi.Encode(answer)
	if err != nil {
		return nil, err
	}
	if c.acceptsEnvelope() {
		return httpapi.Encode(struct {
			Protocol  string          `json:"protocol"`
			From      string          `json:"from"`
			To        string          `json:"to"`
			Intent    string          `json:"intent"`
			Payload   json.RawMessage `json:"payload"`
			Context   json.RawMessage `json:"agent_context,omitempty"`
			Timestamp string          `json:"timestamp"`
		}{c.env.Protocol, c.env.To, c.env.From, c.env.Intent, b, c.env.Context, c.Now().UTC().Format(time.RFC3339)})
	}
	if c.env.Context != nil {
		b = append(bytes.TrimSuffix(b, []byte("}\n")), `,"agent_context":`...)
		b = append(append(b, c.env.Context...), "}\n"...)
	}
	return b, nil
}

// cached is a value that is loaded again when it is older than cacheTime.
type cached[T any] struct {
	mu      sync.Mutex
	value   T
	expires time.Time
}

const cacheTime = 5 * time.Second

func (c *cached[T]) get(now time.Time, load func() (T, error)) (T, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Before(c.expires) {
		return c.value, nil
	}
	v, err := load()
	if err == nil {
		c.value, c.expires = v, now.Add(cacheTime)
	}
	return v, err
}

type statusAnswer struct {
	Status        string `json:"status"`
	Venues        int64  `json:"venues"`
	ActiveAgents  int    `json:"active_agents"`
	Version       string `json:"network_version"`
	WindowSeconds int    `json:"window_seconds"`
	Time          string `json:"timestamp"`
}

func (d *api) serveStatus(w http.ResponseWriter, r *http.Request) error {
	start := d.Now()
	s, err := d.status.get(start, func() (statusAnswer, error) {
		venues, err := d.Bookings.Registry.ListedCount(r.Context())
		if err != nil {
			return statusAnswer{}, err
		}
		active, err := d.Bookings.Billing.CountActiveAgents(r.Context())
		return statusAnswer{"ok", venues, active, NetworkVersion, 300, start.UTC().Format(time.RFC3339)}, err
	})
	if err != nil {
		return err
	}
	if d.Now().Sub(start) > time.Second {
		s.Status = "degraded"
	}
	b, err := httpapi.Encode(s)
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "public, max-age=5")
	httpapi.Send(w, http.StatusOK, b)
	return nil
}
