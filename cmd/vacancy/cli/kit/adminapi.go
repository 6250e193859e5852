package kit

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// AdminAPI is a client of the admin API of a remote host or a host in a data directory.
type AdminAPI struct {
	admin.Client
	Remote *RemoteHost
	close  func() error
	// InProcess is true if this process serves the admin API because no host runs in the data
	// directory. Vacants then do not answer calls.
	InProcess bool
}

func (c *AdminAPI) Call(ctx context.Context, method, path string, header http.Header, body []byte, into any) error {
	return AddVacantListHint(c.Client.Call(ctx, method, path, header, body, into))
}

func AddVacantListHint(err error) error {
	if problem.Is(err, problem.NotFound) {
		if text := problem.AsError(err).Text(); strings.Contains(text, "vacant ") && strings.Contains(text, " here") {
			return WithHint(err, "vacancy list")
		}
	}
	return err
}

func (c *AdminAPI) ShowVacant(ctx context.Context, vacant string) (admin.Vacant, error) {
	return admin.ShowVacant.Call(ctx, c, admin.VacantRef{Vacant: vacant})
}

// DialAdmin returns the admin API of a remote host or of a running local host. If no host runs in
// the data directory, the error is serve.ErrNoHost.
func (a *App) DialAdmin(where HostFlags) (*AdminAPI, error) {
	noClose := func() error { return nil }
	host, err := a.FindRemoteHost(where)
	if err != nil {
		return nil, err
	}
	if host != nil {
		if key := a.Env[AccountKeyEnv]; key != "" && host.envKey == "" && host.Record.OperatorKey == "" {
			host.envKey, host.isAccountKey = stage.Key(key), true
		}
		url, key, err := host.operatorAccess(host.Record.AdminURL)
		return &AdminAPI{admin.Client{HTTP: a.KeyedClient(key), URL: url}, host, noClose, false}, err
	}
	dir, err := a.DataDir(where.Data)
	if err != nil {
		return nil, err
	}
	client, base, err := serve.DialAdmin(dir)
	return &AdminAPI{admin.Client{HTTP: client, URL: base}, nil, noClose, false}, err
}

// openAdmin finds the admin API of a host. Unless createIfMissing is true, a missing host is an
// error, because --data may be mistyped.
func (a *App) openAdmin(where HostFlags, createIfMissing bool) (*AdminAPI, error) {
	c, err := a.DialAdmin(where)
	if !errors.Is(err, serve.ErrNoHost) {
		return c, err
	}
	dir, err := a.DataDir(where.Data)
	if err != nil {
		return nil, err
	}
	if !standalone.FileExists(filepath.Join(dir, standalone.DataFile)) {
		if !createIfMissing {
			return nil, a.NoHostError(where.Data)
		}
		transport, base, err := a.openLazyHost(dir)
		if err != nil {
			return nil, err
		}
		return &AdminAPI{admin.Client{HTTP: &http.Client{Transport: transport}, URL: base}, nil, transport.Close, true}, nil
	}
	host, err := a.OpenHost(dir)
	if err != nil {
		return nil, err
	}
	client, base := serve.InProcessClient(host.Admin())
	return &AdminAPI{admin.Client{HTTP: client, URL: base}, nil, host.Close, true}, nil
}

func (a *App) WithAdmin(where HostFlags, createIfMissing bool, f func(*AdminAPI) error) (err error) {
	c, err := a.openAdmin(where, createIfMissing)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	return addKeyHint(c.Remote, f(c))
}

func (a *App) AdminCommand(cmd *cobra.Command, run func(ctx context.Context, c *AdminAPI, args []string) error) *cobra.Command {
	var where HostFlags
	AddHostFlags(cmd.Flags(), &where)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.WithAdmin(where, false, func(c *AdminAPI) error { return run(cmd.Context(), c, args) })
	}
	return cmd
}

func addKeyHint(host *RemoteHost, err error) error {
	if host == nil || !problem.Is(err, problem.Unauthorized) {
		return err
	}
	if host.isAccountKey {
		return WithHint(err, "set $%s to a key with the scope vacants", AccountKeyEnv)
	}
	if host.envKey != "" {
		return WithHint(err, "unset VACANCY_OPERATOR_KEY, or set it to the key of this host")
	}
	if host.Stage == "" {
		return WithHint(err, "%s", callerCommands)
	}
	return WithHint(err, "vacancy keys rotate-operator --stage %s", host.Stage)
}

// WithReports runs f with a client for the reports of the commands verify and chain. This process
// creates the reports of a remote host.
func (a *App) WithReports(ctx context.Context, where HostFlags, readFlags ReadFlags, f func(*AdminAPI) error) (err error) {
	host, err := a.FindRemoteHost(where)
	if err != nil {
		return err
	}
	if err := readFlags.CheckHost(host); err != nil {
		return err
	}
	if host == nil {
		err = a.WithAdmin(where, false, f)
		if dir, _ := a.DataDir(where.Data); errors.Is(err, syscall.EROFS) {
			err = WithHint(err, "cp -r %s COPY    # then the same command with --data COPY", ShellWord(dir))
		}
		return err
	}
	c, err := a.openRemoteReports(ctx, host, readFlags)
	if err != nil {
		return addKeyHint(host, err)
	}
	defer func() { err = errors.Join(err, c.close()) }()
	return addKeyHint(host, f(c))
}
