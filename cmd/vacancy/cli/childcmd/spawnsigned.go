package childcmd

import (
	"cmp"
	"context"
	"encoding/json"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/host/client/registryclient"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
)

// spawnSigned requests a child by the parent's own signature: it needs only the
// parent's key, of an identity here and a vacant there.
func spawnSigned(a *kit.App, ctx context.Context, w kit.Where, s admin.Spawning, name string) (admin.Spawned, error) {
	var made admin.Spawned
	if s.With != "" {
		return made, problem.New(problem.Usage, "--with goes with the operator's key: one parent does not sign for the other")
	}
	h, err := a.DataHome()
	if err != nil {
		return made, err
	}
	parent, err := a.OpenIdentity(h, name)
	if err != nil {
		return made, err
	}
	base, err := childrenURL(a, ctx, w)
	if err != nil {
		return made, err
	}
	nonce, err := composite.NewNonce(a.Rand)
	if err != nil {
		return made, err
	}
	r := composite.SpawnRequest{
		ParentID: parent.ID(), Path: s.Path, Name: s.Name, Capability: s.Capability, Substrate: s.Substrate,
		Tools: s.Tools, Rule: s.Rule, Reach: s.Reach, Outbound: s.Outbound, Nonce: nonce, Time: a.Now(),
	}
	if err := r.Sign(ctx, parent.Key); err != nil {
		return made, err
	}
	handler := &registryclient.Client{Transport: a.HTTP(0), URL: base, Now: a.Now}
	if err := handler.Post(ctx, "/v1/admin/vacants/"+parent.ID().String()+"/children", json.RawMessage(r.Blob()), &made); err != nil {
		return made, err
	}
	return made, made.Sound()
}

// childrenURL is where parents request children from a host.
func childrenURL(a *kit.App, ctx context.Context, w kit.Where) (string, error) {
	at, err := a.Find(w)
	if err != nil {
		return "", err
	}
	if at == nil {
		return a.LocalURL(ctx, w.Data)
	}
	url, err := at.URLOf(cmp.Or(at.Record.AdminURL, at.Record.URL))
	if err != nil {
		return "", err
	}
	return registryclient.CheckURL(url)
}
