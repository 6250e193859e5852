package callcmd

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/host/a2a/a2awire"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/client/agents"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/problem"
)

type agentCallFlags struct {
	quotedTarget                              string // agent that the person named, quoted for a shell
	filePaths                                 []string
	stream, noWait, listsTasks, listsPushes   bool
	taskID, canceledTaskID, peerSkill, cursor string
	pushURL, deletedPushID                    string
}

func (f *agentCallFlags) register(fs *pflag.FlagSet) {
	fs.BoolVar(&f.stream, "stream", false, "print the answer as it arrives")
	fs.StringArrayVar(&f.filePaths, "file", nil, "send a `FILE` with TEXT, unsigned; may be repeated")
	fs.BoolVar(&f.noWait, "no-wait", false, "print the task at once instead of the answer")
	fs.StringVar(&f.taskID, "task", "", "read the task with this `ID`, or send TEXT to it")
	fs.BoolVar(&f.listsTasks, "tasks", false, "list your tasks, newest first; --context selects the tasks of one context")
	fs.StringVar(&f.cursor, "cursor", "", "with --tasks: continue after an earlier page")
	fs.StringVar(&f.pushURL, "push", "", "ask the agent to send notifications to `URL` about the task of --task, or of TEXT")
	fs.BoolVar(&f.listsPushes, "push-list", false, "list the push configurations of --task")
	fs.StringVar(&f.deletedPushID, "push-delete", "", "delete the push configuration of --task with this `ID`")
	fs.StringVar(&f.peerSkill, "peer", "", "call the best agent of \"vacancy peers\" that has this `SKILL`")
	fs.StringVar(&f.canceledTaskID, "cancel", "", "cancel the task with this `ID`")
}

// isAnySet reports whether the person gave one of the flags, except for --peer.
func (f *agentCallFlags) isAnySet() bool {
	return f.stream || f.noWait || len(f.filePaths) > 0 || f.taskID != "" || f.canceledTaskID != "" || f.listsTasks || f.cursor != "" || f.pushURL != "" || f.listsPushes || f.deletedPushID != ""
}

func (f *agentCallFlags) check(hasText bool) error {
	switch {
	case f.cursor != "" && !f.listsTasks:
		return problem.New(problem.Usage, "--cursor: not supported without --tasks")
	case f.listsTasks && (hasText || f.taskID != "" || f.canceledTaskID != "" || f.pushURL != ""):
		return problem.New(problem.Usage, "--tasks: not supported together with TEXT, --task, --cancel or --push")
	case len(f.filePaths) > 0 && (f.listsTasks || f.canceledTaskID != "" || f.listsPushes || f.deletedPushID != ""):
		return problem.New(problem.Usage, "--file: not supported together with --tasks, --cancel, --push-list or --push-delete")
	case (f.listsPushes || f.deletedPushID != "") && (f.taskID == "" || hasText):
		return problem.New(problem.Usage, "--push-list and --push-delete: expected --task ID, and no TEXT")
	}
	return nil
}

// agentResult is the answer of an agent that was called without a signature.
type agentResult struct {
	URL        string     `json:"url"`
	Task       string     `json:"task_id,omitempty"`
	Context    string     `json:"context_id,omitempty"`
	State      task.State `json:"state,omitempty"`
	Text       string     `json:"text"`
	OtherParts int        `json:"other_parts,omitempty"` // number of parts that are not text
	CutReason  string     `json:"cut,omitempty"`         // reason why the text is incomplete
	Verified   bool       `json:"verified"`              // always false, because the answer is not signed for this caller

	isPrinted bool
}

func (r agentResult) Print(w io.Writer) {
	switch {
	case r.isPrinted:
		fmt.Fprintln(w)
	case r.Text != "":
		fmt.Fprintln(w, kit.EscapeLine(r.Text))
	}
	if r.OtherParts > 0 {
		fmt.Fprintf(w, "(%d more parts are not text: see --json)\n", r.OtherParts)
	}
	if r.Text == "" || r.State != task.Completed && r.Task != "" {
		fmt.Fprintf(w, "task %s is %s\n", kit.EscapeLine(r.Task), kit.EscapeLine(string(r.State)))
	}
}

