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
	var w kit.Where
	var s admin.Spawning
	var path, reach, outbound string
	var signed, noCheck bool
	var agent vacantcmd.AgentFlags
	cmd := &cobra.Command{
		Use:   "spawn PARENT",
		Short: "Create a child of a vacant",
		Long: `Create a child of a hosted vacant, with a key of its own. Both sign the manifest that
binds them, the child's logbook begins with BIRTH, and the parent's gets SPAWN.

--path is the kind of child:

  D1  like its parent, with one additional rule (--rule)
  D2  closed: LOCAL, not listed, and callable only by its parent and the parent's
      other children; --tools are the parent's tools that it may use
  D3  with a capability of its own
  D4  of two parents: --with names the other parent, which signs its consent
  D5  with another substrate

All but D2 are open and ACTIVE. "vacancy graduate" opens a closed child. The endpoint of
--substrate http:URL is listed among the tools in the child's manifest, because both
parties sign everything that a child may reach.

--signed works without the operator's key: PARENT is one of your identities, hosted
there under the same key, and signs the request itself, at most ten an hour and for a
hundred children in all. Such a child has its parent's substrate or echo, because other
substrates and agents are for the operator. The start of the parent's id is appended to its name.`,
		Example: `  vacancy spawn lawfirm --path D2 --name reviewer --capability "reviews contracts"
  vacancy spawn lawfirm --path D2 --name clerk --capability "files letters" --tools mail,archive
  vacancy spawn lawfirm --path D4 --with notary --name deeds --capability "writes deeds"
  vacancy spawn scribe --path D1 --name curt --rule "answer in one line"
  vacancy spawn alice --signed --path D2 --name helper --host https://vacancy.example`,
		RunE: func(cmd *cobra.Command, args []string) error {
			s.Path, s.Reach, s.Outbound = composite.BirthPath(strings.ToUpper(path)), composite.Reachability(reach), composite.Outbound(outbound)
			s.Tools = unique(s.Tools)
			parent := args[0]
			missing := ""
			switch {
			case s.Path == "" && s.Name == "":
				missing = "--path and --name: expected the kind and the name of the child, for example D2 and reviewer, got none"
			case s.Path == "":
				missing = "--path: expected the kind of the child " + s.Name + ", for example D2, got none"
			case s.Name == "":
				missing = "--name: expected the name of the child, for example reviewer, got none"
			}
			if missing != "" {
				return kit.WithHint(problem.New(problem.Usage, "%s", missing), `vacancy spawn %s --path D2 --name NAME --capability "TEXT"`, parent)
			}
			if signed && agent.From != "" {
				return problem.New(problem.Usage, "--signed and --from: not supported together, because only the operator can give a child an agent of its own")
			}
			file, err := agent.Read(s.Substrate)
			if err != nil {
				return err
			}
			if file.Name != "" {
				s.Agent, s.Substrate, s.Capability = file.Agent.Blob(), "", cmp.Or(s.Capability, file.Agent.Description)
			}
			if signed {
				made, err := spawnSigned(a, cmd.Context(), w, s, parent)
				if err != nil {
					return spawnHint(err, &s, parent)
				}
				return showBirth(a, &made, parent, nil)
			}
			return a.WithAdmin(w, false, func(c *kit.AdminAPI) error {
				err := spawnByOperator(a, cmd.Context(), c, s, parent, noCheck)
				if err == nil {
					vacantcmd.WarnOf(a, s.Name, file.Agent.Warnings)
				}
				return err
			})
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&path, "path", "", "D1, D2, D3, D4 or D5 (required)")
	fs.StringVar(&s.Name, "name", "", "the child's name (required)")
	fs.StringVar(&s.Capability, "capability", "", "what the child can do (default: as its parent)")
	fs.StringVar(&s.Substrate, "substrate", "", "its substrate, as in \"vacancy create\" (default: its parent's; echo if the parent is a composite)")
	agent.Add(fs)
	fs.StringSliceVar(&s.Tools, "tools", nil, "`TOOLS` it may use, with commas between; may be repeated")
	fs.StringVar(&s.Rule, "rule", "", "with D1: the child's additional rule")
	fs.StringVar(&s.With, "with", "", "with D4: the other `PARENT`, hosted here too")
	fs.StringVar(&reach, "reach", "", "who may call it: parent-only, parent-bridged or public_a2a (default: by the path)")
	fs.StringVar(&outbound, "outbound", "", "whom it may call: no-external, parent-permitted or unrestricted (default: by the path)")
	fs.BoolVar(&signed, "signed", false, "PARENT is an identity of yours, and signs for itself")
	vacantcmd.NoCheckFlag(fs, &noCheck)
	kit.HostFlags(fs, &w)
	return cmd
}

