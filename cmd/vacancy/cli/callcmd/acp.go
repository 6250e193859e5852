package callcmd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/acpbridge"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/mcpclients"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/front/teamapi"
	"github.com/vacancy-host/vacancy/shared/host/a2a/a2awire"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/client/agents"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/readproof"
)

func acpCommand(a *kit.App) *cobra.Command {
	var where kit.HostFlags
	var identityName string
	cmd := &cobra.Command{
		Use:   "acp [NAME|URL]",
		Short: "Serve a vacant to an editor by ACP",
		Long: `Serve a vacant by ACP, the Agent Client Protocol, on standard input and output, for editors
that start a program. NAME is a vacant of the host on this machine, or of --host. URL is the
URL of a vacant, or of another A2A agent. If neither is given, the agent is the one at the URL
of the host.

The caller is a guest, or the account of the key in $VACANCY_KEY. The key is sent only to the
host of --host or $VACANCY_HOST, or to this machine. If the account owns the vacant and the
key has the scopes call, agents and read, each prompt becomes a task, as with "vacancy run".
The editor may then choose the mode and the model. With --as the identity signs each call, and
each answer is verified.

A session is a context of your own tasks at the host. The editor can list and load a session
as long as the host stores its texts. Sessions of a guest end with this program. If the editor
ends during a prompt, the prompt continues at the host. Each session writes a log into
.vaultspec/logs/SESSION.log in its working directory. The log has the kinds and sizes of the
updates, but no texts.

"vacancy acp config" prints the configuration for an editor.`,
		Example: `  vacancy acp fox
  vacancy acp https://agents.example.org/v/fox
  vacancy acp fox --as alice`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			s, err := findVacantOrHost(a, ctx, kit.OptionalArgument(args), where)
			if err != nil {
				return err
			}
			c, err := newBridgeConfig(a, ctx, s, identityName, where)
			if err != nil {
				return err
			}
			if !a.Piped {
				a.PrintNote("serving %s by ACP on standard input and output; an editor should start this command; Ctrl-C ends it", kit.EscapeLine(s.agentURL()))
			}
			return acpbridge.Serve(ctx, c, a.In, a.Out)
		},
	}
	cmd.Flags().StringVar(&identityName, "as", "", "the identity that signs each call (default: calls are not signed)")
	kit.AddHostFlags(cmd.Flags(), &where)
	cmd.AddCommand(acpConfigCommand(a))
	return cmd
}

func fetchAgentCard(a *kit.App, ctx context.Context, s vacantOrHost) (*agents.Card, error) {
	card, err := agents.FetchCard(ctx, a.HTTPTransport(0), s.agentURL())
	if problem.Is(err, problem.NotFound) && s.vacantName == "" {
		return nil, kit.WithHint(err, "vacancy acp NAME, or vacancy root NAME, which sets the agent of the host itself")
	}
	return card, err
}

func requestSignatures(_ context.Context, r *outbound.Request) error {
	r.Header.Set("A2A-Extensions", a2awire.Extension)
	return nil
}

// newBridgeConfig returns the configuration of a bridge to an agent. If identityName is "", the
// caller is the account of the key in the environment, or otherwise a guest.
func newBridgeConfig(a *kit.App, ctx context.Context, s vacantOrHost, identityName string, where kit.HostFlags) (c acpbridge.Config, err error) {
	c = acpbridge.Config{Version: kit.Version(), Now: a.Now, Logf: a.PrintNote}
	if c.WorkDir, err = os.Getwd(); err != nil {
		return c, err
	}
	card, err := fetchAgentCard(a, ctx, s)
	if err != nil {
		return c, err
	}
	httpClient := a.HTTPTransport(0)
	c.VerifySignatures = verifyFunc(httpClient, card)
	if c.Agent, err = agents.NewAgent(httpClient, card); err != nil {
		return c, err
	}
	if identityName != "" {
		return c, signBridge(a, ctx, &c, s, identityName, where)
	}
	c.Agent.Prepare = requestSignatures
	c.Sender = acpbridge.UnsignedSender{Agent: c.Agent}
	client, err := a.AccountClientFor(ctx, where, s.agentURL())
	if err != nil {
		return c, err
	}
	if client == nil {
		c.IsGuest = true
		c.FindReceipt = func(context.Context, *task.Message) (any, error) { return nil, noReceiptError() }
		return c, nil
	}
	c.Agent.BearerToken = a.Env[kit.AccountKeyEnv]
	c.FindReceipt = receiptFunc(client)
	if card.VacantID.IsZero() {
		return c, nil
	}
	name := cmp.Or(s.vacantName, card.VacantID.String())
	ownedAgent, err := teamapi.ShowAgent.Key.Call(ctx, client, teamapi.AgentRef{Agent: name})
	switch {
	case isNoTeamError(err):
		return c, nil
	case err != nil:
		return c, err
	}
	c.OwnedAgent, c.Sender = &ownedAgent, acpbridge.Dispatcher{Client: client, AgentRef: name, Logf: a.PrintNote}
	// A task costs money, so check first that the key may read its answer.
	_, err = c.Agent.ListTasks(ctx, a2awire.ListRequest{PageSize: 1})
	if err == nil {
		_, err = teamapi.ListTasks.Key.Call(ctx, client, teamapi.TaskList{})
	}
	if err != nil {
		return c, kit.WithHint(err, "vacancy keys create TENANT --scope call,agents,read    # this key may also read the answers")
	}
	return c, nil
}