func findAgentURL(a *kit.App, ctx context.Context, httpClient *dispatch.HTTP, f callFlags, target string) (string, error) {
	if kit.IsURL(target) {
		return target, nil
	}
	t, err := a.FindTarget(ctx, httpClient, target, f.where)
	if err != nil || t.Address != "" {
		return t.Address, err
	}
	u, err := dispatch.ParseURL(t.URL)
	if err != nil {
		return "", err
	}
	return baseURL(u), nil
}

func baseURL(u *url.URL) string {
	return outbound.ReplaceSuffix(u, "/a2a/message/send", "").String()
}

// callAgent calls an A2A agent, which need not be a vacant. The call is unsigned, except for a
// streamed call of a vacant.
func callAgent(a *kit.App, ctx context.Context, f callFlags, targetName string, words []string) error {
	if f.ask || f.reset || f.print || f.replyPath != "" {
		return problem.New(problem.Usage, "--ask, --reset, --print and --accept: supported only for signed calls of a vacant; not supported with --stream, --file, --no-wait, --task, --tasks, --cancel or --push")
	}
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	httpClient := a.HTTPTransport(f.timeout)
	address, err := findAgentURL(a, ctx, httpClient, f, targetName)
	if err != nil {
		return err
	}
	f.agent.quotedTarget = kit.ShellWord(targetName)
	cards, err := newCardCache(a, httpClient, false)
	if err != nil {
		return err
	}
	card, err := agents.FetchCard(ctx, cards, address)
	if err != nil {
		return err
	}
	agent, err := agents.NewAgent(httpClient, card)
	if err != nil {
		return err
	}
	if !card.VacantID.IsZero() {
		a.WarnIfVacantChanged(ctx, dispatch.Target{ID: card.VacantID, Address: dispatch.AddressOf(address)})
	}
	if agent.MaxPrice, err = f.search.parseMaxPrice(); err != nil {
		return err
	}
	if maxPrice := agent.MaxPrice; maxPrice != nil && card.MaxCharge > *maxPrice {
		return aboveMaxPriceError(card.Name, card.MaxCharge, *maxPrice)
	}
	if agent.BearerToken, err = a.AccountKeyFor(ctx, f.where, address); err != nil {
		return err
	}
	if err := f.agent.check(len(words) > 0); err != nil {
		return err
	}
	if len(words) == 0 && a.Piped && f.agent.taskID == "" && len(f.agent.filePaths) == 0 && f.agent.canceledTaskID == "" && !f.agent.listsTasks {
		words = []string{"-"}
	}
	text, err := callText(a, words)
	if err != nil {
		return err
	}
	parts, err := messageParts(text, f.agent.filePaths)
	if err != nil {
		return err
	}
	if f.agent.stream && f.agent.taskID == "" && f.agent.pushURL == "" && len(f.agent.filePaths) == 0 && !card.VacantID.IsZero() {
		return streamSigned(a, ctx, f, agent, httpClient, address, words)
	}
	if f.thread == lastThread {
		return problem.New(problem.Usage, "--context: %q continues the last signed call, but this call is not signed; expected a context of the agent", f.thread)
	}
	credential := "without a key"
	if agent.BearerToken != "" {
		credential = "an account's key"
	}
	a.PrintNote("%s answers %s; its answer is not verified", kit.EscapeLine(card.Name), credential)
	switch {
	case f.agent.canceledTaskID != "":
		t, err := agent.CancelTask(ctx, f.agent.canceledTaskID)
		return showTask(a, address, &t, err)
	case f.agent.listsTasks:
		return listTasks(a, ctx, f, agent, address)
	case len(parts) == 0 && f.agent.taskID != "" && (f.agent.pushURL != "" || f.agent.listsPushes || f.agent.deletedPushID != ""):
		return managePushConfigs(a, ctx, f.agent, agent, address)
	case len(parts) == 0 && f.agent.taskID != "":
		t, err := agent.GetTask(ctx, f.agent.taskID)
		return showTask(a, address, &t, err)
	case len(parts) == 0:
		return problem.New(problem.Usage, "expected TEXT for the agent, got none")
	}
	var id [16]byte
	if _, err := io.ReadFull(a.Rand, id[:]); err != nil {
		return err
	}
	q := a2awire.SendRequest{ReturnImmediately: f.agent.noWait, OutputModes: []string{"text/plain"}, Message: task.Message{
		ID: hex.EncodeToString(id[:]), Task: f.agent.taskID, Context: f.thread, Role: task.User, Parts: parts,
	}}
	if f.agent.pushURL != "" {
		q.Push = &task.PushConfig{URL: f.agent.pushURL}
	}
	if f.agent.stream {
		return streamAgent(a, ctx, f, agent, address, q)
	}
	var answer a2awire.Answer
	err = a.RunWithProgress(func() string { return kit.WaitingText(card.Name, f.timeout) }, func() (err error) {
		answer, err = agent.Send(ctx, q)
		return err
	})
	var rpcErr *a2awire.RPCError
	switch {
	case errors.As(err, &rpcErr) && rpcErr.Code == extensionRequiredCode:
		return kit.WithHint(err, "vacancy call %s TEXT    # signed, without --no-wait", f.agent.quotedTarget)
	case err != nil:
		return addKeyHint(a, ctx, err, f, address)
	}
	return showAnswer(a, address, answer)
}

