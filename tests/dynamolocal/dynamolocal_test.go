package dynamolocal_test

import (
	"bufio"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cache"
	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/tests/dynamolocal"
)

// serveAndWait makes this test binary a process that starts a server, prints
// its address, and waits to be killed.
const serveAndWait = "VACANCY_TEST_SERVE_AND_WAIT"

func TestMain(m *testing.M) {
	if os.Getenv(serveAndWait) == "" {
		os.Exit(m.Run())
	}
	dir, err := cache.Dir(os.Getenv)
	if err != nil {
		panic(err)
	}
	s, err := dynamolocal.StartProcess(context.Background(), dir)
	if err != nil {
		panic(err)
	}
	os.Stdout.WriteString(s.Endpoint + "\n")
	select {}
}

func TestServerListensOnLoopbackOnly(t *testing.T) {
	endpoint := dynamolocal.Start(t)
	tables := dynamolocal.Tables(t, endpoint)
	out, err := dynamolocal.Client(endpoint).ListTables(t.Context(), &dynamodb.ListTablesInput{})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(out.TableNames, " "); !strings.Contains(got, tables.Rows) || !strings.Contains(got, tables.Docs) {
		t.Errorf("ListTables() = %s, want both of %v", got, tables)
	}
	_, port, err := net.SplitHostPort(strings.TrimPrefix(endpoint, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, addr := range addrs {
		ip, ok := addr.(*net.IPNet)
		if !ok || ip.IP.IsLoopback() || ip.IP.To4() == nil {
			continue
		}
		if conn, err := net.DialTimeout("tcp", net.JoinHostPort(ip.IP.String(), port), time.Second); err == nil {
			conn.Close()
			t.Errorf("the server listens on %s", ip.IP)
		}
	}
}

func TestServerEndsWithTheProcessThatStartedIt(t *testing.T) {
	dynamolocal.Start(t) // already installed
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), serveAndWait+"=1")
	problems := new(await.Output)
	child.Stderr = problems
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	address := strings.TrimPrefix(await.ReadLine(t, "the process that starts a server", bufio.NewReader(out), problems), "http://")
	if conn, err := net.Dial("tcp", address); err != nil {
		t.Fatal(err)
	} else {
		conn.Close()
	}
	// No clean-up of any kind runs in the child.
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	child.Wait()
	await.Until(t, "nobody listens after the starter was killed", func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
}

func TestStopEndsTheServer(t *testing.T) {
	dir, err := cache.Dir(os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	s, err := dynamolocal.StartProcess(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Stop(); err != nil {
			t.Errorf("Stop() = %v", err)
		}
	}
	if conn, err := net.Dial("tcp", strings.TrimPrefix(s.Endpoint, "http://")); err == nil {
		conn.Close()
		t.Error("the server listens after Stop")
	}
}

func TestMissingToolIsNamedWithTheWayToGetIt(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("JAVA_HOME", "")
	_, err := dynamolocal.Fetch(t.Context(), t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "needs java") || !strings.Contains(err.Error(), "apt-get install") {
		t.Errorf("Fetch() = %v, want the tool and how to get it", err)
	}
}

// tools puts scripts before the real programs.
func tools(t *testing.T, scripts map[string]string) {
	t.Helper()
	bin := t.TempDir()
	for name, script := range scripts {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("JAVA_HOME", "")
}

func TestTwoFetchesAtOnceInstallOnce(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("BUILDS", filepath.Join(cache, "builds"))
	tools(t, map[string]string{
		"java":  "exit 1\n",
		"javac": "echo compiled >> $BUILDS\n",
		"mvn": `for a in "$@"; do case $a in -DoutputDirectory=*) lib=${a#*=};; esac; done
mkdir "$lib"; sleep 0.2
touch "$lib/libsqlite4java-linux-amd64-1.0.392.so" "$lib/sqlite4java-1.0.392.jar"
`,
	})
	var installs [4]string
	var wg sync.WaitGroup
	for i := range installs {
		wg.Go(func() {
			dir, err := dynamolocal.Fetch(t.Context(), cache)
			if err != nil {
				t.Errorf("Fetch() = %v", err)
			}
			installs[i] = dir
		})
	}
	wg.Wait()
	if built, err := os.ReadFile(os.Getenv("BUILDS")); err != nil || string(built) != "compiled\n" {
		t.Errorf("builds = %q, %v, want one", built, err)
	}
	// The loader looks for SQLite without a version, Java for the jar with it.
	for _, name := range []string{"libsqlite4java-linux-amd64.so", "sqlite4java-1.0.392.jar"} {
		if _, err := os.Stat(filepath.Join(installs[3], "lib", name)); err != nil {
			t.Errorf("the install lacks %v", err)
		}
	}
	if left, err := filepath.Glob(filepath.Join(cache, "*-building-*")); err != nil || len(left) > 0 {
		t.Errorf("Fetch() left %v", left)
	}
}

func TestFailedInstallLeavesNothingBehind(t *testing.T) {
	cache := t.TempDir()
	const fails = "echo the network is down >&2\nexit 1\n"
	tools(t, map[string]string{"java": fails, "javac": fails, "mvn": fails})
	if _, err := dynamolocal.Fetch(t.Context(), cache); err == nil || !strings.Contains(err.Error(), "the network is down") {
		t.Errorf("Fetch() = %v, want Maven's own words", err)
	}
	left, err := filepath.Glob(filepath.Join(cache, "dynamodb-local-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("Fetch() left %v, want nothing", left)
	}
}
