package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// host is the `vacancy dev` of a story, if one runs.
type host struct {
	cmd    *exec.Cmd
	stdout bytes.Buffer
	stderr bytes.Buffer
	read   chan struct{} // closed when all of its output is read
}

// hostKey finds the story's *host among the values of its script.
type hostKey struct{}

// A host that is not ready, or not ended, by then has failed the story.
const patience = 30 * time.Second

// startDev starts `vacancy dev --json --listen 127.0.0.1:0 ARGS...` and returns
// when it serves: $URL is its address, $DEMO the demo vacant's id. It ends with
// the story at the latest.
func startDev(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("! dev: use ! exec vacancy dev")
	}
	h := ts.Value(hostKey{}).(*host)
	if h.cmd != nil {
		ts.Fatalf("dev runs already")
	}
	*h = host{read: make(chan struct{})}
	h.cmd = exec.Command("vacancy", append([]string{"dev", "--json", "--listen", "127.0.0.1:0"}, args...)...)
	h.cmd.Dir = ts.Getenv("WORK")
	for _, name := range []string{"PATH", "HOME", "VACANCY_HOME", "VACANCY_AS", "TMPDIR"} {
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
	case <-time.After(patience):
		ts.Fatalf("dev was not ready after %s", patience)
	}
}

// announce sets $URL and $DEMO from dev's first output.
func (h *host) announce(ts *testscript.TestScript, line []byte) {
	var started struct {
		URL  string `json:"url"`
		Demo struct {
			ID string `json:"vacant_id"`
		} `json:"demo"`
	}
	if err := json.Unmarshal(line, &started); err != nil || started.URL == "" {
		_ = h.cmd.Wait()
		h.cmd = nil
		ts.Fatalf("dev did not start; output %q, errors:\n%s", line, h.stderr.String())
	}
	ts.Setenv("URL", started.URL)
	ts.Setenv("DEMO", started.Demo.ID)
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
	case <-time.After(patience):
		ts.Fatalf("dev did not end %s after the interrupt", patience)
	}
	err := h.cmd.Wait()
	h.cmd = nil
	ts.Check(os.WriteFile(ts.MkAbs("dev.out"), h.stdout.Bytes(), 0o600))
	ts.Check(os.WriteFile(ts.MkAbs("dev.err"), h.stderr.Bytes(), 0o600))
	if err != nil {
		ts.Fatalf("dev ended with %v:\n%s", err, h.stderr.String())
	}
}
