// Package callcmd contains the commands of a caller: call, search, route, card, peers, chain, and
// the commands for the identities that sign calls.
package callcmd

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/filecmd"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/teamcmd"
	"github.com/vacancy-host/vacancy/shared/agent/datadir"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/client/discovery"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
)

var Group = kit.Group{
	Topic: "calls",
	Title: "You and your calls:",
	Commands: func(a *kit.App) []*cobra.Command {
		return []*cobra.Command{
			callCommand(a), searchCommand(a), cardCommand(a), initCommand(a), idCommand(a), chainCommand(a), routeCommand(a),
			peersCommand(a), mcpCommand(a), acpCommand(a), discoverCommand(a),
			teamcmd.RunCommand(a), teamcmd.TaskCommand(a), teamcmd.WorkerCommand(a), teamcmd.LocksCommand(a), filecmd.Command(a),
			reviewCommand(a), reputationCommand(a),
		}
	},
}

type callFlags struct {
	identityName, thread, replyPath string
	where                           kit.HostFlags
	reset, ask, print               bool
	timeout                         time.Duration
	hasDefaultTimeout               bool // --timeout is not set, so the call waits as long as the host announces

	capability, policy string // set for a call to the best match of a search
	explain            bool
	search             searchFlags

	agent agentCallFlags // set for a call to an A2A agent
}

