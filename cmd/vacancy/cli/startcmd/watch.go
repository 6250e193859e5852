package startcmd

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/agentfile"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/hostcmd"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/vacantcmd"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud"
	"github.com/vacancy-host/vacancy/cmd/vacancy/scaffold"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/front/setting"
	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/problem"
)

const agentFile = "agent.md"

type watchOptions struct {
	data, listen, name, start, root, substrate string
	join                                       bool
	where                                      kit.HostFlags // zero for a host on this machine
}

func watchCommand(a *kit.App) *cobra.Command {
	var o watchOptions
	cmd := &cobra.Command{
		Use:   "watch DIR|FILE",
		Short: "Run an agent while you write it",
		Long: `Start the program in DIR and host the agent of DIR/agent.md under the folder's name. If no host is
running, start one like "vacancy dev". FILE is an agent's file with another name; the vacant gets the
name of the file. When files of the program change, the program starts again. When the agent's file
changes, the agent gets a new version. The watch shows each call with its usage.

Ctrl-C ends the program, and the host if the watch started it. If another command runs the host and
the host ends, the watch waits until the host runs again. With --join the watch also waits for a host
when it starts, and never starts one. A host of "vacancy serve" calls agents on this machine only with
--allow-loopback-agents.

The files in DIR decide how the program starts: "go run ." for a go.mod, "npm start" for a
package.json, and "python3 agent.py" for an agent.py. "python3 tools.py" serves tools of a model.
Packages in requirements.txt are installed into .venv. --start names another command. The program gets
its port in the variable PORT. This is the port of base_url in the agent's file. For tools.py it is the
port of the first MCP server (by name) on this machine. If another program listens at the port, the
watch starts and hosts nothing. An agent that is a model needs no program. With FILE a program starts
only if base_url is on this machine.

With --host the agent runs on this machine and answers at another host. That host needs no route to
this machine: the watch leases the vacant's turns and sends the answers (substrate worker). If the
vacant is missing at the host, the watch creates it. $VACANCY_KEY is a key of that host with the scopes
vacants and work. If the connection is lost, the watch connects again. If the watch ends during a turn,
the turn is void and is not charged.

If the agent's file names no secret, the program gets a new secret in AGENT_SECRET, and the host signs its
requests to the program with that secret ("vacancy help agent-contract").`,
		Example: `  vacancy new fox --lang python
  vacancy watch fox
  vacancy watch agents/helper.md --substrate ollama:llama3.2
  VACANCY_KEY=KEY vacancy watch fox --host https://agents.example.org`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.where.Host == "" {
				return runWatch(a, cmd.Context(), args[0], o)
			}
			for _, flag := range []string{"data", "listen", "join", "substrate"} {
				if cmd.Flags().Changed(flag) {
					return &problem.Error{Kind: problem.Usage, Field: "--" + flag, Want: "either the flag or --host", Got: "both"}
				}
			}
			return runRemoteWatch(a, cmd.Context(), args[0], o)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&o.name, "name", "", "the vacant's name (default: the name of the folder or FILE)")
	fs.StringVar(&o.start, "start", "", "the shell `COMMAND` that runs the program")
	fs.StringVar(&o.listen, "listen", kit.DefaultListen, "the loopback address and port, if this command starts the host")
	fs.BoolVar(&o.join, "join", false, "wait for the host of another command instead of starting one")
	fs.StringVar(&o.root, "root", "", "the `DIR` with instructions and rules of all agents")
	fs.StringVar(&o.substrate, "substrate", "", "KIND:MODEL, instead of the substrate in the agent's file")
	fs.StringVar(&o.where.Host, "host", "", "the host at which the agent answers: a `URL`, or aws")
	fs.StringVar(&o.where.Stage, "stage", "", "with --host aws: the stage (default $VACANCY_STAGE, else dev)")
	kit.AddCAFlag(fs)
	kit.AddDataFlag(fs, &o.data)
	return cmd
}

// watcher watches a folder with an agent, and runs its program.
type watcher struct {
	*kit.App
	watchOptions
	dir         string
	file        string
	startedAt   time.Time // earlier calls are not shown
	shortID     string    // id of the vacant
	handout     kit.Handout
	outputLock  sync.Mutex // guards the printed lines
	port        int        // 0 if no URL of the agent leads to this machine
	portSetting string     // base_url or mcp_servers
	isPortTaken func(port int) bool
	agent       agentfile.File
	environ     []string
	secret      string // AGENT_SECRET; "" if watch sets none
	secretHost  string
	lastStatus  agentStatus // reset when the program starts
	printLine   func(line string)

	remote *remoteHost // nil without --host

	joined         bool // another command runs the host
	hostEnded      bool
	nextHostCheck  time.Time
	hostCheckPause time.Duration // zero means hostPollInterval
}

