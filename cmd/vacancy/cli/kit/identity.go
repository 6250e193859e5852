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

// defaultIdentity is the name of the identity that the first call creates.
const defaultIdentity = "default"

func (a *App) OpenIdentity(dir *datadir.Dir, name string) (*datadir.Identity, error) {
	id, err := dir.Open(name)
	if !problem.Is(err, problem.NotFound) {
		return id, err
	}
	if names, _ := dir.Names(); len(names) > 0 {
		err := problem.New(problem.NotFound, "no identity %q; there are %s", name, strings.Join(names, ", "))
		if suggestion := nearest.Name(name, names); suggestion != "" {
			return nil, WithHint(err, "%s", a.CommandLineReplacing(name, suggestion))
		}
		return nil, err
	}
	return nil, WithHint(problem.New(problem.NotFound, "no identity %q; there is none yet", name), "vacancy init %s", name)
}

func (a *App) ChooseExistingSigner(ctx context.Context, identityName string) (Signer, error) {
	dir, err := a.IdentityDir()
	if err != nil {
		return Signer{}, err
	}
	names, err := dir.Names()
	if err != nil {
		return Signer{}, err
	}
	if len(names) == 0 && cmp.Or(identityName, a.Env["VACANCY_AS"]) == "" {
		return Signer{}, WithHint(problem.New(problem.NotFound, "no identity has been created yet"), "vacancy init NAME")
	}
	return a.ChooseSigner(ctx, identityName)
}

// ChooseSigner chooses the identity of --as or $VACANCY_AS, the default identity, the only
// identity, or a new one. Several identities without a default are an error, because a signature by
// the wrong identity cannot be undone.
func (a *App) ChooseSigner(ctx context.Context, identityName string) (Signer, error) {
	dir, err := a.IdentityDir()
	if err != nil {
		return Signer{}, err
	}
	if identityName = cmp.Or(identityName, a.Env["VACANCY_AS"]); identityName != "" {
		id, err := a.OpenIdentity(dir, identityName)
		return Signer{Identity: id}, err
	}
	names, err := dir.Names()
	if err != nil {
		return Signer{}, err
	}
	chosenName, isAnnounced, err := dir.Default()
	switch {
	case err != nil:
		return Signer{}, err
	case len(names) == 0:
		return a.createDefaultIdentity(ctx, dir)
	case chosenName != "":
	case len(names) == 1:
		chosenName = names[0]
	case slices.Contains(names, defaultIdentity):
		chosenName = defaultIdentity
	default:
		err = problem.New(problem.Usage, "there are several identities, but none is the default: %s", strings.Join(names, ", "))
		return Signer{}, WithHint(err, "vacancy id use %s", names[0])
	}
	if len(names) > 1 && !isAnnounced {
		a.PrintNote("signed by the identity %s; %s changes the default, and --as NAME chooses another identity", chosenName, a.FormatCommand("id use NAME"))
		if err := dir.SetDefault(chosenName, true); err != nil {
			return Signer{}, err
		}
	}
	id, err := dir.Open(chosenName)
	return Signer{Identity: id}, err
}

type Signer struct {
	*datadir.Identity
	Created bool // the identity was created in this run
}

func (a *App) createDefaultIdentity(ctx context.Context, dir *datadir.Dir) (Signer, error) {
	bundle, _, err := datadir.NewBundle(a.Rand)
	if err != nil {
		return Signer{}, err
	}
	id, err := dir.Create(ctx, defaultIdentity, bundle)
	if problem.Is(err, problem.Conflict) {
		id, err := dir.Open(defaultIdentity) // another process was faster
		return Signer{Identity: id}, err
	}
	if err != nil {
		return Signer{}, err
	}
	if err := dir.SetDefault(id.Name, false); err != nil {
		return Signer{}, err
	}
	a.PrintNote("created the identity %q: %s", id.Name, id.KeyFile())
	return Signer{id, true}, nil
}

func (a *App) ImportOrCreateBundle(importPath, seed string) (datadir.Bundle, datadir.Source, error) {
	switch {
	case importPath != "":
		return datadir.Import(importPath, seed, a.In)
	case seed != "":
		return datadir.Bundle{}, "", WithHint(problem.New(problem.Usage, "--seed: not supported without --import"), "--import %s", seed)
	}
	return datadir.NewBundle(a.Rand)
}
