package agp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// Client sends envelopes and requests about bookings. HTTP must add the key.
type Client struct {
	HTTP *http.Client
	URL  string // base URL of the host
	From string // sender of the envelopes
}

const maxAnswerBytes = 4 << 20

// Error is a refusal of a request.
type Error struct {
	Status int
	Code   string
	Detail string
}

func (e *Error) Error() string { return e.Detail }

// Unwrap returns a problem whose kind has the HTTP status e.Status.
func (e *Error) Unwrap() error {
	kind := problem.Internal
	for _, k := range []problem.Kind{
		problem.Unauthorized, problem.PaymentRequired, problem.Forbidden, problem.NotFound, problem.Conflict, problem.TooManyRequests, problem.InvalidMember,
		problem.Malformed, problem.TooLarge, problem.UnsupportedMedia, problem.Unavailable, problem.DeadlineExceeded,
	} {
		if k.Forms().HTTPStatus == e.Status {
			kind = k
			break
		}
	}
	return problem.New(kind, "%s: %s", e.Code, e.Detail)
}

// Members returns an object with the answer's member "error", for an MCP tool result.
func (e *Error) Members() any {
	return map[string]any{"error": map[string]string{"code": e.Code}}
}

func (c Client) Send(ctx context.Context, to, intent string, payload map[string]any, header http.Header) (json.RawMessage, error) {
	body := map[string]any{"from": c.From, "intent": intent, "payload": payload, "ttl_ms": maxEffectiveTTL.Milliseconds()}
	if to != "" {
		body["to"] = to
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, problem.Wrap(problem.Usage, err, "the payload is not JSON")
	}
	return c.do(ctx, http.MethodPost, Path, raw, header)
}

func (c Client) Status(ctx context.Context) (json.RawMessage, error) {
	return c.do(ctx, http.MethodGet, StatusPath, nil, nil)
}

func (c Client) Call(ctx context.Context, method, path string, header http.Header, body []byte, into any) error {
	raw, err := c.do(ctx, method, path, body, header)
	if err == nil && into != nil && json.Unmarshal(raw, into) != nil {
		err = problem.New(problem.Unavailable, "%s answered with unexpected JSON", c.URL)
	}
	return err
}

func (c Client) do(ctx context.Context, method, path string, body []byte, header http.Header) (json.RawMessage, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.URL+path, bytes.NewReader(body))
	if err != nil {
		return nil, problem.Wrap(problem.Usage, err, "%.200q is not a URL", c.URL)
	}
	if header != nil {
		req.Header = header.Clone()
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return nil, problem.Wrap(problem.Unavailable, err, "%s does not answer", c.URL)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes))
	if err != nil {
		return nil, problem.Wrap(problem.Unavailable, err, "the answer of %s was interrupted", c.URL)
	}
	if resp.StatusCode == http.StatusOK {
		return raw, nil
	}
	var f struct {
		Detail json.RawMessage `json:"detail"`
		Error  struct {
			Code string `json:"code"`
		} `json:"error"`
	}
	if err := json.Unmarshal(raw, &f); err != nil || f.Error.Code == "" {
		return nil, problem.New(problem.Unavailable, "%s answered with status %d and without an error of AGP", c.URL, resp.StatusCode)
	}
	e := &Error{Status: resp.StatusCode, Code: f.Error.Code}
	var invalidErr validationError
	switch {
	case json.Unmarshal(f.Detail, &e.Detail) == nil:
	case json.Unmarshal(f.Detail, &invalidErr) == nil && len(invalidErr) > 0 && len(invalidErr[0].Loc) > 0:
		e.Detail = invalidErr.Error()
	default:
		e.Detail = fmt.Sprintf("status %d", e.Status)
	}
	return nil, e
}
