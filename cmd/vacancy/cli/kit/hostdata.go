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

const DefaultListen = "127.0.0.1:8080"

func AddDataFlag(fs *pflag.FlagSet, p *string) {
	fs.StringVar(p, "data", "", "the host's data directory (default $VACANCY_HOME/host)")
}

func (a *App) DataDir(flag string) (string, error) {
	if flag != "" {
		return filepath.Abs(flag)
	}
	dir, err := a.VacancyHome()
	return filepath.Join(dir, "host"), err
}

func NewHostConfig(dir string) standalone.Config {
	return standalone.Config{Dir: dir, AllowLoopback: true, Substrates: mock.Kinds(), Host: setting.Defaults().Host, Log: slog.New(slog.DiscardHandler)}
}

// OpenHost opens a data directory in which no host runs, and creates a missing directory. It
// refuses data of an earlier version, because only the start of a host and a restore upgrade data.
func (a *App) OpenHost(dir string) (*standalone.Host, error) {
	c := NewHostConfig(dir)
	c.NoUpgrade = true
	return a.OpenHostWith(c)
}

func AddNoUpgradeFlag(fs *pflag.FlagSet, p *bool) {
	fs.BoolVar(p, "no-upgrade", false, "refuse data from an earlier version of vacancy instead of upgrading the data")
}

func (a *App) OpenHostWith(c standalone.Config) (*standalone.Host, error) {
	progress := a.ProgressLine()
	var mu sync.Mutex
	var nextShown time.Time
	c.OnUpgrade = func(u standalone.UpgradeProgress) {
		mu.Lock()
		defer mu.Unlock()
		now := time.Now()
		switch {
		case u.Duration > 0:
			progress.Clear()
			a.PrintNote("Upgraded the data to %s in %s.", standalone.CurrentVersion(), u.Duration.Round(10*time.Millisecond))
		case u.Step == "" && u.CopyPath != "":
			a.PrintNote("Upgrading the data from %s to %s. A copy is in %s.", u.From, standalone.CurrentVersion(), EscapeLine(u.CopyPath))
		case u.Step == "":
			a.PrintNote("Upgrading the data from %s to %s.", u.From, standalone.CurrentVersion())
		case nextShown.IsZero():
			nextShown = now.Add(upgradeProgressDelay)
		case now.After(nextShown):
			nextShown = now.Add(upgradeProgressDelay / 10)
			progress.Show("%s: %d done", u.Step, u.VisitedCount)
		}
	}
	defer progress.Clear()
	c.WrapStore, c.WrapBlobs, c.Version, c.Now, c.Rand, c.Disk = a.Seams.WrapStore, a.Seams.BlobsWrapper, Version(), a.Now, a.Rand, a.Seams.DiskSpace
	host, err := standalone.Open(c)
	if oldFormat := new(bolt.OldFormatError); errors.As(err, &oldFormat) {
		err = WithHint(err, "vacancy dev, or vacancy serve, without --no-upgrade; or vacancy data show")
	}
	if problem.Is(err, problem.Damaged) && !c.AllowNew {
		err = WithHint(err, "vacancy restore FILE, from a backup; or vacancy dev --new, for another host")
	}
	return host, err
}

const upgradeProgressDelay = time.Second
