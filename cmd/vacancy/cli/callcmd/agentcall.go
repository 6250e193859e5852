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
	target                        string   // agent that the person named, quoted for a shell
	files                         []string // paths
	stream, noWait, tasks, pushes bool
	task, cancel, peer, cursor    string
	push, unpush                  string
}

func (f *agentCallFlags) add(fs *pflag.FlagSet) {
	fs.BoolVar(&f.stream, "stream", false, "print the answer while it comes")
	fs.StringArrayVar(&f.files, "file", nil, "send a `FILE` with TEXT, unsigned; may be repeated")
	fs.BoolVar(&f.noWait, "no-wait", false, "print the task at once instead of the answer")
	fs.StringVar(&f.task, "task", "", "read the task with this `ID`, or send TEXT to it")
	fs.BoolVar(&f.tasks, "tasks", false, "list your tasks, newest first; --context selects the tasks of one context")
	fs.StringVar(&f.cursor, "cursor", "", "with --tasks: continue after an earlier page")
	fs.StringVar(&f.push, "push", "", "have the agent notify `URL` of the task of --task, or of TEXT")
	fs.BoolVar(&f.pushes, "push-list", false, "list the push configurations of --task")
	fs.StringVar(&f.unpush, "push-delete", "", "delete the push configuration of --task with this `ID`")
	fs.StringVar(&f.peer, "peer", "", "call the best agent of \"vacancy peers\" that has this `SKILL`")
	fs.StringVar(&f.cancel, "cancel", "", "cancel the task with this `ID`")
}

// set reports whether the person gave one of the flags, except for --peer.
func (f *agentCallFlags) set() bool {
	return f.stream || f.noWait || len(f.files) > 0 || f.task != "" || f.cancel != "" || f.tasks || f.cursor != "" || f.push != "" || f.pushes || f.unpush != ""
}

func (f *agentCallFlags) check(text bool) error {
	switch {
	case f.cursor != "" && !f.tasks:
		return problem.New(problem.Usage, "--cursor: not supported without --tasks")
	case f.tasks && (text || f.task != "" || f.cancel != "" || f.push != ""):
		return problem.New(problem.Usage, "--tasks: not supported together with TEXT, --task, --cancel or --push")
	case len(f.files) > 0 && (f.tasks || f.cancel != "" || f.pushes || f.unpush != ""):
		return problem.New(problem.Usage, "--file: not supported together with --tasks, --cancel, --push-list or --push-delete")
	case (f.pushes || f.unpush != "") && (f.task == "" || text):
		return problem.New(problem.Usage, "--push-list and --push-delete: expected --task ID, and no TEXT")
	}
	return nil
}

// agentResult is the answer of an agent that was called without a signature.
type agentResult struct {
	URL      string     `json:"url"`
	Task     string     `json:"task_id,omitempty"`
	Context  string     `json:"context_id,omitempty"`
	State    task.State `json:"state,omitempty"`
	Text     string     `json:"text"`
	Parts    int        `json:"other_parts,omitempty"` // number of parts that are not text
	Cut      string     `json:"cut,omitempty"`         // reason why the text is incomplete
	Verified bool       `json:"verified"`              // always false, because the answer is not signed for this caller

	streamed bool // the text was already printed
}

func (r agentResult) Print(w io.Writer) {
	switch {
	case r.streamed:
		fmt.Fprintln(w)
	case r.Text != "":
		fmt.Fprintln(w, kit.Printable(r.Text))
	}
	if r.Parts > 0 {
		fmt.Fprintf(w, "(%d more parts are not text: see --json)\n", r.Parts)
	}
	if r.Text == "" || r.State != task.Completed && r.Task != "" {
		fmt.Fprintf(w, "task %s is %s\n", kit.Printable(r.Task), kit.Printable(string(r.State)))
	}
}

