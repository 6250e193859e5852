package kit

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/client/discovery"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch/filebook"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// CallTimeout limits one call. It is longer than a host's deadline for a vacant and its grace
// period.
const CallTimeout = time.Minute

func (a *App) NewDispatcher(signer Signer, transport *dispatch.HTTP, timeout time.Duration) *dispatch.Caller {
	return &dispatch.Caller{
		Signer: signer.Key, Book: signer.Book(), Transport: transport,
		Now: a.Now, Rand: a.Rand, AnswerTimeout: timeout,
	}
}

// WarnIfVacantChanged warns if the address of a target led to another vacant in an earlier call. It
// returns the id of that vacant, or nil if it does not warn.
func (a *App) WarnIfVacantChanged(ctx context.Context, t dispatch.Target) *identity.ID {
	dir, err := a.VacancyHome()
	if err != nil {
		return nil
	}
	previousID, err := discovery.RecordAddress(ctx, &filebook.Book{Dir: filepath.Join(dir, "addresses")}, t, a.Now())
	if err != nil || previousID.IsZero() {
		return nil
	}
	previousAddress := previousID.String()
	if base, _, ok := strings.Cut(t.Address, "/v/"); ok {
		previousAddress = base + "/v/" + previousAddress
	}
	a.PrintNote("warning: %s now leads to vacant %s, but it led to vacant %s at an earlier call. If you did not expect this change, ask the owner before you send more. To call the earlier vacant: %s",
		EscapeLine(t.Address), t.ID, previousID.Short(), a.FormatCommand("call %s", ShellWord(previousAddress)))
	return &previousID
}

// ChooseDemoSigner works like App.ChooseSigner, but chooses an identity if there are several and
// none is the default.
func (a *App) ChooseDemoSigner(ctx context.Context) (Signer, error) {
	dir, err := a.IdentityDir()
	if err != nil {
		return Signer{}, err
	}
	names, err := dir.Names()
	if err != nil {
		return Signer{}, err
	}
	chosenName, _, err := dir.Default()
	if err != nil || a.Env["VACANCY_AS"] != "" || len(names) < 2 {
		return a.ChooseSigner(ctx, "")
	}
	if chosenName == "" {
		chosenName = names[0]
		if slices.Contains(names, defaultIdentity) {
			chosenName = defaultIdentity
		}
	}
	return a.ChooseSigner(ctx, chosenName)
}
