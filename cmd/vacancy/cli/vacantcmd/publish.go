package vacantcmd

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// publishFlags contains the flags of publish. A flag that is not given leaves the published value
// unchanged.
type publishFlags struct {
	where                  kit.HostFlags
	registryURL, endpoint  string
	capability             string
	visibility, price      string
	tags, skills           []string
	summary, family, owner string

	isGiven func(name string) bool
}

func publishCommand(a *kit.App) *cobra.Command {
	var f publishFlags
	cmd := &cobra.Command{
		Use:   "publish NAME",
		Short: "Publish a vacant in the registry",
		Long: `Publish a vacant in a registry: its card, a publication event and its listing. The vacant's own key
signs all three. Searches find the vacant within seconds, and callers use the endpoint in its card.

NAME is a vacant hosted on this machine or on --host. It is published in that host's registry. With
--registry URL, NAME is one of your identities, which is published there with its own key. The
first time, give its capability and its address with --capability and --endpoint. Use --visibility
restricted for an identity that takes no calls and only signs.

Without --capability the card stays unchanged; another capability makes a new card. --tag, --skill,
--summary, --family, --owner and --price form the listing. If you give any of them, they replace
the whole listing. The listing of a hosted vacant always has the price that "vacancy price" sets;
another --price is refused.`,
		Example: `  vacancy publish demo --tag echo
  vacancy publish scribe --capability "translates ZH to EN" --tag translate --family claude
  vacancy publish demo --visibility restricted
  vacancy publish alice --registry https://vacancy.example --endpoint https://alice.example --capability "plays chess"
  vacancy publish alice --registry https://vacancy.example --visibility restricted --capability "witnesses logs"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.isGiven = cmd.Flags().Changed
			name := args[0]
			p, err := f.parsePublication()
			if err != nil {
				return err
			}
			if f.registryURL != "" {
				return publishIdentity(a, cmd.Context(), f, name, p)
			}
			if f.endpoint != "" {
				return kit.WithHint(problem.New(problem.Usage, "--endpoint: not supported without --registry: a hosted vacant answers at its host"), "vacancy publish %s --registry URL --endpoint %s", name, f.endpoint)
			}
			return a.WithAdmin(f.where, false, func(c *kit.AdminAPI) error {
				published, err := admin.PublishVacant.Call(cmd.Context(), c, admin.NewVacantRequest(name, p))
				if problem.Is(err, problem.Forbidden) {
					if v, showErr := c.ShowVacant(cmd.Context(), name); showErr == nil && v.Closed {
						return kit.WithHint(err, `vacancy graduate %s --capability "TEXT"`, v.Name)
					}
				}
				if err != nil {
					return hintLocalIdentity(a, err, "publish", name)
				}
				r := NewPublishedResult(&published)
				if r.Visibility != lifecycle.Hidden {
					r.Handout = kit.HandoutOf(&published.Vacant)
					warnIfNoWorker(a, cmd.Context(), c, &published.Vacant)
				}
				return a.PrintResult(r)
			})
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.capability, "capability", "", "what the vacant can do (default: as its card says)")
	fs.StringVar(&f.visibility, "visibility", "", "public, restricted (found only by id) or none (default: unchanged, or public if it is not published)")
	fs.StringArrayVar(&f.tags, "tag", nil, "a `TAG` to be found by; may be repeated")
	fs.StringArrayVar(&f.skills, "skill", nil, "a `SKILL` to be found by; may be repeated")
	fs.StringVar(&f.summary, "summary", "", "a few sentences about it")
	fs.StringVar(&f.family, "family", "", "the family of its model")
	fs.StringVar(&f.owner, "owner", "", "the owner of the vacant")
	fs.StringVar(&f.price, "price", "", "the price of a call in US dollars; for a hosted vacant, only its own price is accepted")
	fs.StringVar(&f.endpoint, "endpoint", "", "with --registry: the URL where it takes calls (default: as its card says)")
	addRegistryFlag(fs, &f.registryURL)
	kit.AddHostFlags(fs, &f.where)
	return cmd
}

func addRegistryFlag(fs *pflag.FlagSet, url *string) {
	fs.StringVar(url, "registry", "", "a registry's URL; NAME is then one of your identities, and its own key signs")
}

// hintLocalIdentity adds a hint to err if name is a local identity and not a vacant of the host.
func hintLocalIdentity(a *kit.App, err error, verb, name string) error {
	h, homeErr := a.IdentityDir()
	if !problem.Is(err, problem.NotFound) || homeErr != nil {
		return err
	}
	if _, openErr := h.Open(name); openErr != nil {
		return err
	}
	return kit.WithHint(err, "vacancy %s %s --registry URL, for your identity %s", verb, name, name)
}

func (f *publishFlags) parsePublication() (p admin.Publication, err error) {
	if f.isGiven("capability") {
		p.Capability = &f.capability
	}
	if f.isGiven("visibility") {
		v := lifecycle.Visibility(strings.ToUpper(f.visibility))
		if v != lifecycle.Public && v != lifecycle.Restricted && v != lifecycle.Hidden {
			return p, &problem.Error{Kind: problem.Usage, Field: "--visibility", Want: "public, restricted or none", Got: fmt.Sprintf("%.40q", f.visibility)}
		}
		p.Visibility = &v
	}
	for _, name := range []string{"tag", "skill", "summary", "family", "owner", "price"} {
		if f.isGiven(name) {
			p.Listing = &admin.Listing{Tags: f.tags, Skills: f.skills, Summary: f.summary, Family: f.family, Owner: f.owner}
		}
	}
	if f.isGiven("price") {
		p.Listing.Price, err = kit.ParseMicroDollars("--price", f.price)
	}
	return p, err
}

func unpublishCommand(a *kit.App) *cobra.Command {
	var where kit.HostFlags
	var registry string
	cmd := &cobra.Command{
		Use:   "unpublish NAME",
		Short: "Remove a vacant from search",
		Long: `Remove a vacant from search results. The vacant's own key signs the removal, which takes effect
from the next query on. Callers that know the vacant's id can still call it. The vacant can be
published again.`,
		Example: `  vacancy unpublish demo
  vacancy unpublish alice --registry https://vacancy.example`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if registry != "" {
				self, err := openIdentity(a, cmd.Context(), registry, args[0])
				if err != nil {
					return err
				}
				if !self.isRegistered {
					return problem.New(problem.NotFound, "%s is not published at %s", args[0], self.Registry.URL)
				}
				d, err := self.newDraft(cmd.Context(), nil, nil)
				if err != nil {
					return err
				}
				d.Visibility = lifecycle.Hidden
				return sendDraft(a, cmd.Context(), self, d)
			}
			return a.WithAdmin(where, false, func(c *kit.AdminAPI) error {
				published, err := admin.UnpublishVacant.Call(cmd.Context(), c, admin.VacantRef{Vacant: args[0]})
				if err != nil {
					return hintLocalIdentity(a, err, "unpublish", args[0])
				}
				return a.PrintResult(NewPublishedResult(&published))
			})
		},
	}
	addRegistryFlag(cmd.Flags(), &registry)
	kit.AddHostFlags(cmd.Flags(), &where)
	return cmd
}

