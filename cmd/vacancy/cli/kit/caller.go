package kit

import (
	"context"
	"slices"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
)

// CallTimeout bounds one call: more than a host's deadline for a vacant and its
// grace.
const CallTimeout = time.Minute

// Dispatcher returns a caller that signs as self and keeps its calls in self's book.
func (a *App) Dispatcher(self Signer, web *dispatch.HTTP, timeout time.Duration) *dispatch.Caller {
	return &dispatch.Caller{
		Signer: self.Key, Book: self.Book(), Transport: web,
		Now: a.Now, Rand: a.Rand, Patience: timeout,
	}
}

// DemoCaller is the identity for the host's own call, chosen like for any call, but
// among several without a default it takes the first instead of asking.
func (a *App) DemoCaller(ctx context.Context) (Signer, error) {
	h, err := a.DataHome()
	if err != nil {
		return Signer{}, err
	}
	names, err := h.Names()
	if err != nil {
		return Signer{}, err
	}
	chosen, _, err := h.Default()
	if err != nil || a.Env["VACANCY_AS"] != "" || len(names) < 2 {
		return a.Caller(ctx, "")
	}
	if chosen == "" {
		chosen = names[0]
		if slices.Contains(names, defaultIdentity) {
			chosen = defaultIdentity
		}
	}
	return a.Caller(ctx, chosen)
}
