package admin

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Root names the vacant at the host's own address. A change may give its name. With
// nil, no vacant is there.
type Root struct {
	Vacant *string `json:"vacant" canon:"required,null"`
}

func (d *api) root(ctx context.Context, _ op.None) (Root, error) {
	id, ok, err := d.Vacants.Root(ctx)
	return rootOf(id, ok), err
}

func rootOf(id identity.ID, ok bool) (r Root) {
	if ok {
		text := id.String()
		r.Vacant = &text
	}
	return r
}

func (d *api) setRoot(ctx context.Context, in op.Body[Root]) (Root, error) {
	if in.Body.Vacant == nil || *in.Body.Vacant == "" {
		return Root{}, d.Vacants.SetRoot(ctx, nil)
	}
	rec, err := d.find(ctx, *in.Body.Vacant)
	if err == nil {
		err = d.Vacants.SetRoot(ctx, &rec.ID)
	}
	return rootOf(rec.ID, true), err
}
