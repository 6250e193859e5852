package teamcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/vacancy-host/vacancy/cmd/vacancy/acpclient"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/procgroup"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// acpFlags are the flags of commands that run an ACP agent: a program that speaks the Agent Client
// Protocol on its standard input and output.
type acpFlags struct {
	root, approval string
	env            []string
}

func (f *acpFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.root, "root", ".", "the `DIR` in which the agent works; over ACP the agent can read and write only files in DIR")
	fs.StringVar(&f.approval, "approval", "", "how the agent's permission questions are decided: default (a person decides), auto_edit, yolo or plan")
	fs.StringArrayVar(&f.env, "env", nil, "an environment variable for the agent, as `NAME` or NAME=VALUE; by default the agent gets only basic variables such as PATH and HOME")
}

func (f *acpFlags) options(a *kit.App, mode string) (o acpclient.Options, err error) {
	o = acpclient.Options{
		Root: f.root, Approval: acpclient.Approval(f.approval), Version: kit.Version(), Now: a.Now,
		Logf: func(format string, args ...any) {
			a.PrintNote("%s", kit.EscapeControls(fmt.Sprintf(format, args...), "\n\t"))
		},
	}
	if o.Approval == "" {
		o.Approval = acpclient.ApprovalDefault
	}
	if err := o.Approval.Check(); err != nil {
		return o, err
	}
	switch definition.Mode(mode) {
	case definition.ReadOnly:
		o.ReadOnly = true
	case "", definition.ReadWrite:
	default:
		return o, problem.New(problem.Usage, "--mode: expected read-write or read-only, got %.40q", mode)
	}
	if o.TerminalEnviron, err = acpclient.Environ(a.Env, nil); err != nil {
		return o, err
	}
	if o.Environ, err = acpclient.Environ(a.Env, f.env); err != nil {
		return o, err
	}
	if !a.Piped {
		o.Ask = terminalAsker(a)
	}
	return o, nil
}

// terminalAsker returns a function that asks the user until the user chooses an option or enters an
// empty line.
func terminalAsker(a *kit.App) func(context.Context, acpclient.Question) (string, error) {
	var mu sync.Mutex
	return func(ctx context.Context, q acpclient.Question) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		for {
			answer, err := a.AskLine(ctx, kit.EscapeControls(questionText(q), "\n")+"\n>")
			if option, ok := findOption(q.Options, answer); ok || err != nil || answer == "" {
				return option, err
			}
		}
	}
}

const maxTitle = 500

func questionText(q acpclient.Question) string {
	var b strings.Builder
	fmt.Fprintf(&b, "The agent asks for permission: %s\n", kit.Truncate(*q.ToolCall.Title, maxTitle))
	for i, o := range q.Options {
		fmt.Fprintf(&b, "%d. %s\n", i+1, kit.Truncate(o.Name, maxTitle))
	}
	b.WriteString("Answer with a number.")
	return b.String()
}

// findOption returns the id of the option that an answer chooses by number, by name, or by yes or
// no.
func findOption(options []acpclient.Option, answer string) (option string, ok bool) {
	answer = strings.ToLower(strings.TrimSpace(answer))
	if n, err := strconv.Atoi(answer); err == nil && n >= 1 && n <= len(options) {
		return string(options[n-1].OptionId), true
	}
	for _, o := range options {
		if answer != "" && answer == strings.ToLower(o.Name) {
			return string(o.OptionId), true
		}
	}
	for _, o := range options {
		if allows := acpclient.Allows(o); allows && (answer == "yes" || answer == "y") || !allows && (answer == "no" || answer == "n") {
			return string(o.OptionId), true
		}
	}
	return "", false
}

type localResult struct {
	Session      string   `json:"session_id"`
	Response     string   `json:"response"`
	WrittenPaths []string `json:"written_files"`
	FinishReason string   `json:"ended"` // "stop", or the reason why the response may be incomplete
	Seconds      float64  `json:"duration_seconds"`
}

// runLocal does the task with an ACP agent on this machine.
func (f *runFlags) runLocal(ctx context.Context, a *kit.App) error {
	opts, err := f.acpFlags.options(a, f.task.Mode)
	if err != nil {
		return err
	}
	opts.Command = procgroup.Shell(f.acpCommand)
	startTime := a.Now()
	agent, err := acpclient.Start(ctx, opts)
	if err != nil {
		return err
	}
	out, lastPrinted := a.Terminal(a.Out), ""
	r, err := agent.Prompt(ctx, f.task.Task, func(e acpclient.Event) error {
		if e.Text != "" && !a.JSON {
			lastPrinted = kit.EscapeControls(e.Text, "\n\t")
			fmt.Fprint(out, lastPrinted)
		}
		return nil
	})
	if lastPrinted != "" && !strings.HasSuffix(lastPrinted, "\n") {
		fmt.Fprintln(out)
	}
	if err := errors.Join(err, agent.Close()); err != nil {
		return err
	}
	for _, path := range r.WrittenPaths {
		a.PrintNote("wrote %s", kit.EscapeLine(path))
	}
	result := localResult{r.Session, r.Text, append([]string{}, r.WrittenPaths...), string(r.FinishReason), a.Now().Sub(startTime).Round(time.Millisecond).Seconds()}
	return a.Print(result, func(io.Writer) {})
}
