package serve

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/front/admin"
)

// seal seals the host's log now.
func (h *Server) seal(ctx context.Context) (admin.Sealed, error) {
	l, err := h.OpenLog(nil)
	if err != nil {
		return admin.Sealed{}, err
	}
	s, err := l.Seal(ctx)
	return admin.Sealed{Host: s.Host, Size: s.Size, Root: s.Root, Epochs: s.Epochs, Added: s.Added}, err
}
