package childcmd

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/vacantcmd"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/client/registryclient"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/plan"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
)

func spawnCommand(a *kit.App) *cobra.Command {
	var where kit.HostFlags
	var request admin.Spawning
	var birthPath, reachability, outbound string
	var signedByParent, noCheck bool
	var agent vacantcmd.AgentFlags
	cmd := &cobra.Command{
		Use:   "spawn PARENT",
		Short: "Create a child of a vacant",
		Long: `Create a child of a hosted vacant. The child has its own key. Parent and child both sign the manifest
that binds them. The child's logbook begins with the entry BIRTH, and the parent's logbook gets the
entry SPAWN.

--path is the kind of child:

  D1  like its parent, with one additional rule (--rule)
  D2  closed: LOCAL, not listed, and callable only by its parent and the parent's
      other children; --tools are the parent's tools that it may use
  D3  with a capability of its own
  D4  of two parents: --with names the other parent, which signs its consent
  D5  with another substrate

Children of all other paths are open and ACTIVE. "vacancy graduate" opens a closed child. The endpoint of
--substrate http:URL is listed among the tools in the child's manifest, because both
parties sign everything that a child may reach.

--signed needs no operator key. PARENT is one of your identities, which the host serves under the same
key, and signs the request itself. It may request ten children an hour, and have a hundred children in
all. The child has its parent's substrate or echo, because only the operator may choose other
substrates and agents. The start of the parent's id is appended to the child's name.`,
		Example: `  vacancy spawn lawfirm --path D2 --name reviewer --capability "reviews contracts"
  vacancy spawn lawfirm --path D2 --name clerk --capability "files letters" --tools mail,archive
  vacancy spawn lawfirm --path D4 --with notary --name deeds --capability "writes deeds"
  vacancy spawn scribe --path D1 --name curt --rule "answer in one line"
  vacancy spawn alice --signed --path D2 --name helper --host https://vacancy.example`,
		RunE: func(cmd *cobra.Command, args []string) error {
			request.Path, request.Reachability, request.OutboundPolicy = composite.BirthPath(strings.ToUpper(birthPath)), composite.Reachability(reachability), composite.OutboundPolicy(outbound)
			request.Tools = removeDuplicates(request.Tools)
			parent := args[0]
			missingFlags := ""
			switch {
			case request.Path == "" && request.Name == "":
				missingFlags = "--path and --name: expected the kind and the name of the child, for example D2 and reviewer, got none"
			case request.Path == "":
				missingFlags = "--path: expected the kind of the child " + request.Name + ", for example D2, got none"
			case request.Name == "":
				missingFlags = "--name: expected the name of the child, for example reviewer, got none"
			}
			if missingFlags != "" {
				return kit.WithHint(problem.New(problem.Usage, "%s", missingFlags), `vacancy spawn %s --path D2 --name NAME --capability "TEXT"`, parent)
			}
			if signedByParent && agent.From != "" {
				return problem.New(problem.Usage, "--signed and --from: not supported together, because only the operator can give a child an agent of its own")
			}
			agentFile, err := agent.Read(request.Substrate)
			if err != nil {
				return err
			}
			if agentFile.Name != "" {
				request.Agent, request.Substrate, request.Capability = agentFile.Agent.Blob(), "", cmp.Or(request.Capability, agentFile.Agent.Description)
			}
			if signedByParent {
				spawned, err := spawnSigned(a, cmd.Context(), where, request, parent)
				if err != nil {
					return addSpawnHint(err, &request, parent)
				}
				return printSpawned(a, &spawned, parent, nil)
			}
			return a.WithAdmin(where, false, func(c *kit.AdminAPI) error {
				err := spawnByOperator(a, cmd.Context(), c, request, parent, noCheck)
				if err == nil {
					vacantcmd.PrintWarnings(a, request.Name, agentFile.Agent.Warnings)
				}
				return err
			})
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&birthPath, "path", "", "D1, D2, D3, D4 or D5 (required)")
	fs.StringVar(&request.Name, "name", "", "the child's name (required)")
	fs.StringVar(&request.Capability, "capability", "", "what the child can do (default: as its parent)")
	fs.StringVar(&request.Substrate, "substrate", "", "its substrate, as in \"vacancy create\" (default: its parent's; echo if the parent is a composite)")
	agent.Register(fs)
	fs.StringSliceVar(&request.Tools, "tools", nil, "`TOOLS` it may use, with commas between; may be repeated")
	fs.StringVar(&request.Rule, "rule", "", "with D1: the child's additional rule")
	fs.StringVar(&request.SecondParent, "with", "", "with D4: the other `PARENT`, hosted here too")
	fs.StringVar(&reachability, "reach", "", "who may call it: parent-only, parent-bridged or public_a2a (default: by the path)")
	fs.StringVar(&outbound, "outbound", "", "whom it may call: no-external, parent-permitted or unrestricted (default: by the path)")
	fs.BoolVar(&signedByParent, "signed", false, "PARENT is an identity of yours, and signs for itself")
	vacantcmd.AddNoCheckFlag(fs, &noCheck)
	kit.AddHostFlags(fs, &where)
	return cmd
}

func spawnByOperator(a *kit.App, ctx context.Context, c *kit.AdminAPI, request admin.Spawning, parentName string, noCheck bool) error {
	parent, err := c.ShowVacant(ctx, parentName)
	if err != nil {
		return err
	}
	spawned, err := admin.SpawnChild.Call(ctx, c, admin.NewVacantRequest(parent.ID.String(), request))
	if err != nil {
		return addSpawnHint(err, &request, parentName)
	}
	check := vacantcmd.CheckAgent(a, ctx, c, &spawned.Vacant, noCheck || spawned.Unchanged)
	if err := printSpawned(a, &spawned, parent.Name, check.Failure); err != nil {
		return err
	}
	if family := commonFamily(spawned.Vacant.Substrate, parent.Substrate); spawned.Vacant.Closed && family != "" {
		a.PrintNote("%s and its parent have the same substrate, %s: by default the gate refuses its graduation", spawned.Vacant.Name, kit.EscapeLine(family))
	}
	return nil
}

// spawnSigned requests a child with the parent's signature instead of the operator's key. The
// parent must be a local identity that the host also serves as a vacant.
func spawnSigned(a *kit.App, ctx context.Context, where kit.HostFlags, request admin.Spawning, parentName string) (admin.Spawned, error) {
	var spawned admin.Spawned
	if request.SecondParent != "" {
		return spawned, problem.New(problem.Usage, "--with: not supported together with --signed, because one parent cannot sign for the other; the operator's key can create the child")
	}
	dir, err := a.IdentityDir()
	if err != nil {
		return spawned, err
	}
	parent, err := a.OpenIdentity(dir, parentName)
	if err != nil {
		return spawned, err
	}
	host, err := a.FindRemoteHost(where)
	if err != nil {
		return spawned, err
	}
	var baseURL string
	if host == nil {
		baseURL, err = a.LocalHostURL(ctx, where.Data)
	} else if baseURL, err = host.RequireURL(cmp.Or(host.Record.AdminURL, host.Record.URL)); err == nil {
		baseURL, err = registryclient.NormalizeURL(baseURL)
	}
	if err != nil {
		return spawned, err
	}
	nonce, err := composite.NewNonce(a.Rand)
	if err != nil {
		return spawned, err
	}
	signedRequest := composite.SpawnRequest{
		ParentID: parent.ID(), BirthPath: request.Path, Name: request.Name, Capability: request.Capability, Substrate: request.Substrate,
		Tools: request.Tools, Rule: request.Rule, Reachability: request.Reachability, OutboundPolicy: request.OutboundPolicy, Nonce: nonce, Time: a.Now(),
	}
	if err := signedRequest.Sign(ctx, parent.Key); err != nil {
		return spawned, err
	}
	client := &registryclient.Client{Transport: a.HTTPTransport(0), URL: baseURL, Now: a.Now}
	if err := client.Post(ctx, "/v1/admin/vacants/"+parent.ID().String()+"/children", json.RawMessage(signedRequest.Blob()), &spawned); err != nil {
		return spawned, err
	}
	return spawned, spawned.Validate()
}

func addSpawnHint(err error, request *admin.Spawning, parent string) error {
	p := problem.AsError(err)
	command := fmt.Sprintf("vacancy spawn %s --path %s --name %s", parent, request.Path, request.Name)
	switch {
	case p.Kind == problem.TooManyRequests:
		return kit.WithHint(err, "run the same command later; a parent may request ten children an hour, and have a hundred")
	case p.Field == "rule" && request.Rule == "":
		return kit.WithHint(err, `%s --rule "TEXT"`, command)
	case p.Field == "rule":
		return kit.WithHint(err, `vacancy spawn %s --path D1 --name %s --rule "TEXT"`, parent, request.Name)
	case p.Field == "with" && request.SecondParent == "":
		return kit.WithHint(err, "%s --with PARENT", command)
	case p.Field == "with" && request.Path != "D4":
		return kit.WithHint(err, "vacancy spawn %s --path D4 --name %s --with %s", parent, request.Name, request.SecondParent)
	case p.Field == "outbound" && request.OutboundPolicy == composite.NoExternal:
		return kit.WithHint(err, "--outbound parent-permitted, or no --outbound: the child's tools then include the endpoint")
	}
	return err
}

func removeDuplicates(list []string) (distinct []string) {
	for _, value := range list {
		if !slices.Contains(distinct, value) {
			distinct = append(distinct, value)
		}
	}
	return distinct
}

// commonFamily returns the common family of two substrates, or "". A composite has no family.
func commonFamily(a, b string) string {
	familyOf := func(text string) string {
		s, err := substrate.Parse(text)
		if err != nil || s.Kind == plan.Kind {
			return ""
		}
		return s.Family()
	}
	if family := familyOf(a); family == familyOf(b) {
		return family
	}
	return ""
}

func printSpawned(a *kit.App, spawned *admin.Spawned, parent string, failure *call.Cause) error {
	m, err := spawned.Manifest.Open()
	if err != nil {
		return err
	}
	return a.PrintResult(spawnResult{*spawned, failure, m, parent})
}

type spawnResult struct {
	admin.Spawned
	Failure  *call.Cause `json:"failure,omitempty"`
	manifest composite.Manifest
	parent   string
}

func (r spawnResult) Print(w io.Writer) {
	m := &r.manifest
	fmt.Fprintf(w, "%s is a child of %s (%s), by %s%s\n", r.Vacant.Name, kit.EscapeLine(r.parent), m.ParentID.Short(), m.BirthPath, kit.FormatIf(r.Unchanged, "; it already existed"))
	kit.PrintFields(w, "id", r.Vacant.ID, "state", kit.PaintedText(kit.PaintState(w, r.Vacant.State, string(r.Vacant.State))), "capability", r.Vacant.Capability,
		"closed", kit.FormatIf(m.ClosedByDefault, "only its parent and the parent's other children may call it"))
}
