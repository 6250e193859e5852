package vacantcmd

import (
	"context"
	"time"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
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

// LocalIdentity is a local identity with its registration in a registry.
type LocalIdentity struct {
	*datadir.Identity
	Registry     *registryclient.Client
	Card         *card.Card // registered card, or else the card stored in the identity; may be nil
	isRegistered bool
	// visibility is "" unless the identity is registered.
	visibility lifecycle.Visibility
}

// openIdentity opens an identity and looks up its registration in a registry.
func openIdentity(a *kit.App, ctx context.Context, registry, name string) (*LocalIdentity, error) {
	base, err := registryclient.NormalizeURL(registry)
	if err != nil {
		return nil, err
	}
	home, err := a.IdentityDir()
	if err != nil {
		return nil, err
	}
	id, err := a.OpenIdentity(home, name)
	if err != nil {
		return nil, err
	}
	self := &LocalIdentity{Identity: id, Registry: &registryclient.Client{
		Transport: a.HTTPTransport(0), URL: base, Reader: id.Key, Now: a.Now,
	}}
	return self, self.LoadCard(ctx)
}

// LoadCard sets Card to the registered card, and returns an error unless the card is verified. If the
// registry shows no card, LoadCard uses the card that is stored in the identity.
func (l *LocalIdentity) LoadCard(ctx context.Context) error {
	m, err := l.Registry.Card(ctx, l.ID())
	switch {
	case err == nil:
		c, err := m.VerifiedCard()
		if err != nil {
			return err
		}
		l.Card, l.isRegistered, l.visibility = &c, true, m.Visibility
		return nil
	// The registry does not accept requests signed with a revoked key, so read anonymously.
	case problem.Is(err, problem.Revoked) && l.Registry.Reader != nil:
		l.Registry.Reader = nil
		return l.LoadCard(ctx)
	// A registry of the reference implementation does not verify readers. It shows a hidden vacant
	// to no reader, not even to the vacant itself.
	case problem.Is(err, problem.NotFound), problem.Is(err, problem.Forbidden):
		bundle, err := l.Bundle(ctx)
		l.Card = bundle.Card
		return err
	}
	return err
}

func (l *LocalIdentity) newDraft(ctx context.Context, capability, endpoint *string) (registryclient.Draft, error) {
	c := card.Card{VacantID: l.ID(), HaloVersion: card.Version}
	if l.Card != nil {
		c = *l.Card
	}
	if capability != nil {
		c.CapabilityText = *capability
	}
	if endpoint != nil {
		c.Endpoint = *endpoint
	}
	if c.CapabilityText == "" {
		return registryclient.Draft{}, kit.WithHint(problem.New(problem.Usage, "--capability: expected a description of what %s can do, got none; it has no card yet", l.Name), `--capability "TEXT"`)
	}
	if err := c.Sign(ctx, l.Key); err != nil {
		return registryclient.Draft{}, err
	}
	return registryclient.Draft{Card: c, State: lifecycle.Active}, nil
}

func publishIdentity(a *kit.App, ctx context.Context, f publishFlags, name string, p admin.Publication) error {
	if f.where != (kit.HostFlags{}) {
		return problem.New(problem.Usage, "--registry: not supported together with --host, --stage or --data: an identity is on this machine")
	}
	self, err := openIdentity(a, ctx, f.registryURL, name)
	if err != nil {
		return err
	}
	var endpoint *string
	if f.endpoint != "" {
		sendURL, err := dispatch.SendURL(f.endpoint)
		if err != nil {
			return err
		}
		endpoint = &sendURL
	}
	d, err := self.newDraft(ctx, p.Capability, endpoint)
	if err != nil {
		return err
	}
	d.Visibility = lifecycle.Public
	switch {
	case p.Visibility != nil:
		d.Visibility = *p.Visibility
	case self.isRegistered && self.visibility != lifecycle.Hidden:
		d.Visibility = self.visibility
	}
	if d.Card.Endpoint == "" && d.Visibility == lifecycle.Public {
		return kit.WithHint(problem.New(problem.Usage, "--endpoint: expected the URL at which %s takes calls, for example https://agents.example.org, got none", self.Name),
			"--endpoint https://HOST, or --visibility restricted for one that only signs")
	}
	if requested := p.Listing; requested != nil {
		l := listing.New(self.ID(), a.Now().UnixMicro()) // the version is the time, so it increases
		l.Tags, l.Skills, l.Summary, l.ModelFamily, l.Owner, l.Price = requested.Tags, requested.Skills, requested.Summary, requested.Family, requested.Owner, requested.Price
		if err := l.Sign(ctx, self.Key); err != nil {
			return err
		}
		d.Listing = &l
	}
	return sendDraft(a, ctx, self, d)
}

func sendDraft(a *kit.App, ctx context.Context, self *LocalIdentity, d registryclient.Draft) error {
	r, err := self.Registry.PublishAs(ctx, self.Key, d, a.Rand)
	if err != nil {
		return err
	}
	if r.ID != self.ID() || r.CardHash != d.Card.Hash() {
		return problem.New(problem.Untrusted, "%s answers with a card that is not the published one", self.Registry.URL)
	}
	if r.AwaitsProbe {
		r.AwaitsProbe = self.stillAwaitsProbe(ctx)
	}
	return a.PrintResult(publishedResult{
		ID: r.ID, Name: self.Name, Capability: d.Card.CapabilityText, Endpoint: d.Card.Endpoint,
		Visibility: r.Visibility, Seq: r.Seq, CardHash: r.CardHash, Registry: self.Registry.URL, Unchanged: r.Replayed, AwaitsProbe: r.AwaitsProbe,
	})
}

// stillAwaitsProbe waits briefly until the registry has reached the endpoint, and reports whether
// it has not. The registry probes an endpoint only after it has accepted the publication.
func (l *LocalIdentity) stillAwaitsProbe(ctx context.Context) bool {
	const maxWait, interval = 3 * time.Second, 50 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	for retry.Sleep(ctx, interval) == nil {
		if m, err := l.Registry.Card(ctx, l.ID()); err == nil && !m.AwaitsProbe {
			return false
		}
	}
	return true
}
