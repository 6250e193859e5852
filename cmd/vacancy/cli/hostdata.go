package cli

import (
	"log/slog"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/vacancy-host/vacancy/shared/front/setting"
	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/host/substrate/mock"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// defaultListen is the default address of a local host.
const defaultListen = "127.0.0.1:8080"

// dataFlag adds --data, the directory of a host's data.
func dataFlag(fs *pflag.FlagSet, p *string) {
	fs.StringVar(p, "data", "", "the host's data directory (default $VACANCY_HOME/host)")
}

// dataDir is the directory of --data.
func (a *app) dataDir(flag string) (string, error) {
	if flag != "" {
		return filepath.Abs(flag)
	}
	dir, err := a.dataHomeDir()
	return filepath.Join(dir, "host"), err
}

// openHost opens the host of a data directory over which none runs. A missing
// directory is created.
func (a *app) openHost(dir string) (*standalone.Host, error) {
	return a.openHostWith(standalone.Config{Dir: dir, AllowLoopback: true, Substrates: mock.Kinds(), Host: setting.Defaults().Host, Log: slog.New(slog.DiscardHandler)})
}

// openHostWith opens a host with the app's clock, randomness and seams.
func (a *app) openHostWith(c standalone.Config) (*standalone.Host, error) {
	c.WrapStore, c.Version, c.Now, c.Rand = a.seams.wrapStore, version(), a.now, a.rand
	host, err := standalone.Open(c)
	if problem.Is(err, problem.Damaged) && !c.New {
		err = withHint(err, "vacancy restore FILE, from a backup, or vacancy dev --new for another host")
	}
	return host, err
}
