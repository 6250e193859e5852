package vacantcmd

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/admin"
)

// vacantResult is a hosted vacant.
type vacantResult struct {
	admin.Vacant
	// Agent is nil for vacants without an agent.
	Agent   *shownAgent   `json:"agent,omitempty"`
	Logbook []admin.Entry `json:"logbook,omitempty"`
	// ToolTexts are the texts of tools in the last calls of a caller, if they were asked for.
	ToolTexts *admin.ToolTexts `json:"tool_texts,omitempty"`
	Checked
	kit.Handout      // of a new vacant
	warned      bool // of the tools that are left out
}

func (r vacantResult) Print(w io.Writer) {
	if r.Deleted != "" {
		fmt.Fprintf(w, "%s\n  id          %s\n  state       %s\n  created     %s\n  deleted     %s\n", kit.Paint(w, kit.Bold, r.Name), r.ID, kit.State(w, r.State, string(r.State)), r.Created, r.Deleted)
	} else {
		fmt.Fprintf(w, "%s\n  id          %s\n  state       %s\n  capability  %s\n  substrate   %s\n  endpoint    %s\n  created     %s\n",
			kit.Paint(w, kit.Bold, r.Name), r.ID, kit.State(w, r.State, string(r.State)), kit.Printable(r.Capability), kit.Printable(r.Substrate), kit.Printable(r.Endpoint), r.Created)
	}
	if r.Tenant != "" {
		fmt.Fprintf(w, "  tenant      %s\n", kit.Printable(r.Tenant))
	}
	if r.Price != nil {
		fmt.Fprintf(w, "  price       %s\n", r.Price)
	}
	if r.Plain != "" {
		fmt.Fprintf(w, "  plain       %s\n", kit.Printable(r.Plain))
	}
	if r.Parent != nil {
		how := "open"
		if r.Closed {
			how = "closed"
		}
		fmt.Fprintf(w, "  child of    %s, %s\n", r.Parent, how)
	}
	if r.Agent != nil {
		writeAgent(w, r.Agent)
	}
	if r.Tools != nil && !r.warned {
		writeTools(w, r.Tools)
	}
	if r.ToolTexts != nil {
		writeToolTexts(w, r.ToolTexts)
	}
	for _, e := range r.Logbook {
		fmt.Fprintf(w, "  %4d  %s  %-13s %s\n", e.Position, e.Time, kit.Printable(e.Kind), kit.Printable(string(e.Payload)))
	}
	r.Handout.Print(w)
}

// writeTools writes the tools that an agent is offered, and the tools that are left out.
func writeTools(w io.Writer, t *admin.Tools) {
	if len(t.Offered) > 0 {
		fmt.Fprintf(w, "  offered     %s\n", kit.Printable(kit.Clip(strings.Join(t.Offered, ", "), kit.MaxShownCause)))
	}
	for _, line := range kit.LeftOutLines(t.LeftOut) {
		fmt.Fprintf(w, "  left out    %s\n", line)
	}
	if t.Failure != nil {
		fmt.Fprintf(w, "  warning     its tools are not known: %s\n", kit.Printable(kit.Clip(t.Failure.String(), kit.MaxShownCause)))
	}
}

// writeToolTexts writes the texts of tools, each in a line.
func writeToolTexts(w io.Writer, t *admin.ToolTexts) {
	shown := func(s string) string { return kit.Printable(kit.Clip(s, kit.MaxShownCause)) }
	for _, c := range t.Calls {
		for _, one := range c.Tools {
			cut := ""
			if one.Cut {
				cut = ", cut"
			}
			fmt.Fprintf(w, "  tool        %s in call %d: %s, %d ms%s\n    asked     %s\n    answered  %s\n",
				kit.Printable(one.Name), c.Position, kit.Printable(string(one.Outcome)), one.MS, cut, shown(one.Arguments), shown(one.Result))
		}
	}
	switch {
	case len(t.Calls) > 0:
	case t.Destroyed > 0:
		fmt.Fprintf(w, "  tools       the texts of the last %d calls are gone with the keys of their days\n", t.Destroyed)
	default:
		fmt.Fprintln(w, "  tools       no texts are kept of the last calls (vacancy help agent-files: tool_log)")
	}
}

// cardResult is only the signed card, for files.
type cardResult struct{ json.RawMessage }

func (r cardResult) Print(w io.Writer) { fmt.Fprintf(w, "%s\n", r.RawMessage) }

// listResult is all vacants of a host.
type listResult struct {
	Vacants []admin.Vacant `json:"vacants"`
}

func (r listResult) Print(w io.Writer) {
	if len(r.Vacants) == 0 {
		fmt.Fprintln(w, "no vacants")
		return
	}
	widest := 4
	for _, v := range r.Vacants {
		widest = max(widest, len(v.Name))
	}
	for _, v := range r.Vacants {
		does := kit.Clip(v.Capability, 60)
		if v.Deleted != "" {
			does = "(deleted)"
		}
		state := kit.State(w, v.State, fmt.Sprintf("%-11s", v.State))
		fmt.Fprintln(w, kit.Fit(w, fmt.Sprintf("%-*s  %s  %s  %s", widest, v.Name, state, v.ID.Short(), kit.Printable(does))))
	}
}
