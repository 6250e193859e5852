// Package kit is shared by the commands of vacancy. [App] is the state of a run: its output, the
// host that --host, --stage and --data choose, and the user's identities. [AdminAPI] calls a host's
// admin API, and [Operation] builds a command that calls one operation.
//
// Standard output carries only the result; prompts, logs and errors go to standard error. Two runs
// in one process share no state, so tests can run commands in process.
package kit

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vacancy-host/vacancy/cmd/vacancy/nearest"
	"github.com/vacancy-host/vacancy/shared/agent/datadir"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// App is the state of one run.
type App struct {
	In *bufio.Reader
	// CallText is the text of a call from In. It is nil before the text is read.
	CallText *string
	Out      io.Writer
	Err      io.Writer
	Env      map[string]string
	envList  []string
	Now      func() time.Time
	Rand     io.Reader
	Piped    bool // standard input is a file or a pipe
	JSON     bool
	// rootCAs contains the system's authorities and the certificates of --ca or $VACANCY_CA. If
	// rootCAs is nil, clients use the system's authorities.
	rootCAs *x509.CertPool
	// logForm is the value of --log: logHuman or logJSON, or "" in a command without --log.
	logForm string

	startCommand   string // for example "go run ./cmd/vacancy"
	args           []string
	currentCommand *cobra.Command

	pendingLine chan inputLine // nil if no read is in progress

	Seams Seams
}

// bomReader is a reader that skips the byte order mark that some shells write at the start of
// standard input. Callers must pass Read a buffer that has room for the mark.
type bomReader struct {
	io.Reader
	started bool
}

func (r *bomReader) Read(p []byte) (n int, err error) {
	n, err = r.Reader.Read(p)
	for err == nil && !r.started && n < len(canon.ByteOrderMark) && strings.HasPrefix(canon.ByteOrderMark, string(p[:n])) {
		var more int
		more, err = r.Reader.Read(p[n:])
		n += more
	}
	if !r.started {
		r.started = true
		n = copy(p, canon.TrimByteOrderMark(p[:n]))
	}
	return n, err
}

func (s Seams) Run(ctx context.Context, root func(*App) *cobra.Command, args []string, stdin io.Reader, stdout, stderr io.Writer, env []string) int {
	if s.Now == nil {
		s.Now = time.Now
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	// Restore the default effect of signals, so that a second interrupt ends a command that hangs.
	context.AfterFunc(ctx, stop)
	a := &App{Piped: true, In: bufio.NewReader(&bomReader{Reader: stdin}), Out: stdout, Err: stderr, Env: map[string]string{}, envList: env, Now: s.Now, Rand: rand.Reader, Seams: s}
	if f, ok := stdin.(*os.File); ok {
		info, err := f.Stat()
		a.Piped = err == nil && info.Mode()&os.ModeCharDevice == 0
	}
	for _, kv := range env {
		if k, v, ok := strings.Cut(kv, "="); ok {
			a.Env[k] = v
		}
	}
	if s.Program != "" {
		self, _ := os.Executable()
		dir, _ := os.Getwd()
		a.startCommand = cmp.Or(a.Env[programEnv], findStartCommand(s.Program, self, dir))
	}
	return a.Run(ctx, root(a), args)
}

func (a *App) Run(ctx context.Context, root *cobra.Command, args []string) int {
	for _, w := range []*io.Writer{&a.Out, &a.Err} {
		if *w = wrapTerminal(*w); isTerminal(*w) {
			defer (*w).(*escapingWriter).flush()
		}
	}
	a.args, a.startCommand = args, cmp.Or(a.startCommand, programName)
	root.SetArgs(args)
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	cmd, err := root.ExecuteContextC(ctx)
	if errors.Is(err, errNeedsAWS) {
		code := 0
		if code, err = a.replaceWithAWSProgram(ctx, args); err == nil {
			return code
		}
	}
	if err == nil {
		return problem.ExitOK
	}
	if ctx.Err() != nil && !errors.As(err, new(*problem.Error)) {
		err = problem.Wrap(problem.Canceled, err, "interrupted")
	}
	// Parsing stops at an invalid flag, but a --json after that flag must also make the error JSON.
	if separator := slices.Index(args, "--"); separator >= 0 {
		args = args[:separator]
	}
	a.JSON = a.JSON || slices.Contains(args, "--json") || slices.Contains(args, "--json=true")
	return a.reportError(cmd, err)
}

func (a *App) CheckSubcommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := problem.New(problem.Usage, "unknown command %q", args[0])
	if args[0] == "login" && !cmd.HasParent() {
		return WithHint(err, "vacancy init NAME, which creates an identity for your calls; the key of an account goes into $%s", AccountKeyEnv)
	}
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	if suggestion := nearest.Name(args[0], names); suggestion != "" {
		return WithHint(err, "%s %s", cmd.CommandPath(), suggestion)
	}
	return WithHint(err, "%s --help", cmd.CommandPath())
}

var flagSynonyms = []struct {
	words       []string
	flag, value string
}{
	{[]string{"port", "addr", "address", "bind", "host"}, "listen", "127.0.0.1:PORT"},
	{[]string{"listen", "addr", "address", "bind"}, "port", "PORT"},
}

func FlagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	flagErr := problem.Wrap(problem.Usage, nil, "%s", err)
	if errors.As(err, &unknown) {
		flagText := "--" + unknown.GetSpecifiedName()
		if short := unknown.GetSpecifiedShortnames(); short != "" {
			flagText = "-" + short
		}
		if strings.Contains(cmd.Use, "TEXT") && (strings.Contains(flagText, " ") || !strings.HasPrefix(flagText, "--")) {
			return WithHint(flagErr, "%s TARGET -- %s    # text after -- is not read as a flag", cmd.CommandPath(), ShellWord(flagText))
		}
		for _, synonym := range flagSynonyms {
			if slices.Contains(synonym.words, unknown.GetSpecifiedName()) && cmd.Flags().Lookup(synonym.flag) != nil {
				return WithHint(flagErr, "--%s %s", synonym.flag, synonym.value)
			}
		}
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if suggestion := nearest.Name(unknown.GetSpecifiedName(), names); suggestion != "" {
			return WithHint(flagErr, "--%s", suggestion)
		}
	}
	return WithHint(flagErr, "%s --help", cmd.CommandPath())
}

func (a *App) IdentityDir() (*datadir.Dir, error) {
	dir, err := a.VacancyHome()
	if err != nil {
		return nil, err
	}
	return &datadir.Dir{Dir: filepath.Join(dir, "identities"), Now: a.Now, Rand: a.Rand}, nil
}

func (a *App) VacancyHome() (string, error) {
	if dir := a.Env["VACANCY_HOME"]; dir != "" {
		return filepath.Abs(dir)
	}
	userHome := a.UserHome()
	if userHome == "" {
		return "", problem.New(problem.Usage, "VACANCY_HOME is not set, and the user has no home directory")
	}
	return filepath.Join(userHome, ".vacancy"), nil
}

func (a *App) UserHome() string {
	if runtime.GOOS == "windows" {
		return a.Env["USERPROFILE"]
	}
	return a.Env["HOME"]
}
