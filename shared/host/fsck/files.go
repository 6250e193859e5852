package fsck

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/host/workspace"
	"github.com/vacancy-host/vacancy/shared/store"
)

// files compares the documents of workspaces with each other and with the blobs.
func (r *run) files(ctx context.Context) error {
	return workspace.Verify(ctx, workspace.Verification{
		Documents: struct {
			store.Reader
			store.Lister
		}{r.view, r.Source},
		Blobs: r.Blobs, Now: r.began,
		Found: func(d workspace.Damage) {
			f := Finding{Where: d.Blob, Check: File, Want: d.Want, Got: d.Got}
			if d.Blob == "" {
				f.Where = d.Key.String()
			}
			r.found(f)
		},
	})
}
