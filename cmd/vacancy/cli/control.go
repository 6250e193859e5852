package cli

import (
	"errors"
	"log/slog"
	"path/filepath"

	"github.com/vacancy-host/vacancy/shared/front/account"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// control is the control-plane door: of the host that runs over a data folder,
// or of the data file itself if none does.
type control struct {
	account.Client
	close func() error
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
		return &control{account.Client{HTTP: client, URL: base}, func() error { return nil }}, nil
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
	client, base = serve.InProcess(host.Account)
	return &control{account.Client{HTTP: client, URL: base}, host.Close}, nil
}

// withControl runs f on the door of a data folder.
func (a *app) withControl(data string, create bool, f func(*control) error) (err error) {
	c, err := a.openControl(data, create)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	return f(c)
}
