package cli

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vacancy-host/vacancy/shared/host/a2a/a2awire"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/client/agents"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// notVacantError is why a URL is not a vacant's. It may be another agent's.
type notVacantError struct{ cause error }

func (e notVacantError) Error() string { return e.cause.Error() }

func (e notVacantError) Unwrap() error { return e.cause }

// agentCallFlags are the flags of a call to any agent of A2A.
type agentCallFlags struct {
	stream, noWait     bool
	task, cancel, peer string
}

func (f *agentCallFlags) add(fs *pflag.FlagSet) {
	fs.BoolVar(&f.stream, "stream", false, "of an agent's URL: print the answer while it comes")
	fs.BoolVar(&f.noWait, "no-wait", false, "of an agent's URL: print the task at once, and not the answer")
	fs.StringVar(&f.task, "task", "", "of an agent's URL: read the task with this `ID`, or send it TEXT")
	fs.StringVar(&f.peer, "peer", "", "call the best agent of \"vacancy peers\" that has this `SKILL`")
	fs.StringVar(&f.cancel, "cancel", "", "of an agent's URL: cancel the task with this `ID`")
}

// set reports whether one of the flags is.
func (f *agentCallFlags) set() bool {
	return f.stream || f.noWait || f.task != "" || f.cancel != ""
}

// agentResult is the answer of an agent that is called without a key.
type agentResult struct {
	URL      string     `json:"url"`
	Task     string     `json:"task_id,omitempty"`
	Context  string     `json:"context_id,omitempty"`
	State    task.State `json:"state,omitempty"`
	Text     string     `json:"text"`
	Parts    int        `json:"other_parts,omitempty"` // that are no text
	Cut      string     `json:"cut,omitempty"`         // why the text is only a part of the answer
	Verified bool       `json:"verified"`              // never: the answer is not signed for this caller

	streamed bool // the text is printed already
}

func (r agentResult) text(w io.Writer) {
	switch {
	case r.streamed:
		fmt.Fprintln(w)
	case r.Text != "":
		fmt.Fprintln(w, printable(r.Text))
	}
	if r.Parts > 0 {
		fmt.Fprintf(w, "(and %d parts that are no text: see --json)\n", r.Parts)
	}
	if r.Text == "" || r.State != task.Completed && r.Task != "" {
		fmt.Fprintf(w, "task %s is %s\n", printable(r.Task), printable(string(r.State)))
	}
}

// callAgent calls an agent of A2A that need not be a vacant, without a key; but the
// stream of a vacant is a signed call.
func (a *app) callAgent(ctx context.Context, f callFlags, at string, words []string) error {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	web := dispatch.NewHTTP(dispatch.HTTPOptions{Timeout: f.timeout})
	cards, err := a.cards(web, false)
	if err != nil {
		return err
	}
	card, err := agents.FetchCard(ctx, cards, at)
	if err != nil {
		return err
	}
	agent, err := agents.Open(web, card)
	if err != nil {
		return err
	}
	if agent.MaxPrice, err = f.find.most(); err != nil {
		return err
	}
	if most := agent.MaxPrice; most != nil && card.Price > *most {
		return tooDear(card.Name, card.Price, *most)
	}
	if agent.Key, err = a.accountKeyFor(ctx, f.where, at); err != nil {
		return err
	}
	if len(words) == 0 && a.piped && f.agent.task == "" && f.agent.cancel == "" {
		words = []string{"-"}
	}
	text, err := a.callText(words)
	if err != nil {
		return err
	}
	if f.agent.stream && f.agent.task == "" && !card.VacantID.IsZero() {
		return a.streamSigned(ctx, f, agent, web, at, words)
	}
	how := "without a key"
	if agent.Key != "" {
		how = "an account's key"
	}
	a.note("%s answers %s; nothing of its answer is verified", printable(card.Name), how)
	switch {
	case f.agent.cancel != "":
		t, err := agent.Cancel(ctx, f.agent.cancel)
		return a.showTask(at, &t, err)
	case text == "" && f.agent.task != "":
		t, err := agent.Get(ctx, f.agent.task)
		return a.showTask(at, &t, err)
	case text == "":
		return problem.New(problem.Usage, "expected TEXT for the agent, got none")
	}
	var id [16]byte
	if _, err := io.ReadFull(a.rand, id[:]); err != nil {
		return err
	}
	q := a2awire.SendRequest{Immediately: f.agent.noWait, OutputModes: []string{"text/plain"}, Message: task.Message{
		ID: hex.EncodeToString(id[:]), Task: f.agent.task, Context: f.thread, Role: task.User, Parts: []task.Part{{Kind: task.Text, Text: text}},
	}}
	if f.agent.stream {
		return a.streamAgent(ctx, agent, at, q)
	}
	answer, err := agent.Send(ctx, q)
	var fault *a2awire.RPCError
	switch {
	case errors.As(err, &fault) && fault.Code == extensionRequired:
		return withHint(err, "vacancy call %s TEXT    # signed, without --no-wait", at)
	case err != nil:
		return err
	}
	return a.showAgent(at, answer)
}

