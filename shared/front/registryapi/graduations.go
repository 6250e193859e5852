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

type GraduationConfig struct {
	Gate graduation.Gate
	// IsRevoked reports whether a key is revoked. A reader's proof by a revoked key is invalid.
	IsRevoked       func(context.Context, identity.ID) (bool, error)
	URL             func(context.Context) (string, error)
	TrustHostHeader bool
	Now             func() time.Time
	Logger          *slog.Logger
}

// NewGraduationHandler returns the handler of the graduation gate.
//
// The sender of a request may be a third party. The answer therefore omits the compared vacants and
// the findings.
//
// A request has no time and no nonce, because its form is the reference's. Anyone who has seen its
// bytes can send it again, which may graduate the child later than the parties intended or use up
// attempts. Parties should keep a request secret, and can withdraw it by revoking a key.
func NewGraduationHandler(c GraduationConfig) http.Handler {
	d := &gateAPI{c, caller.Verifier{URL: c.URL, TrustHostHeader: c.TrustHostHeader, IsRevoked: c.IsRevoked, Now: c.Now}}
	return httpapi.API{Name: "registry", Log: c.Logger, Now: c.Now, ReadLevel: slog.LevelDebug}.Mux(op.RoutesByPath(d.routes()...))
}

func (d *gateAPI) routes() []op.Route {
	return []op.Route{op.NewRoute(op.Server{}, Submit, d.acceptSubmission), op.NewHandlerRoute(GetAttempt.Spec(), d.serveAttempt)}
}

var GetAttempt = op.Op[AttemptRef, graduation.View]{Method: "GET", Path: "/v1/graduations/{id}", Access: op.Access{Vacant: true}, Doc: "shows an attempt to graduate to its parent and child; other callers get 404"}

type AttemptRef struct {
	ID string `path:"id"`
}

type gateAPI struct {
	GraduationConfig
	verifier caller.Verifier
}

var Submit = op.Op[op.Body[op.Raw[graduation.SubmissionShape]], Submitted]{Method: "POST", Path: "/v1/graduations", Status: http.StatusAccepted, Access: op.Access{Anybody: true}, Doc: "asks for the graduation of a child, signed by it and its parent; 200 if it has graduated"}

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
	// The signatures are verified first, because the answer of the gate reveals whether the child
	// exists.
	if err := sub.Request.Verify(); err != nil {
		return out, err
	}
	st, err := d.Gate.Submit(ctx, sub)
	if err != nil {
		return out, err
	}
	out.View = st.View()
	// The vacants that the child was compared with may be closed children, so they are hidden.
	out.Findings = nil
	if out.Refusal != nil && out.Refusal.Kind == problem.CollusionFound.String() {
		redacted := *out.Refusal
		redacted.Detail = problem.CollusionFound.Forms().DefaultMessage
		out.Refusal = &redacted
	}
	return out, nil
}

// All clients except the parent and the child get the answer for an unknown attempt.
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
