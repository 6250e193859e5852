package load

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/await"
)

// The figure: so many streams of MCP over so many turns of two vacants, from so many addresses, and the most
// memory of dev meanwhile, in megabytes. dev runs 16 turns of a vacant at once, and two of an address.
const (
	mcpStreams   = 1000
	mcpTurns     = 32
	mcpAddresses = 64
	mcpMemory    = 300
)

// BenchmarkMCPStreams has clients of many addresses wait, by the MCP server of the host, for turns that run. It fails
// if a stream does not end with the whole answer, or if dev needs more memory.
func BenchmarkMCPStreams(b *testing.B) {
	const answer = "the whole answer"
	asked, gate := make(chan bool, mcpTurns), make(chan bool)
	var made atomic.Bool // dev tries an agent when its vacant is made
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if made.Load() {
			asked <- true
			<-gate
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"text":"`+answer+`"}`)
	}))
	defer agent.Close()

	home := b.TempDir()
	run := func(args ...string) *exec.Cmd {
		cmd := exec.Command(os.Args[0], args...)
		cmd.Env = []string{storeEnv + "=bolt", "VACANCY_HOME=" + home, "PATH=" + os.Getenv("PATH")}
		cmd.Stderr = os.Stderr
		return cmd
	}
	cmd := run("dev", "--json", "--listen", "127.0.0.1:0", "--work", "5m")
	out, err := cmd.StdoutPipe()
	must(b, err)
	must(b, cmd.Start())
	defer cmd.Wait()
	defer cmd.Process.Kill()
	var ready struct{ URL string }
	must(b, json.Unmarshal([]byte(await.ReadLine(b, "dev", bufio.NewReader(out), nil)), &ready))
	vacants := []string{"one", "two"}
	for _, name := range vacants {
		must(b, run("create", name, "--capability", "waits", "--substrate", agent.URL).Run())
		must(b, run("publish", name).Run())
	}

	made.Store(true)
	clients := make([]*http.Client, mcpAddresses)
	for i := range clients {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(i+1))}}
		clients[i] = &http.Client{Timeout: await.Limit, Transport: &http.Transport{DialContext: dialer.DialContext}}
	}
	tasks := make([]task, mcpTurns)
	var all sync.WaitGroup
	for i := range tasks {
		all.Go(func() {
			of := vacants[i%2]
			tasks[i] = task{of, begin(b, clients[i], ready.URL+"/v/"+of)}
		})
	}
	all.Wait()
	for range tasks {
		<-asked
	}
	before := resident(b, cmd.Process.Pid, "VmRSS")

	ended := make(chan string, mcpStreams)
	opened := make(chan bool, mcpStreams)
	for i := range mcpStreams {
		go func() { ended <- follow(clients[i%mcpAddresses], ready.URL+"/mcp", tasks[i%mcpTurns], opened) }()
	}
	for range mcpStreams {
		<-opened
	}
	// A stream has no byte before its end: it is open once its request is written and dev's memory has settled.
	for was, settled := 0, 0; settled < 10; time.Sleep(100 * time.Millisecond) {
		is := resident(b, cmd.Process.Pid, "VmRSS")
		if settled++; is != was {
			was, settled = is, 0
		}
	}
	close(gate)
	whole := 0
	for range mcpStreams {
		if got := <-ended; got == answer {
			whole++
		} else if !b.Failed() {
			b.Errorf("a stream ends with %q", got)
		}
	}
	most := resident(b, cmd.Process.Pid, "VmHWM")
	b.ReportMetric(float64(before), "MB-before")
	b.ReportMetric(float64(most), "MB-most")
	if whole != mcpStreams || most >= mcpMemory {
		b.Errorf("%d of %d streams are whole, in %d MB; want all in less than %d", whole, mcpStreams, most, mcpMemory)
	}
	must(b, cmd.Process.Signal(os.Interrupt))
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// task is a turn that runs.
type task struct{ vacant, id string }

// begin asks a vacant, and returns the id of its task.
func begin(b *testing.B, c *http.Client, at string) string {
	body := `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"role":"ROLE_USER","messageId":"m","parts":[{"text":"hi"}]},"configuration":{"returnImmediately":true}}}`
	r, err := c.Post(at, "application/json", strings.NewReader(body))
	if err != nil {
		b.Error(err)
		return ""
	}
	defer r.Body.Close()
	var got struct {
		Result struct{ Task struct{ ID string } }
	}
	if err := json.NewDecoder(r.Body).Decode(&got); err != nil || got.Result.Task.ID == "" {
		b.Errorf("%s is not asked: %d, %v", at, r.StatusCode, err)
	}
	return got.Result.Task.ID
}

// follow waits for a task by a stream, and returns the text of the answer.
func follow(c *http.Client, at string, t task, opened chan<- bool) string {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_task","arguments":{"agent":%q,"task":%q,"wait":20},"_meta":{"progressToken":1}}}`, t.vacant, t.id)
	q, err := http.NewRequestWithContext(context.Background(), http.MethodPost, at, strings.NewReader(body))
	if err != nil {
		return err.Error()
	}
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Accept", "application/json, text/event-stream")
	wrote := sync.OnceFunc(func() { opened <- true })
	q = q.WithContext(httptrace.WithClientTrace(q.Context(), &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { wrote() }}))
	r, err := c.Do(q)
	wrote()
	if err != nil {
		return err.Error()
	}
	defer r.Body.Close()
	lines := bufio.NewScanner(r.Body)
	lines.Buffer(nil, 1<<20)
	last := ""
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data:"))
		if !ok {
			last += lines.Text()
			continue
		}
		var m struct {
			Result *struct {
				Data struct{ Text string } `json:"structuredContent"`
			}
		}
		if json.Unmarshal(data, &m) == nil && m.Result != nil {
			return m.Result.Data.Text
		}
		last = string(data)
	}
	return fmt.Sprint(r.StatusCode, " ", last)
}

// resident returns a figure of a process's memory, in megabytes.
func resident(b *testing.B, pid int, figure string) int {
	b.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must(b, err)
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == figure+":" {
			kB, err := strconv.Atoi(fields[1])
			must(b, err)
			return kB >> 10
		}
	}
	b.Fatalf("there is no %s", figure)
	return 0
}
