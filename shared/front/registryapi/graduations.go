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

// GraduationsConfig configures the handler of the gate.
type GraduationsConfig struct {
	Gate graduation.Gate
	// Revoked reports revoked keys: a reader's proof by a revoked key is invalid.
	Revoked func(context.Context, identity.ID) (bool, error)
	// URL and TrustedHost are as in Config.
	URL         func(context.Context) (string, error)
	TrustedHost bool
	Now         func() time.Time
	Logger      *slog.Logger
}

// Graduations returns the handler of the gate.
//
// The sender of a request need not be a party, so the answer omits what only
// the parties may see: the compared vacants and the findings.
//
// A request has neither time nor nonce (its form is the reference's), so
// anybody who saw its bytes can send them again. That joins an open attempt,
// returns the outcome of an accepted one, or begins another attempt after a
// refusal or failure. A repeated request can do what both parties signed,
// possibly later than they intended but only once, and can use up attempts; it
// cannot change the text or the parent. Parties should keep a request to
// themselves until it is to be decided, and revoke a key to withdraw.
//
// A child begins at most 32 attempts in 24 hours, and all children of a parent
// together 96. Further attempts get 429 too_many, and nothing is stored.
func Graduations(c GraduationsConfig) http.Handler {
	d := &gateAPI{c, caller.Verifier{URL: c.URL, Routed: c.TrustedHost, Revoked: c.Revoked, Now: c.Now}}
	return httpapi.API{Name: "registry", Log: c.Logger, Now: c.Now, ReadLevel: slog.LevelDebug}.Mux(op.Routes(d.routes()...))
}

func (d *gateAPI) routes() []op.Route {
	return []op.Route{op.On(op.Server{}, Submit, d.submit), op.Handle(GetAttempt.Spec(), d.status)}
}

// GetAttempt shows an attempt to graduate.
var GetAttempt = op.Op[OneAttempt, graduation.View]{Method: "GET", Path: "/v1/graduations/{id}", Access: op.Access{Vacant: true}, Doc: "shows an attempt to graduate to its parent and child; to others there is none"}

// OneAttempt names an attempt by its id.
type OneAttempt struct {
	ID string `path:"id"`
}

type gateAPI struct {
	GraduationsConfig
	caller caller.Verifier
}

// Submit asks for a graduation.
var Submit = op.Op[op.Body[op.Raw[graduation.SubmissionShape]], Submitted]{Method: "POST", Path: "/v1/graduations", Status: http.StatusAccepted, Access: op.Access{Anybody: true}, Doc: "asks for the graduation of a child, signed by it and its parent; 200 if it has graduated"}

// Submitted is an attempt that was begun or joined. 200 means that the child has graduated, 202
// anything else: the state tells which, and a host of a single process decides at once.
type Submitted struct{ graduation.View }

// Reply implements op.Replier.
func (s *Submitted) Reply(h http.Header) int {
	h.Set("Location", "/v1/graduations/"+s.ID)
	if s.State == graduation.Accepted {
		return http.StatusOK
	}
	return 0
}

// submit begins an attempt or joins an existing one.
func (d *gateAPI) submit(ctx context.Context, in op.Body[op.Raw[graduation.SubmissionShape]]) (out Submitted, err error) {
	sub, err := graduation.ParseSubmission(in.Body)
	if err == nil {
		err = sub.CheckWords()
	}
	if err != nil {
		return out, schema(err)
	}
	// Before the answer reveals whether there is such a child.
	if err := sub.Request.Verify(); err != nil {
		return out, err
	}
	st, err := d.Gate.Submit(ctx, sub)
	if err != nil {
		return out, err
	}
	out.View = st.View()
	// Not shown are the vacants that the child was compared with: siblings may be closed children, too.
	out.Findings = nil
	if out.Refusal != nil && out.Refusal.Kind == problem.Collusion.String() {
		short := *out.Refusal
		short.Detail = problem.Collusion.Row().Text
		out.Refusal = &short
	}
	return out, nil
}

// status reports an attempt to its parent or child. Everybody else
// gets the answer for an unknown attempt.
func (d *gateAPI) status(w http.ResponseWriter, r *http.Request) error {
	id, err := graduation.ParseID(r.PathValue("id"))
	if err != nil {
		return err
	}
	none := problem.New(problem.NotFound, "graduation %s is not known", id)
	who, err := d.caller.Of(r, nil)
	if err != nil {
		return err
	}
	if who == nil {
		return none
	}
	st, err := d.Gate.StatusFor(r.Context(), *who, id)
	switch {
	case problem.Is(err, problem.NotFound):
		return none
	case err != nil:
		return err
	}
	return httpapi.Answer(w, http.StatusOK, st.View())
}
