//go:build unix

package lambda

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/infra/bundle"
	"github.com/vacancy-host/vacancy/shared/await"
)

// Build compiles a function as for deployment, into dir, and returns the path
// of the bootstrap.
func Build(dir, pkg string) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	out := filepath.Join(dir, "bootstrap")
	if err := bundle.BuildPrograms(context.Background(), "", runtime.GOARCH, out, os.Environ(), pkg); err != nil {
		return "", fmt.Errorf("go build %s: %w", pkg, err)
	}
	return out, nil
}

// Zip packs a bootstrap as for deployment and returns the archive.
func Zip(bootstrap string) ([]byte, error) {
	program, err := os.ReadFile(bootstrap)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestCompression) })
	head := &zip.FileHeader{Name: "bootstrap", Method: zip.Deflate}
	head.SetMode(0o755)
	w, err := z.CreateHeader(head)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(program); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// Options configure a function's process.
type Options struct {
	Env    []string      // added to Lambda's own variables
	Freeze bool          // SIGSTOP between invocations
	Limit  time.Duration // per invocation; 30 s if 0
	// Recursive reports that the function's template has RecursiveLoop: Allow.
	Recursive bool
	// Answering, if not nil, is called twice for each answer of the function:
	// before Lambda has read it, and once Lambda has it and the process may
	// die.
	Answering func(f *Function, read bool)
	// Piece, if not nil, is called with each piece of an answer as it comes.
	Piece func(piece []byte)
}

// ErrDied means that the process ended before it answered.
var ErrDied = errors.New("function died before it answered")

// Function is one execution environment: a bootstrap and the Runtime API that
// serves it.
type Function struct {
	opts    Options
	name    string // of the bootstrap's folder
	cmd     *exec.Cmd
	server  *http.Server
	log     await.Output
	started time.Time

	next    chan invocation // to the process
	waiting chan struct{}   // the process has asked for the next invocation
	answers chan answer     // from the process; unclaimed answers stay in it
	handing sync.Mutex      // held while an answer is posted
	died    chan struct{}   // closed when the process has ended
	frozen  atomic.Bool
	count   atomic.Int64
	polled  atomic.Int64 // nanoseconds from process start to the first poll
}

// Start runs a bootstrap. When the test ends, the process is resumed, killed
// and waited for.
func Start(tb testing.TB, bootstrap string, opts Options) *Function {
	tb.Helper()
	if opts.Limit == 0 {
		opts.Limit = 30 * time.Second
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	f := &Function{
		opts: opts, name: filepath.Base(filepath.Dir(bootstrap)), next: make(chan invocation), waiting: make(chan struct{}, 1), answers: make(chan answer, 16), died: make(chan struct{}),
	}
	f.server = &http.Server{Handler: f.routes(), ReadHeaderTimeout: 5 * time.Second}
	f.cmd = exec.Command(bootstrap)
	f.cmd.Env = append([]string{
		"AWS_LAMBDA_RUNTIME_API=" + l.Addr().String(), "_HANDLER=bootstrap", "AWS_LAMBDA_FUNCTION_NAME=test", "AWS_LAMBDA_FUNCTION_VERSION=1",
		"AWS_LAMBDA_FUNCTION_MEMORY_SIZE=256", "AWS_REGION=us-east-1", "AWS_DEFAULT_REGION=us-east-1", "TZ=:UTC", "PATH=/usr/bin:/bin",
		"AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "LAMBDA_TASK_ROOT=" + filepath.Dir(bootstrap),
	}, opts.Env...)
	f.cmd.Stdout, f.cmd.Stderr = &f.log, &f.log
	f.started = time.Now()
	if err := f.cmd.Start(); err != nil {
		l.Close()
		tb.Fatal(err)
	}
	go f.server.Serve(l) // until now requests wait in the listener
	go func() {
		_ = f.cmd.Wait() // the log has the exit status; callers get ErrDied
		close(f.died)
	}()
	tb.Cleanup(func() {
		f.Kill()
		f.server.Close()
	})
	return f
}

// Log returns the function's output so far, standard output and standard error
// together.
func (f *Function) Log() string { return f.log.String() }

// Died returns a channel that is closed when the process has ended.
func (f *Function) Died() <-chan struct{} { return f.died }

// Kill kills the process at once, like a crash, and returns when it has ended.
func (f *Function) Kill() {
	_ = f.cmd.Process.Signal(syscall.SIGCONT) // so that no stopped process is left
	_ = f.cmd.Process.Kill()
	<-f.died
}

// Ready waits for the first poll and returns the time since process start.
func (f *Function) Ready(ctx context.Context) (time.Duration, error) {
	ctx, cancel := limited(ctx, "the function polls")
	defer cancel()
	select {
	case <-f.waiting:
		f.waiting <- struct{}{}
		return time.Duration(f.polled.Load()), nil
	case <-f.died:
		return 0, fmt.Errorf("%w: %s", ErrDied, f.Log())
	case <-ctx.Done():
		return 0, fmt.Errorf("%w: %s", context.Cause(ctx), f.Log())
	}
}

// limited limits ctx to [await.Limit]. what is a sentence about what is waited for.
func limited(ctx context.Context, what string) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, await.Limit, fmt.Errorf("waited %s in vain: %s", await.Limit, what))
}

// Invoke sends one event and returns the function's answer. An error that the
// function reports is returned as an error.
func (f *Function) Invoke(ctx context.Context, event []byte) ([]byte, error) {
	trace, count := traceOf(f.name, event)
	if count > maxRecursion && !f.opts.Recursive {
		return nil, ErrRecursion
	}
	ctx, cancel := limited(ctx, "the function answers")
	defer cancel()
	if f.frozen.CompareAndSwap(true, false) {
		if err := f.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrDied, err)
		}
	}
	inv := invocation{id: fmt.Sprintf("request-%d", f.count.Add(1)), event: event, trace: trace, limit: time.Now().Add(f.opts.Limit)}
	select {
	case f.next <- inv:
	case <-f.died:
		return nil, fmt.Errorf("%w: %s", ErrDied, f.Log())
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %s", context.Cause(ctx), f.Log())
	}
	a, err := f.await(ctx, inv.id)
	if err != nil {
		return nil, err
	}
	f.freeze(ctx)
	if a.failed {
		return nil, fmt.Errorf("function error: %s", a.body)
	}
	return a.body, nil
}

// await waits for the answer to an invocation. It skips answers to invocations
// whose callers gave up.
func (f *Function) await(ctx context.Context, id string) (answer, error) {
	for {
		select {
		case a := <-f.answers:
			if a.id == id {
				return a, nil
			}
		case <-f.died:
			// An answer that Lambda has read counts, whatever happens to the
			// process.
			return f.last(id)
		case <-ctx.Done():
			return answer{}, fmt.Errorf("%w: %s", context.Cause(ctx), f.Log())
		}
	}
}

// last looks for the answer among those posted before the process died.
func (f *Function) last(id string) (answer, error) {
	f.handing.Lock()
	defer f.handing.Unlock()
	for {
		select {
		case a := <-f.answers:
			if a.id == id {
				return a, nil
			}
		default:
			return answer{}, ErrDied
		}
	}
}

// freeze stops the process when it polls again, so work after the answer does
// not run.
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

func (f *Function) dead() bool {
	select {
	case <-f.died:
		return true
	default:
		return false
	}
}
