package account

import (
	"context"
	"net/http"
)

// Restored says how many open vacants refuse what was signed until now.
type Restored struct {
	Vacants int `json:"vacants"`
}

// restored serves POST /v1/restored: what the host keeps came back from a
// backup (hosted.Restored).
func (d *door) restored(w http.ResponseWriter, r *http.Request) error {
	if err := noBody(r); err != nil {
		return err
	}
	n, err := d.Vacants.Restored(r.Context())
	if err != nil {
		return err
	}
	return write(w, http.StatusOK, Restored{n})
}

// Restored tells the host that what it keeps came back from a backup.
func (c *Client) Restored(ctx context.Context) (r Restored, err error) {
	return r, c.do(ctx, http.MethodPost, "/v1/restored", nil, &r)
}
