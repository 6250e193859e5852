package localstack

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cache"
	"github.com/vacancy-host/vacancy/localstack/server"
	"github.com/vacancy-host/vacancy/shared/await"
)

// startAndWait makes this test binary a process that starts a server, prints
// which, and waits to be killed.
const startAndWait = "VACANCY_TEST_START_AND_WAIT"

func wait() {
	ctx := context.Background()
	cache, err := cache.Dir(os.Getenv)
	if err != nil {
		panic(err)
	}
	installed, err := server.Install(ctx, cache, io.Discard)
	if err != nil {
		panic(err)
	}
	s, err := installed.Start(ctx, server.Options{Freeze: true})
	if err != nil {
		panic(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(s); err != nil {
		panic(err)
	}
	select {}
}

// second is a server in a process of its own, with a stopped function.
func second(t *testing.T) (owner *exec.Cmd, s *server.Server, processes []int) {
	t.Helper()
	owner = exec.Command(os.Args[0])
	owner.Env = append(os.Environ(), startAndWait+"=1")
	problems := new(await.Output)
	owner.Stderr = problems
	out, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = owner.Process.Kill() // some tests have killed it already
		_ = owner.Wait()
	})
	var told server.Server
	if err := json.Unmarshal([]byte(await.ReadLine(t, "the process that starts a server", bufio.NewReader(out), problems)), &told); err != nil {
		t.Fatal(err)
	}
	if s, err = server.Find(installed.CacheDir, filepath.Base(told.Dir)); err != nil {
		t.Fatal(err)
	}
	to := shared
	to.Server, to.config = s, shared.config.Copy()
	to.config.BaseEndpoint = aws.String(s.URL)
	deployTo(t, to, "second", nil, nil).ask(t, "who", http.StatusOK)
	if processes, err = pids(t.Context(), s); err != nil || len(processes) != 2 {
		t.Fatalf("processes = %v, %v, want the server's and the function's", processes, err)
	}
	return owner, s, processes
}

func gone(t *testing.T, processes []int) {
	t.Helper()
	await.Until(t, fmt.Sprintf("none of the processes %v lives", processes), func() bool { return !slices.ContainsFunc(processes, lives) })
}

func TestServerEndsWithTheProcessThatStartedIt(t *testing.T) {
	owner, s, processes := second(t)
	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	gone(t, processes)
	if err := server.Clean(installed.CacheDir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.Dir); err == nil {
		t.Error("the folder of the run is there after Clean")
	}
	if err := shared.CheckHealth(t.Context()); err != nil {
		t.Errorf("the other server suffered: %v", err)
	}
}

func TestCleanEndsWhatAKilledServerLeft(t *testing.T) {
	_, s, processes := second(t)
	if err := syscall.Kill(s.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	gone(t, processes[:1])
	if !lives(processes[1]) {
		t.Fatal("the stopped function did not outlive its server, so there is nothing to clean")
	}
	if err := server.Clean(installed.CacheDir); err != nil {
		t.Fatal(err)
	}
	gone(t, processes)
}

func TestServerOfAnotherProcessCanBeStopped(t *testing.T) {
	_, s, processes := second(t)
	for range 2 {
		if err := s.Stop(); err != nil {
			t.Errorf("Stop() = %v", err)
		}
	}
	gone(t, processes)
}

func TestRulesOfThePluginHold(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), installed.PythonPath, "-W", "ignore", "-m", "unittest", "discover", "-s", "../../localstack/plugin/tests")
	cmd.Env = append(os.Environ(), "PYTHONPATH="+installed.PluginDir, "PYTHONDONTWRITEBYTECODE=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("unittest: %v\n%s", err, out)
	}
}
