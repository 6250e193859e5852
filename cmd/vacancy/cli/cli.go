// Package cli is the command line of Vacancy: one file per command, and what
// they share: flags, confirmation, one JSON object for machines, one exit code
// per kind of error.
//
// The invariants: standard output carries only the result (with --json exactly
// one object). Prompts, logs and errors go to standard error (with --json the
// error is one object). Nothing is coloured. No state is kept between two runs
// in one process, so tests can run commands in process.
package cli

import (
	"bufio"
	"context"
	"crypto/rand"
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

	"github.com/vacancy-host/vacancy/shared/agent/datadir"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// app is the state that all commands of one run share.
type app struct {
	in *bufio.Reader
	// input is the text of a call that was read from in.
	input *string
	out   io.Writer
	err   io.Writer
	env   map[string]string
	// envList is env in the form of os.Environ, for other programs.
	envList []string
	now     func() time.Time
	rand    io.Reader
	piped   bool // standard input is a file or a pipe
	json    bool // --json: results and errors as one object each
	// logForm is how a host logs on standard error: logHuman or logJSON, or "" in a
	// command without --log. With logJSON every line there is JSON.
	logForm string

	seams Seams
}

// Run runs one command line and returns its exit code (problem.Exits lists
// them). env is in the form of os.Environ. An interrupt cancels the command
// and a second one ends the process. The zero Seams are those of a program.
func Run(ctx context.Context, s Seams, args []string, stdin io.Reader, stdout, stderr io.Writer, env []string) int {
	return s.Start(ctx, func(a *app) *cobra.Command { return a.rootCommand() }, args, stdin, stdout, stderr, env)
}

// Start runs a command line of the commands below root.
func (s Seams) Start(ctx context.Context, root func(*app) *cobra.Command, args []string, stdin io.Reader, stdout, stderr io.Writer, env []string) int {
	if s.Now == nil {
		s.Now = time.Now
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	// After the first interrupt signals get their default effect, so that a
	// second one ends a command that hangs.
	context.AfterFunc(ctx, stop)
	a := &app{piped: piped(stdin), in: bufio.NewReader(stdin), out: stdout, err: stderr, env: environment(env), envList: env, now: s.Now, rand: rand.Reader, seams: s}
	return a.run(ctx, root(a), args)
}

// piped reports whether standard input is a file or a pipe, and not a terminal or
// the null device.
func piped(stdin io.Reader) bool {
	f, ok := stdin.(*os.File)
	if !ok {
		return true
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice == 0
}

// run is Start with the app's clock and randomness.
func (a *app) run(ctx context.Context, root *cobra.Command, args []string) int {
	root.SetArgs(args)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	cmd, err := root.ExecuteContextC(ctx)
	if errors.Is(err, errNeedsAWS) {
		code := 0
		if code, err = a.becomeAWS(ctx, args); err == nil {
			return code
		}
	}
	if err == nil {
		return problem.ExitOK
	}
	if ctx.Err() != nil && !errors.As(err, new(*problem.Error)) {
		err = problem.Wrap(problem.Canceled, err, "interrupted")
	}
	// A flag that does not parse may hide a later --json; print the error as
	// JSON anyway.
	a.json = a.json || asksJSON(args)
	return a.fail(cmd, err)
}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "vacancy",
		Short: "Host vacants, and call them",
		Long: `Vacancy hosts vacants: agents whose id is their Ed25519 key, who sign every
message and keep a chain of what was said with each caller.

Start with "vacancy dev": a host on this machine, with a vacant that answers.`,
		Example: `  vacancy dev
  vacancy call demo "hello"`,
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          a.knownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(flagError)
	root.PersistentFlags().BoolVar(&a.json, "json", false, "print one JSON object on standard output, and an error as one on standard error")
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetHelpTemplate(helpTemplate)
	root.AddCommand(
		a.devCommand(), a.serveCommand(), a.createCommand(), a.listCommand(), a.showCommand(), a.restoredCommand(), a.chainCommand(), a.hammerCommand(),
		a.doctorCommand(), a.logsCommand(), a.statusCommand(), a.backupCommand(), a.restoreCommand(), a.costCommand(),
		a.initCommand(), a.idCommand(), a.exportCommand(), a.verifyCommand(), a.callCommand(),
		a.searchCommand(), a.routeCommand(), a.logCommand(), a.reindexCommand(),
		exitCodesTopic(), agentContractTopic(), agentFilesTopic(), a.newCommand(), a.watchCommand(), a.agentsCommand(), a.forgetCommand(), a.secretCommand(), a.modelsCommand(), a.budgetCommand(),
	)
	for _, s := range stateChanges() {
		root.AddCommand(a.stateCommand(s))
	}
	root.AddCommand(a.updateCommand(), a.plainCommand(), a.vacantAtRootCommand(), a.removeCommand(), a.deleteCommand(), a.publishCommand(), a.unpublishCommand(), a.revokeCommand())
	root.AddCommand(a.spawnCommand(), a.childrenCommand(), a.manifestCommand(), a.planCommand(), a.graduateCommand(), a.gateCommand())
	root.AddCommand(a.priceCommand(), a.accountCommand(), a.keysCommand(), a.creditCommand(), a.paymentsCommand(), a.usageCommand(), a.statementCommand(), a.receiptCommand(), a.listingCommand(), a.agpCommand(), a.bookingsCommand(), a.versionCommand(), a.openapiCommand(), a.a2aCommand(), a.cardCommand(), a.peersCommand())
	root.AddCommand(a.cloudCommands()...)
	group(root)
	a.complete(root)
	return root
}

// groups are the commands by task, in the order of the help.
var groups = []struct {
	title    string
	commands []string
}{
	{"Start here:", []string{"dev", "call", "new", "create", "search", "serve", "a2a", "card"}},
	{"Vacants:", []string{"list", "show", "update", "agents", "publish", "unpublish", "plain", "root", "pause", "resume", "remove", "sink", "archive", "delete", "revoke", "export"}},
	{"Children and composites:", []string{"spawn", "children", "manifest", "plan", "graduate", "gate"}},
	{"Money:", []string{"price", "account", "keys", "credit", "payments", "usage", "statement", "receipt"}},
	{"A running host:", []string{"status", "logs", "doctor", "backup", "restore", "verify", "restored", "reindex", "log", "hammer"}},
	{"You and your calls:", []string{"init", "id", "chain", "route", "peers"}},
	{"A host on AWS:", []string{"deploy", "destroy", "tail", "invoke", "cost"}},
}

// group sorts the commands of the help into groups.
func group(root *cobra.Command) {
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, c := range root.Commands() {
			if slices.Contains(g.commands, c.Name()) {
				c.GroupID = g.title
			}
		}
	}
}

// helpTemplate puts the description first, then usage with the example.
const helpTemplate = `{{with (or .Long .Short)}}{{. | trimTrailingWhitespaces}}

{{end}}{{if or .Runnable .HasSubCommands}}{{.UsageString}}{{end}}`

// knownCommand refuses an unknown command and suggests similar ones.
func (a *app) knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := problem.New(problem.Usage, "unknown command %q", args[0])
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	if near := nearest(args[0], names); near != "" {
		return withHint(err, "vacancy %s", near)
	}
	return withHint(err, "vacancy --help")
}

