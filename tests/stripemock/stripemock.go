// Package stripemock runs Stripe's own mock server for tests. The server checks requests against
// the description of Stripe's API, and answers with examples.
package stripemock

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cache"
	"github.com/vacancy-host/vacancy/shared/await"
)

const version = "v0.203.0"

// listens matches the line by which the mock reports its port.
var listens = regexp.MustCompile(`HTTP at address: (127\.0\.0\.1:[0-9]+)`)

// Start runs the mock until the test ends, and returns its HOST:PORT.
func Start(t testing.TB) string {
	t.Helper()
	at, stop, err := Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return at
}

// Run runs the mock until stop is called, and returns its HOST:PORT. Go fetches and builds
// it once, into the cache.
func Run(ctx context.Context) (at string, stop func(), err error) {
	dir, err := cache.Dir(os.Getenv)
	if err != nil {
		return "", nil, err
	}
	folder, err := cache.Install{Name: "stripe-mock", Version: version, MarkerFile: "stripe-mock", Build: build}.EnsureIn(ctx, dir)
	if err != nil {
		return "", nil, err
	}
	// Without an address for HTTPS it listens on all of the machine's.
	cmd := exec.Command(filepath.Join(folder, "stripe-mock"), "-http-addr", "127.0.0.1:0", "-https-addr", "127.0.0.1:0")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	found := make(chan string, 1)
	go func() {
		defer close(found)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if at := listens.FindStringSubmatch(lines.Text()); at != nil {
				found <- at[1]
				break
			}
		}
		_, _ = io.Copy(io.Discard, out)
	}()
	select {
	case at = <-found:
	case <-time.After(await.Limit):
	}
	if at == "" {
		stop()
		return "", nil, errors.New("stripe-mock does not start")
	}
	return at, stop, nil
}

// build builds the mock by its own go.mod.
func build(folder string) error {
	ctx, cancel := context.WithTimeout(context.Background(), await.Limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "install", "github.com/stripe/stripe-mock@"+version)
	cmd.Env = append(os.Environ(), "GOBIN="+folder, "CGO_ENABLED=0", "GOFLAGS=")
	cmd.Stderr = os.Stderr
	return cmd.Run()
}
