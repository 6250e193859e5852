package cli

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// adminAPI is the admin API: of the host that runs over a data directory, of the
// data file itself if none runs, or of a remote host.
type adminAPI struct {
	admin.Client
	at    *remoteHost // nil: of a data directory
	close func() error
}

// openAdmin finds the admin API of a host. With create, a missing data
// directory is created; otherwise it is an error, because --data may be
// mistyped.
func (a *app) openAdmin(w where, create bool) (*adminAPI, error) {
	at, err := a.find(w)
	switch {
	case err != nil:
		return nil, err
	case at != nil:
		at.asTenant(a.env[accountKeyEnv])
		url, key, err := at.keyed(at.record.AdminURL)
		if err != nil {
			return nil, err
		}
		return &adminAPI{admin.Client{HTTP: keyedClient(key), URL: url}, at, func() error { return nil }}, nil
	}
	dir, err := a.dataDir(w.data)
	if err != nil {
		return nil, err
	}
	client, base, err := serve.DialAdmin(dir)
	if err == nil {
		return &adminAPI{admin.Client{HTTP: client, URL: base}, nil, func() error { return nil }}, nil
	}
	if !errors.Is(err, serve.ErrNoHost) {
		return nil, err
	}
	if !create && !standalone.IsThere(filepath.Join(dir, standalone.DataFile)) {
		return nil, withHint(problem.New(problem.NotFound, "no host has kept anything in %s", dir), "vacancy dev")
	}
	host, err := a.openHost(dir)
	if err != nil {
		return nil, err
	}
	client, base = serve.InProcess(host.Admin())
	return &adminAPI{admin.Client{HTTP: client, URL: base}, nil, host.Close}, nil
}

// withAdmin runs f on the admin API of a host.
func (a *app) withAdmin(w where, create bool, f func(*adminAPI) error) (err error) {
	c, err := a.openAdmin(w, create)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	return keyHint(c.at, f(c))
}

// keyHint adds a hint to the error of a wrong key.
func keyHint(at *remoteHost, err error) error {
	if at == nil || !problem.Is(err, problem.Unauthorized) {
		return err
	}
	if at.tenant {
		return withHint(err, "set $%s to a key with the scope vacants", accountKeyEnv)
	}
	if at.given != "" {
		return withHint(err, "unset VACANCY_OPERATOR_KEY, or set it to the key of this host")
	}
	return withHint(err, "vacancy keys rotate-operator --stage %s", at.stage)
}

// withReports runs f on the routes of verify and chain: at the admin API of a data
// directory, or in this process over the pages or tables of a remote host. read limits
// how tables are read.
func (a *app) withReports(ctx context.Context, w where, read readFlags, f func(*adminAPI) error) (err error) {
	at, err := a.find(w)
	if err != nil {
		return err
	}
	if err := read.check(at); err != nil {
		return err
	}
	if at == nil {
		w, remove, err := a.readable(w)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, remove()) }()
		return a.withAdmin(w, false, f)
	}
	c, err := a.reportsElsewhere(ctx, at, read)
	if err != nil {
		return keyHint(at, err)
	}
	defer func() { err = errors.Join(err, c.close()) }()
	return keyHint(at, f(c))
}
