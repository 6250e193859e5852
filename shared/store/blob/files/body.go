package files

import (
	"context"
	"fmt"
	"io"

	"github.com/vacancy-host/vacancy/shared/store/blob"
)

// reader ends when its context ends.
type reader struct {
	ctx  context.Context
	from io.Reader
}

func (r reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.from.Read(p)
}

// body is the body that Get returns. It returns the adapter's errors.
type body struct {
	from io.Reader
	io.Closer
}

func (b body) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	if err != nil && err != io.EOF {
		err = fmt.Errorf("%w: %w", blob.ErrUnavailable, err)
	}
	return n, err
}
