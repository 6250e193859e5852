package discovery

import (
	"context"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

type SeenVacant struct {
	ID     identity.ID `json:"id"`
	SeenAt time.Time   `json:"at"`
}

const (
	maxAddresses    = 4096
	maxAddressBytes = 1 << 10
)

// RecordAddress records that the address of t leads to t's vacant. If the address led to another
// vacant before, RecordAddress returns the id of that vacant.
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
