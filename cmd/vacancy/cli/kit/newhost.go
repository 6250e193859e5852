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

// newHost is the transport of the admin API of a host that does not exist yet. A host in a
// temporary directory answers until it has accepted a request that stores something. Then newHost
// creates the real host, which answers that request again and all later requests. A command that
// fails therefore creates no host.
type newHost struct {
	app      *App
	dir, tmp string

	mu        sync.Mutex
	temporary *standalone.Host
	created   *standalone.Host  // nil until a request stores something
	next      http.RoundTripper // transport of the host that answers now
}

func (a *App) openNewHost(dir string) (n *newHost, base string, err error) {
	n = &newHost{app: a, dir: dir}
	if n.tmp, err = os.MkdirTemp("", "vacancy-new-"); err != nil {
		return nil, "", problem.Wrap(problem.Unavailable, err, "no temporary directory can be created")
	}
	if n.temporary, base, err = n.open(n.tmp); err != nil {
		return nil, "", errors.Join(err, os.RemoveAll(n.tmp))
	}
	return n, base, nil
}

func (n *newHost) open(dir string) (*standalone.Host, string, error) {
	host, err := n.app.OpenHost(dir)
	if err != nil {
		return nil, "", err
	}
	client, base := serve.InProcess(host.Admin())
	n.next = client.Transport
	return host, base, nil
}

func (n *newHost) RoundTrip(r *http.Request) (*http.Response, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.created != nil || r.Body == nil {
		return n.next.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	if err := errors.Join(err, r.Body.Close()); err != nil {
		return nil, err
	}
	send := func() (*http.Response, error) {
		again := r.Clone(r.Context())
		again.Body = io.NopCloser(bytes.NewReader(body))
		return n.next.RoundTrip(again)
	}
	answer, err := send()
	if err != nil || r.Method == http.MethodGet || answer.StatusCode >= http.StatusMultipleChoices {
		return answer, err
	}
	answer.Body.Close()
	if n.created, _, err = n.open(n.dir); err != nil {
		return nil, err
	}
	return send()
}

func (n *newHost) Close() error {
	err := errors.Join(n.temporary.Close(), os.RemoveAll(n.tmp))
	if n.created != nil {
		err = errors.Join(err, n.created.Close())
	}
	return err
}

func (a *App) NoHost(data string) error {
	dir, err := a.DataDir(data)
	if err != nil {
		return err
	}
	if standalone.FileExists(filepath.Join(dir, standalone.DataFile)) {
		stopped := fmt.Sprintf("the host in %s is not running", dir)
		if data, err := standalone.Inspect(dir); err == nil && data.Outlook() != "" {
			stopped += "; " + data.Outlook()
		}
		return WithHint(problem.New(problem.NotFound, "%s", stopped), "%s", a.StartAgain(data))
	}
	return problem.New(problem.NotFound, `no host in %s; start one with "%s"`, dir, a.Command("dev%s", DataArg(data)))
}
