package kit

import (
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/vacancy-host/vacancy/shared/front/setting"
	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/host/substrate/mock"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store/bolt"
)

// DefaultListen is the default address of a local host.
const DefaultListen = "127.0.0.1:8080"

func DataFlag(fs *pflag.FlagSet, p *string) {
	fs.StringVar(p, "data", "", "the host's data directory (default $VACANCY_HOME/host)")
}

func (a *App) DataDir(flag string) (string, error) {
	if flag != "" {
		return filepath.Abs(flag)
	}
	dir, err := a.DataHomeDir()
	return filepath.Join(dir, "host"), err
}

func CommandConfig(dir string) standalone.Config {
	return standalone.Config{Dir: dir, AllowLoopback: true, Substrates: mock.Kinds(), Host: setting.Defaults().Host, Log: slog.New(slog.DiscardHandler)}
}

// OpenHost opens the host of a data directory in which no host runs. It creates a missing
// directory. It refuses data of an earlier program, because only the start of a host and a restore
// upgrade data.
func (a *App) OpenHost(dir string) (*standalone.Host, error) {
	c := CommandConfig(dir)
	c.NoUpgrade = true
	return a.OpenHostWith(c)
}

func NoUpgradeFlag(fs *pflag.FlagSet, p *bool) {
	fs.BoolVar(p, "no-upgrade", false, "refuse data of an earlier vacancy instead of upgrading them")
}

// OpenHostWith opens a host with the app's clock, randomness and seams. It shows the progress of a
// data upgrade.
func (a *App) OpenHostWith(c standalone.Config) (*standalone.Host, error) {
	line := a.ProgressLine()
	var mu sync.Mutex
	var next time.Time // time of the next progress line
	c.Upgrading = func(u standalone.Upgrading) {
		mu.Lock()
		defer mu.Unlock()
		now := time.Now()
		switch {
		case u.Took > 0:
			line.Clear()
			a.Note("The data are upgraded to %s, in %s.", standalone.CurrentData(), u.Took.Round(10*time.Millisecond))
		case u.Step == "" && u.Copy != "":
			a.Note("Upgrading the data from %s to %s. A copy is in %s.", u.From, standalone.CurrentData(), Printable(u.Copy))
		case u.Step == "":
			a.Note("Upgrading the data from %s to %s.", u.From, standalone.CurrentData())
		case next.IsZero():
			next = now.Add(upgradeShown)
		case now.After(next):
			next = now.Add(upgradeShown / 10)
			line.Show("%s: %d done", u.Step, u.Done)
		}
	}
	defer line.Clear()
	c.WrapStore, c.WrapBlobs, c.Version, c.Now, c.Rand, c.Disk = a.Seams.WrapStore, a.Seams.Blobs, Version(), a.Now, a.Rand, a.Seams.Disk
	host, err := standalone.Open(c)
	if earlier := new(bolt.OldFormatError); errors.As(err, &earlier) {
		err = WithHint(err, "vacancy dev, or vacancy serve, without --no-upgrade; or vacancy data show")
	}
	if problem.Is(err, problem.Damaged) && !c.New {
		err = WithHint(err, "vacancy restore FILE, from a backup; or vacancy dev --new, for another host")
	}
	return host, err
}

// upgradeShown is the running time after which an upgrade shows its progress.
const upgradeShown = time.Second