func agentURL(a *kit.App, ctx context.Context, web *dispatch.HTTP, f callFlags, what string) (string, error) {
	if kit.IsURL(what) {
		return what, nil
	}
	t, err := a.Target(ctx, web, what, f.where)
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
func callAgent(a *kit.App, ctx context.Context, f callFlags, what string, words []string) error {
	if f.ask || f.reset || f.print || f.accept != "" {
		return problem.New(problem.Usage, "--ask, --reset, --print and --accept: supported only for signed calls of a vacant, and not together with --stream, --file, --no-wait, --task, --tasks, --cancel or --push")
	}
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	web := a.HTTP(f.timeout)
	address, err := agentURL(a, ctx, web, f, what)
	if err != nil {
		return err
	}
	f.agent.target = kit.ShellWord(what)
	cards, err := cards(a, web, false)
	if err != nil {
		return err
	}
	card, err := agents.FetchCard(ctx, cards, address)
	if err != nil {
		return err
	}
	agent, err := agents.Open(web, card)
	if err != nil {
		return err
	}
	if !card.VacantID.IsZero() {
		a.Revisit(ctx, dispatch.Target{ID: card.VacantID, Address: dispatch.AddressOf(address)})
	}
	if agent.MaxPrice, err = f.find.most(); err != nil {
		return err
	}
	if maxPrice := agent.MaxPrice; maxPrice != nil && card.Price > *maxPrice {
		return tooDear(card.Name, card.Price, *maxPrice)
	}
	if agent.Key, err = a.AccountKeyFor(ctx, f.where, address); err != nil {
		return err
	}
	if err := f.agent.check(len(words) > 0); err != nil {
		return err
	}
	if len(words) == 0 && a.Piped && f.agent.task == "" && len(f.agent.files) == 0 && f.agent.cancel == "" && !f.agent.tasks {
		words = []string{"-"}
	}
	text, err := callText(a, words)
	if err != nil {
		return err
	}
	parts, err := messageParts(text, f.agent.files)
	if err != nil {
		return err
	}
	if f.agent.stream && f.agent.task == "" && f.agent.push == "" && len(f.agent.files) == 0 && !card.VacantID.IsZero() {
		return streamSigned(a, ctx, f, agent, web, address, words)
	}
	if f.thread == lastThread {
		return problem.New(problem.Usage, "--context: expected a context of the agent for a call without a signature, got %q, which continues the last signed call", f.thread)
	}
	how := "without a key"
	if agent.Key != "" {
		how = "an account's key"
	}
	a.Note("%s answers %s; its answer is not verified", kit.Printable(card.Name), how)
	switch {
	case f.agent.cancel != "":
		t, err := agent.Cancel(ctx, f.agent.cancel)
		return showTask(a, address, &t, err)
	case f.agent.tasks:
		return listTasks(a, ctx, f, agent, address)
	case len(parts) == 0 && f.agent.task != "" && (f.agent.push != "" || f.agent.pushes || f.agent.unpush != ""):
		return changePushes(a, ctx, f.agent, agent, address)
	case len(parts) == 0 && f.agent.task != "":
		t, err := agent.Get(ctx, f.agent.task)
		return showTask(a, address, &t, err)
	case len(parts) == 0:
		return problem.New(problem.Usage, "expected TEXT for the agent, got none")
	}
	var id [16]byte
	if _, err := io.ReadFull(a.Rand, id[:]); err != nil {
		return err
	}
	q := a2awire.SendRequest{ReturnImmediately: f.agent.noWait, OutputModes: []string{"text/plain"}, Message: task.Message{
		ID: hex.EncodeToString(id[:]), Task: f.agent.task, Context: f.thread, Role: task.User, Parts: parts,
	}}
	if f.agent.push != "" {
		q.Push = &task.PushConfig{URL: f.agent.push}
	}
	if f.agent.stream {
		return streamAgent(a, ctx, f, agent, address, q)
	}
	var answer a2awire.Answer
	err = a.Await(func() string { return kit.Waiting(card.Name, f.timeout) }, func() (err error) {
		answer, err = agent.Send(ctx, q)
		return err
	})
	var fault *a2awire.RPCError
	switch {
	case errors.As(err, &fault) && fault.Code == extensionRequired:
		return kit.WithHint(err, "vacancy call %s TEXT    # signed, without --no-wait", f.agent.target)
	case err != nil:
		return keyHint(a, ctx, err, f, address)
	}
	return showAgent(a, address, answer)
}

// maxFile limits a file in bytes. Hosts have lower limits.
const maxFile = 16 << 20

func messageParts(text string, files []string) (parts []task.Part, err error) {
	if text != "" {
		parts = append(parts, task.Part{Kind: task.Text, Text: text})
	}
	for _, path := range files {
		f, err := os.Open(path)
		if err != nil {
			return nil, problem.Wrap(problem.Usage, err, "--file: %s", err)
		}
		b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, problem.Wrap(problem.Usage, err, "--file: %s", err)
		}
		if len(b) > maxFile {
			return nil, problem.New(problem.TooLarge, "--file: expected at most %d bytes, %s has more", maxFile, path)
		}
		media := cmp.Or(mime.TypeByExtension(filepath.Ext(path)), http.DetectContentType(b))
		media, _, _ = strings.Cut(media, ";")
		parts = append(parts, task.Part{Kind: task.Raw, Raw: b, Filename: filepath.Base(path), MediaType: media})
	}
	return parts, nil
}

// extensionRequired is the A2A error code of an agent that answers only signed messages.
const extensionRequired = -32008

func showTask(a *kit.App, address string, t *task.Task, err error) error {
	if err != nil {
		return err
	}
	return endAgent(a, newAgentResult(address, t), t)
}

