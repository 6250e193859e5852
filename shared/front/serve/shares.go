package serve

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/booking"
)

// localTurns are the turns in the background of one process. Bookings have a share of their own,
// like pushes.
const (
	localTurns    = 64
	localBookings = localTurns / 4
)

// guestTurns are the turns at slow vacants of an address whose callers sign nothing.
const guestTurns = 2

// share is a row of the table of shares.
type share struct {
	name string
	// of says whose share it is, "" for a share of the whole host; ok is false if the turn does
	// not count for the share.
	of func(*backgroundTurn) (whose string, ok bool)
	// max is the number of turns at once, of a host that runs so many turns.
	max func(turns int) int
	// queued says that the queues of AWS keep the share: maximum concurrency, and fairness by
	// sender. Other shares are counted in the store there.
	queued bool
}

// backgroundTurn is a turn in the background as shares see it.
type backgroundTurn struct {
	vacant, tenant, sender string
	account, guest         bool // an account pays; the caller signs nothing
	slow                   bool // of a slow vacant
}

// shares divide the turns of a host. Vacants that are not slow keep half, and accounts at slow
// vacants a quarter of the other half, however many slow vacants strangers call: callers without an
// account cost their sender nothing.
var shares = []share{
	{"turns", host, part(1, 1), true},
	{"vacant", func(t *backgroundTurn) (string, bool) { return t.vacant, true }, part(1, 4), false},
	{"sender", func(t *backgroundTurn) (string, bool) { return t.sender, true }, part(1, 4), true},
	{"others", func(t *backgroundTurn) (string, bool) { return "", !t.account }, part(1, 2), true},
	{"tenant", func(t *backgroundTurn) (string, bool) { return t.tenant, t.tenant != "" }, part(1, 2), false},
	{"slow", func(t *backgroundTurn) (string, bool) { return "", t.slow }, part(1, 2), false},
	{"others at slow", func(t *backgroundTurn) (string, bool) { return "", t.slow && !t.account }, part(3, 8), false},
	{"guests", func(t *backgroundTurn) (string, bool) { return t.sender, t.slow && t.guest && !t.account }, func(int) int { return guestTurns }, false},
}

func host(*backgroundTurn) (whose string, ok bool) { return "", true }

// part is a fraction of the turns, one at least.
func part(n, of int) func(int) int {
	return func(turns int) int { return max(1, turns*n/of) }
}

// sharesOf returns the shares of a turn on a host that runs so many turns at once. On AWS only the
// counted shares are wanted.
func sharesOf(t *backgroundTurn, turns int, counted bool) (all []task.Share) {
	for _, s := range shares {
		whose, ok := s.of(t)
		if !ok || counted && s.queued {
			continue
		}
		key := s.name
		if whose != "" {
			key += " " + whose
		}
		all = append(all, task.Share{Key: key, Max: s.max(turns)})
	}
	return all
}

// background describes a turn. With an error the vacant could not be read, and the turn is neither slow nor a
// tenant's.
func (h *Server) background(ctx context.Context, ref task.Ref, of task.Sender) (*backgroundTurn, error) {
	t := &backgroundTurn{vacant: ref.Vacant.String(), sender: string(of), guest: !ref.Owner.Signs()}
	_, t.account = ref.Owner.Account()
	v, ok, err := h.Vacants.Show(ctx, ref.Vacant)
	if err == nil && ok {
		t.tenant, t.slow = v.Tenant, h.Calls.IsSlow(v.Work)
	}
	return t, err
}

// countedShares returns the shares that the workers of AWS count, which run so many turns at once.
func (h *Server) countedShares(turns int) func(context.Context, task.Ref, task.Sender) ([]task.Share, error) {
	return func(ctx context.Context, ref task.Ref, of task.Sender) ([]task.Share, error) {
		t, err := h.background(ctx, ref, of)
		return sharesOf(t, turns, true), err
	}
}

// localShares returns the shares that a message of the local queue counts for.
func (a *A2A) localShares(ctx context.Context, message string, of task.Sender) []task.Share {
	if booking.IsMessage(message) {
		return []task.Share{{Key: "bookings", Max: localBookings}}
	}
	ref, err := task.ParseMessage(message)
	if err != nil {
		return []task.Share{{Key: "turns", Max: localTurns}} // Work says so
	}
	t, _ := a.server.background(ctx, ref, of) // the turn fails by itself if its vacant cannot be read
	return sharesOf(t, localTurns, false)
}
