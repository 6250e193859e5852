// Package lambda runs built Lambda functions as AWS runs them, for tests: it
// speaks the Runtime API to a bootstrap, freezes it between invocations, and
// kills it where a test says so.
//
// Linux and macOS: a frozen process is a stopped one.
package lambda

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Build compiles the function of a folder the way it is deployed and returns
// the bootstrap's path.
func Build(tb testing.TB, pkg string) string {
	tb.Helper()
	out := filepath.Join(tb.TempDir(), "bootstrap")
	cmd := exec.Command("go", "build", "-tags", "lambda.norpc", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=", "-o", out, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if b, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("go build %s: %v\n%s", pkg, err, b)
	}
	return out
}

// Options of a function's process.
type Options struct {
	Env    []string      // beside what Lambda itself sets
	Freeze bool          // SIGSTOP between invocations
	Limit  time.Duration // time for one invocation; 30 s if 0
}

// ErrDied: the process ended before it answered.
var ErrDied = errors.New("function died before it answered")

// Function is one execution environment: a bootstrap and the Runtime API that
// feeds it. One invocation at a time.
type Function struct {
	opts    Options
	cmd     *exec.Cmd
	server  *http.Server
	log     *lockedBuffer
	started time.Time

	next    chan invocation // to the process
	waiting chan struct{}   // the process has asked for the next one
	answers chan answer     // from the process
	died    chan struct{}   // closed when the process has ended
	frozen  atomic.Bool
	count   atomic.Int64
	polled  atomic.Int64 // nanoseconds from start to the first poll
}

type invocation struct {
	id    string
	event []byte
	limit time.Time
}

