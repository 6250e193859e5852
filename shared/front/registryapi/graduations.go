package registryapi

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/caller"
	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/host/family/graduation"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// GraduationConfig configures the graduation gate's handler.
type GraduationConfig struct {
	Gate graduation.Gate
	// IsRevoked reports whether a key is revoked. A reader's proof by a revoked key is invalid.
	IsRevoked func(context.Context, identity.ID) (bool, error)
	// URL and TrustHostHeader have the same meaning as in Config.
	URL             func(context.Context) (string, error)
	TrustHostHeader bool
	Now             func() time.Time
	Logger          *slog.Logger
}

// NewGraduationHandler returns the handler of the graduation gate.
//
// The sender of a request may be a third party. The answer therefore omits the compared vacants and
// the findings, which only the parent and the child may see.
//
// A request has no time and no nonce, because its form is the reference's. Anyone who has seen its
// bytes can send it again. A repeated request joins an open attempt, returns the outcome of an
// accepted attempt, or begins another attempt after a refusal or failure. It can do only what both
// parties signed, and only once. However, it may act later than they intended, and it can use up
// attempts. Parties should keep a request secret until they want the decision, and can withdraw it
// by revoking a key.
//
// A child may begin at most 32 attempts in 24 hours, and all children of a parent together at most
// 96. Further attempts fail with 429 too_many and are not stored.
func NewGraduationHandler(c GraduationConfig) http.Handler {
	d := &gateAPI{c, caller.Verifier{URL: c.URL, TrustHostHeader: c.TrustHostHeader, IsRevoked: c.IsRevoked, Now: c.Now}}
	return httpapi.API{Name: "registry", Log: c.Logger, Now: c.Now, ReadLevel: slog.LevelDebug}.Mux(op.RoutesByPath(d.routes()...))
}

func (d *gateAPI) routes() []op.Route {
	return []op.Route{op.NewRoute(op.Server{}, Submit, d.acceptSubmission), op.NewHandlerRoute(GetAttempt.Spec(), d.serveAttempt)}
}

// GetAttempt shows a graduation attempt.
var GetAttempt = op.Op[AttemptRef, graduation.View]{Method: "GET", Path: "/v1/graduations/{id}", Access: op.Access{Vacant: true}, Doc: "shows an attempt to graduate to its parent and child; other callers get 404"}

type AttemptRef struct {
	ID string `path:"id"`
}

type gateAPI struct {
	GraduationConfig
	verifier caller.Verifier
}

// Submit requests a graduation.
var Submit = op.Op[op.Body[op.Raw[graduation.SubmissionShape]], Submitted]{Method: "POST", Path: "/v1/graduations", Status: http.StatusAccepted, Access: op.Access{Anybody: true}, Doc: "asks for the graduation of a child, signed by it and its parent; 200 if it has graduated"}

// Submitted is an attempt that the request began or joined. The status is 200 if the child has
// graduated and 202 otherwise. A host with a single process decides at once.
type Submitted struct{ graduation.View }

func (s *Submitted) SetHeaders(h http.Header) int {
	h.Set("Location", "/v1/graduations/"+s.ID)
	if s.Phase == graduation.Accepted {
		return http.StatusOK
	}
	return 0
}

func (d *gateAPI) acceptSubmission(ctx context.Context, in op.Body[op.Raw[graduation.SubmissionShape]]) (out Submitted, err error) {
	sub, err := graduation.ParseSubmission(in.Body)
	if err == nil {
		err = sub.CheckCapability()
	}
	if err != nil {
		return out, schemaError(err)
	}
	// Verify the signatures first, because the answer of the gate reveals whether the child exists.
	if err := sub.Request.Verify(); err != nil {
		return out, err
	}
	st, err := d.Gate.Submit(ctx, sub)
	if err != nil {
		return out, err
	}
	out.View = st.View()
	// Hide the vacants that the child was compared with, because they may be closed children.
	out.Findings = nil
	if out.Refusal != nil && out.Refusal.Kind == problem.CollusionFound.String() {
		redacted := *out.Refusal
		redacted.Detail = problem.CollusionFound.Forms().DefaultMessage
		out.Refusal = &redacted
	}
	return out, nil
}

// serveAttempt shows an attempt to its parent or child. All other clients get the answer for an
// unknown attempt.
func (d *gateAPI) serveAttempt(w http.ResponseWriter, r *http.Request) error {
	id, err := graduation.ParseID(r.PathValue("id"))
	if err != nil {
		return err
	}
	notFound := problem.New(problem.NotFound, "graduation %s is not known", id)
	reader, err := d.verifier.Identify(r, nil)
	if err != nil {
		return err
	}
	if reader == nil {
		return notFound
	}
	st, err := d.Gate.StatusFor(r.Context(), *reader, id)
	switch {
	case problem.Is(err, problem.NotFound):
		return notFound
	case err != nil:
		return err
	}
	return httpapi.SendJSON(w, http.StatusOK, st.View())
}
