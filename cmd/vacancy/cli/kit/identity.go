package kit

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/vacancy-host/vacancy/cmd/vacancy/nearest"
	"github.com/vacancy-host/vacancy/shared/agent/datadir"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// defaultIdentity is the name of the identity that is created at the first call that needs an
// identity.
const defaultIdentity = "default"

func (a *App) OpenIdentity(h *datadir.Dir, name string) (*datadir.Identity, error) {
	id, err := h.Open(name)
	if !problem.Is(err, problem.NotFound) {
		return id, err
	}
	if names, _ := h.Names(); len(names) > 0 {
		err := problem.New(problem.NotFound, "no identity %q; there are %s", name, strings.Join(names, ", "))
		if near := nearest.Name(name, names); near != "" {
			return nil, WithHint(err, "%s", a.CommandLineFor(name, near))
		}
		return nil, err
	}
	return nil, WithHint(problem.New(problem.NotFound, "no identity %q; there is none yet", name), "vacancy init %s", name)
}

func (a *App) ExistingCaller(ctx context.Context, as string) (Signer, error) {
	h, err := a.DataHome()
	if err != nil {
		return Signer{}, err
	}
	names, err := h.Names()
	if err != nil {
		return Signer{}, err
	}
	if len(names) == 0 && cmp.Or(as, a.Env["VACANCY_AS"]) == "" {
		return Signer{}, WithHint(problem.New(problem.NotFound, "no identity has been created yet"), "vacancy init NAME")
	}
	return a.Caller(ctx, as)
}

// Caller chooses the signer: --as, $VACANCY_AS, the default identity, the only identity, or a new
// one named default. If there are several identities, a note says once that the default signs.
// Several identities without a default are an error, because a signature by the wrong identity
// cannot be undone.
func (a *App) Caller(ctx context.Context, as string) (Signer, error) {
	h, err := a.DataHome()
	if err != nil {
		return Signer{}, err
	}
	if as = cmp.Or(as, a.Env["VACANCY_AS"]); as != "" {
		id, err := a.OpenIdentity(h, as)
		return Signer{Identity: id}, err
	}
	names, err := h.Names()
	if err != nil {
		return Signer{}, err
	}
	chosen, told, err := h.Default()
	switch {
	case err != nil:
		return Signer{}, err
	case len(names) == 0:
		return a.makeDefault(ctx, h)
	case chosen != "":
	case len(names) == 1:
		chosen = names[0]
	case slices.Contains(names, defaultIdentity):
		chosen = defaultIdentity
	default:
		err = problem.New(problem.Usage, "several identities, and none is the default: %s", strings.Join(names, ", "))
		return Signer{}, WithHint(err, "vacancy id use %s", names[0])
	}
	if len(names) > 1 && !told {
		a.Note("signed by the identity %s; %s changes the default, --as NAME chooses another", chosen, a.Command("id use NAME"))
		if err := h.SetDefault(chosen, true); err != nil {
			return Signer{}, err
		}
	}
	id, err := h.Open(chosen)
	return Signer{Identity: id}, err
}

// Signer is the identity that signs a call.
type Signer struct {
	*datadir.Identity
	Made bool // the identity was created in this run
}

func (a *App) makeDefault(ctx context.Context, h *datadir.Dir) (Signer, error) {
	bundle, _, err := datadir.NewBundle(a.Rand)
	if err != nil {
		return Signer{}, err
	}
	id, err := h.Create(ctx, defaultIdentity, bundle)
	if problem.Is(err, problem.Conflict) {
		id, err := h.Open(defaultIdentity) // another process was faster
		return Signer{Identity: id}, err
	}
	if err != nil {
		return Signer{}, err
	}
	if err := h.SetDefault(id.Name, false); err != nil {
		return Signer{}, err
	}
	a.Note("created the identity %q: %s", id.Name, id.KeyFile())
	return Signer{id, true}, nil
}

func (a *App) BundleFrom(from, seed string) (datadir.Bundle, datadir.Source, error) {
	switch {
	case from != "":
		return datadir.Import(from, seed, a.In)
	case seed != "":
		return datadir.Bundle{}, "", WithHint(problem.New(problem.Usage, "--seed: not supported without --import"), "--import %s", seed)
	}
	return datadir.NewBundle(a.Rand)
}
