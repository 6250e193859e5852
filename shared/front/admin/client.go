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
	"net/url"
	"strconv"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// Client is a client of Handler. Refusals are problems of the handler's kind;
// an unreachable handler is Unavailable.
type Client struct {
	HTTP *http.Client
	URL  string // the base URL of the routes
	Key  string // the operator's key; "" if the address guards the handler
}

// Format prints only the handler's URL for every verb, never the key.
func (c Client) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "client of "+c.URL) }

// Creation is the body of a creation. Import is the output of `vacancy export`,
// nil for a new vacant.
type Creation struct {
	Name       string          `json:"name"`
	Capability string          `json:"capability"`
	Substrate  string          `json:"substrate,omitempty"`
	Agent      json.RawMessage `json:"agent,omitempty" canon:"null"`
	Tenant     string          `json:"tenant,omitempty"`
	Import     json.RawMessage `json:"import,omitempty" canon:"null"`
}

// Format prints only the name for every verb: an import contains a seed.
func (n Creation) Format(f fmt.State, _ rune) { _, _ = fmt.Fprintf(f, "creation of %q", n.Name) }

// Create creates a vacant.
func (c *Client) Create(ctx context.Context, n Creation) (v Vacant, err error) {
	body, err := json.Marshal(n)
	if err != nil {
		return v, problem.Wrap(problem.Usage, err, "the import is not JSON")
	}
	defer clear(body) // it may contain a seed
	return c.vacant(ctx, http.MethodPost, "/v1/admin/vacants", body)
}

// All returns the vacants of all pages, with deleted also the deleted ones.
func (c *Client) All(ctx context.Context, deleted bool) iter.Seq2[Vacant, error] {
	return store.Items(store.Follow(func(cursor string) ([]Vacant, string, error) {
		p, err := c.List(ctx, cursor, deleted)
		return p.Vacants, p.Next, err
	}))
}

// List returns a page of vacants, with all also of deleted vacants; cursor
// is "" for the first.
func (c *Client) List(ctx context.Context, cursor string, all bool) (p Page, err error) {
	query := url.Values{}
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	if all {
		query.Set("all", "true")
	}
	path := "/v1/admin/vacants"
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	if err := c.do(ctx, http.MethodGet, path, nil, &p); err != nil {
		return Page{}, err
	}
	for i := range p.Vacants {
		if err := p.Vacants[i].sound(); err != nil {
			return Page{}, err
		}
	}
	return p, nil
}

// Show returns a vacant by name, id or a prefix of its id.
func (c *Client) Show(ctx context.Context, vacant string) (Vacant, error) {
	return c.vacant(ctx, http.MethodGet, pathOf(vacant), nil)
}

// Update changes a vacant.
func (c *Client) Update(ctx context.Context, vacant string, u Update) (Vacant, error) {
	body, err := json.Marshal(u)
	if err != nil {
		return Vacant{}, problem.Wrap(problem.Usage, err, "the update is not JSON")
	}
	return c.vacant(ctx, http.MethodPatch, pathOf(vacant), body)
}

// Backup returns a backup of the host, to its end; the caller closes it.
func (c *Client) Backup(ctx context.Context) (io.ReadCloser, error) {
	resp, err := c.send(ctx, http.MethodPost, "/v1/admin/backup", nil)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// Status reads what a host on one machine does into a value for its JSON.
func (c *Client) Status(ctx context.Context, into any) error {
	return c.do(ctx, http.MethodGet, "/v1/admin/status", nil, into)
}

// Reindex rebuilds the search index of a host on one machine, and reads the
// result into a value for its JSON.
func (c *Client) Reindex(ctx context.Context, into any) error {
	return c.do(ctx, http.MethodPost, "/v1/admin/reindex", nil, into)
}

// Check asks a vacant's agent one question.
func (c *Client) Check(ctx context.Context, vacant string) (check Check, err error) {
	return check, c.do(ctx, http.MethodPost, pathOf(vacant)+"/check", nil, &check)
}

// The commands of Change.
const (
	Pause   = "pause"
	Resume  = "resume"
	Sink    = "sink"
	Archive = "archive"
)

// Change sends a command to a vacant.
func (c *Client) Change(ctx context.Context, vacant, command string) (Vacant, error) {
	return c.vacant(ctx, http.MethodPost, pathOf(vacant)+"/"+command, nil)
}

// Delete deletes an archived vacant. Its rows and a tombstone stay.
func (c *Client) Delete(ctx context.Context, vacant string) (Vacant, error) {
	return c.vacant(ctx, http.MethodDelete, pathOf(vacant), nil)
}

// Publish lists a vacant in its host's registry.
func (c *Client) Publish(ctx context.Context, vacant string, p Publication) (Published, error) {
	return c.published(ctx, vacant, "publish", p)
}

// Unpublish removes a vacant from search.
func (c *Client) Unpublish(ctx context.Context, vacant string) (Published, error) {
	return c.published(ctx, vacant, "unpublish", nil)
}

// Revoke revokes a vacant's key.
func (c *Client) Revoke(ctx context.Context, vacant, reason string) (Published, error) {
	return c.published(ctx, vacant, "revoke", struct {
		Reason string `json:"reason"`
	}{reason})
}

func (c *Client) published(ctx context.Context, vacant, command string, what any) (p Published, err error) {
	var body []byte
	if what != nil {
		if body, err = json.Marshal(what); err != nil {
			return p, problem.Wrap(problem.Usage, err, "the publication is not JSON")
		}
	}
	if err := c.do(ctx, http.MethodPost, pathOf(vacant)+"/"+command, body, &p); err != nil {
		return Published{}, err
	}
	if err := p.Vacant.sound(); err != nil {
		return Published{}, err
	}
	switch p.Receipt.Visibility {
	case lifecycle.Hidden, lifecycle.Restricted, lifecycle.Public, "": // "": the key was never registered
		return p, nil
	}
	return Published{}, problem.New(problem.Untrusted, "the host's answer is no receipt: its visibility is none")
}

// vacant sends a request whose answer is a vacant.
func (c *Client) vacant(ctx context.Context, method, path string, body []byte) (v Vacant, err error) {
	if err := c.do(ctx, method, path, body, &v); err != nil {
		return Vacant{}, err
	}
	if err := v.sound(); err != nil {
		return Vacant{}, err
	}
	return v, nil
}

// maxExport is the largest accepted export in bytes.
const maxExport = 128 << 20

// Export returns a vacant as a bundle with its key in the clear, which the
// caller must wipe. An incomplete answer is an error.
func (c *Client) Export(ctx context.Context, vacant string) ([]byte, error) {
	resp, err := c.send(ctx, http.MethodPost, pathOf(vacant)+"/export", nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxExport+1))
	if err != nil || len(b) > maxExport || !json.Valid(b) {
		clear(b)
		return nil, problem.Wrap(problem.Unavailable, err, "the host's answer was cut off")
	}
	return b, nil
}

