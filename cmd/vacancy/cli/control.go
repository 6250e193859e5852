package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"

	"github.com/vacancy-host/vacancy/shared/front/account"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// control is the control-plane door: of the host that runs over a data folder,
// or of the data file itself if none does.
type control struct {
	client *http.Client
	base   string
	close  func() error
}

// openControl finds the door of a data folder. With create a folder that is
// not there is made; otherwise it is an error, which a mistyped --data should
// be.
func (a *app) openControl(data string, create bool) (*control, error) {
	dir, err := a.dataDir(data)
	if err != nil {
		return nil, err
	}
	client, base, err := serve.DialControl(dir)
	if err == nil {
		return &control{client, base, func() error { return nil }}, nil
	}
	if !errors.Is(err, serve.ErrNoHost) {
		return nil, err
	}
	if !create && !isThere(filepath.Join(dir, dataFile)) {
		return nil, withHint(problem.New(problem.NotFound, "no host has kept anything in %s", dir), "vacancy dev")
	}
	host, err := a.openHost(dir, "http://"+defaultListen, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	client, base = serve.InProcess(host.Control)
	return &control{client, base, host.Close}, nil
}

// do makes one request. out takes the JSON of a success; a refusal comes back
// as the problem that the door rendered.
func (c *control) do(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		defer clear(b) // it may hold a seed
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return err
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return problem.Wrap(problem.Unavailable, err, "the host's control door does not answer")
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return refusal(resp)
	}
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return problem.Wrap(problem.Unavailable, err, "the host's control door broke off")
	}
	return nil
}

// refusal is the problem behind an answer that is not a success.
func refusal(resp *http.Response) error {
	var r account.Refusal
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&r); err != nil {
		return problem.New(problem.Unavailable, "the host's control door answers %s", resp.Status)
	}
	return problemOf(&r)
}

// problemOf is the problem that the door rendered as r.
func problemOf(r *account.Refusal) error {
	p := &problem.Error{Kind: problem.Internal, Detail: r.Detail, Field: r.Field}
	for _, k := range problem.Kinds() {
		if k.String() == r.Code {
			p.Kind = k
		}
	}
	return p
}

// vacantPath is the route of a vacant that the person named.
func vacantPath(what string) string { return "/v1/vacants/" + url.PathEscape(what) }

// withControl runs f on the door of a data folder.
func (a *app) withControl(data string, create bool, f func(*control) error) (err error) {
	c, err := a.openControl(data, create)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	return f(c)
}
