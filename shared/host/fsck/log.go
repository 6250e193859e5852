package fsck

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/host/registry/translog"
)

func (r *run) checkTransparencyLog(ctx context.Context) error {
	_, err := translog.CheckRegistry(ctx, r.view, func(f translog.Mismatch) {
		r.addFinding(newDocumentFinding(f.Key, Log, f.Want, f.Got))
	})
	return err
}
