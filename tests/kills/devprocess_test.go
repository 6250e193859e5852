//go:build unix

package kills

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/front/serve"
)

// dev is a running victim.
type dev struct {
	t      *testing.T
	target *devTarget
	cmd    *exec.Cmd
	orders *json.Encoder
	done   *json.Decoder
	ended  chan struct{}
	errs   await.Output // its standard error
	ready  announcement // empty if it died before it served
}

// announcement is dev's first output.
type announcement struct {
	URL   string
	Error string
	Call  *struct {
		Text    string
		Resumed bool
	}
}

// start runs a dev and returns when it serves, or when it has died at kill.
func (h *devTarget) start(t *testing.T, kill *place) process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c, err := json.Marshal(config{Args: []string{"dev", "--json", "--listen", "127.0.0.1:0"}, Now: h.at, Kill: kill})
	if err != nil {
		t.Fatal(err)
	}
	v := &dev{t: t, target: h, cmd: exec.Command(self), ended: make(chan struct{})}
	v.cmd.Env = []string{victimConfig + "=" + string(c), "VACANCY_HOME=" + h.dir, "PATH=" + os.Getenv("PATH")}
	v.cmd.Stderr = &v.errs
	stdin, err := v.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := v.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	confirmed, confirm, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	v.cmd.ExtraFiles = []*os.File{confirm}
	if err := v.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	confirm.Close()
	v.orders, v.done = json.NewEncoder(stdin), json.NewDecoder(confirmed)
	first := make(chan string, 1)
	go func() {
		defer close(v.ended)
		r := bufio.NewReader(stdout)
		line, _ := r.ReadString('\n')
		first <- line
		_, _ = io.Copy(io.Discard, r)
		_ = v.cmd.Wait() // the process state tells how it ended
		confirmed.Close()
	}()
	t.Cleanup(v.stop)
	if line := await.Receive(t, "dev prints that it is ready, or ends", first); line != "" {
		if err := json.Unmarshal([]byte(line), &v.ready); err != nil {
			t.Fatalf("dev printed %q: %v", line, err)
		}
	} else if kill == nil {
		await.Receive(t, "dev ends", v.ended)
		t.Fatalf("dev did not start: %v\n%s", v.cmd.ProcessState, v.errs.String())
	}
	return v
}

// stop kills the process.
func (v *dev) stop() {
	_ = v.cmd.Process.Kill()
	await.Receive(v.t, "dev ends", v.ended)
}

func (v *dev) order(o order) []string {
	v.t.Helper()
	var trace []string
	err := v.orders.Encode(o)
	if err == nil {
		err = v.done.Decode(&trace)
	}
	if err != nil {
		v.t.Fatalf("dev takes no orders: %v", err)
	}
	return trace
}

func (v *dev) arm(kill *place) []string { return v.order(order{Kill: kill}) }

// later moves the clock of the process.
func (v *dev) later(d time.Duration) func(request) (response, error) {
	v.order(order{Advance: d})
	v.target.at = v.target.at.Add(d)
	return v.do
}

// do makes a request over its own connection.
func (v *dev) do(r request) (response, error) {
	client, base := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, v.ready.URL
	if r.control {
		var err error
		if client, base, err = serve.DialAdmin(v.target.data()); err != nil {
			return response{}, err
		}
	}
	client.Timeout = await.Limit
	method := r.method
	switch {
	case method != "":
	case r.body == nil:
		method = http.MethodGet
	default:
		method = http.MethodPost
	}
	req, err := http.NewRequest(method, base+r.path, bytes.NewReader(r.body))
	if err != nil {
		return response{}, err
	}
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	maps.Copy(req.Header, r.header)
	resp, err := client.Do(req)
	if err != nil {
		return response{}, err
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	client.CloseIdleConnections()
	return response{resp.StatusCode, body}, err
}

// killed waits until the process is dead, and requires that it killed itself.
func (v *dev) killed() error {
	select {
	case <-v.ended:
	case <-time.After(await.Limit):
		return fmt.Errorf("dev lives %v after its place to die: it never came there", await.Limit)
	}
	if status, ok := v.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		return fmt.Errorf("dev ended with %v, want SIGKILL\n%s", v.cmd.ProcessState, v.errs.String())
	}
	return nil
}
