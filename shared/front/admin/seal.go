package admin

import (
	"context"
	"net/http"

	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// SealPath is the route that seals the registry's log.
const SealPath = "/v1/admin/log/seal"

// Sealed is the state of the sealed log.
type Sealed struct {
	Host   identity.ID   `json:"host_id"`
	Size   uint64        `json:"tree_size"`
	Root   identity.Hash `json:"root_hash_hex"`
	Epochs uint64        `json:"epochs,omitempty"`
	Added  uint64        `json:"added"` // newly sealed events
}

// Seal seals the host's log now instead of on schedule.
func (c *Client) Seal(ctx context.Context) (s Sealed, err error) {
	return s, c.do(ctx, http.MethodPost, SealPath, nil, &s)
}