// maxFileBytes limits a file in bytes. Hosts have lower limits.
const maxFileBytes = 16 << 20

func messageParts(text string, files []string) (parts []task.Part, err error) {
	if text != "" {
		parts = append(parts, task.Part{Kind: task.Text, Text: text})
	}
	for _, path := range files {
		f, err := os.Open(path)
		if err != nil {
			return nil, problem.Wrap(problem.Usage, err, "--file: %s", err)
		}
		b, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, problem.Wrap(problem.Usage, err, "--file: %s", err)
		}
		if len(b) > maxFileBytes {
			return nil, problem.New(problem.TooLarge, "--file: expected at most %d bytes, %s has more", maxFileBytes, path)
		}
		media := cmp.Or(mime.TypeByExtension(filepath.Ext(path)), http.DetectContentType(b))
		media, _, _ = strings.Cut(media, ";")
		parts = append(parts, task.Part{Kind: task.Raw, Raw: b, Filename: filepath.Base(path), MediaType: media})
	}
	return parts, nil
}

// extensionRequiredCode is the A2A error code of an agent that answers only signed messages.
const extensionRequiredCode = -32008

func showTask(a *kit.App, address string, t *task.Task, err error) error {
	if err != nil {
		return err
	}
	return showTaskResult(a, newAgentResult(address, t), t)
}

// newAgentResult returns the result of a task: the artifacts, or the status message if the task has
// no artifacts.
func newAgentResult(address string, t *task.Task) agentResult {
	r := agentResult{URL: address, Task: t.ID, Context: t.Context, State: t.Status.State}
	for i := range t.Artifacts {
		r.addParts(t.Artifacts[i].Parts)
	}
	if m := t.Status.Message; m != nil && r.Text == "" && r.OtherParts == 0 {
		r.addParts(m.Parts)
	}
	return r
}

func showAnswer(a *kit.App, address string, answer a2awire.Answer) error {
	if m := answer.Message; m != nil {
		r := agentResult{URL: address, Context: m.Context}
		r.addParts(m.Parts)
		return showAgentResult(a, r, m)
	}
	return showTaskResult(a, newAgentResult(address, answer.Task), answer.Task)
}

func showTaskResult(a *kit.App, r agentResult, t *task.Task) error {
	switch t.Status.State {
	case task.Failed, task.Rejected:
		return problem.New(problem.BehaviourFailed, "task %s is %s: %.300q", kit.EscapeLine(t.ID), t.Status.State, r.Text)
	}
	return showAgentResult(a, r, t.Status.Message)
}

func showAgentResult(a *kit.App, r agentResult, m *task.Message) error {
	if m != nil {
		if r.CutReason = a2awire.CutReason(m); r.CutReason != "" {
			a.PrintNote("%s", cutRemark(r.CutReason))
		}
	}
	return a.PrintResult(r)
}

func (r *agentResult) addParts(parts []task.Part) {
	for _, p := range parts {
		if p.Kind == task.Text {
			r.Text += p.Text
		} else {
			r.OtherParts++
		}
	}
}

