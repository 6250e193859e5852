package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

// Client is a client of Handler. It returns refusals as errors of the same kind, and Unavailable if
// the handler cannot be reached.
type Client struct {
	HTTP *http.Client
	URL  string
	Key  string // the operator's key; "" if the address guards the handler
}

func (c Client) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "client of "+c.URL) }

// Creation is the body of a creation. Import is the output of `vacancy export`, or nil for a new
// vacant.
type Creation struct {
	Name        string          `json:"name"`
	Capability  string          `json:"capability"`
	Substrate   string          `json:"substrate,omitempty"`
	Agent       json.RawMessage `json:"agent,omitempty" canon:"null"`
	Tenant      string          `json:"tenant,omitempty"`
	CallTimeout string          `json:"work,omitempty"`
	Import      json.RawMessage `json:"import,omitempty" canon:"null"`
}

func (n Creation) Format(f fmt.State, _ rune) { _, _ = fmt.Fprintf(f, "creation of %q", n.Name) }

func (c Client) AllVacants(ctx context.Context, includeDeleted bool) iter.Seq2[Vacant, error] {
	return store.Flatten(store.AllPages(func(cursor string) ([]Vacant, string, error) {
		p, err := ListVacants.Call(ctx, c, ListVacantsRequest{All: includeDeleted, Cursor: cursor})
		return p.Vacants, p.Next, err
	}))
}

// Backup returns a stream with a backup of the host. The caller must close it.
func (c Client) Backup(ctx context.Context) (io.ReadCloser, error) {
	resp, err := c.send(ctx, http.MethodPost, backupPath, nil, nil)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

const maxExportBytes = 128 << 20

// Export returns a vacant as a bundle that contains its key in the clear. The caller must wipe the
// bundle.
func (c Client) Export(ctx context.Context, vacant string) ([]byte, error) {
	var b op.Blob
	path, err := ExportVacant.PathFor(VacantRef{vacant})
	if err == nil {
		err = c.Call(ctx, ExportVacant.Method, path, nil, nil, &b)
	}
	if err == nil && !json.Valid(b.Data) {
		err = problem.New(problem.Unavailable, "the host's answer was interrupted")
	}
	if err != nil {
		clear(b.Data)
		return nil, err
	}
	return b.Data, nil
}

func (c Client) Stream(ctx context.Context, path string) (io.ReadCloser, error) {
	resp, err := c.send(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

func (c Client) Call(ctx context.Context, method, path string, header http.Header, body []byte, into any) error {
	resp, err := c.send(ctx, method, path, header, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if into == nil || resp.StatusCode == http.StatusNoContent {
		_, _ = io.Copy(io.Discard, resp.Body)
		return nil
	}
	if b, ok := into.(*op.Blob); ok {
		b.Header = resp.Header
		b.Data, err = io.ReadAll(io.LimitReader(resp.Body, maxExportBytes))
	} else {
		err = json.NewDecoder(resp.Body).Decode(into)
	}
	if err != nil {
		return problem.Wrap(problem.Unavailable, err, "the host's answer was interrupted")
	}
	return nil
}

func (c Client) send(ctx context.Context, method, path string, header http.Header, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.URL+path, bytes.NewReader(body))
	if err != nil {
		return nil, problem.Wrap(problem.Usage, err, "%s is not a valid request path", path)
	}
	maps.Copy(req.Header, header)
	if c.Key != "" {
		req.Header.Set("Authorization", "Bearer "+c.Key)
	}
	if body != nil && req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.HTTP.Do(req)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, problem.Wrap(problem.Canceled, err, "the request was canceled before the host answered")
	case err != nil:
		return nil, problem.Wrap(problem.Unavailable, err, "the host cannot be reached")
	case resp.StatusCode < http.StatusMultipleChoices:
		return resp, nil
	}
	defer resp.Body.Close()
	if resp.StatusCode < http.StatusBadRequest {
		// The target of the redirect must not get the credentials.
		return nil, problem.New(problem.Forbidden, "the host redirects to %.200q; redirects are not followed", resp.Header.Get("Location"))
	}
	var r httpapi.Refusal
	b, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		return nil, problem.Wrap(problem.Internal, err, "the host answered with status %d", resp.StatusCode)
	}
	return nil, r.Problem()
}