// Host returns the host's identity. With a challenge, the answer contains the
// host's signature.
func (c *Client) Host(ctx context.Context, challenge string) (h Host, err error) {
	path := "/v1/admin/host"
	if challenge != "" {
		path += "?challenge=" + url.QueryEscape(challenge)
	}
	return h, c.do(ctx, http.MethodGet, path, nil, &h)
}

// SetHost sets the host's public URL.
func (c *Client) SetHost(ctx context.Context, base string) (h Host, err error) {
	return h, c.put(ctx, http.MethodPut, "/v1/admin/host", HostURL{base}, &h)
}

// Logbook returns a page of a vacant's logbook, starting at a position (from
// 1).
func (c *Client) Logbook(ctx context.Context, vacant string, from uint64) (l Logbook, err error) {
	if err := c.do(ctx, http.MethodGet, pathOf(vacant)+"/logbook?from="+strconv.FormatUint(max(from, 1), 10), nil, &l); err != nil {
		return Logbook{}, err
	}
	for i := range l.Entries {
		if _, err := canon.ParseTime(l.Entries[i].Time); err != nil {
			return Logbook{}, problem.Wrap(problem.Untrusted, err, "the host's answer: a logbook entry has no time")
		}
	}
	return l, nil
}

// pathOf is the path of a vacant. Dots are no name, but would change the path.
func pathOf(vacant string) string {
	if strings.Trim(vacant, ".") == "" {
		vacant = strconv.Quote(vacant)
	}
	return "/v1/admin/vacants/" + url.PathEscape(vacant)
}

// Stream opens a streaming route with its query. The caller closes the body.
func (c *Client) Stream(ctx context.Context, path string) (io.ReadCloser, error) {
	resp, err := c.send(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

func (c *Client) do(ctx context.Context, method, path string, body []byte, into any) error {
	return c.Call(ctx, method, path, nil, body, into)
}

// Call sends a request with more headers, and reads the JSON of its answer unless into is
// nil.
func (c *Client) Call(ctx context.Context, method, path string, header http.Header, body []byte, into any) error {
	resp, err := c.sendWith(ctx, method, path, header, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if into == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		return nil
	}
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		return problem.Wrap(problem.Unavailable, err, "the host's answer was cut off")
	}
	return nil
}

// send returns the response to a successful request.
func (c *Client) send(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	return c.sendWith(ctx, method, path, nil, body)
}

func (c *Client) sendWith(ctx context.Context, method, path string, header http.Header, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.URL+path, bytes.NewReader(body))
	if err != nil {
		return nil, problem.Wrap(problem.Usage, err, "no request can be made of %s", path)
	}
	maps.Copy(req.Header, header)
	if c.Key != "" {
		req.Header.Set("Authorization", "Bearer "+c.Key)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.HTTP.Do(req)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, problem.Wrap(problem.Canceled, err, "the host was not waited for")
	case err != nil:
		return nil, problem.Wrap(problem.Unavailable, err, "the host cannot be reached")
	case resp.StatusCode < http.StatusMultipleChoices:
		return resp, nil
	}
	defer resp.Body.Close()
	if resp.StatusCode < http.StatusBadRequest {
		// The credentials are for this handler alone.
		return nil, problem.New(problem.Forbidden, "the host redirects to %.200q, which is not followed", resp.Header.Get("Location"))
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
