package kit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"

	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// lazyHost is the transport of the admin API of a host that does not exist yet. A command that
// fails must not create the host, so a host in a temporary directory answers until it accepts a
// request that stores data. lazyHost then creates the real host and sends the request again.
type lazyHost struct {
	app          *App
	dir, tempDir string

	mu        sync.Mutex
	temporary *standalone.Host
	created   *standalone.Host
	transport http.RoundTripper
}

func (a *App) openLazyHost(dir string) (lazy *lazyHost, base string, err error) {
	lazy = &lazyHost{app: a, dir: dir}
	if lazy.tempDir, err = os.MkdirTemp("", "vacancy-new-"); err != nil {
		return nil, "", problem.Wrap(problem.Unavailable, err, "no temporary directory can be created")
	}
	if lazy.temporary, base, err = lazy.openDir(lazy.tempDir); err != nil {
		return nil, "", errors.Join(err, os.RemoveAll(lazy.tempDir))
	}
	return lazy, base, nil
}

func (n *lazyHost) openDir(dir string) (*standalone.Host, string, error) {
	host, err := n.app.OpenHost(dir)
	if err != nil {
		return nil, "", err
	}
	client, base := serve.InProcessClient(host.Admin())
	n.transport = client.Transport
	return host, base, nil
}

func (n *lazyHost) RoundTrip(r *http.Request) (*http.Response, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.created != nil || r.Body == nil {
		return n.transport.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	if err := errors.Join(err, r.Body.Close()); err != nil {
		return nil, err
	}
	send := func() (*http.Response, error) {
		repeated := r.Clone(r.Context())
		repeated.Body = io.NopCloser(bytes.NewReader(body))
		return n.transport.RoundTrip(repeated)
	}
	resp, err := send()
	if err != nil || r.Method == http.MethodGet || resp.StatusCode >= http.StatusMultipleChoices {
		return resp, err
	}
	resp.Body.Close()
	if n.created, _, err = n.openDir(n.dir); err != nil {
		return nil, err
	}
	return send()
}

func (n *lazyHost) Close() error {
	err := errors.Join(n.temporary.Close(), os.RemoveAll(n.tempDir))
	if n.created != nil {
		err = errors.Join(err, n.created.Close())
	}
	return err
}

func (a *App) NoHostError(data string) error {
	dir, err := a.DataDir(data)
	if err != nil {
		return err
	}
	if standalone.FileExists(filepath.Join(dir, standalone.DataFile)) {
		message := fmt.Sprintf("the host in %s is not running", dir)
		if data, err := standalone.InspectData(dir); err == nil && data.UpgradeMessage() != "" {
			message += "; " + data.UpgradeMessage()
		}
		return WithHint(problem.New(problem.NotFound, "%s", message), "%s", a.StartHint(data))
	}
	return problem.New(problem.NotFound, `no host in %s; start one with "%s"`, dir, a.FormatCommand("dev%s", DataArg(data)))
}
