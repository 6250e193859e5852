package discovery

import (
	"context"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// SeenVacant is the vacant to which an address led.
type SeenVacant struct {
	ID     identity.ID `json:"id"`
	SeenAt time.Time   `json:"at"`
}

// Limits of SavedData.Addresses.
const (
	maxAddresses    = 4096
	maxAddressBytes = 1 << 10 // bytes; a longer address is not recorded
)

// RecordAddress records in m that the address of t leads to t's vacant. It returns the vacant to
// which the address led before. If the address is new or has led to the same vacant, it returns the
// zero id. A name may lead to another vacant after the first one was renamed or deleted, but an id
// never does.
func RecordAddress(ctx context.Context, m Memory, t dispatch.Target, now time.Time) (previous identity.ID, err error) {
	if t.Address == "" || len(t.Address) > maxAddressBytes {
		return previous, nil
	}
	err = m.Change(ctx, identity.ID{}, func(data *SavedData) bool {
		seen := data.Addresses[t.Address]
		if seen.ID == t.ID {
			return false
		}
		previous = seen.ID
		if data.Addresses == nil {
			data.Addresses = map[string]SeenVacant{}
		}
		data.Addresses[t.Address] = SeenVacant{t.ID, now}
		dropOldest(data.Addresses, maxAddresses, func(v SeenVacant) time.Time { return v.SeenAt })
		return true
	})
	return previous, err
}
