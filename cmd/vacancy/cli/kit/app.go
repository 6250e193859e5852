// Package kit is shared by the commands of vacancy. It contains the state of a run and its output,
// the selection of a host by --host, --stage and --data, the user's identities, the host's admin
// API, the user's stages on AWS, human-readable logs, and a builder for commands that call one
// operation.
//
// Standard output carries only the result (with --json exactly one object). Prompts, logs and
// errors go to standard error (with --json the error is one object). Colours go only to terminals
// (paint.go), and text from others cannot control a terminal (screen.go). Two runs in one process
// share no state, so tests can run commands in process.
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

// App is the state that all commands of one run share.
type App struct {
	In *bufio.Reader
	// CallText is the text of a call that was read from In. It is nil until the text has been read.
	CallText *string
	Out      io.Writer
	Err      io.Writer
	Env      map[string]string
	// envList is Env in the form of os.Environ, for other programs.
	envList []string
	Now     func() time.Time
	Rand    io.Reader
	Piped   bool // standard input is a file or a pipe
	JSON    bool // --json: each result and each error is one object
	// rootCAs contains the system's certificate authorities and the certificates of --ca or
	// $VACANCY_CA. If neither is set, rootCAs is nil, and clients use the system's authorities.
	rootCAs *x509.CertPool
	// logForm is the form of the log on standard error: logHuman or logJSON, or "" in a command
	// without --log. If it is logJSON, every line on standard error is JSON.
	logForm string

	startCommand   string         // command that starts this program, for example "go run ./cmd/vacancy"
	args           []string       // command line without the program
	currentCommand *cobra.Command // command of this run; nil until the command line is parsed

	pendingLine chan inputLine // receives the next line for AskLine; nil if no read is in progress

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
	// A command may hang after the first interrupt. Restore the default effect of signals, so that
	// a second interrupt ends the process.
	context.AfterFunc(ctx, stop)
	a := &App{Piped: true, In: bufio.NewReader(&bomReader{Reader: stdin}), Out: stdout, Err: stderr, Env: map[string]string{}, envList: env, Now: s.Now, Rand: rand.Reader, Seams: s}
	if f, ok := stdin.(*os.File); ok {
		info, err := f.Stat()
		// A pipe or file is neither a terminal nor the null device.
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
		return WithHint(err, "vacancy init NAME, which makes an identity for your calls; an account's key goes into $%s", AccountKeyEnv)
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

// flagSynonyms maps flag names of other programs to the equivalent flags of this program.
var flagSynonyms = []struct {
	words       []string
	flag, value string
}{
	{[]string{"port", "addr", "address", "bind", "host"}, "listen", "127.0.0.1:PORT"},
	{[]string{"listen", "addr", "address", "bind"}, "port", "PORT"},
}

// FlagError returns the error for an invalid flag. For an unknown flag it suggests a similar known
// flag. If the flag seems to be a message, it suggests writing -- before the message.
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

// VacancyHome returns $VACANCY_HOME, by default .vacancy in the user's home directory.
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