// extensionRequired is A2A's code for an agent that answers signed messages alone.
const extensionRequired = -32008

// showTask prints a task that was read.
func (a *app) showTask(at string, t *task.Task, err error) error {
	if err != nil {
		return err
	}
	return a.endAgent(agentResult{URL: at}, t)
}

// showAgent prints an answer; a task that failed is an error.
func (a *app) showAgent(at string, answer a2awire.Answer) error {
	r := agentResult{URL: at}
	if m := answer.Message; m != nil {
		r.Context = m.Context
		r.take(m.Parts)
		return a.showPart(r, m)
	}
	return a.endAgent(r, answer.Task)
}

// endAgent prints a task. Its artifacts are the answer, else the message of its status.
func (a *app) endAgent(r agentResult, t *task.Task) error {
	r.Task, r.Context, r.State = t.ID, t.Context, t.Status.State
	for i := range t.Artifacts {
		r.take(t.Artifacts[i].Parts)
	}
	if m := t.Status.Message; m != nil && r.Text == "" && r.Parts == 0 {
		r.take(m.Parts)
	}
	switch t.Status.State {
	case task.Failed, task.Rejected:
		return problem.New(problem.BehaviourFailed, "task %s is %s: %.300q", printable(t.ID), t.Status.State, r.Text)
	}
	return a.showPart(r, t.Status.Message)
}

// showPart prints an answer, and a remark if its message says that it is only a part.
func (a *app) showPart(r agentResult, m *task.Message) error {
	if m != nil {
		if r.Cut = a2awire.Cut(m); r.Cut != "" {
			a.note("%s", cutRemark(r.Cut))
		}
	}
	return a.show(r)
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

// stream sends a message and prints the text of artifacts while it comes. The answer is a
// task, or bare.
func (a *app) stream(ctx context.Context, agent *agents.Agent, q a2awire.SendRequest) (t task.Task, bare *a2awire.Answer, printed bool, err error) {
	err = agent.Stream(ctx, q, func(answer a2awire.Answer) bool {
		if answer.Message != nil {
			bare = &answer
			return true
		}
		t.Apply(answer.Event)
		t.ID = cmp.Or(t.ID, answer.TaskID) // a stream may begin without the task itself
		if answer.Artifact != nil && !a.json {
			for _, p := range answer.Artifact.Artifact.Parts {
				printed = printed || p.Text != ""
				fmt.Fprint(a.out, printable(p.Text))
			}
		}
		return true
	})
	if err == nil && bare == nil && t.Status.State == "" {
		err = problem.New(problem.Untrusted, "the agent's stream has no task and no message")
	}
	return t, bare, printed, err
}

func (a *app) streamAgent(ctx context.Context, agent *agents.Agent, at string, q a2awire.SendRequest) error {
	t, bare, printed, err := a.stream(ctx, agent, q)
	if err != nil && printed {
		fmt.Fprintln(a.out)
	}
	switch {
	case errors.Is(err, agents.ErrStreamCutOff) && t.ID != "":
		return withHint(err, "vacancy call %s --task %s", at, shellWord(printable(t.ID)))
	case err != nil:
		return err
	case bare != nil:
		return a.showAgent(at, *bare)
	}
	return a.endAgent(agentResult{URL: at, streamed: printed}, &t)
}

// callVacantOrAgent makes a signed call, and calls an agent if a URL turns out not to be
// a vacant's. What names a vacant by its id is called by a signed call or not at all:
// whoever answers in its place gets no text.
func (a *app) callVacantOrAgent(ctx context.Context, f callFlags, what string, words []string, threaded bool) error {
	if len(words) == 0 && a.piped && !f.ask && !f.reset && f.accept == "" {
		words = []string{"-"}
	}
	err := a.call(ctx, f, what, words, threaded)
	var not notVacantError
	if _, vacant := dispatch.IDInPath(what); vacant || !errors.As(err, &not) || !noCard(problem.Of(err).Kind) {
		return err
	}
	if _, refused := agents.CheckURL(what); refused != nil {
		return err
	}
	instead := a.callAgent(ctx, f, what, words)
	if errors.Is(instead, agents.ErrAgentCardSchemaInvalid) && problem.Is(instead, problem.NotFound) {
		return err // there is no agent, either
	}
	return instead
}

// noCard reports whether an answer to the request for a vacant's card says that the URL
// has none.
func noCard(k problem.Kind) bool {
	return k == problem.NotFound || k == problem.Untrusted || k == problem.Forbidden || k == problem.Unauthorized
}

func (a *app) cardCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "card URL",
		Short: "Fetch, verify and explain the card of an agent of A2A",
		Long: `Fetch the card of the agent at URL, of A2A 1.0 or 0.3, check its signatures, and say what
it says. A signature by the vacant that the card names proves that the card is the
vacant's; one by a key of the card's own host proves no more than that host.

It fetches the card again; calls use it while it is fresh, ten minutes if its server does
not say. It exits with 6 if a signature does not verify.`,
		Example: `  vacancy card http://127.0.0.1:8080/v/demo
  vacancy card https://agents.example.org --json`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.card(cmd.Context(), args[0]) },
	}
}

