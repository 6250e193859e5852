// Package vacantcmd contains the commands for the vacants of a host: their lifecycle, settings,
// agents, secrets and publications.
package vacantcmd

import (
	"cmp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/agent/datadir"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/host/substrate/plan"
	"github.com/vacancy-host/vacancy/shared/problem"
)

var Group = kit.Group{
	Topic: "vacants",
	Title: "Vacants:",
	Commands: func(a *kit.App) []*cobra.Command {
		return append(stateCommands(a),
			createCommand(a), listCommand(a), showCommand(a), snippetCommand(a), updateCommand(a), keylessAccessCommand(a), rootVacantCommand(a),
			publishCommand(a), unpublishCommand(a), removeCommand(a), deleteCommand(a), revokeCommand(a), exportCommand(a),
			agentsCommand(a), forgetCommand(a), eraseClaimCommand(a), secretCommand(a), namesCommand(a), modelsCommand(a), budgetCommand(a),
		)
	},
}

func createCommand(a *kit.App) *cobra.Command {
	var where kit.HostFlags
	var capability, substrate, tenant, importPath, seedPath string
	var agent AgentFlags
	var noCheck bool
	cmd := &cobra.Command{
		Use:   "create [NAME] [work=TIME]",
		Short: "Host a new or an imported vacant",
		Long: `Host a vacant with a new key. With --import, the vacant gets the key, logbook and chains of an
export, a seed or a reference home. The host stores the key encrypted. The vacant takes calls at
once, in the state LOCAL. The last lines of the output are its address, to hand out, and a curl
command that calls it. "vacancy snippet" prints a complete program.

The substrate answers the calls:

  echo              repeats the message
  http:URL          posts the message to an agent ("vacancy help agent-contract"); the host checks
                    once that the agent answers
  PROVIDER:MODEL    asks a model of anthropic, gemini, mistral or openai, with the provider's secret
                    ("vacancy secret set")
  openai:URL#MODEL  asks another server that speaks OpenAI's chat completions, at
                    URL/chat/completions, without a key; the other providers also take a URL and
                    speak their own protocols
  ollama:MODEL      asks Ollama on your own machine
  bedrock:MODEL     on AWS: asks a model at Amazon Bedrock that the stage may use ("vacancy deploy
                    --context bedrockModels=MODEL")
  lambda:ARN        on AWS: invokes a function of the vacant's tenant (--context
                    tenantFunctions=TENANT=ARN)
  mcp:URL#TOOL      calls a tool of an MCP server
  worker            gives the turns to programs on other machines, such as "vacancy watch --host"
  worker:redo=1     the same, and repeats a turn whose worker was lost after it had begun the turn
  mock              plays a script, in "dev" and on a stage with --context mock=true
  composite         delegates each call to children of the vacant

A composite answers no call before it has a plan. Create its children with "vacancy spawn", and the
plan of their tasks with "vacancy plan set NAME FILE".

work=TIME lets an answer take 1s to 14m (default: the host's --work, or 25s). If TIME is above 25s,
each answer is made in the background, and is stored if the caller disconnects. A stream and the
plain address wait for the answer. A signed caller is asked to retry, as "vacancy call" does. Other
callers poll their task.

--from reads the agent from a file ("vacancy help agent-files"). By default NAME is the file's
name, and the capability is the file's description. --substrate replaces the model in the file.`,
		Example: `  vacancy create scribe --capability "repeats what it hears"
  vacancy create clerk --capability "answers letters" --substrate http://127.0.0.1:9000/answer
  vacancy create sage --capability "knows things" --substrate ollama:llama3.2
  vacancy create --from agents/clerk.md --substrate ollama:llama3.2
  vacancy create alice --capability "as before" --import alice.vacancy.json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			file, err := agent.Read(substrate)
			if err != nil {
				return err
			}
			body := admin.Creation{Name: file.Name, Capability: cmp.Or(capability, file.Agent.Description), Substrate: substrate, Tenant: tenant}
			for _, arg := range args {
				key, value, isSetting := strings.Cut(arg, "=")
				switch {
				case isSetting && key == "work" && body.CallTimeout == "":
					body.CallTimeout = value
				case isSetting || body.Name != file.Name:
					return kit.WithHint(problem.New(problem.Usage, "expected NAME and work=TIME, each once, got %q", kit.Truncate(arg, 80)), "%s --help", cmd.CommandPath())
				default:
					body.Name = arg
				}
			}
			switch {
			case body.Name == "":
				return kit.WithHint(problem.New(problem.Usage, "expected NAME, or --from FILE"), `vacancy create NAME --capability "TEXT"`)
			case body.Capability == "":
				return kit.WithHint(problem.New(problem.Usage, "--capability: expected a description of what %s can do, got none", body.Name), `vacancy create %s --capability "TEXT"`, body.Name)
			case file.Name != "":
				body.Agent, body.Substrate = file.Agent.Blob(), ""
			}
			if importPath != "" || seedPath != "" {
				bundle, _, err := a.ImportOrCreateBundle(importPath, seedPath)
				if err != nil {
					return err
				}
				if err := datadir.CheckName(body.Name); err != nil {
					return err
				}
				body.Import = bundle.AppendExport(nil, body.Name, a.Now())
			}
			return a.WithAdmin(where, true, func(c *kit.AdminAPI) error {
				vacant, err := admin.CreateVacant.Call(cmd.Context(), c, op.NewBody(body))
				if err != nil {
					return hintMissingSecret(err, body.Agent, body.Substrate, body.Tenant)
				}
				PrintWarnings(a, vacant.Name, file.Agent.Warnings)
				if vacant.Substrate == plan.Kind {
					a.PrintNote("%s answers no calls until it has a plan: %s", vacant.Name, a.FormatCommand("plan set %s FILE", vacant.Name))
				}
				return a.PrintResult(vacantResult{Vacant: vacant, AgentCheck: CheckAgent(a, cmd.Context(), c, &vacant, noCheck), Handout: kit.HandoutOf(&vacant), hasPrintedWarnings: true})
			})
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&capability, "capability", "", "what the vacant can do, for its card (required)")
	fs.StringVar(&substrate, "substrate", "", "its substrate: echo, http:URL, PROVIDER:MODEL, PROVIDER:URL#MODEL or composite (default: echo, or the imported agent's)")
	agent.Register(fs)
	fs.StringVar(&tenant, "tenant", "", "the tenant that it is hosted for (default: you)")
	fs.StringVar(&importPath, "import", "", "import the key of an export, a seed or a home directory of the reference implementation")
	fs.StringVar(&seedPath, "seed", "", "with --import of a home whose key is in the OS keyring: the seed, as a file or - for standard input")
	AddNoCheckFlag(fs, &noCheck)
	kit.AddHostFlags(fs, &where)
	return cmd
}