func spawnByOperator(a *kit.App, ctx context.Context, c *kit.AdminAPI, s admin.Spawning, name string, noCheck bool) error {
	parent, err := c.Show(ctx, name)
	if err != nil {
		return err
	}
	made, err := admin.SpawnChild.Call(ctx, c, admin.ForVacant(parent.ID.String(), s))
	if err != nil {
		return spawnHint(err, &s, name)
	}
	checked := vacantcmd.CheckAgent(a, ctx, c, &made.Vacant, noCheck || made.Unchanged)
	if err := showBirth(a, &made, parent.Name, checked.Failure); err != nil {
		return err
	}
	if by := servedAlike(made.Vacant.Substrate, parent.Substrate); made.Vacant.Closed && by != "" {
		a.Note("%s and its parent have the same substrate, %s: by default the gate refuses its graduation", made.Vacant.Name, kit.Printable(by))
	}
	return nil
}

// spawnSigned requests a child with the parent's signature instead of the operator's key. The
// parent must be a local identity that the host also serves as a vacant.
func spawnSigned(a *kit.App, ctx context.Context, w kit.Where, s admin.Spawning, name string) (admin.Spawned, error) {
	var made admin.Spawned
	if s.With != "" {
		return made, problem.New(problem.Usage, "--with: not supported together with --signed, because one parent cannot sign for the other; the operator's key can create the child")
	}
	h, err := a.DataHome()
	if err != nil {
		return made, err
	}
	parent, err := a.OpenIdentity(h, name)
	if err != nil {
		return made, err
	}
	host, err := a.Find(w)
	if err != nil {
		return made, err
	}
	var base string
	if host == nil {
		base, err = a.LocalURL(ctx, w.Data)
	} else if base, err = host.URLOf(cmp.Or(host.Record.AdminURL, host.Record.URL)); err == nil {
		base, err = registryclient.CheckURL(base)
	}
	if err != nil {
		return made, err
	}
	nonce, err := composite.NewNonce(a.Rand)
	if err != nil {
		return made, err
	}
	r := composite.SpawnRequest{
		ParentID: parent.ID(), Path: s.Path, Name: s.Name, Capability: s.Capability, Substrate: s.Substrate,
		Tools: s.Tools, Rule: s.Rule, Reach: s.Reach, Outbound: s.Outbound, Nonce: nonce, Time: a.Now(),
	}
	if err := r.Sign(ctx, parent.Key); err != nil {
		return made, err
	}
	handler := &registryclient.Client{Transport: a.HTTP(0), URL: base, Now: a.Now}
	if err := handler.Post(ctx, "/v1/admin/vacants/"+parent.ID().String()+"/children", json.RawMessage(r.Blob()), &made); err != nil {
		return made, err
	}
	return made, made.Sound()
}

func spawnHint(err error, s *admin.Spawning, parent string) error {
	p := problem.AsError(err)
	again := fmt.Sprintf("vacancy spawn %s --path %s --name %s", parent, s.Path, s.Name)
	switch {
	case p.Kind == problem.TooMany:
		return kit.WithHint(err, "the same command later: a parent may ask for ten children an hour, and have a hundred")
	case p.Field == "rule" && s.Rule == "":
		return kit.WithHint(err, `%s --rule "TEXT"`, again)
	case p.Field == "rule":
		return kit.WithHint(err, `vacancy spawn %s --path D1 --name %s --rule "TEXT"`, parent, s.Name)
	case p.Field == "with" && s.With == "":
		return kit.WithHint(err, "%s --with PARENT", again)
	case p.Field == "with" && s.Path != "D4":
		return kit.WithHint(err, "vacancy spawn %s --path D4 --name %s --with %s", parent, s.Name, s.With)
	case p.Field == "outbound" && s.Outbound == composite.NoExternal:
		return kit.WithHint(err, "--outbound parent-permitted, or no --outbound: the child's tools then include the endpoint")
	}
	return err
}

func unique(list []string) (out []string) {
	for _, value := range list {
		if !slices.Contains(out, value) {
			out = append(out, value)
		}
	}
	return out
}

// servedAlike returns the common family of two substrates, which the gate compares. It returns ""
// if the families differ or either vacant is a composite.
func servedAlike(a, b string) string {
	family := func(text string) string {
		s, err := substrate.Parse(text)
		if err != nil || s.Kind == plan.Kind {
			return ""
		}
		return s.Family()
	}
	if by := family(a); by == family(b) {
		return by
	}
	return ""
}

func showBirth(a *kit.App, made *admin.Spawned, parent string, failure *call.Cause) error {
	m, err := made.Manifest.Open()
	if err != nil {
		return err
	}
	return a.Show(spawnResult{*made, failure, m, parent})
}

// spawnResult describes a child that the command has created or that existed already.
type spawnResult struct {
	admin.Spawned
	Failure  *call.Cause `json:"failure,omitempty"`
	manifest composite.Manifest
	parent   string
}

func (r spawnResult) Print(w io.Writer) {
	m := &r.manifest
	fmt.Fprintf(w, "%s is a child of %s (%s), by %s%s\n", r.Vacant.Name, kit.Printable(r.parent), m.ParentID.Short(), m.BirthPath, kit.FormatIf(r.Unchanged, "; it already existed"))
	kit.Members(w, "id", r.Vacant.ID, "state", kit.PaintedText(kit.State(w, r.Vacant.State, string(r.Vacant.State))), "capability", r.Vacant.Capability,
		"closed", kit.FormatIf(m.ClosedByDefault, "only its parent and the parent's other children may call it"))
}
