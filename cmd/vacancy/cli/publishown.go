package cli

import (
	"context"
	"time"

	"github.com/vacancy-host/vacancy/shared/agent/datadir"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/client/registryclient"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/retry"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
)

// own is a local identity at a registry.
type own struct {
	*datadir.Identity
	registry *registryclient.Client
	card     *card.Card // as registered, else as stored in the identity; may be nil
	there    bool       // it is registered
	shown    lifecycle.Visibility
}

// openOwn opens an identity and reads its standing in a registry.
func (a *app) openOwn(ctx context.Context, registry, name string) (*own, error) {
	base, err := registryclient.CheckURL(registry)
	if err != nil {
		return nil, err
	}
	h, err := a.dataHome()
	if err != nil {
		return nil, err
	}
	id, err := a.openIdentity(h, name)
	if err != nil {
		return nil, err
	}
	o := &own{Identity: id, registry: &registryclient.Client{
		Transport: dispatch.NewHTTP(dispatch.HTTPOptions{}), URL: base, Reader: id.Key, Now: a.now,
	}}
	return o, o.look(ctx)
}

// look reads the registered card. It counts only if this key signed it.
func (o *own) look(ctx context.Context) error {
	m, err := o.registry.Card(ctx, o.ID())
	switch {
	case err == nil:
		c, err := m.Verified()
		if err != nil {
			return err
		}
		o.card, o.there, o.shown = &c, true, m.Visibility
		return nil
	// A revoked key proves nothing, not even the reader.
	case problem.Is(err, problem.Revoked) && o.registry.Reader != nil:
		o.registry.Reader = nil
		return o.look(ctx)
	// A registry of the reference does not verify readers, and shows a hidden
	// vacant not even to itself.
	case problem.Is(err, problem.NotFound), problem.Is(err, problem.Forbidden):
		bundle, err := o.Bundle(ctx)
		o.card = bundle.Card
		return err
	}
	return err
}

// draft is o's card with the requested changes.
func (o *own) draft(ctx context.Context, capability, endpoint *string) (registryclient.Draft, error) {
	c := card.Card{VacantID: o.ID(), HaloVersion: card.Version}
	if o.card != nil {
		c = *o.card
	}
	if capability != nil {
		c.CapabilityText = *capability
	}
	if endpoint != nil {
		c.Endpoint = *endpoint
	}
	if c.CapabilityText == "" {
		return registryclient.Draft{}, withHint(problem.New(problem.Usage, "%s has no card yet: what can it do?", o.Name), `--capability "TEXT"`)
	}
	if err := c.Sign(ctx, o.Key); err != nil {
		return registryclient.Draft{}, err
	}
	return registryclient.Draft{Card: c, State: lifecycle.Active}, nil
}

func (a *app) publishOwn(ctx context.Context, f publishFlags, name string, p admin.Publication) error {
	if f.where != (where{}) {
		return problem.New(problem.Usage, "--registry goes with none of --host, --stage and --data: an identity is on this machine")
	}
	o, err := a.openOwn(ctx, f.registry, name)
	if err != nil {
		return err
	}
	var endpoint *string
	if f.endpoint != "" {
		send, err := dispatch.SendURL(f.endpoint)
		if err != nil {
			return err
		}
		endpoint = &send
	}
	d, err := o.draft(ctx, p.Capability, endpoint)
	if err != nil {
		return err
	}
	d.Visibility = lifecycle.Public
	switch {
	case p.Visibility != nil:
		d.Visibility = *p.Visibility
	case o.there && o.shown != lifecycle.Hidden:
		d.Visibility = o.shown
	}
	if d.Card.Endpoint == "" && d.Visibility == lifecycle.Public {
		return withHint(problem.New(problem.Usage, "%s has no endpoint yet: where does it take calls?", o.Name),
			"--endpoint https://HOST, or --visibility restricted for one that only signs")
	}
	if p.Listing != nil {
		if d.Listing, err = o.listing(ctx, p.Listing, a.now().UnixMicro()); err != nil {
			return err
		}
	}
	return a.sendOwn(ctx, o, d)
}

// listing signs the requested listing. Its version is the time, which
// increases.
func (o *own) listing(ctx context.Context, wish *admin.Listing, version int64) (*listing.Listing, error) {
	l := listing.New(o.ID(), version)
	l.Tags, l.Skills, l.Summary, l.Family, l.Owner, l.Price = wish.Tags, wish.Skills, wish.Summary, wish.Family, wish.Owner, wish.Price
	return &l, l.Sign(ctx, o.Key)
}

func (a *app) unpublishOwn(ctx context.Context, registry, name string) error {
	o, err := a.openOwn(ctx, registry, name)
	if err != nil {
		return err
	}
	if !o.there {
		return problem.New(problem.NotFound, "%s is not published at %s", name, o.registry.URL)
	}
	d, err := o.draft(ctx, nil, nil)
	if err != nil {
		return err
	}
	d.Visibility = lifecycle.Hidden
	return a.sendOwn(ctx, o, d)
}

func (a *app) sendOwn(ctx context.Context, o *own, d registryclient.Draft) error {
	r, err := o.registry.PublishAs(ctx, o.Key, d, a.rand)
	if err != nil {
		return err
	}
	if r.ID != o.ID() || r.CardHash != d.Card.Hash() {
		return problem.New(problem.Untrusted, "%s answers with another card than the one that was published", o.registry.URL)
	}
	if r.Unreached {
		r.Unreached = o.awaitReached(ctx)
	}
	return a.show(publishedResult{
		ID: r.ID, Name: o.Name, Capability: d.Card.CapabilityText, Endpoint: d.Card.Endpoint,
		Visibility: r.Visibility, Seq: r.Seq, CardHash: r.CardHash, Registry: o.registry.URL, Unchanged: r.Replayed, Unreached: r.Unreached,
	})
}

// awaitReached waits a little until the registry has reached the endpoint, which
// it probes after it has answered. It reports whether that is still to come.
func (o *own) awaitReached(ctx context.Context) bool {
	const patience, every = 3 * time.Second, 50 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for retry.Sleep(ctx, every) == nil {
		if m, err := o.registry.Card(ctx, o.ID()); err == nil && !m.Unreached {
			return false
		}
	}
	return true
}

func (a *app) revokeOwn(ctx context.Context, registry, name, reason string, yes bool) error {
	o, err := a.openOwn(ctx, registry, name)
	if err != nil {
		return err
	}
	if err := a.askToRevoke(ctx, o.Name, yes); err != nil {
		return err
	}
	r, err := o.registry.RevokeAs(ctx, o.Key, reason, a.rand)
	if err != nil {
		return err
	}
	return a.show(publishedResult{
		ID: o.ID(), Name: o.Name, Visibility: r.Visibility, Seq: r.Seq, CardHash: r.CardHash,
		Registry: o.registry.URL, Unchanged: r.Replayed, Revoked: true,
	})
}