func callCommand(a *kit.App) *cobra.Command {
	var f callFlags
	cmd := &cobra.Command{
		Use:   "call TARGET [TEXT...] | call --capability WORDS TEXT...",
		Short: "Call a vacant and verify its answer",
		Long: `Sign TEXT, send it to TARGET, verify the answer and print it.

TARGET is a card file, the URL of a vacant, or the name or id of a vacant. A name or id
belongs to a vacant on this machine, or on --host. If TARGET fits two of these, the command
refuses it. On a remote host, only the operator key finds a closed child by its name.

If TEXT is "-", it is read from standard input, without the newline at its end. If TEXT is
missing and standard input is not a terminal, it is read from there too. TEXT has at most
260,000 bytes, as JSON counts them.

The identity of --as NAME or $VACANCY_AS signs the call. If neither is set, the default
identity signs, or the only one. If you have no identity, the command creates one named
default.

The signed call is stored before it is sent. If the answer is lost, run the same command
again: it sends the same bytes and gets the one answer. This also works after a time-out or an
interrupt. An identity makes one call to a target at a time. A second call waits for the first
one, unless --as OTHER signs it. A vacant may take up to 14 minutes. If --timeout is not
given, the command waits until the host has the answer.

An agent with memory remembers the calls of a thread. The first call of a thread prints how to
continue it. --context - continues the thread of your last signed call to TARGET. --context C
continues the thread C.

TARGET may also be the URL of any other A2A agent (1.0 or 0.3). Such a call is not signed, and
its answer is not verified. --file, --no-wait, --task, --tasks, --cancel and --push also call
a vacant without a signature. --stream signs a call of a vacant. The signed answer at the end
verifies the streamed text. If none of these flags is given, a URL with a vacant's id gets
only signed calls.

--max-price refuses a call that may cost more. The call is refused before it is sent if the
vacant's card states the price, and otherwise at the host. The limit includes what the account
pays for calls that the vacant makes to answer.

The account that is linked to the identity pays for signed calls ("vacancy account link"). The
account of the key in $VACANCY_KEY pays for --stream, --no-wait and calls of other agents. The
key is sent only to the host of --host or $VACANCY_HOST, or to this machine. If a key is set,
a signed call that costs money is refused before it is sent, unless the account of the key is
linked to the identity.

With --capability there is no TARGET. The command searches a registry for WORDS and verifies
the vacants that it finds. It calls the best one by reputation and matching words. If that
vacant is unavailable, the command calls the next one, but never while an earlier vacant may
have received the call. --explain prints the rating of each candidate. The registry sees
WORDS, not TEXT. The endpoints come from strangers, so they must be https. They must also be
outside the networks of this machine, unless the registry is on this machine.`,
		Example: `  vacancy call demo "hello"
  vacancy call https://agents.example.org/v/clerk "hello"
  vacancy call demo --as alice < question.txt
  vacancy call sage "and tomorrow?" --context -
  vacancy call demo "what is this?" --file cat.png
  vacancy call demo hi --print | curl --json @- http://127.0.0.1:8080/a2a/message/send
  vacancy call demo hi --host aws --stage prod
  vacancy call demo hi --max-price 0.002
  vacancy call https://agents.example.org/other "hello" --stream
  vacancy call https://agents.example.org/other --tasks
  vacancy call https://agents.example.org/other "hello" --no-wait --push https://me.example/hook
  vacancy call --capability "translate french" "bonjour" --max-price 0.002
  vacancy call --capability "translate french" "bonjour" --explain
  vacancy call demo --ask
  vacancy call demo --reset`,
		RunE: func(cmd *cobra.Command, args []string) error {
			changed := cmd.Flags().Changed
			f.hasDefaultTimeout = !changed("timeout")
			if changed("capability") {
				return callCapability(a, cmd.Context(), f, args, changed("context"))
			}
			for _, name := range []string{"policy", "explain", "registry", "tag", "family", "min-reputation"} {
				if changed(name) {
					return problem.New(problem.Usage, "--%s: not supported without --capability", name)
				}
			}
			if changed("peer") {
				return callPeer(a, cmd.Context(), f, args, changed("context"))
			}
			if f.agent.isAnySet() {
				return callAgent(a, cmd.Context(), f, args[0], args[1:])
			}
			return callVacantOrAgent(a, cmd.Context(), f, args[0], args[1:], changed("context"))
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.identityName, "as", "", "the identity that signs (default $VACANCY_AS, else the only one)")
	fs.StringVar(&f.thread, "context", "", "the thread of the call (contextId), or - for the thread of the last signed call")
	fs.DurationVar(&f.timeout, "timeout", kit.CallTimeout, "the maximum time to wait for the answer, even if the host announces a longer time")
	fs.BoolVar(&f.ask, "ask", false, "ask for the outcomes of earlier calls, without a new call")
	fs.BoolVar(&f.reset, "reset", false, "sign a reset, which starts a new chain with the target")
	fs.BoolVar(&f.print, "print", false, "print the signed request instead of sending it; the next call of TEXT sends it")
	fs.StringVar(&f.replyPath, "accept", "", "verify and store the answer to a printed request; the answer is in a file, or - for standard input")
	fs.StringVar(&f.capability, "capability", "", "call the best vacant that can do this")
	fs.StringVar(&f.policy, "policy", policyUCB, "how to rank: ucb (gives new vacants a chance) or score")
	fs.BoolVar(&f.explain, "explain", false, "with --capability: print the relevance, score, evidence, exploration and rating of each candidate")
	f.search.register(fs)
	f.agent.register(fs)
	kit.AddHostFlags(fs, &f.where)
	return cmd
}

// lastThread is the value of --context that continues the thread of the last call.
const lastThread = "-"

// callMessage returns the message to send and its thread. A call to an agent with memory begins a
// thread if --context is not given.
func callMessage(a *kit.App, f callFlags, words []string, hasThread, hasMemory bool) (msg envelope.Message, thread dispatch.ThreadChoice, err error) {
	text, err := callText(a, words)
	if err == nil && len(words) > 0 {
		err = checkText(text)
	}
	msg = envelope.Message{Role: envelope.RoleUser, Parts: []string{text}}
	switch {
	case hasThread && f.thread == lastThread:
		thread = dispatch.LastThread
	case hasThread:
		msg.ContextID, thread = &f.thread, dispatch.NamedThread
	case hasMemory:
		thread = dispatch.NewThread
	}
	return msg, thread, err
}

func callTarget(a *kit.App, ctx context.Context, f callFlags, targetName string, words []string, hasThread bool) error {
	if err := f.check(len(words) > 0); err != nil {
		return err
	}
	if len(words) > 0 { // an invalid text must not create an identity
		if text, err := callText(a, words); err != nil {
			return err
		} else if err := checkText(text); err != nil {
			return err
		}
	}
	maxPrice, err := f.search.parseMaxPrice()
	if err != nil {
		return err
	}
	// Find the target first. A call without a target must not create an identity.
	totalTimeout := f.timeout
	if f.hasDefaultTimeout {
		totalTimeout += 2 * maxPendingWait // time for another terminal's call and for this call
	}
	ctx, cancel := context.WithTimeout(ctx, totalTimeout)
	defer cancel()
	httpClient := a.HTTPTransport(f.timeout)
	target, err := a.FindTarget(ctx, httpClient, targetName, f.where)
	if err != nil {
		return err
	}
	if maxPrice != nil && words != nil && !f.print {
		if err := checkPrice(ctx, httpClient, target, *maxPrice); err != nil {
			return err
		}
	}
	chooseSigner := a.ChooseSigner
	if f.ask || f.replyPath != "" {
		chooseSigner = a.ChooseExistingSigner
	}
	self, err := chooseSigner(ctx, f.identityName)
	if err != nil {
		return err
	}
	earlierID := a.WarnIfVacantChanged(ctx, target)
	caller := a.NewDispatcher(self, httpClient, f.timeout)
	caller.MaxPrice = maxPrice
	if f.hasDefaultTimeout {
		caller.MaxTime, caller.MaxDueWait = f.timeout, maxPendingWait
	}
	caller.Check = newPayerCheck(a, f, self, httpClient)
	msg, thread, err := callMessage(a, f, words, hasThread, target.HasMemory)
	if err != nil {
		return err
	}
	caller.Thread = thread
	if f.print {
		body, res, err := caller.SignRequest(ctx, target, msg)
		if err != nil {
			return showCall(a, NewCallResult(self, target, res), err, nil)
		}
		// The request is a JSON object even if --json is not given.
		if _, err := a.Out.Write(append(body, '\n')); err != nil {
			return err
		}
		a.PrintNote("call %d is signed and stored. The next call of the same text sends these bytes and not a new call. To verify the answer: %s", res.Request.Seq, a.FormatCommand("call %s --accept FILE", target.Name))
		return nil
	}
	var res dispatch.Result
	switch {
	case f.ask:
		res, err = caller.Ask(ctx, target)
	case f.reset:
		res, err = caller.Reset(ctx, target)
	case f.replyPath != "":
		var body []byte
		if body, err = datadir.ReadInput(f.replyPath, a.In); err != nil {
			return err
		}
		res, err = caller.AcceptReply(ctx, target, body)
	default:
		var freshness discovery.Freshness
		err = a.RunWithProgress(describeWait(a, self, caller, &target, f.timeout), func() (err error) {
			res, freshness, err = (&discovery.Client{Caller: caller}).Call(ctx, target, msg)
			return err
		})
		if line := describeCardChange(freshness); line != "" {
			a.PrintNote("%s%s", kit.EscapeLine(target.Name), line)
		}
	}
	result := NewCallResult(self, target, res)
	result.EarlierTarget = earlierID
	result.hasNewThread = thread == dispatch.NewThread && result.Text != nil
	if err != nil {
		err = addCallHint(a, err, f, target, res.PaymentOptions)
	}
	result.printsLateOutcomes = f.ask
	printResult := answerPrinter(a, result)
	switch {
	case f.ask:
		printResult = func(w io.Writer) {
			for _, l := range result.LateOutcomes {
				fmt.Fprintln(w, l.format())
			}
			if len(result.LateOutcomes) == 0 && len(result.Undetermined) == 0 {
				fmt.Fprintln(w, "no call waits for an outcome")
			}
		}
	case f.reset:
		printResult = func(w io.Writer) { fmt.Fprintln(w, "the chain is reset: the next call is number 1") }
	}
	return showCall(a, result, err, printResult)
}

const maxPendingWait = call.MaxQueueDuration + call.MaxCallTimeout + call.GracePeriod + time.Minute

// describeWait returns a function that describes what a call is waiting for. It also makes caller
// print a note if the call must wait for a call in another terminal.
func describeWait(a *kit.App, self kit.Signer, caller *dispatch.Caller, t *dispatch.Target, timeout time.Duration) func() string {
	start := a.Now()
	var line atomic.Pointer[string]
	setLine := func(s string) { line.Store(&s) }
	setLine(kit.WaitingText(t.Name, timeout))
	caller.OnDue = func(due time.Time) { setLine(kit.WaitingText(t.Name, due.Sub(start).Round(time.Second))) }
	book := self.Book()
	book.OnWait = func(st *dispatch.State) {
		setLine("waiting for another terminal")
		blocker := "another command of yours"
		if n := len(st.Sent); n > 0 {
			runTime := a.Now().Add(st.ClockOffset).Sub(st.Sent[n-1].Time)
			blocker = fmt.Sprintf("your call %d to %s in another terminal, which has run for %s", st.Sent[n-1].Seq, kit.EscapeLine(t.Name), max(runTime, 0).Round(time.Second))
		}
		a.PrintNote("waiting for %s\ntry: %s", blocker, a.CommandLineWithFlag("--as", "OTHER"))
	}
	caller.Book = book
	return func() string { return *line.Load() }
}

func (f callFlags) check(hasText bool) error {
	var modes []string
	for name, isSet := range map[string]bool{"--ask": f.ask, "--reset": f.reset, "--accept": f.replyPath != "", "--print": f.print} {
		if isSet {
			modes = append(modes, name)
		}
	}
	switch {
	case len(modes) > 1:
		return kit.WithHint(problem.New(problem.Usage, "--ask, --reset, --print and --accept: not supported together"), "vacancy call --help")
	case f.timeout <= 0:
		return problem.New(problem.Usage, "--timeout: expected a duration above 0, got %s", f.timeout)
	case (len(modes) == 0 || f.print) && !hasText:
		return kit.WithHint(problem.New(problem.Usage, "TEXT: expected a message, for example hello, got none"), `vacancy call TARGET "TEXT"`)
	case len(modes) == 1 && !f.print && hasText:
		return problem.New(problem.Usage, "%s: not supported together with TEXT", modes[0])
	}
	return nil
}

// maxTextBytes limits the bytes of a text as a JSON string. The rest of a 256 KiB request is
// reserved for the envelope.
const maxTextBytes = 260_000

func checkText(text string) error {
	if strings.TrimSpace(text) == "" {
		return kit.WithHint(problem.New(problem.Usage, "TEXT: expected a message, for example hello, got none"), `vacancy call TARGET "TEXT"`)
	}
	if n := len(canon.AppendString(nil, text)) - 2; n > maxTextBytes {
		return problem.New(problem.TooLarge, "TEXT: expected at most %d bytes, as JSON counts them, got %d", maxTextBytes, n)
	}
	return nil
}

// callText joins the words of the command line. The word "-" stands for standard input, which is
// read only once for all agents of a command.
func callText(a *kit.App, words []string) (string, error) {
	switch {
	case len(words) != 1 || words[0] != "-":
		return strings.Join(words, " "), nil
	case a.CallText != nil:
		return *a.CallText, nil
	}
	maxBytes := canon.DefaultLimits().Bytes
	b, err := io.ReadAll(io.LimitReader(a.In, int64(maxBytes)+1))
	if err != nil {
		return "", err
	}
	if len(b) > maxBytes {
		return "", problem.New(problem.TooLarge, "standard input: expected at most %d bytes of text", maxBytes)
	}
	text := strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r")
	a.CallText = &text
	return text, nil
}
