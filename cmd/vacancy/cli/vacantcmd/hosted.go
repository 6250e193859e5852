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

type vacantResult struct {
	admin.Vacant
	// Agent is nil for a vacant without an agent.
	Agent   *shownAgent   `json:"agent,omitempty"`
	Logbook []admin.Entry `json:"logbook,omitempty"`
	// ToolTexts contains the texts of tools in the last calls of a caller. It is nil unless they
	// were requested.
	ToolTexts *admin.ToolTexts `json:"tool_texts,omitempty"`
	Checked
	kit.Handout      // address and commands for callers; only create and show set it
	warned      bool // the warnings about the agent and its tools were printed
	described   bool // Published and CallsToday are set
}

func (r vacantResult) Print(w io.Writer) {
	fmt.Fprintln(w, kit.Paint(w, kit.Bold, r.Name))
	state := string(r.State) + kit.FormatIf(r.described && r.Deleted == "", ": %s", stateMeaning(r.State))
	kit.Members(w, "id", r.ID, "state", kit.PaintedText(kit.State(w, r.State, state)))
	if r.Deleted != "" {
		kit.Members(w, "created", r.Created, "deleted", r.Deleted)
	} else {
		substrate := r.Substrate
		if rawURL, ok := strings.CutPrefix(substrate, "http:"); ok && kit.IsURL(rawURL) {
			substrate = rawURL // the form that users type
		}
		kit.Members(w, "capability", r.Capability, "substrate", substrate, "endpoint", r.Endpoint, "created", r.Created)
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
		state := "open"
		if r.Closed {
			state = "closed"
		}
		kit.Members(w, "child of", r.Parent.String()+", "+state)
	}
	if r.Agent != nil {
		version := "of defaults"
		if r.Agent.Version > 0 {
			version = fmt.Sprintf("version %d", r.Agent.Version)
		}
		fmt.Fprintf(w, "  agent       %s\n", version)
		for _, s := range r.Agent.Settings {
			fmt.Fprintf(w, "    %-17s %-30s %s\n", kit.Printable(s.Name), kit.Printable(kit.Clip(s.Value, 60)), kit.Printable(s.Origin))
		}
		var also struct {
			Warnings []string `json:"warnings"`
		}
		if json.Unmarshal(r.Agent.Agent, &also) == nil {
			for _, entry := range also.Warnings {
				fmt.Fprintf(w, "    warning           %s\n", kit.Printable(kit.Clip(entry, kit.MaxShownCause)))
			}
		}
	}
	if r.Tools != nil && !r.warned {
		kit.Members(w, "offered", kit.Clip(strings.Join(r.Tools.Offered, ", "), kit.MaxShownCause), "left out", kit.LeftOutLines(r.Tools.LeftOut))
		if r.Tools.Failure != nil {
			kit.Members(w, "warning", "its tools are not known: "+kit.Clip(r.Tools.Failure.String(), kit.MaxShownCause))
		}
	}
	if t := r.ToolTexts; t != nil {
		clip := func(s string) string { return kit.Printable(kit.Clip(s, kit.MaxShownCause)) }
		for _, c := range t.Calls {
			for _, entry := range c.Tools {
				kit.Members(w, "tool", fmt.Sprintf("%s in call %d: %s, %d ms%s", entry.Name, c.Position, entry.Outcome, entry.MS, kit.FormatIf(entry.Cut, ", cut")))
				fmt.Fprintf(w, "    asked     %s\n    answered  %s\n", clip(entry.Arguments), clip(entry.Result))
			}
		}
		switch {
		case len(t.Calls) > 0:
		case t.Destroyed > 0:
			fmt.Fprintf(w, "  tools       the texts of the last %d calls were destroyed with the keys of their days\n", t.Destroyed)
		default:
			fmt.Fprintln(w, "  tools       no texts are kept of the last calls; tool_log: texts in the agent's file keeps the texts of later calls")
		}
	}
	for _, e := range r.Logbook {
		fmt.Fprintf(w, "  %4d  %s  %-13s %s\n", e.Position, e.Time, kit.Printable(e.Kind), kit.Printable(string(e.Payload)))
	}
	r.Handout.Print(w)
}

// stateMeaning describes for callers what a state means.
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

// shortPrice formats the maximum price of a call for a table.
func shortPrice(p *price.Price) string {
	switch {
	case p.IsFree():
		return "free"
	case p.HasTokenPrice():
		return "up to " + p.Hold().String()
	}
	return p.Flat.String()
}

func callsText(n *uint64) string {
	if n == nil {
		return "?"
	}
	return fmt.Sprint(*n)
}
