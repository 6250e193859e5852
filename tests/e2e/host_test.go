package e2e

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/vacancy-host/vacancy/shared/await"
)

// host is the `vacancy dev` or `vacancy serve` of a story, if one runs.
type host struct {
	cmd    *exec.Cmd
	stdout bytes.Buffer
	stderr bytes.Buffer
	read   chan struct{} // closed when all of its output is read
}

// hostKey finds the story's *host among the values of its script.
type hostKey struct{}

// startDev starts `vacancy dev --json --listen 127.0.0.1:0 ARGS...` and returns
// when it serves: $URL is its address, $DEMO the demo vacant's id. It ends with
// the story at the latest. $PROGRAM is another path of vacancy.
func startDev(ts *testscript.TestScript, neg bool, args []string) {
	start(ts, neg, append([]string{"dev", "--json", "--listen", "127.0.0.1:0"}, args...))
}

// startServe is startDev for `vacancy serve --json --listen 127.0.0.1:$PORT
// ARGS...`, with the free port that the command port chose before. `stopdev` ends
// it.
func startServe(ts *testscript.TestScript, neg bool, args []string) {
	start(ts, neg, append([]string{"serve", "--json", "--listen", "127.0.0.1:" + ts.Getenv("PORT")}, args...))
}

// freePort is the command: port, which sets $PORT to a free port.
func freePort(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: port")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	_, port, err := net.SplitHostPort(l.Addr().String())
	ts.Check(err)
	ts.Check(l.Close())
	ts.Setenv("PORT", port)
}

func start(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("! %s: use ! exec vacancy %s", args[0], args[0])
	}
	h := ts.Value(hostKey{}).(*host)
	if h.cmd != nil {
		ts.Fatalf("a host runs already")
	}
	*h = host{read: make(chan struct{})}
	h.cmd = exec.Command(cmp.Or(ts.Getenv("PROGRAM"), "vacancy"), args...)
	h.cmd.Dir = ts.Getenv("WORK")
	for _, name := range []string{"PATH", "HOME", "VACANCY_HOME", "VACANCY_AS", "TMPDIR", "PORT"} {
		if v := ts.Getenv(name); v != "" {
			h.cmd.Env = append(h.cmd.Env, name+"="+v)
		}
	}
	h.cmd.Stderr = &h.stderr
	out, err := h.cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(h.cmd.Start())
	ts.Defer(func() {
		if h.cmd != nil {
			_ = h.cmd.Process.Kill()
			<-h.read
			_ = h.cmd.Wait()
		}
	})
	ready := make(chan []byte, 1)
	go func() {
		defer close(h.read)
		r := bufio.NewReader(out)
		line, _ := r.ReadBytes('\n')
		h.stdout.Write(line)
		ready <- line
		_, _ = h.stdout.ReadFrom(r)
	}()
	select {
	case line := <-ready:
		h.announce(ts, line)
	case <-time.After(await.Limit):
		ts.Fatalf("dev was not ready after %s", await.Limit)
	}
}

// announce sets $URL and $DEMO from dev's first output, which it writes to ready.json,
// and what dev suggests to try.sh.
func (h *host) announce(ts *testscript.TestScript, line []byte) {
	var started struct {
		URL  string `json:"url"`
		Demo struct {
			ID string `json:"vacant_id"`
		} `json:"demo"`
		Try []string `json:"try"`
	}
	if err := json.Unmarshal(line, &started); err != nil || started.URL == "" {
		_ = h.cmd.Wait()
		h.cmd = nil
		ts.Fatalf("dev did not start; output %q, errors:\n%s", line, h.stderr.String())
	}
	ts.Setenv("URL", started.URL)
	ts.Setenv("DEMO", started.Demo.ID)
	ts.Check(os.WriteFile(ts.MkAbs("ready.json"), line, 0o600))
	// A shell script of what dev suggests, in its order.
	ts.Check(os.WriteFile(ts.MkAbs("try.sh"), []byte("set -ex\n"+strings.Join(started.Try, "\n")+"\n"), 0o600))
}

// stopDev interrupts the host like Ctrl-C, requires a clean end, and writes its
// output to the files dev.out and dev.err.
func stopDev(ts *testscript.TestScript, neg bool, args []string) {
	h := ts.Value(hostKey{}).(*host)
	if neg || len(args) > 0 || h.cmd == nil {
		ts.Fatalf("usage: stopdev, after dev")
	}
	ts.Check(h.cmd.Process.Signal(os.Interrupt))
	select {
	case <-h.read:
	case <-time.After(await.Limit):
		ts.Fatalf("dev did not end %s after the interrupt", await.Limit)
	}
	err := h.cmd.Wait()
	h.cmd = nil
	ts.Check(os.WriteFile(ts.MkAbs("dev.out"), h.stdout.Bytes(), 0o600))
	ts.Check(os.WriteFile(ts.MkAbs("dev.err"), h.stderr.Bytes(), 0o600))
	if err != nil {
		ts.Fatalf("dev ended with %v:\n%s", err, h.stderr.String())
	}
}
