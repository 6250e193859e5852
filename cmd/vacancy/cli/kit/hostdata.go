package kit

import (
	"log/slog"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/vacancy-host/vacancy/shared/front/setting"
	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/host/substrate/mock"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// DefaultListen is the default address of a local host.
const DefaultListen = "127.0.0.1:8080"

// DataFlag adds --data, the directory of a host's data.
func DataFlag(fs *pflag.FlagSet, p *string) {
	fs.StringVar(p, "data", "", "the host's data directory (default $VACANCY_HOME/host)")
}

// DataDir is the directory of --data.
func (a *App) DataDir(flag string) (string, error) {
	if flag != "" {
		return filepath.Abs(flag)
	}
	dir, err := a.DataHomeDir()
	return filepath.Join(dir, "host"), err
}

// OpenHost opens the host of a data directory over which none runs. A missing
// directory is created.
func (a *App) OpenHost(dir string) (*standalone.Host, error) {
	return a.OpenHostWith(standalone.Config{Dir: dir, AllowLoopback: true, Substrates: mock.Kinds(), Host: setting.Defaults().Host, Log: slog.New(slog.DiscardHandler)})
}

// OpenHostWith opens a host with the app's clock, randomness and seams.
func (a *App) OpenHostWith(c standalone.Config) (*standalone.Host, error) {
	c.WrapStore, c.Version, c.Now, c.Rand, c.Disk = a.Seams.WrapStore, Version(), a.Now, a.Rand, a.Seams.Disk
	host, err := standalone.Open(c)
	if problem.Is(err, problem.Damaged) && !c.New {
		err = WithHint(err, "vacancy restore FILE, from a backup, or vacancy dev --new for another host")
	}
	return host, err
}