// streamMessage sends a message and prints the answer as it arrives. messageAnswer is nil if the
// answer is a task.
func streamMessage(a *kit.App, ctx context.Context, agent *agents.Agent, q a2awire.SendRequest) (t task.Task, messageAnswer *a2awire.Answer, hasPrinted bool, err error) {
	err = agent.Stream(ctx, q, func(answer a2awire.Answer) bool {
		if answer.Message != nil {
			messageAnswer = &answer
			return true
		}
		t.Apply(answer.Event)
		t.ID = cmp.Or(t.ID, answer.TaskID) // a stream may begin without the task itself
		if answer.Artifact != nil && !a.JSON {
			for _, p := range answer.Artifact.Artifact.Parts {
				hasPrinted = hasPrinted || p.Text != ""
				fmt.Fprint(a.Out, a.FormatAnswer(p.Text))
			}
		}
		return true
	})
	if err == nil && messageAnswer == nil && t.Status.State == "" {
		err = problem.New(problem.Untrusted, "the agent's stream has no task and no message")
	}
	return t, messageAnswer, hasPrinted, err
}

func streamAgent(a *kit.App, ctx context.Context, f callFlags, agent *agents.Agent, address string, q a2awire.SendRequest) error {
	t, messageAnswer, hasPrinted, err := streamMessage(a, ctx, agent, q)
	if err != nil && hasPrinted {
		fmt.Fprintln(a.Out)
	}
	switch {
	case errors.Is(err, agents.ErrStreamCutOff) && t.ID != "":
		return kit.WithHint(err, "vacancy call %s --task %s", f.agent.quotedTarget, kit.ShellWord(kit.EscapeLine(t.ID)))
	case err != nil:
		return addKeyHint(a, ctx, err, f, address)
	case messageAnswer != nil:
		return showAnswer(a, address, *messageAnswer)
	}
	r := newAgentResult(address, &t)
	r.isPrinted = hasPrinted
	return showTaskResult(a, r, &t)
}

// callVacantOrAgent makes a signed call, or calls the A2A agent at the URL if the URL does not
// belong to a vacant. If the target contains a vacant's id, it makes only the signed call, because
// an impostor must not receive the text.
func callVacantOrAgent(a *kit.App, ctx context.Context, f callFlags, targetName string, words []string, hasThread bool) error {
	if len(words) == 0 && a.Piped && !f.ask && !f.reset && f.replyPath == "" {
		words = []string{"-"}
	}
	err := callTarget(a, ctx, f, targetName, words, hasThread)
	var notVacantErr kit.NotVacantError
	fallbackKinds := []problem.Kind{problem.NotFound, problem.Untrusted, problem.Forbidden, problem.Unauthorized}
	if _, hasID := dispatch.IDInPath(targetName); hasID || !errors.As(err, &notVacantErr) || !slices.Contains(fallbackKinds, problem.AsError(err).Kind) {
		return err
	}
	if _, urlErr := agents.ParseURL(targetName); urlErr != nil {
		return err
	}
	agentErr := callAgent(a, ctx, f, targetName, words)
	if errors.Is(agentErr, agents.ErrAgentCardSchemaInvalid) && problem.Is(agentErr, problem.NotFound) {
		// There is no agent at the address either.
		if _, name, ok := strings.Cut(targetName, "/v/"); ok && name != "" {
			return kit.WithHint(err, "vacancy search WORDS --registry %s", kit.ShellWord(kit.VacantHostURL(targetName)))
		}
		return err
	}
	return agentErr
}

