package dispatch_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch/dispatchtest"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch/filebook"
)

// childEnv makes this test binary a caller: the URL of the host, the directory of
// the chains and the number of calls.
const childEnv = "VACANCY_TEST_CALLER"

func TestMain(m *testing.M) {
	if spec := os.Getenv(childEnv); spec != "" {
		if err := childCalls(spec); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func childCalls(spec string) error {
	f := strings.Fields(spec)
	n, err := strconv.Atoi(f[2])
	if err != nil {
		return err
	}
	t := &testing.T{} // for Key, which cannot fail with these seeds
	c := &dispatch.Caller{Signer: dispatchtest.NewKey(t, 1), Book: &filebook.Book{Dir: f[1]}, Transport: dispatch.NewHTTP(dispatch.HTTPOptions{}), Rand: rand.Reader}
	target := dispatch.Target{ID: dispatchtest.NewKey(t, 0x42).ID(), URL: f[0] + "/a2a/message/send"}
	for i := range n {
		text := fmt.Sprintf("call %d of %d", i, os.Getpid())
		res, err := c.Call(context.Background(), target, dispatchtest.UserMessage(text))
		if err != nil {
			return err
		}
		if got := res.Reply.Payload.Text(); got != "echo: "+text {
			return fmt.Errorf("got the answer %q to %q", got, text)
		}
	}
	return nil
}

// Each waits for the other's call, and all succeed on one chain without a
// reset.
func TestTwoProcessesCallTheSameTarget(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal("this test runs itself: ", err)
	}
	h := dispatchtest.NewHost(t, time.Now)
	srv := httptest.NewServer(h)
	defer srv.Close()
	dir := t.TempDir()
	const processes, calls = 3, 8
	var wg sync.WaitGroup
	for range processes {
		wg.Go(func() {
			cmd := exec.CommandContext(t.Context(), exe)
			cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %d", childEnv, srv.URL, dir, calls))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("a caller failed: %v\n%s", err, out)
			}
		})
	}
	wg.Wait()
	p := h.Pair(dispatchtest.NewKey(t, 1).ID())
	if len(p.Rows) != processes*calls || p.Tip().Seq != processes*calls || p.Tip().Epoch != 0 || len(h.Violations) > 0 {
		t.Errorf("the host has %d rows, tip %+v, %q; want %d calls on one chain", len(p.Rows), p.Tip(), h.Violations, processes*calls)
	}
}

// A process that dies during a call locks nobody out.
func TestKilledProcessLeavesTheLock(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal("this test runs itself: ", err)
	}
	h := dispatchtest.NewHost(t, time.Now)
	posted, hold := make(chan struct{}), make(chan struct{})
	var first atomic.Bool
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r)
		if first.CompareAndSwap(false, true) { // accepted and answered; the answer is never sent
			close(posted)
			<-hold
		}
	}))
	defer srv.Close()
	defer close(hold)
	dir := t.TempDir()
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s 1", childEnv, srv.URL, dir))
	must(t, cmd.Start())
	<-posted
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()

	c := &dispatch.Caller{Signer: dispatchtest.NewKey(t, 1), Book: &filebook.Book{Dir: dir}, Transport: dispatch.NewHTTP(dispatch.HTTPOptions{})}
	res, err := c.Call(t.Context(), dispatch.Target{ID: h.ID(), URL: srv.URL + "/a2a/message/send"}, dispatchtest.UserMessage("ours"))
	dispatchtest.WantAnswer(t, res, err, "echo: ours")
	if len(res.LateOutcomes) != 1 || res.LateOutcomes[0].Fate != dispatch.Answered || res.Request.Seq != 2 {
		t.Errorf("Call() = number %d, late %+v, want 2 and the answer to the call of the dead process", res.Request.Seq, res.LateOutcomes)
	}
}