type answer struct {
	id     string
	body   []byte
	failed bool
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Start runs a bootstrap. It is thawed, ended and reaped when the test ends.
func Start(tb testing.TB, bootstrap string, opts Options) *Function {
	tb.Helper()
	if opts.Limit == 0 {
		opts.Limit = 30 * time.Second
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	f := &Function{opts: opts, log: &lockedBuffer{}, next: make(chan invocation), waiting: make(chan struct{}, 1), answers: make(chan answer, 1), died: make(chan struct{})}
	f.server = &http.Server{Handler: f.routes(), ReadHeaderTimeout: 5 * time.Second}
	go f.server.Serve(l)
	f.cmd = exec.Command(bootstrap)
	f.cmd.Env = append([]string{
		"AWS_LAMBDA_RUNTIME_API=" + l.Addr().String(), "_HANDLER=bootstrap", "AWS_LAMBDA_FUNCTION_NAME=test", "AWS_LAMBDA_FUNCTION_VERSION=1",
		"AWS_LAMBDA_FUNCTION_MEMORY_SIZE=256", "AWS_REGION=us-east-1", "AWS_DEFAULT_REGION=us-east-1", "TZ=:UTC", "PATH=/usr/bin:/bin",
		"AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "LAMBDA_TASK_ROOT=" + filepath.Dir(bootstrap),
	}, opts.Env...)
	f.cmd.Stdout, f.cmd.Stderr = f.log, f.log
	f.started = time.Now()
	if err := f.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	go func() {
		_ = f.cmd.Wait() // how it ended is in the log, and told by ErrDied
		close(f.died)
	}()
	tb.Cleanup(func() {
		f.Kill()
		f.server.Close()
	})
	return f
}

// Log is what the function has written so far.
func (f *Function) Log() string { return f.log.String() }

// Kill ends the process at once, as a crash does.
func (f *Function) Kill() {
	_ = f.cmd.Process.Signal(syscall.SIGCONT) // a stopped process keeps its sockets open
	_ = f.cmd.Process.Kill()
	<-f.died
}

// Ready waits for the first poll and returns the time from process start.
func (f *Function) Ready(ctx context.Context) (time.Duration, error) {
	select {
	case <-f.waiting:
		f.waiting <- struct{}{}
		return time.Duration(f.polled.Load()), nil
	case <-f.died:
		return 0, fmt.Errorf("%w: %s", ErrDied, f.Log())
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// Invoke gives the function one event and returns its answer. An error that
// the function reports is an error too.
func (f *Function) Invoke(ctx context.Context, event []byte) ([]byte, error) {
	if f.frozen.CompareAndSwap(true, false) {
		if err := f.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrDied, err)
		}
	}
	inv := invocation{id: fmt.Sprintf("request-%d", f.count.Add(1)), event: event, limit: time.Now().Add(f.opts.Limit)}
	select {
	case f.next <- inv:
	case <-f.died:
		return nil, fmt.Errorf("%w: %s", ErrDied, f.Log())
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case a := <-f.answers:
		f.freeze(ctx)
		if a.failed {
			return nil, fmt.Errorf("function error: %s", a.body)
		}
		return a.body, nil
	case <-f.died:
		return nil, ErrDied
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// freeze stops the process once it asks for more: what it would still do after
// its answer does not happen.
func (f *Function) freeze(ctx context.Context) {
	if !f.opts.Freeze {
		return
	}
	select {
	case <-f.waiting:
		f.waiting <- struct{}{}
		f.frozen.Store(f.cmd.Process.Signal(syscall.SIGSTOP) == nil)
	case <-f.died:
	case <-ctx.Done():
	}
}

func (f *Function) routes() http.Handler {
	mux := http.NewServeMux()
	const root = "/2018-06-01/runtime/"
	mux.HandleFunc("GET "+root+"invocation/next", f.serveNext)
	mux.HandleFunc("POST "+root+"invocation/{id}/response", f.serveAnswer(false))
	mux.HandleFunc("POST "+root+"invocation/{id}/error", f.serveAnswer(true))
	mux.HandleFunc("POST "+root+"init/error", f.serveAnswer(true))
	return mux
}

func (f *Function) serveNext(w http.ResponseWriter, r *http.Request) {
	f.polled.CompareAndSwap(0, int64(time.Since(f.started)))
	select {
	case f.waiting <- struct{}{}:
	default:
	}
	select {
	case inv := <-f.next:
		<-f.waiting
		h := w.Header()
		h.Set("Content-Type", "application/json")
		h.Set("Lambda-Runtime-Aws-Request-Id", inv.id)
		h.Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(inv.limit.UnixMilli(), 10))
		h.Set("Lambda-Runtime-Invoked-Function-Arn", "arn:aws:lambda:us-east-1:000000000000:function:test")
		h.Set("Lambda-Runtime-Trace-Id", "Root=1-5bef4de7-ad49b0e87f6ef6c87fc2e700;Parent=9a9197af755a6419;Sampled=0")
		_, _ = w.Write(inv.event) // a process that died meanwhile is told by ErrDied
	case <-r.Context().Done():
	}
}

func (f *Function) serveAnswer(failed bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the process died while it wrote
		}
		f.answers <- answer{r.PathValue("id"), body, failed}
		w.WriteHeader(http.StatusAccepted)
		_, _ = w.Write([]byte(`{"status":"OK"}`))
	}
}

// Event is a Function URL request, version 2.0 of the payload.
func Event(method, path string, header map[string]string, body []byte) []byte {
	raw, query, _ := strings.Cut(path, "?")
	lower := map[string]string{"host": "test.lambda-url.us-east-1.on.aws"}
	for k, v := range header {
		lower[strings.ToLower(k)] = v
	}
	b, err := json.Marshal(map[string]any{
		"version": "2.0", "routeKey": "$default", "rawPath": raw, "rawQueryString": query, "headers": lower,
		"requestContext": map[string]any{
			"accountId": "anonymous", "apiId": "test", "domainName": lower["host"], "requestId": "test", "routeKey": "$default", "stage": "$default",
			"http": map[string]any{"method": method, "path": raw, "protocol": "HTTP/1.1", "sourceIp": "192.0.2.1", "userAgent": "test"},
		},
		"body": string(body), "isBase64Encoded": false,
	})
	if err != nil {
		panic(err) // strings and maps of strings always marshal
	}
	return b
}

// Response is the function's answer to an Event.
type Response struct {
	Status  int               `json:"statusCode"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
	Base64  bool              `json:"isBase64Encoded"`
}
