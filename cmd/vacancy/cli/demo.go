package cli

import (
	"context"
	"slices"

	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// The vacant that dev creates at its first start.
const (
	demoName       = "demo"
	demoCapability = "echoes what it hears"
	demoText       = "hello"
)

// devResult is printed when dev is ready.
type devResult struct {
	URL   string      `json:"url"`
	Data  string      `json:"data"`
	Demo  demoResult  `json:"demo"`
	Call  *callResult `json:"call,omitempty"`
	Error string      `json:"error,omitempty"`

	// Try are commands that work as they are printed, in order.
	Try []string `json:"try"`

	asked string
	seq   int64
}

type demoResult struct {
	ID    identity.ID     `json:"vacant_id"`
	Name  string          `json:"name"`
	State lifecycle.State `json:"state"`
}

// tryDemo makes sure that there is a demo vacant and calls it over HTTP like
// any caller. A failed call is reported and stops nothing: the person may have
// paused the demo or moved its chain.
func (a *app) tryDemo(ctx context.Context, host *standalone.Host, dir, url string) (devResult, error) {
	demo, err := demoVacant(ctx, host)
	if err != nil {
		return devResult{}, err
	}
	r := devResult{URL: url, Data: dir, Demo: demoResult{demo.ID, demo.Name, demo.State}, asked: demoText}
	if err := a.callDemo(ctx, demo, &r); err != nil {
		r.Error = whole(kindOf(err))
	}
	return r, nil
}

// demoVacant returns the demo, and creates it if it never existed. A demo that the
// person sank or removed is not made again.
func demoVacant(ctx context.Context, host *standalone.Host) (vacants.Record, error) {
	demo, err := host.Vacants.ByName(ctx, vacants.Operator(), demoName)
	if problem.Is(err, problem.NotFound) {
		return host.Vacants.Create(ctx, vacants.Spec{Name: demoName, Capability: demoCapability, Substrate: "echo"})
	}
	return demo, err
}

func (a *app) callDemo(ctx context.Context, demo vacants.Record, r *devResult) error {
	if demo.IsDeleted() {
		return problem.New(problem.Gone, "it was removed")
	}
	c, err := card.Parse(demo.Card)
	if err != nil {
		return err
	}
	self, err := a.demoCaller(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	target := dispatch.Target{ID: demo.ID, URL: c.Endpoint, Card: &c, Name: demo.Name}
	caller := a.dispatcher(self, dispatch.NewHTTP(dispatch.HTTPOptions{}), callTimeout)
	msg := envelope.Message{Role: envelope.RoleUser, Parts: []string{demoText}}
	res, err := caller.Call(ctx, target, msg)
	if err != nil {
		return err
	}
	call := newCallResult(self, target, res)
	r.Call, r.seq = &call, res.Request.Seq
	return nil
}

// demoCaller is the identity for the host's own call, chosen like for any call, but
// among several without a default it takes the first instead of asking.
func (a *app) demoCaller(ctx context.Context) (signer, error) {
	h, err := a.dataHome()
	if err != nil {
		return signer{}, err
	}
	names, err := h.Names()
	if err != nil {
		return signer{}, err
	}
	chosen, _, err := h.Default()
	if err != nil || a.env["VACANCY_AS"] != "" || len(names) < 2 {
		return a.caller(ctx, "")
	}
	if chosen == "" {
		chosen = names[0]
		if slices.Contains(names, defaultIdentity) {
			chosen = defaultIdentity
		}
	}
	return a.caller(ctx, chosen)
}