// newAgentResult returns the result of a task. The answer consists of the task's artifacts, or of
// its status message if it has no artifacts.
func newAgentResult(address string, t *task.Task) agentResult {
	r := agentResult{URL: address, Task: t.ID, Context: t.Context, State: t.Status.State}
	for i := range t.Artifacts {
		r.take(t.Artifacts[i].Parts)
	}
	if m := t.Status.Message; m != nil && r.Text == "" && r.Parts == 0 {
		r.take(m.Parts)
	}
	return r
}

func showAgent(a *kit.App, address string, answer a2awire.Answer) error {
	if m := answer.Message; m != nil {
		r := agentResult{URL: address, Context: m.Context}
		r.take(m.Parts)
		return showPart(a, r, m)
	}
	return endAgent(a, newAgentResult(address, answer.Task), answer.Task)
}

// endAgent prints a task. It returns an error if the task has failed.
func endAgent(a *kit.App, r agentResult, t *task.Task) error {
	switch t.Status.State {
	case task.Failed, task.Rejected:
		return problem.New(problem.BehaviourFailed, "task %s is %s: %.300q", kit.Printable(t.ID), t.Status.State, r.Text)
	}
	return showPart(a, r, t.Status.Message)
}

// showPart prints an answer, and a remark if the message reports that the answer is incomplete.
func showPart(a *kit.App, r agentResult, m *task.Message) error {
	if m != nil {
		if r.Cut = a2awire.IncompleteReason(m); r.Cut != "" {
			a.Note("%s", cutRemark(r.Cut))
		}
	}
	return a.Show(r)
}

func (r *agentResult) take(parts []task.Part) {
	for _, p := range parts {
		if p.Kind == task.Text {
			r.Text += p.Text
		} else {
			r.Parts++
		}
	}
}

// stream sends a message and prints the text of artifacts as it arrives. The answer is a task, or a
// message without a task, which is returned as bare.
func stream(a *kit.App, ctx context.Context, agent *agents.Agent, q a2awire.SendRequest) (t task.Task, bare *a2awire.Answer, printed bool, err error) {
	err = agent.Stream(ctx, q, func(answer a2awire.Answer) bool {
		if answer.Message != nil {
			bare = &answer
			return true
		}
		t.Apply(answer.Event)
		t.ID = cmp.Or(t.ID, answer.TaskID) // a stream may begin without the task itself
		if answer.Artifact != nil && !a.JSON {
			for _, p := range answer.Artifact.Artifact.Parts {
				printed = printed || p.Text != ""
				fmt.Fprint(a.Out, a.AnswerText(p.Text))
			}
		}
		return true
	})
	if err == nil && bare == nil && t.Status.State == "" {
		err = problem.New(problem.Untrusted, "the agent's stream has no task and no message")
	}
	return t, bare, printed, err
}

func streamAgent(a *kit.App, ctx context.Context, f callFlags, agent *agents.Agent, address string, q a2awire.SendRequest) error {
	t, bare, printed, err := stream(a, ctx, agent, q)
	if err != nil && printed {
		fmt.Fprintln(a.Out)
	}
	switch {
	case errors.Is(err, agents.ErrStreamCutOff) && t.ID != "":
		return kit.WithHint(err, "vacancy call %s --task %s", f.agent.target, kit.ShellWord(kit.Printable(t.ID)))
	case err != nil:
		return keyHint(a, ctx, err, f, address)
	case bare != nil:
		return showAgent(a, address, *bare)
	}
	r := newAgentResult(address, &t)
	r.streamed = printed
	return endAgent(a, r, &t)
}

// callVacantOrAgent makes a signed call. If a URL turns out not to belong to a vacant, it calls the
// agent at the URL. If the target contains a vacant's id, only a signed call is made, so that an
// impostor receives no text.
func callVacantOrAgent(a *kit.App, ctx context.Context, f callFlags, what string, words []string, threaded bool) error {
	if len(words) == 0 && a.Piped && !f.ask && !f.reset && f.accept == "" {
		words = []string{"-"}
	}
	err := callTarget(a, ctx, f, what, words, threaded)
	var not kit.NotVacantError
	noCard := []problem.Kind{problem.NotFound, problem.Untrusted, problem.Forbidden, problem.Unauthorized}
	if _, vacant := dispatch.IDInPath(what); vacant || !errors.As(err, &not) || !slices.Contains(noCard, problem.AsError(err).Kind) {
		return err
	}
	if _, refused := agents.CheckURL(what); refused != nil {
		return err
	}
	agentErr := callAgent(a, ctx, f, what, words)
	if errors.Is(agentErr, agents.ErrAgentCardSchemaInvalid) && problem.Is(agentErr, problem.NotFound) {
		// There is no agent at the address either.
		if _, name, ok := strings.Cut(what, "/v/"); ok && name != "" {
			return kit.WithHint(err, "vacancy search WORDS --registry %s", kit.ShellWord(kit.HostOf(what)))
		}
		return err
	}
	return agentErr
}

