package discovery

import (
	"context"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// SeenVacant is the vacant to which an address led.
type SeenVacant struct {
	ID identity.ID `json:"id"`
	At time.Time   `json:"at"`
}

// Limits of SavedData.Addresses.
const (
	maxAddresses = 4096
	maxAddress   = 1 << 10 // bytes; a longer address is not recorded
)

// RecordAddress records in m that the address of t leads to t's vacant. It returns the vacant to which
// the address led before, or the zero id if that is the same vacant or unknown. A name may lead to
// another vacant after the first one was renamed or deleted, but an id never does.
func RecordAddress(ctx context.Context, m Memory, t dispatch.Target, now time.Time) (before identity.ID, err error) {
	if t.Address == "" || len(t.Address) > maxAddress {
		return before, nil
	}
	err = m.Change(ctx, identity.ID{}, func(r *SavedData) bool {
		seen := r.Addresses[t.Address]
		if seen.ID == t.ID {
			return false
		}
		before = seen.ID
		if r.Addresses == nil {
			r.Addresses = map[string]SeenVacant{}
		}
		r.Addresses[t.Address] = SeenVacant{t.ID, now}
		dropOldest(r.Addresses, maxAddresses, func(v SeenVacant) time.Time { return v.At })
		return true
	})
	return before, err
}