func cardCommand(a *kit.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "card URL",
		Short: "Fetch, verify and explain the card of an A2A agent",
		Long: `Fetch the card of the A2A agent at URL, check its signatures, and show it. The agent may use
A2A 1.0 or 0.3. If the vacant that the card names has signed the card, the card is the
vacant's. If a key of the card's own host has signed the card, this proves only that the host
signed it.

This command always fetches the card. Calls reuse a fetched card while it is fresh. A card is
fresh for ten minutes, unless its server sets another time. The exit code is 6 if a signature
does not verify.`,
		Example: `  vacancy card http://127.0.0.1:8080/v/demo
  vacancy card https://agents.example.org --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			httpClient := a.HTTPTransport(0)
			cards, err := newCardCache(a, httpClient, true)
			if err != nil {
				return err
			}
			c, err := agents.FetchCard(cmd.Context(), cards, args[0])
			if err != nil {
				return err
			}
			r := agentCardResult{
				Name: c.Name, Description: c.Description, Version: c.Version, Interfaces: c.Interfaces, Skills: c.Skills, Streaming: c.Streaming, Push: c.PushNotifications,
				Signatures: c.CheckSignatures(agents.NewKeyFetcher(cmd.Context(), httpClient)),
			}
			if !c.VacantID.IsZero() {
				r.VacantID, r.Price, r.MaxPrice = c.VacantID.String(), c.PriceTerms.String(), c.MaxCharge
			}
			if err := a.PrintResult(r); err != nil {
				return err
			}
			for _, s := range r.Signatures {
				if !s.Verified {
					return problem.New(problem.Untrusted, "a signature of the card of %s does not verify: %s", kit.EscapeLine(c.Name), kit.EscapeLine(s.Reason))
				}
			}
			return nil
		},
	}
	kit.AddCAFlag(cmd.Flags())
	return cmd
}

type agentCardResult struct {
	Name        string             `json:"name"`
	Description string             `json:"description"`
	Version     string             `json:"version"`
	Interfaces  []agents.Interface `json:"interfaces"`
	Skills      []agents.Skill     `json:"skills"`
	Streaming   bool               `json:"streaming"`
	Push        bool               `json:"push_notifications"`
	VacantID    string             `json:"vacant_id,omitempty"`
	Price       string             `json:"price,omitempty"` // price of a vacant, formatted
	MaxPrice    int64              `json:"price_most"`      // maximum price of a call in micro-dollars
	Signatures  []agents.Signature `json:"signatures"`
}

func (r agentCardResult) Print(w io.Writer) {
	fmt.Fprintf(w, "%s, version %s\n  %s\n", kit.EscapeLine(r.Name), kit.EscapeLine(r.Version), kit.EscapeLine(r.Description))
	for _, i := range r.Interfaces {
		kit.PrintFields(w, "speaks", fmt.Sprintf("%s %s at %s", i.Binding, i.Version, i.URL))
	}
	for _, s := range r.Skills {
		kit.PrintFields(w, "skill", s.Name+" "+strings.Join(s.Tags, ", "))
	}
	kit.PrintFields(w, "streams", r.Streaming, "notifies", r.Push)
	if r.VacantID != "" {
		kit.PrintFields(w, "vacant", r.VacantID, "price", r.Price)
	}
	if len(r.Signatures) == 0 {
		fmt.Fprintln(w, "  not signed: the card proves nothing about its author")
	}
	if n := len(slices.DeleteFunc(slices.Clone(r.Signatures), func(s agents.Signature) bool { return !s.ByVacant })); n > 0 {
		remark := kit.FormatIf(n > 1, ", for %d ways to read the card", n)
		fmt.Fprintln(w, "  signed      by the vacant itself: "+kit.PaintVerdict(w, true, "verified")+remark)
	}
	for _, s := range r.Signatures {
		switch {
		case s.ByVacant:
		case s.Verified:
			fmt.Fprintf(w, "  signed      by key %s of its host: %s\n", kit.EscapeLine(s.KeyID), kit.PaintVerdict(w, true, "verified"))
		default:
			fmt.Fprintf(w, "  %s a signature by key %s: %s\n", kit.PaintVerdict(w, false, "NOT VERIFIED:"), kit.EscapeLine(kit.Truncate(s.KeyID, 80)), kit.EscapeLine(s.Reason))
		}
	}
}

// checkPrice returns an error if the card of a target states a price above maxPrice.
func checkPrice(ctx context.Context, httpClient *dispatch.HTTP, t dispatch.Target, maxPrice int64) error {
	price, _, err := fetchPrice(ctx, httpClient, t)
	if err != nil || price <= maxPrice {
		return err
	}
	return aboveMaxPriceError(t.Name, price, maxPrice)
}

// fetchPrice returns the maximum price of a call in micro-dollars, according to the target's A2A
// card.
func fetchPrice(ctx context.Context, httpClient *dispatch.HTTP, t dispatch.Target) (price int64, isKnown bool, err error) {
	u, err := dispatch.ParseURL(t.URL)
	if err != nil {
		return 0, false, err
	}
	c, err := agents.FetchCard(ctx, httpClient, baseURL(u))
	if err != nil || c.VacantID != t.ID {
		return 0, false, nil
	}
	return c.MaxCharge, true, nil
}

func aboveMaxPriceError(name string, price, maxPrice int64) error {
	return problem.New(problem.PriceAboveMax, "a call of %s may cost up to %s, which is more than --max-price %s; nothing was sent", kit.EscapeLine(name), money.Amount(price), money.Amount(maxPrice))
}
