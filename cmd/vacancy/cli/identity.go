package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/vacancy-host/vacancy/shared/agent/datadir"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// defaultIdentity is the identity that is created when a call needs one and
// there is none.
const defaultIdentity = "default"

// openIdentity opens an identity; if there is none of that name, the error
// lists the existing ones.
func (a *app) openIdentity(h *datadir.Dir, name string) (*datadir.Identity, error) {
	id, err := h.Open(name)
	if !problem.Is(err, problem.NotFound) {
		return id, err
	}
	if names, _ := h.Names(); len(names) > 0 {
		err := problem.New(problem.NotFound, "no identity %q; there are %s", name, strings.Join(names, ", "))
		if near := nearest(name, names); near != "" {
			return nil, withHint(err, "%s", near)
		}
		return nil, err
	}
	return nil, withHint(problem.New(problem.NotFound, "no identity %q; there is none yet", name), "vacancy init %s", name)
}

// caller chooses the signer: --as, $VACANCY_AS, the default identity, the only one,
// or a new one named default. The person is told once that the default one signs.
// Several without a default are an error that lists them, because signing with the
// wrong one cannot be undone.
func (a *app) caller(ctx context.Context, as string) (signer, error) {
	h, err := a.dataHome()
	if err != nil {
		return signer{}, err
	}
	if as == "" {
		as = a.env["VACANCY_AS"]
	}
	if as != "" {
		id, err := a.openIdentity(h, as)
		return signer{Identity: id}, err
	}
	names, err := h.Names()
	if err != nil {
		return signer{}, err
	}
	chosen, told, err := h.Default()
	switch {
	case err != nil:
		return signer{}, err
	case len(names) == 0:
		return a.makeDefault(ctx, h)
	case chosen != "":
	case len(names) == 1:
		chosen = names[0]
	case slices.Contains(names, defaultIdentity):
		chosen = defaultIdentity
	default:
		err = problem.New(problem.Usage, "several identities, and none is the default: %s", strings.Join(names, ", "))
		return signer{}, withHint(err, "vacancy id use %s", names[0])
	}
	if len(names) > 1 && !told {
		a.note("signing as %s, the default; vacancy id use NAME changes it, --as NAME overrides it", chosen)
		if err := h.SetDefault(chosen, true); err != nil {
			return signer{}, err
		}
	}
	id, err := h.Open(chosen)
	return signer{Identity: id}, err
}

// signer is the identity that signs a call.
type signer struct {
	*datadir.Identity
	made bool
}

// makeDefault creates the identity named default, and says so.
func (a *app) makeDefault(ctx context.Context, h *datadir.Dir) (signer, error) {
	bundle, _, err := datadir.NewBundle(a.rand)
	if err != nil {
		return signer{}, err
	}
	id, err := h.Make(ctx, defaultIdentity, bundle)
	if problem.Is(err, problem.Conflict) {
		id, err := h.Open(defaultIdentity) // another process was faster
		return signer{Identity: id}, err
	}
	if err != nil {
		return signer{}, err
	}
	if err := h.SetDefault(id.Name, false); err != nil {
		return signer{}, err
	}
	a.note("made the identity %q: %s", id.Name, id.KeyFile())
	return signer{id, true}, nil
}
