package server

import (
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
	"time"

	"github.com/gofrs/flock"
	"github.com/vacancy-host/vacancy/shared/problem"
)

type Options struct {
	Name     string
	Port     int // zero means a free port
	Detached bool
	Freeze   bool // suspend function processes between invocations, like AWS
}

type Server struct {
	URL     string // http://127.0.0.1:PORT
	Port    int
	PID     int
	Dir     string // directory of the run, which Stop removes
	LogPath string

	PluginDir string

	stdin io.Closer // a close ends the server; nil if the server is detached
	// exited is closed when the process has ended. A server that another process started has a nil
	// channel.
	exited chan struct{}
	client *http.Client
}

type runRecord struct {
	PID    int    `json:"pid"`
	Port   int    `json:"port"`
	Plugin string `json:"plugin"`
}

// Start returns when the server is healthy. ctx limits only the start. If the name is in use, the
// error is of kind Conflict.
func (i *Installation) Start(ctx context.Context, o Options) (*Server, error) {
	const maxTries = 5 // another process may take a free port before it is used
	for try := 1; ; try++ {
		s, err := i.createRun(ctx, o)
		if err != nil {
			return nil, err
		}
		if err = s.awaitHealth(ctx); err == nil {
			return s, nil
		}
		err = errors.Join(err, s.Stop())
		if !problem.Is(err, problem.Conflict) || o.Port != 0 || try == maxTries {
			return nil, err
		}
	}
}

const lockPollInterval = 50 * time.Millisecond

// createRun creates the directory and starts the process under a lock. Otherwise a concurrent Clean
// could take this run for a killed one.
func (i *Installation) createRun(ctx context.Context, o Options) (*Server, error) {
	lock := flock.New(filepath.Join(i.CacheDir, "localstack-runs.lock"), flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(ctx, lockPollInterval); err != nil {
		return nil, err
	}
	defer func() { _ = lock.Unlock() }()
	if err := Clean(i.CacheDir); err != nil {
		return nil, err
	}
	dir, err := makeRunDir(i.CacheDir, o.Name)
	if err != nil {
		return nil, err
	}
	s, err := i.launchServer(dir, o)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

func makeRunDir(cacheDir, name string) (string, error) {
	parent := runsDir(cacheDir)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", err
	}
	if name == "" {
		return os.MkdirTemp(parent, "run-")
	}
	dir := filepath.Join(parent, name)
	err := os.Mkdir(dir, 0o755)
	if errors.Is(err, os.ErrExist) {
		return "", problem.New(problem.Conflict, "server %q is already running", name)
	}
	return dir, err
}

func (i *Installation) launchServer(dir string, o Options) (*Server, error) {
	port, err := pickPort(o.Port)
	if err != nil {
		return nil, err
	}
	for _, sub := range []string{"home", "root", "tmp", "objects"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			return nil, err
		}
	}
	s := newServer(dir, port)
	log, err := os.Create(s.LogPath)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the process has its own copy
	cmd := exec.Command(i.PythonPath, "-X", pythonMark+dir, "-m", "localstack.runtime.main")
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, i.environment(dir, port, o), log, log
	if o.Detached {
		detach(cmd)
	} else if s.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting LocalStack: %w", err)
	}
	s.PID, s.PluginDir, s.exited = cmd.Process.Pid, i.PluginDir, make(chan struct{})
	go func() {
		_ = cmd.Wait() // the log contains the cause
		close(s.exited)
	}()
	content, err := json.Marshal(runRecord{s.PID, port, i.PluginDir})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "run.json"), content, 0o644)
	}
	if err != nil {
		return nil, errors.Join(err, killRun(dir))
	}
	return s, nil
}

