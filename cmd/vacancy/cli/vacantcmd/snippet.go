package vacantcmd

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/snippet"
	"github.com/vacancy-host/vacancy/shared/host/client/agents"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func snippetCommand(a *kit.App) *cobra.Command {
	var where kit.HostFlags
	var lang string
	languages := snippet.Languages()
	names := make([]string, len(languages))
	for i, l := range languages {
		names[i] = l.Name
	}
	cmd := &cobra.Command{
		Use:   "snippet VACANT|URL",
		Short: "Print a program that calls a vacant, to hand out",
		Long: `Print a complete program that calls a vacant and prints the answer, for callers that do not have
vacancy. VACANT is a vacant of your host, by name or id. URL is the address of a vacant of any
host. The card at URL says what the program needs, and must be signed by the vacant.

The first line of the program says what to install: the stock A2A client of its language, curl, or
OpenAI's client for Python. Calls that cost money need the key of an account in the variable
VACANCY_KEY; free calls need no key. If a call is refused, the program prints the reason in one
line and exits with 1. The program contains the vacant's name or id and the host's public URL, but
none of the vacant's own texts.

--lang mcp prints the entry of the vacant's MCP server for clients whose file has mcpServers, such
as .mcp.json of a project. "vacancy mcp config" knows more clients, and writes their files.`,
		Example: `  vacancy snippet demo
  vacancy snippet demo --lang python > call.py
  vacancy snippet https://agents.example.org/v/clerk/ --lang js
  vacancy snippet demo --lang mcp > .mcp.json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			i := slices.Index(names, lang)
			if i < 0 {
				return &problem.Error{Kind: problem.Usage, Field: "--lang", Want: strings.Join(names, ", "), Got: fmt.Sprintf("%.40q", lang)}
			}
			var h kit.Handout
			var err error
			if url, ok := a.PublicVacantURL(where, args[0]); ok {
				h, err = fetchHandoutByURL(a, cmd.Context(), url)
			} else {
				h, err = fetchHandout(a, cmd.Context(), where, args[0])
			}
			if err != nil {
				return err
			}
			r := snippetResult{Name: h.NameOrID(), Lang: lang, Address: h.Address}
			if r.Program, err = languages[i].Program(h); err != nil {
				return err
			}
			return a.PrintResult(r)
		},
	}
	cmd.Flags().StringVar(&lang, "lang", names[0], "the program's language: "+strings.Join(names, ", "))
	// The only error is that the flag does not exist.
	_ = cmd.RegisterFlagCompletionFunc("lang", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
	kit.AddHostFlags(cmd.Flags(), &where)
	return cmd
}

func fetchHandout(a *kit.App, ctx context.Context, where kit.HostFlags, name string) (h kit.Handout, err error) {
	err = a.WithAdmin(where, false, func(c *kit.AdminAPI) error {
		v, err := c.ShowVacant(ctx, name)
		if err != nil {
			return err
		}
		h = kit.HandoutOf(&v)
		switch {
		case v.DeletedAt != "":
			return problem.New(problem.Gone, "%s was deleted", v.Name)
		case v.Closed:
			return kit.WithHint(problem.New(problem.Forbidden, "%s is a closed child: only its parent can call it", v.Name), `vacancy graduate %s --capability "TEXT"`, v.Name)
		case v.State.IsRetired():
			return problem.New(problem.Gone, "%s is %s, so it answers no calls", v.Name, v.State)
		case h.Address == "":
			return problem.New(problem.Untrusted, "the host's answer has no URL of %s: its endpoint is %.200q", v.Name, v.Endpoint)
		case h.Curl == "":
			return kit.WithHint(problem.New(problem.Forbidden, "%s answers only signed calls, which no stock client sends", v.Name), "vacancy plain %s open", v.Name)
		}
		return nil
	})
	return h, err
}

// fetchHandoutByURL reads the card at a URL and returns the handout (the address and commands for
// callers) of its vacant. It returns an error unless the vacant signed the card and answers
// unsigned calls.
func fetchHandoutByURL(a *kit.App, ctx context.Context, url string) (h kit.Handout, err error) {
	transport := a.HTTPTransport(0)
	c, err := agents.FetchCard(ctx, transport, url)
	if err != nil {
		return h, err
	}
	if idInURL, ok := dispatch.IDInPath(url); c.VacantID.IsZero() || ok && idInURL != c.VacantID {
		return h, kit.WithHint(problem.New(problem.Untrusted, "the card at %s is not the card of this vacant", kit.EscapeLine(url)), "%s", a.FormatCommand("card %s", kit.ShellWord(url)))
	}
	if !slices.ContainsFunc(c.CheckSignatures(agents.NewKeyFetcher(ctx, transport)), func(s agents.Signature) bool { return s.ByVacant }) {
		return h, kit.WithHint(problem.New(problem.Untrusted, "the vacant did not sign the card at %s", kit.EscapeLine(url)), "%s", a.FormatCommand("card %s", kit.ShellWord(url)))
	}
	if h = kit.HandoutOfCard(url, c); h.Curl == "" {
		return h, kit.WithHint(problem.New(problem.Forbidden, "the vacant answers only signed calls, which no stock client sends"), "%s", a.FormatCommand(`call %s "hello"`, kit.ShellWord(url)))
	}
	return h, nil
}

type snippetResult struct {
	Name    string `json:"name"`
	Lang    string `json:"lang"`
	Address string `json:"address"`
	Program string `json:"program"`
}

func (r snippetResult) Print(w io.Writer) { _, _ = io.WriteString(w, r.Program) }