func signBridge(a *kit.App, ctx context.Context, c *acpbridge.Config, s vacantOrHost, identityName string, where kit.HostFlags) error {
	self, err := a.ChooseSigner(ctx, identityName)
	if err != nil {
		return err
	}
	httpClient, card := a.HTTPTransport(signedCallTimeout), c.Agent.Card
	target, err := dispatch.FetchTarget(ctx, httpClient, s.agentURL())
	switch {
	case err != nil:
		return err
	case target.ID != card.VacantID:
		return problem.New(problem.Untrusted, "the agent card at %s names vacant %s, but the vacant's own card at this URL names %s", kit.EscapeLine(s.agentURL()), card.VacantID.Short(), target.ID.Short())
	}
	target.Name = cmp.Or(s.vacantName, card.Name)
	a.WarnIfVacantChanged(ctx, target)
	sendAgent, err := agents.NewAgent(httpClient, card)
	if err != nil {
		return err
	}
	c.Agent.Prepare = func(ctx context.Context, r *outbound.Request) error {
		u, err := url.Parse(r.URL)
		if err != nil {
			return err
		}
		proof, err := readproof.Sign(ctx, self.Key, readproof.Request{Authority: u.Host, Method: r.Method, Target: u.RequestURI(), Body: r.Body}, a.Now())
		r.Header.Set(readproof.Header, proof)
		return errors.Join(err, requestSignatures(ctx, r))
	}
	caller := a.NewDispatcher(self, httpClient, signedCallTimeout)
	caller.Check = newPayerCheck(a, callFlags{identityName: identityName, where: where}, self, httpClient)
	c.Sender = acpbridge.SignedSender{Agent: sendAgent, Caller: caller, Target: target}
	c.FindReceipt = func(ctx context.Context, m *task.Message) (any, error) {
		if m == nil {
			return nil, noReceiptError()
		}
		return a.FetchReceipt(ctx, httpClient, self, target, 0)
	}
	return nil
}

func noReceiptError() error {
	return problem.New(problem.NotFound, "there is no receipt: the session has no answer yet, its last call was free, or no account paid for the call")
}

func receiptFunc(client op.Client) func(context.Context, *task.Message) (any, error) {
	return func(ctx context.Context, m *task.Message) (any, error) {
		var members map[string]json.RawMessage
		var path string
		if m == nil || json.Unmarshal(m.Metadata, &members) != nil || json.Unmarshal(members[task.ReceiptMember], &path) != nil || !strings.HasPrefix(path, call.ReceiptsPrefix) {
			return nil, noReceiptError()
		}
		var r json.RawMessage
		err := client.Call(ctx, http.MethodGet, path, nil, nil, &r)
		return r, err
	}
}

// agentProof is the answer to the extension method that verifies an agent.
type agentProof struct {
	Vacant   string             `json:"vacant,omitempty"`
	Verified bool               `json:"verified"` // the vacant signed its card
	Card     []agents.Signature `json:"card"`     // signatures of the agent card, each with its verification
	Answer   *answerProof       `json:"answer,omitempty"`
}

// answerProof reports whether the vacant signed the last answer of a session.
type answerProof struct {
	Verified bool          `json:"verified"`
	Hash     identity.Hash `json:"hash"`
}

func verifyFunc(httpClient *dispatch.HTTP, card *agents.Card) func(context.Context, *task.Message) (any, error) {
	return func(ctx context.Context, m *task.Message) (any, error) {
		p := agentProof{Card: append([]agents.Signature{}, card.CheckSignatures(agents.NewKeyFetcher(ctx, httpClient))...)}
		for _, s := range p.Card {
			p.Verified = p.Verified || s.Verified && s.ByVacant
		}
		if !card.VacantID.IsZero() {
			p.Vacant = card.VacantID.String()
		}
		if p.Vacant == "" || m == nil {
			return p, nil
		}
		p.Answer = new(answerProof)
		if e, err := a2awire.ParseEnvelope(m); err == nil && e != nil {
			hash, isSigned := e.VerifyBy(card.VacantID)
			p.Answer.Hash, p.Answer.Verified = hash, isSigned && e.From == card.VacantID
		}
		return p, nil
	}
}

func acpConfigCommand(a *kit.App) *cobra.Command {
	return newConfigCommand(a, &cobra.Command{
		Use:   "config [NAME|URL] --client CLIENT",
		Short: "Print, or write, an editor's configuration for an agent of ACP",
		Long: `Print the entry of the agent of "vacancy acp" for the configuration file of an editor: ` + strings.Join(mcpclients.ACP.Names(), ", ") + `.
NAME and URL have the meaning that they have for "vacancy acp". --write works as in "vacancy
mcp config". For neovim the file is a separate Lua module, which the settings of a plugin load.

An entry contains no key. If callers must pay, or if $VACANCY_KEY is set, the variable must be in
the environment of the editor. In this case the command prints a note.`,
		Example: `  vacancy acp config fox --client zed --write
  vacancy acp config https://agents.example.org/v/fox --client jetbrains
  vacancy acp config fox --client neovim --as alice`,
	}, mcpclients.ACP, func(ctx context.Context, _ string, s vacantOrHost, identityName string, where kit.HostFlags) (e mcpclients.Entry, url string, err error) {
		card, err := fetchAgentCard(a, ctx, s)
		if err != nil {
			return e, "", err
		}
		key, err := a.AccountKeyFor(ctx, where, s.hostURL)
		if err != nil {
			return e, "", err
		}
		if e, err = newCommandEntry(a, s, "acp", identityName); identityName == "" && (key != "" || card.MaxCharge > 0 || !card.AcceptsGuests) {
			e.KeyVariable = kit.AccountKeyEnv
		}
		return e, s.agentURL(), err
	})
}