type publishedResult struct {
	ID         identity.ID          `json:"vacant_id"`
	Name       string               `json:"name"`
	State      lifecycle.State      `json:"state,omitempty"`
	Capability string               `json:"capability_text"`
	Endpoint   string               `json:"endpoint"`
	Visibility lifecycle.Visibility `json:"visibility"`
	Seq        uint64               `json:"event_seq"`
	CardHash   identity.Hash        `json:"capability_card_hash_hex"`
	Registry   string               `json:"registry,omitempty"` // registry of a local identity
	Unchanged  bool                 `json:"unchanged"`
	Revoked    bool                 `json:"revoked"`
	// AwaitsProbe means that search will show the vacant only when its endpoint answers.
	AwaitsProbe bool `json:"unreached,omitempty"`
	kit.Handout      // address and commands for callers; set for a hosted vacant that is now published
}

func NewPublishedResult(p *admin.Published) publishedResult {
	return publishedResult{
		ID: p.Vacant.ID, Name: p.Vacant.Name, State: p.Vacant.State, Capability: p.Vacant.Capability, Endpoint: p.Vacant.Endpoint,
		Visibility: p.Receipt.Visibility, Seq: p.Receipt.Seq, CardHash: p.Receipt.CardHash, Unchanged: p.Receipt.Unchanged,
	}
}

func (r publishedResult) Print(w io.Writer) {
	suffix := kit.FormatIf(r.Unchanged, "; nothing changed")
	switch {
	case r.Revoked:
		fmt.Fprintf(w, "%s: its key is revoked, event %d%s\n", r.Name, r.Seq, suffix)
	case r.Visibility == lifecycle.Public:
		fmt.Fprintf(w, "%s is published, event %d%s\n  found by  %s\n", r.Name, r.Seq, suffix, kit.EscapeLine(r.Capability))
		fmt.Fprint(w, kit.FormatIf(r.Address == "", "  called at %s\n", kit.EscapeLine(r.Endpoint)))
		if r.AwaitsProbe {
			fmt.Fprintln(w, "  not shown in search yet: its endpoint did not answer the registry; the registry retries for seven hours")
		}
	case r.Visibility == lifecycle.Restricted:
		fmt.Fprintf(w, "%s is found only by its id, event %d%s\n", r.Name, r.Seq, suffix)
	default:
		fmt.Fprintf(w, "%s is removed from search, event %d%s\n", r.Name, r.Seq, suffix)
	}
	r.Handout.Print(w)
}