type agentStatus uint8

const (
	statusUnknown agentStatus = iota
	statusSilent
	statusFinal // the agent answers, or the watch printed why not
)

// newWatcher returns a watcher of a folder or an agent's file. If the folder's name cannot be a
// vacant's name, the error's hint is renameHint.
func newWatcher(a *kit.App, path string, o watchOptions, renameHint string) (w *watcher, err error) {
	w = &watcher{App: a, watchOptions: o, file: agentFile, isPortTaken: isListening, environ: os.Environ()}
	w.printLine = func(line string) { w.printf("%s | %s", w.name, line) }
	if w.dir, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	name := filepath.Base(w.dir)
	if info, err := os.Stat(w.dir); err == nil && !info.IsDir() {
		w.dir, w.file = filepath.Split(w.dir)
		w.dir = filepath.Clean(w.dir)
		name = strings.TrimSuffix(w.file, filepath.Ext(w.file))
		if w.file == agentFile {
			name = filepath.Base(w.dir)
		}
	}
	w.name = cmp.Or(w.name, name)
	if err := registry.CheckNewName(w.name); err != nil {
		return nil, kit.WithHint(err, "%s", renameHint)
	}
	return w, w.readAgentFile()
}

func runWatch(a *kit.App, ctx context.Context, path string, o watchOptions) error {
	w, err := newWatcher(a, path, o, "vacancy watch "+kit.ShellWord(path)+" --name NAME")
	if err != nil {
		return err
	}
	// Check the port before the agent is hosted, because calls must not reach another program.
	if w.programCommand() != "" && w.port != 0 && w.isPortTaken(w.port) {
		return w.portTakenError()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	hostDone, err := w.startOrJoinHost(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if cancel(); hostDone != nil {
			<-hostDone
		}
	}()
	dataDir, err := a.DataDir(o.data)
	if err != nil {
		return err
	}
	w.startedAt = a.Now()
	journal, err := standalone.OpenJournalReader(dataDir, w.startedAt)
	if err != nil {
		return err
	}
	defer journal.Close()
	snapshot := w.snapshotFiles()
	program := w.startProgram()
	// hostAgent asks the program for its tools, and the first call may follow immediately.
	w.waitForStart(ctx, program)
	if err := w.hostAgent(ctx); err != nil {
		program.stop()
		return err
	}
	w.printStatus(ctx, program)
	for _, line := range w.handout.Lines() {
		w.printf("%s", line)
	}
	stoppedByCtrlC := "the host"
	switch program := w.programCommand() != ""; {
	case w.joined && program:
		stoppedByCtrlC = "the program, not the host"
	case w.joined:
		stoppedByCtrlC = "the watch, not the host"
	case program:
		stoppedByCtrlC = "the program and the host"
	}
	w.printf("Ctrl-C ends %s. Its calls:", stoppedByCtrlC)
	if err := w.run(ctx, journal, hostDone, snapshot, program); err != nil {
		return err
	}
	w.printf("%s and its calls are stored in %s. To continue: %s", w.name, kit.EscapeLine(dataDir), a.CommandLine())
	return nil
}

// printStatus prints once after each start of the program whether the agent answers calls.
func (w *watcher) printStatus(ctx context.Context, program *process) {
	switch {
	case w.lastStatus == statusFinal || ctx.Err() != nil:
	case program.hasEnded():
		w.lastStatus = statusFinal
		w.printf("%s answers no calls, because its program ended. The program starts again when you save a file", w.name)
	case w.port != 0 && !w.isPortTaken(w.port):
		if w.lastStatus == statusUnknown && (program.cmd == nil || w.Now().Sub(program.startedAt) > startTimeout) {
			w.lastStatus = statusSilent
			w.printf("%s answers no calls until a program listens at port %d", w.name, w.port)
		}
	default:
		w.lastStatus = statusFinal
		if failure := w.findFailure(ctx); failure != "" {
			w.printf("%s answers no calls now: %s", w.name, failure)
			return
		}
		address := w.name
		if w.remote != nil {
			address = cmp.Or(w.handout.Address, w.name)
		}
		w.printf("%s answers calls: %s", w.name, w.FormatCommand(`call %s "hello"%s`, address, w.dataArg()))
	}
}

// findFailure returns why calls do not reach the agent, or "". It asks only the host of another
// command, because a host of this command always calls agents on this machine.
func (w *watcher) findFailure(ctx context.Context) (failure string) {
	if !w.joined || w.port == 0 || w.portSetting != "base_url" {
		return ""
	}
	err := w.WithAdmin(kit.HostFlags{Host: kit.HostLocal, Data: w.data}, false, func(c *kit.AdminAPI) error {
		result, err := admin.CheckVacant.Call(ctx, c, admin.VacantRef{Vacant: w.name})
		if err == nil && result.Failure != nil {
			failure = kit.EscapeLine(kit.Truncate(result.Failure.String(), kit.MaxShownCause))
		}
		return err
	})
	if err != nil && ctx.Err() == nil {
		failure = kit.EscapeLine(problem.AsError(err).Text())
	}
	return failure
}

func (w *watcher) portTakenError() error {
	err := problem.New(problem.Unavailable, "port %d is taken by another program, so %s was not started", w.port, w.name)
	return kit.WithHint(err, "choose another port for %s in %s, for example http://127.0.0.1:%d", w.portSetting, kit.ShellWord(filepath.Join(w.dir, w.file)), findFreePort(w.dir, w.isPortTaken))
}

func (w *watcher) dataArg() string {
	if w.data == "" {
		return ""
	}
	return kit.DataArg(w.data)
}

func (w *watcher) printf(format string, args ...any) {
	w.outputLock.Lock()
	defer w.outputLock.Unlock()
	w.PrintNote(format, args...)
}

func (w *watcher) readAgentFile() error {
	path := filepath.Join(w.dir, w.file)
	file, err := agentfile.Read(path, agentfile.Options{Root: w.root, Substrate: w.substrate})
	if err != nil {
		return err
	}
	if file.Agent.Description == "" {
		return problem.New(problem.Usage, "%s: description: expected a description of what %s can do, got none", path, w.name)
	}
	endpoint, portSetting := []string{file.Agent.BaseURL}, "base_url"
	if language, _ := scaffold.FindLanguage(w.hasFile); language.Tools {
		endpoint, portSetting = nil, "mcp_servers"
		for _, s := range file.Agent.MCPServers {
			endpoint = append(endpoint, s.URL)
		}
	}
	port := 0
	for _, endpoint := range slices.Backward(endpoint) { // the first URL on this machine is used
		if u, err := url.Parse(endpoint); err == nil && outbound.IsThisMachine(u.Hostname()) {
			port, _ = strconv.Atoi(u.Port())
		}
	}
	if w.port != 0 && port != w.port && port != 0 && w.programCommand() != "" && w.isPortTaken(port) {
		return problem.New(problem.Unavailable, "%s: %s: port %d is taken by another program", path, portSetting, port)
	}
	w.port, w.portSetting = port, portSetting
	spec, err := file.Agent.Spec()
	if err != nil || spec.Kind != substrate.KindHTTP || file.Agent.Secret != "" || port == 0 || portSetting != "base_url" || w.programCommand() == "" {
		w.secret, w.secretHost, w.agent = "", "", file
		return nil
	}
	w.secret = cmp.Or(w.secret, w.Env[secretEnv], rand.Text())
	file.Agent.Secret = secretName(w.name)
	w.agent = file
	return nil
}

// secretEnv names the variable with the secret that signs the requests of the host to the program.
const secretEnv = "AGENT_SECRET"

// secretName returns the name of the secret for an agent. It shortens long names, because the names
// of secrets have at most 64 bytes.
func secretName(name string) string {
	const prefix = "watch-"
	return prefix + name[max(0, len(name)+len(prefix)-64):]
}

// startOrJoinHost starts a host in this process, unless one runs in the data directory. If --join
// is set, it waits for the host of another command. hostDone receives the final error of the host
// in this process, and is nil if another command runs the host.
func (w *watcher) startOrJoinHost(ctx context.Context) (hostDone <-chan error, err error) {
	done := make(chan error, 1)
	dir, err := w.DataDir(w.data)
	if err != nil {
		return nil, err
	}
	for hasPrinted := false; ; hasPrinted = true {
		_, _, err := serve.DialAdmin(dir)
		if err == nil {
			w.joined = true
			return nil, nil
		}
		if !w.join {
			break
		}
		if !errors.Is(err, serve.ErrNoHost) {
			return nil, err
		}
		if !hasPrinted {
			w.printf("%s waits for a host in %s", w.name, kit.EscapeLine(dir))
		}
		if err := cloud.Sleep(ctx, hostPollInterval); err != nil {
			return nil, err
		}
	}
	// The watch shows calls from the journal, so it discards the output of the host.
	quietApp := *w.App
	quietApp.Out, quietApp.Err = io.Discard, io.Discard
	h, url, err := prepareDevHost(&quietApp, devOptions{listen: w.listen}, setting.Defaults().Host)
	if err != nil {
		return nil, err
	}
	h.data = w.data
	ready := make(chan struct{})
	go func() {
		defer close(done)
		done <- runHost(&quietApp, ctx, h, func(context.Context, *standalone.Host, string) error { close(ready); return nil })
	}()
	select {
	case <-ready:
		w.printf("A host in %s listens at %s", kit.EscapeLine(dir), url)
		return done, nil
	case err := <-done:
		return nil, err
	}
}

func (w *watcher) hostAgent(ctx context.Context) error {
	if w.remote != nil {
		return w.installRemote(ctx)
	}
	file := w.agent
	return w.WithAdmin(kit.HostFlags{Host: kit.HostLocal, Data: w.data}, false, func(c *kit.AdminAPI) error {
		u, err := url.Parse(file.Agent.BaseURL)
		if err != nil {
			return err
		}
		if w.secret != "" && u.Host != w.secretHost {
			newSecret := admin.SetSecretRequest{SecretRef: admin.SecretRef{Name: file.Agent.Secret}}
			if vacant, err := c.ShowVacant(ctx, w.name); err == nil && vacant.Name == w.name {
				newSecret.Tenant = vacant.Tenant
			}
			newSecret.Body.Hosts, newSecret.Body.Value = []string{u.Host}, w.secret
			if _, err := admin.AgentSecrets.Set.Call(ctx, c, newSecret); err != nil {
				return err
			}
			w.secretHost = u.Host
		}
		newVacant, isNew, err := w.createOrUpdateVacant(ctx, c, &file, "here", func() error { return nil })
		if isNew {
			w.outputLock.Lock()
			defer w.outputLock.Unlock()
			vacantcmd.CheckTools(w.App, ctx, c, &newVacant)
		}
		return err
	})
}

// createOrUpdateVacant creates the vacant at the host of c. If the name is taken and allowUpdate
// returns nil, it creates the next version of the agent. isNew reports whether the vacant or the
// version is new.
func (w *watcher) createOrUpdateVacant(ctx context.Context, c op.Client, file *agentfile.File, place string, allowUpdate func() error) (vacant admin.Vacant, isNew bool, err error) {
	vacant, err = admin.CreateVacant.Call(ctx, c, op.NewBody(admin.Creation{Name: w.name, Capability: file.Agent.Description, Agent: file.Agent.Blob()}))
	message, isNew := w.name+" is hosted "+place+" now", err == nil
	if problem.Is(err, problem.Conflict) {
		var current, updated admin.Agent
		if err = allowUpdate(); err == nil {
			current, err = admin.GetAgent.Call(ctx, c, admin.AgentRequest{VacantRef: admin.VacantRef{Vacant: w.name}})
		}
		if err == nil {
			updated, err = admin.SetAgent.Call(ctx, c, admin.NewSetAgentRequest(&current, file.Agent.Blob()))
		}
		vacant, message, isNew = updated.Vacant, fmt.Sprintf("%s answers by version %d of its agent", w.name, updated.Version), err == nil && updated.Version != current.Version
	}
	if err != nil {
		return vacant, false, err
	}
	w.shortID, w.handout = vacant.ID.Short(), kit.HandoutOf(&vacant)
	w.outputLock.Lock()
	defer w.outputLock.Unlock()
	vacantcmd.PrintVersionWarnings(w.App, &vacant, *file)
	if isNew {
		w.PrintNote("%s", message)
	}
	return vacant, isNew, nil
}

// pollJoinedHost checks at intervals whether the host of another command still runs. After a
// restart of that host, it installs the agent again.
func (w *watcher) pollJoinedHost(ctx context.Context) {
	now := w.Now()
	if !w.joined || now.Before(w.nextHostCheck) {
		return
	}
	dir, err := w.DataDir(w.data)
	if err == nil {
		_, _, err = serve.DialAdmin(dir)
	}
	switch {
	case errors.Is(err, serve.ErrNoHost) && !w.hostEnded:
		w.hostEnded, w.hostCheckPause, w.secretHost = true, hostPollInterval, "" // the next host may lack the secret
		w.printf("the host in %s has ended; %s answers no calls until the host runs again", kit.EscapeLine(dir), w.name)
	case err == nil && w.hostEnded:
		err := w.hostAgent(ctx)
		if problem.Is(err, problem.Unavailable) {
			break // the host is still starting
		}
		w.hostEnded, w.hostCheckPause, w.lastStatus = false, hostPollInterval, statusUnknown
		w.printf("the host in %s runs again", kit.EscapeLine(dir))
		if err != nil && ctx.Err() == nil {
			w.printUnchanged(err)
		}
	}
	if w.hostEnded {
		w.hostCheckPause = min(2*w.hostCheckPause, maxHostPollInterval)
	}
	w.nextHostCheck = now.Add(cmp.Or(w.hostCheckPause, hostPollInterval))
}

func (w *watcher) printUnchanged(err error) {
	w.printf("%s is unchanged: %s", w.name, kit.EscapeLine(kit.TextWithCauses(kit.ToProblem(err))))
}

const (
	hostPollInterval    = time.Second
	maxHostPollInterval = 10 * time.Second
)

// pollInterval is the pause between two checks of the folder and the journal.
const pollInterval = 150 * time.Millisecond

// run shows calls and restarts the program when files change. It ends the program when ctx or the
// host ends. journal is nil with --host, because the worker prints the turns.
func (w *watcher) run(ctx context.Context, journal *standalone.JournalReader, done <-chan error, lastSnapshot map[string]string, program *process) error {
	defer func() { program.stop() }()
	for {
		select {
		case err := <-done:
			return err
		default:
		}
		if program.hasEnded() && w.port != 0 && w.isPortTaken(w.port) {
			return w.portTakenError()
		}
		if w.pollJoinedHost(ctx); !w.hostEnded {
			w.printStatus(ctx, program)
		}
		if journal != nil {
			if err := journal.ReadNewLines(ctx, w.showCall); err != nil && ctx.Err() == nil {
				return err
			}
		}
		if cloud.Sleep(ctx, pollInterval) != nil {
			if journal == nil {
				return nil
			}
			return journal.ReadNewLines(context.WithoutCancel(ctx), w.showCall)
		}
		snapshot := w.snapshotFiles()
		changed := changedFiles(lastSnapshot, snapshot)
		lastSnapshot = snapshot
		if len(changed) == 0 {
			continue
		}
		port, secret := w.port, w.secret
		if slices.Contains(changed, w.file) {
			err := w.readAgentFile()
			if err == nil && !w.hostEnded {
				err = w.hostAgent(ctx)
			}
			if err != nil && ctx.Err() == nil {
				w.printUnchanged(err)
			}
			changed = slices.DeleteFunc(changed, func(name string) bool { return name == w.file })
		}
		if len(changed) > 0 || port != w.port || secret != w.secret {
			changedFile := w.file
			if len(changed) > 0 {
				changedFile = changed[0]
			}
			program.stop()
			if w.programCommand() != "" {
				w.printf("%s changed; starting again", kit.EscapeLine(changedFile))
			}
			program, w.lastStatus = w.startProgram(), statusUnknown
		}
	}
}

func (w *watcher) showCall(line []byte) error {
	e, ok := kit.ParseEvent(line)
	if _, vacantID, _ := strings.Cut(kit.FieldText(e.Fields[kit.FieldPair]), ">"); !ok || vacantID == "" || vacantID != w.shortID || e.Time.Before(w.startedAt) {
		return nil
	}
	e.Fields[kit.FieldVacant] = w.name // the host may not know the name yet
	w.outputLock.Lock()
	defer w.outputLock.Unlock()
	return hostcmd.PrintEvent(w.App, &e)
}

const (
	maxWatchedFiles = 5000
	maxWatchedDepth = 5
)

func (w *watcher) snapshotFiles() map[string]string {
	// The values contain the size and modification time of a file. Generated files are skipped.
	files := map[string]string{}
	_ = filepath.WalkDir(w.dir, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(w.dir, path)
		switch {
		case err != nil:
			return nil // the file was removed concurrently
		case name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules" || d.Name() == "__pycache__" || strings.HasSuffix(d.Name(), "~")):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			if strings.Count(name, string(filepath.Separator)) >= maxWatchedDepth {
				return fs.SkipDir
			}
			return nil
		case len(files) == maxWatchedFiles:
			return fs.SkipAll
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			files[name] = fmt.Sprint(info.Size(), info.ModTime().UnixNano())
		}
		return nil
	})
	return files
}

// changedFiles returns the sorted names of new, changed and deleted files, without files that
// package managers write.
func changedFiles(before, now map[string]string) (names []string) {
	ignoredFiles := []string{"package-lock.json", "go.sum"}
	for name, state := range now {
		if before[name] != state && !slices.Contains(ignoredFiles, name) {
			names = append(names, name)
		}
	}
	for name := range before {
		if _, exists := now[name]; !exists {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
