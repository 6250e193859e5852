package registryapi

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/host/family/graduation"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// GraduationsConfig is what the handler of the gate needs.
type GraduationsConfig struct {
	Gate graduation.Gate
	// Revoked tells of a key: a reader's proof made with one that is counts for
	// nothing.
	Revoked func(context.Context, identity.ID) (bool, error)
	// URL and Routed are those of Config.
	URL         func(context.Context) (string, error)
	TrustedHost bool
	Now         func() time.Time
	Logger      *slog.Logger
}

// Graduations returns the handler of the gate:
//
//	POST /v1/graduations       a request that both have signed, and what this host cannot sign
//	GET  /v1/graduations/{id}  what has come of it; for the parent and the child alone
//
// Who sends a request need not be one of the two, so the answer leaves out what
// is told to them alone: with whom they were compared, and what came of it.
//
// A request has no time and no nonce (its form is the reference's), so whoever
// saw its bytes can send them again: that joins the attempt that is open, is told
// the outcome of the one that was accepted, or tries once more what was refused
// or has failed. It can have done what both have signed, later than they thought
// but only once, and use up attempts; it can change no word and nobody's parent.
// Both keep a request to themselves until they mean it to be decided, and who
// thinks better of it revokes a key.
//
// A child begins at most 32 attempts in 24 hours, and all children of a parent
// together 96: more are answered 429 too_many, and nothing is kept of them.
func Graduations(c GraduationsConfig) http.Handler {
	d := &gateAPI{c, caller{url: c.URL, routed: c.TrustedHost, revoked: c.Revoked, now: c.Now}}
	return httpapi.API{Name: "registry", Log: c.Logger, Now: c.Now, ReadLevel: slog.LevelDebug}.Mux(map[string]httpapi.Methods{
		"/v1/graduations":      {http.MethodPost: d.submit},
		"/v1/graduations/{id}": {http.MethodGet: d.status},
	})
}

type gateAPI struct {
	GraduationsConfig
	caller caller
}

// submit begins an attempt, or joins the one that it is. 200 says that the child
// has graduated, 202 everything else: whoever follows the attempt reads its
// state, which at a host of one process is decided at once.
func (d *gateAPI) submit(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	sub, err := graduation.ParseSubmission(body)
	if err == nil {
		err = sub.CheckWords()
	}
	if err != nil {
		return schema(err)
	}
	// Before anybody learns whether there is such a child.
	if err := sub.Request.Verify(); err != nil {
		return err
	}
	st, err := d.Gate.Submit(r.Context(), sub)
	if err != nil {
		return err
	}
	view := st.View()
	unjudged(&view)
	b, err := httpapi.Encode(view)
	if err != nil {
		return err
	}
	status := http.StatusAccepted
	if st.Phase == graduation.Accepted {
		status = http.StatusOK
	}
	w.Header().Set("Location", "/v1/graduations/"+view.ID)
	w.Header().Set("Cache-Control", "no-store")
	httpapi.Send(w, status, b)
	return nil
}

// unjudged leaves out with whom a child was compared: siblings are closed
// children, too.
func unjudged(v *graduation.View) {
	v.Findings = nil
	if v.Refusal != nil && v.Refusal.Kind == problem.Collusion.String() {
		short := *v.Refusal
		short.Detail = problem.Collusion.Row().Text
		v.Refusal = &short
	}
}

// status reports an attempt to its parent or child. For everybody else the
// answer is that of an unknown attempt.
func (d *gateAPI) status(w http.ResponseWriter, r *http.Request) error {
	id, err := graduation.ParseID(r.PathValue("id"))
	if err != nil {
		return err
	}
	none := problem.New(problem.NotFound, "graduation %s is not known", id)
	who, err := d.caller.of(r)
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
	return answer(w, st.View())
}
