package mcprelay

import (
	"bytes"
	"context"
	"io"
	"math"
	"net/http"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/mcpserver/mcptool"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Local returns the way to a server in this process. A tool learns by Canceled that its request was canceled.
func Local(s *sdk.Server) HTTP {
	return local{sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true, MaxRequestBodyBytes: maxLine,
	})}
}

type local struct{ handler http.Handler }

type requestKey struct{}

// Canceled is closed when the request of a tool's context is canceled, because the library keeps that from
// the tools of a server without sessions. It is nil for other contexts.
func Canceled(ctx context.Context) <-chan struct{} {
	c, _ := ctx.Value(requestKey{}).(<-chan struct{})
	return c
}

// Open implements HTTP.
func (l local) Open(ctx context.Context, r outbound.Request) (*http.Response, error) {
	// The answer is not waited for after a cancellation, and the tool keeps its own time.
	ctx, canceled := context.WithValue(context.WithoutCancel(ctx), requestKey{}, ctx.Done()), ctx.Done()
	body, ids := mcptool.ReplaceIDs(r.Body)
	q, err := http.NewRequestWithContext(ctx, r.Method, r.URL, bytes.NewReader(body))
	if err != nil {
		return nil, problem.Wrap(problem.Internal, err, "")
	}
	q.Header = r.Header
	w := httpapi.NewRecorder(math.MaxInt64)
	served := make(chan struct{})
	go func() { defer close(served); l.handler.ServeHTTP(w, q) }()
	select {
	case <-served:
		return &http.Response{StatusCode: w.Status, Header: w.Header(), Body: io.NopCloser(bytes.NewReader(mcptool.RestoreIDs(w.Body.Bytes(), ids)))}, nil
	case <-canceled:
		return nil, problem.New(problem.Canceled, "the request was canceled")
	}
}
