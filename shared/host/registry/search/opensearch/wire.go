package opensearch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/opensearch-project/opensearch-go/v4"
)

type object map[string]any

type request struct {
	method, path string
	params       url.Values
	body         []byte
}

func (r request) GetRequest() (*http.Request, error) {
	var body io.Reader
	if r.body != nil {
		body = bytes.NewReader(r.body)
	}
	target := url.URL{Path: r.path, RawQuery: r.params.Encode()}
	req, err := http.NewRequest(r.method, target.String(), body) // the client adds the context
	if err == nil && body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, err
}

type responseError struct {
	Status       int
	Type, Reason string
}

func (e *responseError) Error() string {
	return fmt.Sprintf("OpenSearch answered %d %s: %s", e.Status, e.Type, e.Reason)
}

// sendJSON sends body as JSON and stores the decoded response in the value that result points to.
// body and result may be nil.
func (x *Index) sendJSON(ctx context.Context, method, path string, params url.Values, body any, result any) error {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return unavailableError(err)
		}
	}
	return x.send(ctx, request{method, path, params, text}, result)
}

func (x *Index) send(ctx context.Context, r request, result any) error {
	if err := ctx.Err(); err != nil {
		return unavailableError(err)
	}
	resp, err := x.client.Do(ctx, r, nil)
	if err != nil {
		// The client's error may not wrap the context's error.
		if ctxErr := ctx.Err(); ctxErr != nil && !errors.Is(err, ctxErr) {
			err = errors.Join(err, ctxErr)
		}
		return unavailableError(err)
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return unavailableError(err)
	}
	if resp.IsError() {
		return unavailableError(parseErrorResponse(resp.StatusCode, text))
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(text, result); err != nil {
		return unavailableError(fmt.Errorf("OpenSearch's answer to %s %s: %w", r.method, r.path, err))
	}
	return nil
}

func parseErrorResponse(status int, text []byte) *responseError {
	// A proxy in front of the cluster may return any response, so it is parsed as far as possible.
	var body struct {
		Error struct{ Type, Reason string }
	}
	e := &responseError{Status: status}
	if err := json.Unmarshal(text, &body); err == nil {
		e.Type, e.Reason = body.Error.Type, body.Error.Reason
		return e
	}
	const maxReason = 200
	e.Reason = fmt.Sprintf("%q", text[:min(len(text), maxReason)])
	return e
}

const maxResponseBytes = 16 << 20

type limitedTransport struct{ next http.RoundTripper }

func (t limitedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(r)
	if err == nil {
		resp.Body = &limitedBody{resp.Body, maxResponseBytes}
	}
	return resp, err
}

type limitedBody struct {
	io.ReadCloser
	remaining int64
}

var errTooLong = fmt.Errorf("OpenSearch's answer is longer than %d bytes", int64(maxResponseBytes))

func (b *limitedBody) Read(p []byte) (int, error) {
	if b.remaining <= 0 {
		return 0, errTooLong
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.remaining)])
	b.remaining -= int64(n)
	return n, err
}

var _ opensearch.Request = request{}
