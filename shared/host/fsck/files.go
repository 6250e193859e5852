package fsck

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/host/workspace"
	"github.com/vacancy-host/vacancy/shared/store"
)

// files compares the documents of workspaces with each other and with the blobs.
func (r *run) files(ctx context.Context) error {
	c := workspace.Verification{
		Documents: struct {
			store.Reader
			store.Lister
		}{r.view, r.Source},
		Blobs: r.Blobs, Now: r.began,
		Found: func(where, want, got string) { r.addFinding(Finding{Where: where, Check: File, Want: want, Got: got}) },
	}
	return c.Verify(ctx)
}