// agentCardResult is a card for people.
type agentCardResult struct {
	Name        string             `json:"name"`
	Description string             `json:"description"`
	Version     string             `json:"version"`
	Interfaces  []agents.Interface `json:"interfaces"`
	Skills      []agents.Skill     `json:"skills"`
	Streaming   bool               `json:"streaming"`
	Push        bool               `json:"push_notifications"`
	VacantID    string             `json:"vacant_id,omitempty"`
	Signatures  []agents.Signature `json:"signatures"`
}

func (r agentCardResult) text(w io.Writer) {
	fmt.Fprintf(w, "%s, version %s\n  %s\n", printable(r.Name), printable(r.Version), printable(r.Description))
	for _, i := range r.Interfaces {
		fmt.Fprintf(w, "  speaks      %s %s at %s\n", printable(i.Binding), printable(i.Version), printable(i.URL))
	}
	for _, s := range r.Skills {
		fmt.Fprintf(w, "  skill       %s %s\n", printable(s.Name), printable(strings.Join(s.Tags, ", ")))
	}
	fmt.Fprintf(w, "  streams     %v\n  notifies    %v\n", r.Streaming, r.Push)
	if r.VacantID != "" {
		fmt.Fprintf(w, "  vacant      %s\n", r.VacantID)
	}
	if len(r.Signatures) == 0 {
		fmt.Fprintln(w, "  not signed: anybody who answers for this address could have written it")
	}
	for _, s := range r.Signatures {
		switch {
		case s.Vacant:
			fmt.Fprintln(w, "  signed      by the vacant itself: verified")
		case s.Verified:
			fmt.Fprintf(w, "  signed      by key %s of its host: verified\n", printable(s.Key))
		default:
			fmt.Fprintf(w, "  NOT VERIFIED: a signature by key %s: %s\n", printable(clip(s.Key, 80)), printable(s.Reason))
		}
	}
}

func (a *app) card(ctx context.Context, at string) error {
	web := dispatch.NewHTTP(dispatch.HTTPOptions{})
	cards, err := a.cards(web, true)
	if err != nil {
		return err
	}
	c, err := agents.FetchCard(ctx, cards, at)
	if err != nil {
		return err
	}
	r := agentCardResult{
		Name: c.Name, Description: c.Description, Version: c.Version, Interfaces: c.Interfaces, Skills: c.Skills, Streaming: c.Streaming, Push: c.Push,
		Signatures: c.Signatures(agents.FetchKeys(ctx, web)),
	}
	if !c.VacantID.IsZero() {
		r.VacantID = c.VacantID.String()
	}
	if err := a.show(r); err != nil {
		return err
	}
	for _, s := range r.Signatures {
		if !s.Verified {
			return problem.New(problem.Untrusted, "a signature of the card of %s does not verify: %s", printable(c.Name), printable(s.Reason))
		}
	}
	return nil
}
