package vacantcmd

import (
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
	fmt.Fprintln(w, kit.Paint(w, kit.Bold, r.Name))
	kit.Members(w, "id", r.ID, "state", kit.Painted(kit.State(w, r.State, r.stateText())))
	if r.Deleted != "" {
		kit.Members(w, "created", r.Created, "deleted", r.Deleted)
	} else {
		kit.Members(w, "capability", r.Capability, "substrate", formatSubstrate(r.Substrate), "endpoint", r.Endpoint, "created", r.Created)
	}
	if r.described && r.Deleted == "" {
		kit.Members(w, "published", publishedText(r.Published), "calls", callsText(r.CallsToday)+" today (UTC)")
	}
	kit.Members(w, "tenant", r.Tenant)
	if r.Price != nil || r.described && r.Deleted == "" {
		kit.Members(w, "price", r.Price)
	}
	kit.Members(w, "plain", r.Plain, "work", kit.FormatIf(r.Work != "", "%s at most", r.Work))
	if r.Parent != nil {
		kit.Members(w, "child of", r.Parent.String()+map[bool]string{true: ", closed", false: ", open"}[r.Closed])
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
	return string(r.State) + kit.FormatIf(r.described && r.Deleted == "", ": %s", stateMeaning(r.State))
}

// writeTools writes the tools that an agent is offered, and the tools that are left out.
func writeTools(w io.Writer, t *admin.Tools) {
	kit.Members(w, "offered", kit.Clip(strings.Join(t.Offered, ", "), kit.MaxShownCause), "left out", kit.LeftOutLines(t.LeftOut))
	if t.Failure != nil {
		kit.Members(w, "warning", "its tools are not known: "+kit.Clip(t.Failure.String(), kit.MaxShownCause))
	}
}

// writeToolTexts writes the texts of tools, each in a line.
func writeToolTexts(w io.Writer, t *admin.ToolTexts) {
	shown := func(s string) string { return kit.Printable(kit.Clip(s, kit.MaxShownCause)) }
	for _, c := range t.Calls {
		for _, one := range c.Tools {
			kit.Members(w, "tool", fmt.Sprintf("%s in call %d: %s, %d ms%s", one.Name, c.Position, one.Outcome, one.MS, kit.FormatIf(one.Cut, ", cut")))
			fmt.Fprintf(w, "    asked     %s\n    answered  %s\n", shown(one.Arguments), shown(one.Result))
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

// listedVacant is a vacant in a list.
type listedVacant struct {
	admin.Vacant
	Address string `json:"address,omitempty"`
}

func listObject(all admin.Page) any {
	vacants := make([]listedVacant, len(all.Vacants))
	for i, v := range all.Vacants {
		vacants[i] = listedVacant{v, kit.HandoutOf(&v).Address}
	}
	return map[string]any{"vacants": vacants}
}

func printVacants(w io.Writer, r admin.Page) {
	if len(r.Vacants) == 0 {
		fmt.Fprintln(w, "no vacants")
		return
	}
	rows := [][]any{{"NAME", "STATE", "PUBLISHED", "PRICE", "TODAY", "ADDRESS", "CAPABILITY"}}
	states := map[lifecycle.State]bool{}
	for i := range r.Vacants {
		v := &r.Vacants[i]
		states[v.State] = true
		state := kit.Painted(kit.State(w, v.State, string(v.State)))
		if v.Deleted != "" {
			rows = append(rows, []any{v.Name, state, "", "", "", "", "(deleted, " + v.ID.Short() + ")"})
			continue
		}
		rows = append(rows, []any{v.Name, state, publishedText(v.Published), shortPrice(v.Price), callsText(v.CallsToday), kit.HandoutOf(v).Address, kit.Clip(v.Capability, 40)})
	}
	for _, line := range kit.Columns(rows...) {
		fmt.Fprintln(w, kit.Fit(w, line))
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
