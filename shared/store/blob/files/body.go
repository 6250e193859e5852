package files

import (
	"context"
	"fmt"
	"io"

	"github.com/vacancy-host/vacancy/shared/store/blob"
)

type contextReader struct {
	ctx    context.Context
	reader io.Reader
}

func (r contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.reader.Read(p)
}

// body wraps its read errors in blob.ErrUnavailable.
type body struct {
	reader io.Reader
	io.Closer
}

func (b body) Read(p []byte) (int, error) {
	n, err := b.reader.Read(p)
	if err != nil && err != io.EOF {
		err = fmt.Errorf("%w: %w", blob.ErrUnavailable, err)
	}
	return n, err
}
