package integration

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cache"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud/awscloud"
	"github.com/vacancy-host/vacancy/localstack/server"
)

// asCommand marks a process of this test binary that is to be the vacancy
// command: it is killed in the middle, which no command in this process can be.
const asCommand = "VACANCY_INTEGRATION_COMMAND"

// scratch holds what this run writes.
var scratch string

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		os.Exit(cli.Seams{OpenCloud: awscloud.Open}.Run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ()))
	}
	flag.Parse()
	os.Exit(run(m))
}

// run is the tests between their scratch directory and the end of their server.
func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "vacancy-integration-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	scratch = dir
	// An interrupt ends the server too, by the end of this process.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The end of the tests is none: stop, which ends the context, comes after.
	defer context.AfterFunc(ctx, func() { os.RemoveAll(dir); os.Exit(130) })()
	code := m.Run()
	if started != nil {
		if err := started.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stopping the local AWS:", err)
			code = max(code, 1)
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return code
}

// started is the server, once it runs. It is written by aws alone, before the
// tests end.
var started *server.Server

// patience bounds what has no bound of its own.
const patience = 5 * time.Minute

// aws is the local AWS of this run. Functions are frozen between invocations,
// as on AWS: everything here is proved under that.
var aws = sync.OnceValues(func() (*server.Server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cache, err := cache.Dir(os.Getenv)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	installed, err := server.Install(ctx, cache, os.Stderr)
	if err != nil {
		return nil, err
	}
	ready := time.Now()
	started, err = installed.Start(ctx, server.Options{Freeze: true})
	fmt.Printf("the local AWS: installed in %.1f s, healthy in %.1f s\n", ready.Sub(began).Seconds(), time.Since(ready).Seconds())
	return started, err
})

func local(t *testing.T) *server.Server {
	t.Helper()
	s, err := aws()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// web is a client of Function URLs. A from that is an address of this machine
// is where its requests come from; "" is the usual one.
func web(t *testing.T, s *server.Server, from string) *http.Client {
	t.Helper()
	dial := s.Dial
	if from != "" {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			_, port, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			return d.DialContext(ctx, network, net.JoinHostPort("127.0.0.1", port))
		}
	}
	transport := &http.Transport{DialContext: dial, MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: time.Minute}
}

// root is the top of the checkout.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// covered reports whether a run covers case i of a long series: all of them in a
// deep run, every third in a default one.
func covered(i int) bool { return !testing.Short() || i%3 == 0 }

// secondStage ends a test that needs another stage, whose deployment takes two
// minutes, in a default run.
func secondStage(t *testing.T) *deployed {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a second stage: tests/run deep")
	}
	return neighbour(t)
}
