package vacantcmd

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
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
	kit.Handout      // of create and show
	warned      bool // of the tools that are left out
	described   bool // Published and CallsToday are known
}

// formatSubstrate formats a substrate as a person types it: a program as its URL.
func formatSubstrate(spec string) string {
	if at, ok := strings.CutPrefix(spec, "http:"); ok && kit.IsURL(at) {
		return at
	}
	return spec
}

func (r vacantResult) Print(w io.Writer) {
	if r.Deleted != "" {
		fmt.Fprintf(w, "%s\n  id          %s\n  state       %s\n  created     %s\n  deleted     %s\n", kit.Paint(w, kit.Bold, r.Name), r.ID, kit.State(w, r.State, string(r.State)), r.Created, r.Deleted)
	} else {
		fmt.Fprintf(w, "%s\n  id          %s\n  state       %s\n  capability  %s\n  substrate   %s\n  endpoint    %s\n  created     %s\n",
			kit.Paint(w, kit.Bold, r.Name), r.ID, kit.State(w, r.State, r.stateText()), kit.Printable(r.Capability), kit.Printable(formatSubstrate(r.Substrate)), kit.Printable(r.Endpoint), r.Created)
	}
	if r.described && r.Deleted == "" {
		fmt.Fprintf(w, "  published   %s\n  calls       %s today (UTC)\n", publishedText(r.Published), callsText(r.CallsToday))
	}
	if r.Tenant != "" {
		fmt.Fprintf(w, "  tenant      %s\n", kit.Printable(r.Tenant))
	}
	if r.Price != nil || r.described && r.Deleted == "" {
		fmt.Fprintf(w, "  price       %s\n", r.Price)
	}
	if r.Plain != "" {
		fmt.Fprintf(w, "  plain       %s\n", kit.Printable(r.Plain))
	}
	if r.Work != "" {
		fmt.Fprintf(w, "  work        %s at most\n", kit.Printable(r.Work))
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

// stateText is the state, of show with its meaning.
func (r vacantResult) stateText() string {
	if r.described {
		return string(r.State) + ": " + stateMeaning(r.State)
	}
	return string(r.State)
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
		fmt.Fprintln(w, "  tools       no texts are kept of the last calls; tool_log: texts in the agent's file keeps the texts of later calls")
	}
}

// cardResult is only the signed card, for files.
type cardResult struct{ json.RawMessage }

func (r cardResult) Print(w io.Writer) { fmt.Fprintf(w, "%s\n", r.RawMessage) }

// listedVacant is a vacant in a list.
type listedVacant struct {
	admin.Vacant
	Address string `json:"address,omitempty"`
}

// listResult is all vacants of a host.
type listResult struct {
	Vacants []listedVacant `json:"vacants"`
}

func newListResult(all []admin.Vacant) listResult {
	r := listResult{make([]listedVacant, len(all))}
	for i := range all {
		r.Vacants[i] = listedVacant{all[i], kit.HandoutOf(&all[i]).Address}
	}
	return r
}

func (r listResult) Print(w io.Writer) {
	if len(r.Vacants) == 0 {
		fmt.Fprintln(w, "no vacants")
		return
	}
	rows := [][]string{{"NAME", "STATE", "PUBLISHED", "PRICE", "TODAY", "ADDRESS", "CAPABILITY"}}
	states := map[lifecycle.State]bool{}
	for i := range r.Vacants {
		v := &r.Vacants[i]
		states[v.State] = true
		if v.Deleted != "" {
			rows = append(rows, []string{v.Name, string(v.State), "", "", "", "", "(deleted, " + v.ID.Short() + ")"})
			continue
		}
		rows = append(rows, []string{v.Name, string(v.State), publishedText(v.Published), shortPrice(v.Price), callsText(v.CallsToday), v.Address, kit.Printable(kit.Clip(v.Capability, 40))})
	}
	wide := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			wide[i] = max(wide[i], len(cell))
		}
	}
	for n, row := range rows {
		line := ""
		for i, cell := range row {
			cell = fmt.Sprintf("%-*s  ", wide[i], cell)
			if n > 0 && i == 1 {
				cell = kit.State(w, r.Vacants[n-1].State, cell)
			}
			line += cell
		}
		fmt.Fprintln(w, kit.Fit(w, strings.TrimRight(line, " ")))
	}
	fmt.Fprintln(w)
	for _, s := range lifecycle.States() {
		if states[s] {
			fmt.Fprintf(w, "%s: %s\n", s, stateMeaning(s))
		}
	}
}

// stateMeaning says in a few words what a state means for callers.
func stateMeaning(s lifecycle.State) string {
	switch s {
	case lifecycle.Local:
		return "takes calls, and was never published"
	case lifecycle.Active:
		return "takes calls"
	case lifecycle.Hibernating, lifecycle.Stale:
		return "paused until it is resumed"
	case lifecycle.Sunk:
		return "takes no more calls; its past calls stay on record"
	}
	return "takes no more calls, and may be deleted"
}

func publishedText(v lifecycle.Visibility) string {
	switch v {
	case lifecycle.Public:
		return "yes"
	case lifecycle.Restricted:
		return "restricted"
	}
	return "no"
}

// shortPrice is a price for a table: the most that a call costs.
func shortPrice(p *price.Price) string {
	switch {
	case p.IsFree():
		return "free"
	case p.ByTokens():
		return "up to " + p.Hold().String()
	}
	return p.Flat.String()
}

// callsText is a number of calls, or "?" if the host does not count them.
func callsText(n *uint64) string {
	if n == nil {
		return "?"
	}
	return fmt.Sprint(*n)
}