// flagError refuses flags and suggests one that is near an unknown one, or -- before a
// text that looks like a flag.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	refused := problem.Wrap(problem.Usage, nil, "%s", err)
	if errors.As(err, &unknown) {
		text := "--" + unknown.GetSpecifiedName()
		if short := unknown.GetSpecifiedShortnames(); short != "" {
			text = "-" + short
		}
		if strings.Contains(cmd.Use, "TEXT") && (strings.Contains(text, " ") || !strings.HasPrefix(text, "--")) {
			return withHint(refused, "%s TARGET -- %s    # what follows -- is no flag", cmd.CommandPath(), shellWord(text))
		}
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if near := nearest(unknown.GetSpecifiedName(), names); near != "" {
			return withHint(refused, "--%s", near)
		}
	}
	return withHint(refused, "%s --help", cmd.CommandPath())
}

// arguments refuses a number of arguments outside least and most (most < 0:
// unlimited) and shows the usage.
func arguments(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= least && (most < 0 || len(args) <= most) {
			return nil
		}
		err := problem.New(problem.Usage, "too many arguments")
		switch {
		case len(args) < least:
			err = problem.New(problem.Usage, "an argument is missing")
		case most == 0:
			err = problem.New(problem.Usage, "no arguments are taken")
		}
		return withHint(err, "%s", cmd.UseLine())
	}
}

// dataHome opens the identities under $VACANCY_HOME.
func (a *app) dataHome() (*datadir.Dir, error) {
	dir, err := a.dataHomeDir()
	if err != nil {
		return nil, err
	}
	return &datadir.Dir{Dir: filepath.Join(dir, "identities"), Now: a.now, Rand: a.rand}, nil
}

// dataHomeDir is $VACANCY_HOME, by default .vacancy in the user's home
// directory.
func (a *app) dataHomeDir() (string, error) {
	if dir := a.env["VACANCY_HOME"]; dir != "" {
		return filepath.Abs(dir)
	}
	user := a.env["HOME"]
	if runtime.GOOS == "windows" {
		user = a.env["USERPROFILE"]
	}
	if user == "" {
		return "", problem.New(problem.Usage, "VACANCY_HOME is not set, and neither is the user's own folder")
	}
	return filepath.Join(user, ".vacancy"), nil
}

func environment(env []string) map[string]string {
	m := make(map[string]string, len(env))
	for _, kv := range env {
		if k, v, ok := strings.Cut(kv, "="); ok {
			m[k] = v
		}
	}
	return m
}

func asksJSON(args []string) bool {
	for _, arg := range args {
		switch arg {
		case "--":
			return false
		case "--json", "--json=true":
			return true
		}
	}
	return false
}
