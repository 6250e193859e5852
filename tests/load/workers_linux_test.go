package load

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/workclient"
)

// The figures of idle workers: the growth of the host's memory in megabytes, and its share of a core. The figures of a
// turn: from a call to its lease, and from the output of an agent's program to the caller.
const (
	idleWorkers    = 200
	workersPerKey  = 50
	idleMemory     = 30
	idleShare      = 0.02
	maxLeaseDelay  = 50 * time.Millisecond
	maxOutputDelay = 10 * time.Millisecond
)

// BenchmarkWorkers runs many idle workers of a host, one of which gets each call, and then a program that speaks ACP. It
// fails if a figure is exceeded. Delays are medians.
func BenchmarkWorkers(b *testing.B) {
	home := b.TempDir()
	run := func(args ...string) *exec.Cmd {
		cmd := exec.Command(os.Args[0], args...)
		cmd.Env = []string{storeEnv + "=bolt", "VACANCY_HOME=" + home, "PATH=" + os.Getenv("PATH")}
		cmd.Stderr = os.Stderr
		return cmd
	}
	dev := run("dev", "--json", "--listen", "127.0.0.1:0")
	out, err := dev.StdoutPipe()
	must(b, err)
	must(b, dev.Start())
	defer dev.Wait()
	defer dev.Process.Signal(os.Interrupt)
	var ready struct{ URL string }
	must(b, json.Unmarshal([]byte(await.ReadLine(b, "dev", bufio.NewReader(out), nil)), &ready))
	must(b, run("account", "open", "acme").Run())
	must(b, run("create", "mole", "--capability", "digs", "--substrate", "worker", "--tenant", "acme", "--json").Run())
	key := func() string {
		text, err := run("keys", "create", "acme", "--scope", "call,work", "--json").Output()
		must(b, err)
		var made struct{ Secret string }
		must(b, json.Unmarshal(text, &made))
		return made.Secret
	}

	time.Sleep(2 * time.Second)
	before := resident(b, dev.Process.Pid, "VmRSS")
	leased := make(chan time.Time, 1)
	workers, stop := context.WithCancel(b.Context())
	var all sync.WaitGroup
	for range idleWorkers / workersPerKey {
		client := admin.Client{HTTP: &http.Client{}, URL: ready.URL, Key: key()}
		for range workersPerKey {
			w := &workclient.Worker{Client: client, Vacant: "mole", Handle: func(context.Context, *workclient.Turn, func(workclient.Event)) (workclient.Answer, error) {
				leased <- time.Now()
				return workclient.Answer{Text: "dug"}, nil
			}}
			all.Go(func() { _ = w.Run(workers) })
		}
	}
	time.Sleep(5 * time.Second)
	used := processorTime(b, dev.Process.Pid)
	const idle = 20 * time.Second
	time.Sleep(idle)
	share := (processorTime(b, dev.Process.Pid) - used).Seconds() / idle.Seconds()
	memory := resident(b, dev.Process.Pid, "VmRSS") - before

	caller := key()
	var leases []time.Duration
	for range 20 {
		began := time.Now()
		post(b, ready.URL+"/v/mole/text", caller, "dig", nil)
		leases = append(leases, (<-leased).Sub(began))
		time.Sleep(50 * time.Millisecond)
	}
	stop()
	all.Wait()

	worker := run("worker", "mole", "--root", b.TempDir(), "--approval", "yolo", "--host", ready.URL, "--", os.Args[0], "agent")
	worker.Env = append(worker.Env, "VACANCY_KEY="+caller)
	must(b, worker.Start())
	defer worker.Wait()
	defer worker.Process.Signal(os.Interrupt)
	var delays []time.Duration
	seen := map[string]bool{} // the last event has the whole answer again
	post(b, ready.URL+"/v/mole/message:stream", caller, `{"message":{"role":"ROLE_USER","messageId":"m","parts":[{"text":"clock 50"}]}}`, func(at time.Time, line string) {
		for _, text := range regexp.MustCompile(`@([0-9]+);`).FindAllStringSubmatch(line, -1) {
			if seen[text[1]] {
				continue
			}
			seen[text[1]] = true
			sent, err := strconv.ParseInt(text[1], 10, 64)
			must(b, err)
			delays = append(delays, at.Sub(time.Unix(0, sent)))
		}
	})

	slices.Sort(leases)
	slices.Sort(delays)
	if len(delays) < 50 {
		b.Fatalf("%d of 50 pieces came", len(delays))
	}
	lease, delay := leases[len(leases)/2], delays[len(delays)/2]
	b.ReportMetric(float64(memory), "MB-idle")
	b.ReportMetric(share*100, "%-of-a-core")
	b.ReportMetric(lease.Seconds()*1e3, "ms-to-lease")
	b.ReportMetric(delay.Seconds()*1e3, "ms-of-output")
	if memory > idleMemory || share > idleShare || lease > maxLeaseDelay || delay > maxOutputDelay {
		b.Errorf("%d MB, %v of a core, %s to a lease and %s of output; want at most %d MB, %v, %s and %s; all leases %v, all pieces %v", memory, share, lease, delay, idleMemory, idleShare, maxLeaseDelay, maxOutputDelay, leases, delays)
	}
}

// post sends a request and reads the answer by lines.
func post(b *testing.B, url, key, body string, line func(at time.Time, text string)) {
	b.Helper()
	q, err := http.NewRequestWithContext(b.Context(), http.MethodPost, url, strings.NewReader(body))
	must(b, err)
	q.Header.Set("Authorization", "Bearer "+key)
	if strings.HasPrefix(body, "{") {
		q.Header.Set("Content-Type", "application/json")
	}
	r, err := http.DefaultClient.Do(q)
	must(b, err)
	defer r.Body.Close()
	var all bytes.Buffer
	lines := bufio.NewScanner(io.TeeReader(r.Body, &all))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if line != nil {
			line(time.Now(), lines.Text())
		}
	}
	if r.StatusCode != http.StatusOK || lines.Err() != nil {
		b.Fatalf("POST %s = %d %s, %v", url, r.StatusCode, all.Bytes(), lines.Err())
	}
}

// processorTime returns the processor time of a process, which Linux counts in hundredths of a second.
func processorTime(b *testing.B, pid int) time.Duration {
	b.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	must(b, err)
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	user, err := strconv.Atoi(fields[11])
	must(b, err)
	system, err := strconv.Atoi(fields[12])
	must(b, err)
	return time.Duration(user+system) * 10 * time.Millisecond
}
