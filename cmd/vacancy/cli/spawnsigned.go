package cli

import (
	"cmp"
	"context"
	"encoding/json"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/client/registryclient"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
)

// spawnSigned requests a child by the parent's own signature: it needs only the
// parent's key, of an identity here and a vacant there.
func (a *app) spawnSigned(ctx context.Context, w where, s admin.Spawning, name string) (admin.Spawned, error) {
	var made admin.Spawned
	if s.With != "" {
		return made, problem.New(problem.Usage, "--with goes with the operator's key: one parent does not sign for the other")
	}
	h, err := a.dataHome()
	if err != nil {
		return made, err
	}
	parent, err := a.openIdentity(h, name)
	if err != nil {
		return made, err
	}
	base, err := a.childrenURL(ctx, w)
	if err != nil {
		return made, err
	}
	nonce, err := composite.NewNonce(a.rand)
	if err != nil {
		return made, err
	}
	r := composite.SpawnRequest{
		ParentID: parent.ID(), Path: s.Path, Name: s.Name, Capability: s.Capability, Substrate: s.Substrate,
		Tools: s.Tools, Rule: s.Rule, Reach: s.Reach, Outbound: s.Outbound, Nonce: nonce, Time: a.now(),
	}
	if err := r.Sign(ctx, parent.Key); err != nil {
		return made, err
	}
	handler := &registryclient.Client{Transport: dispatch.NewHTTP(dispatch.HTTPOptions{}), URL: base, Now: a.now}
	if err := handler.Post(ctx, "/v1/admin/vacants/"+parent.ID().String()+"/children", json.RawMessage(r.Blob()), &made); err != nil {
		return made, err
	}
	return made, made.Sound()
}

// childrenURL is where parents request children from a host.
func (a *app) childrenURL(ctx context.Context, w where) (string, error) {
	at, err := a.find(w)
	if err != nil {
		return "", err
	}
	if at == nil {
		return a.localURL(ctx, w.data)
	}
	url, err := at.urlOf(cmp.Or(at.record.AdminURL, at.record.URL))
	if err != nil {
		return "", err
	}
	return registryclient.CheckURL(url)
}