func cardCommand(a *kit.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "card URL",
		Short: "Fetch, verify and explain the card of an A2A agent",
		Long: `Fetch the card of the agent at URL, of A2A 1.0 or 0.3, check its signatures, and show it.
A signature by the vacant that the card names proves that the card is the vacant's. A
signature by a key of the card's own host proves only that the host signed it.

The command always fetches the card; calls use a fetched card while it is fresh, ten minutes
unless its server says otherwise. It exits with 6 if a signature does not verify.`,
		Example: `  vacancy card http://127.0.0.1:8080/v/demo
  vacancy card https://agents.example.org --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			web := a.HTTP(0)
			cards, err := cards(a, web, true)
			if err != nil {
				return err
			}
			c, err := agents.FetchCard(cmd.Context(), cards, args[0])
			if err != nil {
				return err
			}
			r := agentCardResult{
				Name: c.Name, Description: c.Description, Version: c.Version, Interfaces: c.Interfaces, Skills: c.Skills, Streaming: c.Streaming, Push: c.Push,
				Signatures: c.Signatures(agents.FetchKeys(cmd.Context(), web)),
			}
			if !c.VacantID.IsZero() {
				r.VacantID, r.Price, r.Most = c.VacantID.String(), c.Terms.String(), c.Price
			}
			if err := a.Show(r); err != nil {
				return err
			}
			for _, s := range r.Signatures {
				if !s.Verified {
					return problem.New(problem.Untrusted, "a signature of the card of %s does not verify: %s", kit.Printable(c.Name), kit.Printable(s.Reason))
				}
			}
			return nil
		},
	}
	kit.CAFlag(cmd.Flags())
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
	Most        int64              `json:"price_most"`      // maximum price of a call in micro-dollars
	Signatures  []agents.Signature `json:"signatures"`
}

func (r agentCardResult) Print(w io.Writer) {
	fmt.Fprintf(w, "%s, version %s\n  %s\n", kit.Printable(r.Name), kit.Printable(r.Version), kit.Printable(r.Description))
	for _, i := range r.Interfaces {
		kit.Members(w, "speaks", fmt.Sprintf("%s %s at %s", i.Binding, i.Version, i.URL))
	}
	for _, s := range r.Skills {
		kit.Members(w, "skill", s.Name+" "+strings.Join(s.Tags, ", "))
	}
	kit.Members(w, "streams", r.Streaming, "notifies", r.Push)
	if r.VacantID != "" {
		kit.Members(w, "vacant", r.VacantID, "price", r.Price)
	}
	if len(r.Signatures) == 0 {
		fmt.Fprintln(w, "  not signed: anybody who answers for this address could have written it")
	}
	if n := len(slices.DeleteFunc(slices.Clone(r.Signatures), func(s agents.Signature) bool { return !s.Vacant })); n > 0 {
		ways := kit.FormatIf(n > 1, ", for %d ways to read the card", n)
		fmt.Fprintln(w, "  signed      by the vacant itself: "+kit.Verdict(w, true, "verified")+ways)
	}
	for _, s := range r.Signatures {
		switch {
		case s.Vacant:
		case s.Verified:
			fmt.Fprintf(w, "  signed      by key %s of its host: %s\n", kit.Printable(s.Key), kit.Verdict(w, true, "verified"))
		default:
			fmt.Fprintf(w, "  %s a signature by key %s: %s\n", kit.Verdict(w, false, "NOT VERIFIED:"), kit.Printable(kit.Clip(s.Key, 80)), kit.Printable(s.Reason))
		}
	}
}

// checkPrice returns an error if the card of a target states a price above maxPrice. For a target
// without an A2A card, it leaves the check to the host.
func checkPrice(ctx context.Context, web *dispatch.HTTP, t dispatch.Target, maxPrice int64) error {
	price, _, err := priceOf(ctx, web, t)
	if err != nil || price <= maxPrice {
		return err
	}
	return tooDear(t.Name, price, maxPrice)
}

// priceOf returns the maximum price of a call in micro-dollars, according to the target's A2A card.
// isKnown is false if the target has no such card.
func priceOf(ctx context.Context, web *dispatch.HTTP, t dispatch.Target) (price int64, isKnown bool, err error) {
	u, err := dispatch.ParseURL(t.URL)
	if err != nil {
		return 0, false, err
	}
	c, err := agents.FetchCard(ctx, web, baseURL(u))
	if err != nil || c.VacantID != t.ID {
		return 0, false, nil
	}
	return c.Price, true, nil
}

func tooDear(name string, price, maxPrice int64) error {
	return problem.New(problem.PriceAboveMax, "a call of %s costs up to %s, more than --max-price %s; nothing was sent", kit.Printable(name), money.Amount(price), money.Amount(maxPrice))
}
