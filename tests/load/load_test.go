//go:build unix

// Package load measures hosts under load: the command dev in a separate process, and 64 callers
// that verify all answers, over HTTP.
//
//	go test ./tests/load -run xxx -bench . -benchtime 30000x
//
// The benchmarks assert no limits, because other programs use the same machine. Compare only
// figures of the same run.
package load

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli"
	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/tests/acpagent"
	"github.com/vacancy-host/vacancy/tests/hammer"
)

// storeEnv names the store of a process that runs dev; unset in the measuring
// process.
const storeEnv = "VACANCY_LOAD_HOME"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "agent" {
		acpagent.Run("")
		return
	}
	if kind := os.Getenv(storeEnv); kind != "" {
		os.Exit(dev(kind))
	}
	os.Exit(m.Run())
}

// dev runs the real command over a store, or another command.
func dev(kind string) int {
	var seams cli.Seams
	if kind == "memory" {
		seams.StoreWrapper = func(store.Store) store.Store { return memory.New() }
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	args := os.Args[1:]
	if len(args) == 0 {
		args = []string{"dev", "--json", "--listen", "127.0.0.1:0"}
	}
	return cli.Run(ctx, seams, args, os.Stdin, os.Stdout, os.Stderr, os.Environ())
}

const pairs = 64

func BenchmarkDev(b *testing.B) {
	for _, kind := range []string{"memory", "bolt"} {
		b.Run(kind, func(b *testing.B) { measure(b, kind) })
	}
}

func measure(b *testing.B, kind string) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{storeEnv + "=" + kind, "VACANCY_HOME=" + b.TempDir(), "PATH=" + os.Getenv("PATH")}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	defer cmd.Process.Kill() // it has ended by then, unless something failed
	var ready struct{ URL string }
	if err := json.Unmarshal([]byte(await.ReadLine(b, "dev over "+kind, bufio.NewReader(out), nil)), &ready); err != nil {
		b.Fatalf("dev over %s does not start: %v", kind, err)
	}
	target, err := hammer.Find(b.Context(), ready.URL, identity.ID{})
	if err != nil {
		b.Fatal(err)
	}
	own := used(b)
	b.ResetTimer()
	got, err := hammer.Run(b.Context(), hammer.Config{
		Target: target, Pairs: pairs, For: time.Hour, Calls: b.N, Size: 100, Now: time.Now, Rand: rand.Reader,
	})
	b.StopTimer()
	own = used(b) - own
	if err != nil || len(got.Errors) > 0 {
		b.Fatalf("Run() = %+v, %v, want every call answered", got, err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		b.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		b.Fatalf("dev over %s: %v", kind, err)
	}
	server := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
	b.ReportMetric(server.Seconds()*1e3/float64(b.N), "server-cpu-ms/call")
	b.ReportMetric(own.Seconds()*1e3/float64(b.N), "callers-cpu-ms/call")
}

// used is the processor time of this process.
func used(b *testing.B) time.Duration {
	b.Helper()
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
