package fsck

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/host/workspace"
	"github.com/vacancy-host/vacancy/shared/store"
)

func (r *run) checkFiles(ctx context.Context) error {
	verification := workspace.Verifier{
		Documents: struct {
			store.Reader
			store.Lister
		}{r.view, r.Source},
		Blobs: r.Blobs, Now: r.startedAt,
		Report: func(where, want, got string) {
			r.addFinding(Finding{Location: where, Check: File, Want: want, Got: got})
		},
	}
	return verification.Verify(ctx)
}
