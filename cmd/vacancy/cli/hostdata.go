package cli

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/vacancy-host/vacancy/shared/front/export"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/local"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store/bolt"
)

// Files of a host's data directory. The admin socket is there too.
const (
	dataFile = "vacancy.db"
	sealFile = "seal.key"
)

// defaultListen is dev's default address, and the address in the cards of
// vacants that are created while no host runs; dev signs them again when it
// listens elsewhere.
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

// localHost is the host of a data directory in this process, which holds the
// lock of the data file.
type localHost struct {
	*serve.Server
	Store *bolt.Store
}

// openHost opens the host of a data directory, reached at url. A missing
// directory is created.
func (a *app) openHost(dir, url string, log *slog.Logger) (*localHost, error) {
	if err := serve.EnsurePrivate(dir); err != nil {
		return nil, err
	}
	path, seal := filepath.Join(dir, dataFile), filepath.Join(dir, sealFile)
	if isThere(path) && !isThere(seal) {
		// A new key would open nothing, and hide that the old one is missing.
		return nil, problem.New(problem.Damaged, "%s is there and %s, the key that seals its secrets, is not: put it back", path, seal)
	}
	vault, err := local.Open(seal, a.rand)
	if err != nil {
		return nil, err
	}
	file, err := bolt.Open(path, bolt.Options{})
	if err != nil {
		return nil, err
	}
	// Reports need the file itself, because only it can be walked.
	all := export.Config{Source: file, Vault: vault, Now: a.now}
	server, err := serve.Config{
		Store: serve.NewChangeNotifier(a.seams.store(file)), Vault: vault, AllowLoopback: true, URL: url, Log: log, Now: a.now, Rand: a.rand,
		Verify: export.Verify(all), Chain: export.Chain(all),
		// A vacant that runs elsewhere is listed if it answers; on this machine
		// also on loopback, over HTTPS.
		Probe: registry.Prober(outbound.New(outbound.Options{AllowLoopback: true})), SealsLog: true,
	}.Open()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &localHost{Server: server, Store: file}, nil
}

// Close wipes keys from memory and unlocks the data file.
func (h *localHost) Close() error {
	h.Vacants.Close()
	return h.Store.Close()
}

func isThere(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
