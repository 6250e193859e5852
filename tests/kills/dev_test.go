//go:build unix

package kills

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/front/setting"
	"github.com/vacancy-host/vacancy/shared/host/call/calltest"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/local"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/mock"
	"github.com/vacancy-host/vacancy/shared/store/bolt"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// scratch is the directory of this run's data directories. Its path is short, because a
// socket's path is limited to about a hundred bytes.
var scratch string

func TestMain(m *testing.M) {
	if c := os.Getenv(victimConfig); c != "" {
		os.Exit(runVictim(c))
	}
	var err error
	if scratch, err = os.MkdirTemp("", "kills-"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(scratch)
	os.Exit(code)
}

// prepared is a data directory with an identity and these vacants, made once by commands.
var prepared = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp(scratch, "")
	if err != nil {
		return "", err
	}
	for _, line := range [][]string{
		{"init", "default"},
		{"create", "demo", "--capability", "repeats what it hears"}, // not the demo of dev, which dev would publish
		{"create", "echo", "--capability", "echoes"},
		{"create", "failing", "--capability", "fails", "--substrate", unreachable},
	} {
		if _, err := command(context.Background(), dir, line...); err != nil {
			return "", err
		}
	}
	return dir, nil
})

// unreachable is the substrate of a vacant that accepts calls and fails them.
const unreachable = "http:http://127.0.0.1:1/"

// command runs a command line in this process over a data directory and returns its
// output.
func command(ctx context.Context, target string, args ...string) (string, error) {
	return commandAt(ctx, time.Now, target, args...)
}

// commandAt is command by another clock.
func commandAt(ctx context.Context, now func() time.Time, target string, args ...string) (string, error) {
	var out, errs bytes.Buffer
	if code := cli.Run(ctx, cli.Seams{Now: now}, args, strings.NewReader(""), &out, &errs, []string{"VACANCY_HOME=" + target}); code != 0 {
		return out.String(), fmt.Errorf("vacancy %s: exit %d: %s", strings.Join(args, " "), code, errs.String())
	}
	return out.String(), nil
}

// devTarget is a $VACANCY_HOME and the clock of the hosts over it.
type devTarget struct {
	dir string
	at  time.Time
}

// newDevTarget is a copy of the prepared directory, or an empty one.
func newDevTarget(t *testing.T, empty bool) *devTarget {
	t.Helper()
	dir, err := os.MkdirTemp(scratch, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if !empty {
		from, err := prepared()
		if err == nil {
			err = copyDir(dir, from)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	// Noon: the day does not end while a test moves the clock by a minute.
	return &devTarget{dir: dir, at: time.Now().UTC().Truncate(24 * time.Hour).Add(12 * time.Hour)}
}

// copyDir keeps modes, which protect keys, and omits a dead host's socket.
func copyDir(to, from string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil || rel == "." {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch target := filepath.Join(to, rel); {
		case d.IsDir():
			return os.Mkdir(target, info.Mode().Perm())
		case d.Type().IsRegular():
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return os.WriteFile(target, b, info.Mode().Perm())
		}
		return nil
	})
}

func (h *devTarget) now() time.Time { return h.at }

func (h *devTarget) data() string { return filepath.Join(h.dir, "host") }

func (h *devTarget) vacant(t *testing.T, name string) identity.ID {
	t.Helper()
	out, err := command(t.Context(), h.dir, "show", name, "--json")
	var v struct {
		ID identity.ID `json:"vacant_id"`
	}
	if err == nil {
		err = json.Unmarshal([]byte(out), &v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v.ID
}

// aside opens the host in this process while no other runs.
func (h *devTarget) aside(t *testing.T, now func() time.Time) (*serve.Server, *calltest.Script, func()) {
	t.Helper()
	vault, err := local.Open(filepath.Join(h.data(), "seal.key"), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	file, err := bolt.Open(filepath.Join(h.data(), "vacancy.db"), bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	script := calltest.NewScript(file)
	server, err := serve.Config{
		Substrates: mock.Kinds(),
		Store:      script, Vault: vault, AllowLoopback: true, URL: "http://127.0.0.1:8080",
		Log: slog.New(slog.DiscardHandler), Now: now, Rand: rand.Reader,
		Models: func(*outbound.Client) substrate.Kinds { return nil }, Host: setting.Host{ModelBudget: money.Dollar}, HasAccounts: true, HoldsIdentity: true,
	}.Open()
	if err != nil {
		t.Fatal(err)
	}
	return server, script, func() {
		server.Vacants.Close()
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	}
}
