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

// NewLocal returns a Transport that calls a server in this process.
func NewLocal(s *sdk.Server) Transport {
	return localTransport{sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true, MaxRequestBodyBytes: maxLineBytes,
	})}
}

type localTransport struct{ handler http.Handler }

type requestKey struct{}

// CancelChannel returns a channel that is closed when the client cancels the request of a tool's
// context, or nil for other contexts. The library does not pass cancellations on to the tools of a
// server without sessions.
func CancelChannel(ctx context.Context) <-chan struct{} {
	c, _ := ctx.Value(requestKey{}).(<-chan struct{})
	return c
}

func (l localTransport) Open(ctx context.Context, r outbound.Request) (*http.Response, error) {
	// The tool's context is not canceled. After a cancellation, Open returns without the answer,
	// but the tool runs until it ends by itself.
	ctx, canceled := context.WithValue(context.WithoutCancel(ctx), requestKey{}, ctx.Done()), ctx.Done()
	body, ids := mcptool.ReplaceIDs(r.Body)
	req, err := http.NewRequestWithContext(ctx, r.Method, r.URL, bytes.NewReader(body))
	if err != nil {
		return nil, problem.Wrap(problem.Internal, err, "")
	}
	req.Header = r.Header
	w := httpapi.NewRecorder(math.MaxInt64)
	served := make(chan struct{})
	go func() { defer close(served); l.handler.ServeHTTP(w, req) }()
	select {
	case <-served:
		return &http.Response{StatusCode: w.Status, Header: w.Header(), Body: io.NopCloser(bytes.NewReader(mcptool.RestoreIDs(w.Body.Bytes(), ids)))}, nil
	case <-canceled:
		return nil, problem.New(problem.Canceled, "the request was canceled")
	}
}
