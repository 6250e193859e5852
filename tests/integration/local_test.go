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

	awssdk "github.com/aws/aws-sdk-go-v2/aws"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cache"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud/awscloud"
	"github.com/vacancy-host/vacancy/localstack/server"
	"github.com/vacancy-host/vacancy/shared/await"
)

// asCommand makes a process of this test binary the vacancy command: it is
// killed half way, which no command in this process can be.
const asCommand = "VACANCY_INTEGRATION_COMMAND"

// deployedName is the name of a deployed stage to test; "" stands for stages on a local AWS. The
// environment then has the operator's credentials and home directory.
var deployedName = os.Getenv("VACANCY_TEST_STAGE")

// operatorConfig is the operator's access to the AWS account of a deployed stage.
var operatorConfig awssdk.Config

// scratch is the directory of this run.
var scratch string

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		os.Exit(cli.Run(context.Background(), cli.Seams{OpenCloud: awscloud.Open}, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ()))
	}
	flag.Parse()
	if deployedName != "" {
		opened, err := awscloud.Open(context.Background(), "")
		if err == nil {
			operatorConfig = opened.(*awscloud.Cloud).Config()
			err = flag.Set("test.short", "true") // no test deploys another stage
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(run(m))
}

// run runs the tests between making their directory and stopping their server.
func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "vacancy-integration-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	scratch = dir
	// An interrupt ends this process, which ends the server too.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// Before stop cancels the context, which must not look like an interrupt.
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

// started is the server, once it runs. Only aws writes it, before the tests
// end.
var started *server.Server

// aws is the local AWS of this run. Functions are frozen between invocations,
// as on AWS: all tests run under that condition.
var aws = sync.OnceValues(func() (*server.Server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), await.Limit)
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

// local returns the local AWS. It skips a test of a deployed stage.
func local(t *testing.T) *server.Server {
	t.Helper()
	if deployedName != "" {
		t.Skip("needs a local AWS, for its faults, instances or record of calls")
	}
	s, err := aws()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// web is a client of Function URLs. If from is an address of this machine,
// requests come from it; "" is the usual one.
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

// root is the checkout's directory.
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

// secondStage ends, in a default run, a test that needs another stage, whose
// deployment takes two minutes.
func secondStage(t *testing.T) *deployed {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a second stage: tests/run deep")
	}
	return neighbour(t)
}
