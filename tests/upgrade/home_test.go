package upgrade

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli"
	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/tests/upgrade/oldhost"
)

// pause is the time from the end of a kept host to the start of a test, by the test's clock. All calls
// that ran at its end are overdue then, and its texts and tasks have not expired.
const pause = time.Hour

// home is a $VACANCY_HOME, with the clock of the programs that use it.
type home struct {
	dir string
	now func() time.Time
	url string // of the host that runs
	// stop ends the host that runs, and returns what it wrote to standard error.
	stop func() string
}

// openHome writes the $VACANCY_HOME of a kept host.
func openHome(t *testing.T, format int) (*home, oldhost.Host) {
	t.Helper()
	dir := t.TempDir()
	h, err := oldhost.Open(filepath.Join("testdata", fmt.Sprintf("format%d", format)), dir)
	if err != nil {
		t.Fatal(err)
	}
	return &home{dir: dir, now: clockFrom(h.Stopped.Add(pause))}, h
}

// clockFrom returns a clock that shows start now.
func clockFrom(start time.Time) func() time.Time {
	began := time.Now()
	return func() time.Time { return start.Add(time.Since(began)) }
}

// command runs today's program in this process.
func (h *home) command(ctx context.Context, stdout, stderr io.Writer, key string, args ...string) int {
	env := []string{"HOME=" + h.dir, "VACANCY_HOME=" + h.dir}
	if key != "" {
		env = append(env, "VACANCY_KEY="+key)
	}
	return cli.Run(ctx, cli.Seams{Now: h.now}, args, strings.NewReader(""), stdout, stderr, env)
}

// run returns the exit code and the output of a command.
func (h *home) run(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = h.command(t.Context(), &stdout, &stderr, "", args...)
	return code, stdout.String(), stderr.String()
}

// vacancy returns the output of a command that must succeed.
func (h *home) vacancy(t *testing.T, args ...string) string {
	t.Helper()
	return h.vacancyAs(t, "", args...)
}

func (h *home) vacancyAs(t *testing.T, key string, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := h.command(t.Context(), &stdout, &stderr, key, args...); code != 0 {
		t.Fatalf("vacancy %s: exit %d\n%s%s", strings.Join(args, " "), code, stdout.String(), stderr.String())
	}
	return stdout.String()
}

// show parses the output of a command with --json.
func (h *home) show(t *testing.T, to any, args ...string) {
	t.Helper()
	h.showAs(t, "", to, args...)
}

func (h *home) showAs(t *testing.T, key string, to any, args ...string) {
	t.Helper()
	parse(t, h.vacancyAs(t, key, append(args, "--json")...), to)
}

func parse(t *testing.T, from string, to any) {
	t.Helper()
	if err := json.Unmarshal([]byte(from), to); err != nil {
		t.Fatalf("%v: %s", err, from)
	}
}

// start runs a host until stop is called or the test ends.
func (h *home) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, w := io.Pipe()
	var errs await.Output
	ended := make(chan int, 1)
	go func() {
		code := h.command(ctx, w, &errs, "", "dev", "--json", "--listen", "127.0.0.1:0", "--work", "5m")
		w.Close()
		ended <- code
	}()
	lines := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(r).ReadString('\n')
		lines <- line
		_, _ = io.Copy(io.Discard, r)
	}()
	h.stop = sync.OnceValue(func() string {
		cancel()
		select {
		case code := <-ended:
			if code != 0 {
				t.Errorf("the host ended with exit %d:\n%s", code, errs.String())
			}
		case <-time.After(await.Limit):
			t.Errorf("waited %s in vain: the host ends\n%s", await.Limit, errs.String())
		}
		return errs.String()
	})
	t.Cleanup(func() { h.stop() })
	select {
	case line := <-lines:
		var started struct {
			URL string `json:"url"`
		}
		if json.Unmarshal([]byte(line), &started) != nil || started.URL == "" {
			t.Fatalf("the host did not start: %q\n%s", line, errs.String())
		}
		h.url = started.URL
	case <-time.After(await.Limit):
		t.Fatalf("waited %s in vain: the host starts\n%s", await.Limit, errs.String())
	}
}

// restartUntil waits until done returns true. Meanwhile it restarts the host, each time some minutes
// later by its clock, because a host runs its overdue jobs when it starts.
func (h *home) restartUntil(t *testing.T, what string, done func() bool) {
	t.Helper()
	for wait, end := time.Second, time.Now().Add(await.Limit); !done(); wait *= 2 {
		for next := time.Now().Add(wait); !done() && time.Now().Before(next); {
			time.Sleep(100 * time.Millisecond)
		}
		if time.Now().After(end) {
			t.Fatalf("waited %s in vain: %s", await.Limit, what)
		}
		h.stop()
		h.now = clockFrom(h.now().Add(10 * time.Minute))
		h.start(t)
	}
}

// request sends a request to the host that runs.
func (h *home) request(t *testing.T, method, key, path, body string) (status int, answer string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, h.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// account is an account as "account show" prints it.
type account struct{ Balance, Held int64 }

func (h *home) account(t *testing.T, tenant string) (a account) {
	t.Helper()
	h.show(t, &a, "account", "show", tenant)
	return a
}

// chain returns the texts of an identity's calls of a vacant.
func (h *home) chain(t *testing.T, identity, vacant string) (texts [][2]string) {
	t.Helper()
	for line := range strings.Lines(h.vacancy(t, "chain", identity, vacant, "--json")) {
		var row struct {
			Seq      int    `json:"seq"`
			Text     string `json:"text"`
			Decision struct {
				Answer struct {
					Text string `json:"text"`
				} `json:"answer"`
			} `json:"decision"`
		}
		parse(t, line, &row)
		if texts = append(texts, [2]string{row.Text, row.Decision.Answer.Text}); row.Seq != len(texts) {
			t.Errorf("call %d of %s has number %d", len(texts), vacant, row.Seq)
		}
	}
	return texts
}

// task is a task as A2A clients get it.
type task struct {
	ID     string `json:"id"`
	Status struct {
		State string `json:"state"`
	} `json:"status"`
	Artifacts []struct {
		Parts []part `json:"parts"`
	} `json:"artifacts"`
	History []struct {
		Parts []part `json:"parts"`
	} `json:"history"`
}

type part struct {
	Text string `json:"text"`
}

// answer returns the text of the task's answer, or "".
func (t task) answer() string {
	if len(t.Artifacts) == 0 || len(t.Artifacts[0].Parts) == 0 {
		return ""
	}
	return t.Artifacts[0].Parts[0].Text
}

// startAgent serves an agent and a model. They answer as the ones of the kept hosts did.
func startAgent(t *testing.T) (url string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/chat/completions") {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, `data: {"choices":[{"index":0,"delta":{"content":"that"},"finish_reason":"stop"}]}`, "\n\n",
				`data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":1}}`, "\n\ndata: [DONE]\n\n")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"text":"hm"}`)
	}))
	t.Cleanup(server.Close)
	return server.URL
}
