package admin

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/front/op"
)

// Root names the vacant at the host's own address by its id or name. If Vacant is nil, the address
// has no vacant.
type Root struct {
	Vacant *string `json:"vacant" canon:"required,null"`
}

func (d *api) root(ctx context.Context, _ op.None) (r Root, err error) {
	id, ok, err := d.Vacants.Root(ctx)
	if ok {
		text := id.String()
		r.Vacant = &text
	}
	return r, err
}

func (d *api) setRoot(ctx context.Context, in op.Body[Root]) (Root, error) {
	if in.Body.Vacant == nil || *in.Body.Vacant == "" {
		return Root{}, d.Vacants.SetRoot(ctx, nil)
	}
	rec, err := d.findVacant(ctx, *in.Body.Vacant)
	if err == nil {
		err = d.Vacants.SetRoot(ctx, &rec.ID)
	}
	text := rec.ID.String()
	return Root{&text}, err
}
