package startcmd

import (
	"context"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/callcmd"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/front/web"
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
	demoMessage    = "hello"
)

// devResult is printed when the host is ready.
type devResult struct {
	Pages string              `json:"pages"`
	URL   string              `json:"url"`
	Data  string              `json:"data"`
	Demo  demoResult          `json:"demo"`
	Call  *callcmd.CallResult `json:"call,omitempty"`
	Error string              `json:"error,omitempty"`

	// Try lists commands that work exactly as printed.
	Try []string `json:"try"`

	demoMessage string
	callSeq     int64
	isNewDemo   bool
	handout     kit.Handout
}

type demoResult struct {
	ID    identity.ID     `json:"vacant_id"`
	Name  string          `json:"name"`
	State lifecycle.State `json:"state"`
}

// tryDemo creates the demo vacant if it never existed, and calls it over HTTP like any caller. A
// failed call must not prevent the start of the host, so the result contains the failure.
func tryDemo(a *kit.App, ctx context.Context, host *standalone.Host, dir, url string) (devResult, error) {
	demo, isNewDemo, err := ensureDemo(ctx, host, dir)
	if err != nil && !problem.Is(err, problem.Conflict) { // another tenant may have the name
		return devResult{}, err
	}
	r := devResult{Pages: url + web.Path, URL: url, Data: dir, Demo: demoResult{demo.ID, demoName, demo.State}, demoMessage: demoMessage, isNewDemo: isNewDemo && err == nil}
	if err == nil {
		err = callDemo(a, ctx, demo, &r)
	}
	if err != nil {
		r.Error = kit.TextWithCauses(kit.ToProblem(err))
	}
	return r, nil
}

// unpublishDemo unpublishes the demo vacant when serve first runs on the data, because serve shows
// published vacants to the public. It reports whether the demo was published.
func unpublishDemo(ctx context.Context, host *standalone.Host, dir string) (bool, error) {
	if kit.HasServed(dir) {
		return false, nil
	}
	demo, err := host.Vacants.GetByName(ctx, vacants.OperatorAsker(), demoName)
	switch {
	case problem.Is(err, problem.NotFound):
		return false, nil
	case err != nil || demo.Capability != demoCapability || demo.State != lifecycle.Active:
		return false, err
	}
	_, r, err := host.Vacants.Unpublish(ctx, demo.ID)
	return err == nil && !r.Replayed, err
}

// ensureDemo returns the demo vacant, and creates it if it never existed. It publishes the demo
// once, so that a newcomer finds a published agent, but not if serve has run on the data.
func ensureDemo(ctx context.Context, host *standalone.Host, dir string) (demo vacants.Record, isNew bool, err error) {
	demo, err = host.Vacants.GetByName(ctx, vacants.OperatorAsker(), demoName)
	if problem.Is(err, problem.NotFound) {
		isNew = true
		demo, err = host.Vacants.Create(ctx, vacants.CreateSpec{Name: demoName, Capability: demoCapability, Substrate: "echo"})
	}
	if err != nil || demo.Capability != demoCapability || !demo.State.CanBeCalled() || kit.HasServed(dir) {
		return demo, isNew, err
	}
	if nextSeq, err := host.Registry.NextActorSeq(ctx, demo.ID); err != nil || nextSeq > 1 {
		return demo, isNew, err
	}
	demo, _, err = host.Vacants.Publish(ctx, demo.ID, vacants.PublishOptions{})
	return demo, isNew, err
}

func callDemo(a *kit.App, ctx context.Context, demo vacants.Record, r *devResult) error {
	if demo.IsDeleted() {
		return problem.New(problem.Gone, "it was removed")
	}
	c, err := card.Parse(demo.Card)
	if err != nil {
		return err
	}
	r.handout = kit.HandoutOf(&admin.Vacant{ID: demo.ID, Name: demo.Name, State: demo.State, Endpoint: c.Endpoint, Price: demo.Price, KeylessAccess: string(demo.KeylessAccess)})
	signer, err := a.ChooseDemoSigner(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, kit.CallTimeout)
	defer cancel()
	target := dispatch.Target{ID: demo.ID, URL: c.Endpoint, Card: &c, Name: demo.Name}
	dispatcher := a.NewDispatcher(signer, a.HTTPTransport(0), kit.CallTimeout)
	msg := envelope.Message{Role: envelope.RoleUser, Parts: []string{demoMessage}}
	res, err := dispatcher.Call(ctx, target, msg)
	if err != nil {
		return err
	}
	call := callcmd.NewCallResult(signer, target, res)
	r.Call, r.callSeq = &call, res.Request.Seq
	return nil
}