// environment contains none of the user's settings.
func (i *Installation) environment(dir string, port int, o Options) []string {
	flag := func(b bool) string { return map[bool]string{true: "1", false: "0"}[b] }
	return []string{
		"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "PYTHONPATH=" + i.PluginDir,
		"HOME=" + filepath.Join(dir, "home"), "TMPDIR=" + filepath.Join(dir, "tmp"), "FILESYSTEM_ROOT=" + filepath.Join(dir, "root"),
		"XDG_CACHE_HOME=" + filepath.Join(i.CacheDir, "localstack-index"),
		// If /.dockerenv exists, LocalStack otherwise assumes that it is in its image and writes to
		// system directories.
		"OVERRIDE_IN_DOCKER=0",
		"GATEWAY_LISTEN=127.0.0.1:" + strconv.Itoa(port), "LOCALSTACK_HOST=localhost:" + strconv.Itoa(port),
		"DNS_ADDRESS=0", "SKIP_SSL_CERT_DOWNLOAD=1", "DISABLE_EVENTS=1", "EAGER_SERVICE_LOADING=0", "DEBUG=0",
		// Streams come directly from DynamoDB Local. By default they need another download.
		"PROVIDER_OVERRIDE_DYNAMODB=v2", "PROVIDER_OVERRIDE_DYNAMODBSTREAMS=v2", "DYNAMODB_IN_MEMORY=1", "DYNAMODB_SHARE_DB=1",
		"LAMBDA_RUNTIME_EXECUTOR=process", "LAMBDA_RUNTIME_ENVIRONMENT_TIMEOUT=10",
		// By default an idle stream is polled every ten seconds, and a failed event is retried
		// after a minute.
		"LAMBDA_EVENT_SOURCE_MAPPING_POLL_INTERVAL_SEC=0.2", "LAMBDA_EVENT_SOURCE_MAPPING_MAX_BACKOFF_ON_EMPTY_POLL_SEC=1", "LAMBDA_RETRY_BASE_DELAY=1",
		"VACANCY_RUN=" + dir, "VACANCY_DYNAMODB=" + i.DynamoDBDir, "VACANCY_JAVA=" + i.JavaPath,
		"VACANCY_FREEZE=" + flag(o.Freeze), "VACANCY_OWNED=" + flag(!o.Detached),
	}
}

func pickPort(wantPort int) (int, error) {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(wantPort)))
	if err != nil {
		return 0, problem.Wrap(problem.Conflict, err, "port %d of 127.0.0.1 is taken", wantPort)
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

func newServer(dir string, port int) *Server {
	s := &Server{URL: "http://127.0.0.1:" + strconv.Itoa(port), Port: port, Dir: dir, LogPath: filepath.Join(dir, "server.log")}
	s.client = &http.Client{Transport: &http.Transport{DialContext: s.Dial}}
	return s
}

func (s *Server) awaitHealth(ctx context.Context) error {
	for {
		if err := s.CheckHealth(ctx); err == nil || problem.Is(err, problem.Conflict) {
			return err
		}
		select {
		case <-s.exited:
			return fmt.Errorf("LocalStack ended before it was healthy: %s", s.logTail())
		case <-ctx.Done():
			return fmt.Errorf("LocalStack was not healthy in time: %w: %s", ctx.Err(), s.logTail())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (s *Server) logTail() string {
	content, err := os.ReadFile(s.LogPath)
	if err != nil {
		return err.Error()
	}
	const maxTailBytes = 3 << 10
	return string(content[max(0, len(content)-maxTailBytes):])
}

// CheckHealth returns an error of kind Conflict if another server answers.
func (s *Server) CheckHealth(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := s.doJSON(ctx, http.MethodGet, "/_localstack/health", nil, nil); err != nil {
		return err
	}
	var run struct{ Dir string }
	if err := s.doJSON(ctx, http.MethodGet, "/_vacancy/run", nil, &run); err != nil {
		return err
	}
	if run.Dir != s.Dir {
		return problem.New(problem.Conflict, "port %d is used by another server, in %s", s.Port, run.Dir)
	}
	return nil
}

// Stop ends the server and all its processes, and removes its directory. All state is in memory, so
// no graceful end is needed.
func (s *Server) Stop() error {
	// End the server first, because it starts other processes.
	if p, err := listRunProcesses(s.Dir); err != nil {
		return err
	} else if hasPID(p, s.PID) {
		if err := kill(s.PID); err != nil {
			return err
		}
	}
	if s.exited != nil {
		<-s.exited
	}
	if s.stdin != nil {
		_ = s.stdin.Close() // the reader has ended
	}
	s.client.CloseIdleConnections()
	return errors.Join(killRun(s.Dir), os.RemoveAll(s.Dir))
}
