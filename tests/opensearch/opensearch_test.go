package opensearch_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cache"
	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/tests/opensearch"
)

// serveAndWait makes this test binary a process that starts a node, prints its
// address, and waits to be killed.
const serveAndWait = "VACANCY_TEST_SERVE_AND_WAIT"

func TestMain(m *testing.M) {
	if os.Getenv(serveAndWait) == "" {
		os.Exit(m.Run())
	}
	dir, err := cache.Dir(os.Getenv)
	if err != nil {
		panic(err)
	}
	s, err := opensearch.StartProcess(context.Background(), dir, "256m")
	if err != nil {
		panic(err)
	}
	os.Stdout.WriteString(s.Endpoint + "\n")
	select {}
}

func TestTheNodeIsOpenSearchAndListensOnLoopbackOnly(t *testing.T) {
	endpoint := opensearch.Start(t)
	answer, err := http.Get(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var node struct {
		Version struct{ Distribution, Number string }
	}
	if err := json.NewDecoder(answer.Body).Decode(&node); err != nil {
		t.Fatal(err)
	}
	if v := node.Version; v.Distribution != "opensearch" || !strings.HasPrefix(v.Number, "2.") {
		t.Errorf("the node is %s %s, want opensearch 2", v.Distribution, v.Number)
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
			t.Errorf("the node listens on %s", ip.IP)
		}
	}
}

func TestTheNodeAndItsFilesEndWithTheProcessThatStartedIt(t *testing.T) {
	opensearch.Start(t) // already installed
	files := t.TempDir()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), serveAndWait+"=1", "TMPDIR="+files)
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
	if left, err := filepath.Glob(filepath.Join(files, "opensearch-*")); err != nil || len(left) != 1 {
		t.Fatalf("the node's files are %v, %v, want one folder", left, err)
	}
	// No clean-up of any kind runs in the child.
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // it was killed
	await.Until(t, "nobody listens and no files are left after the starter was killed", func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
			return false
		}
		left, err := filepath.Glob(filepath.Join(files, "opensearch-*"))
		return err == nil && len(left) == 0
	})
}
