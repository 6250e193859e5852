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
	Agent   *agentResult  `json:"agent,omitempty"`
	Logbook []admin.Entry `json:"logbook,omitempty"`
	// ToolTexts contains the texts of tools in the last calls of a caller, if they were requested.
	ToolTexts *admin.ToolTexts `json:"tool_texts,omitempty"`
	AgentCheck
	kit.Handout             // address and commands for callers; only create and show set it
	hasPrintedWarnings bool // the warnings about the agent and its tools were printed
	hasDetails         bool // Published and CallsToday are set
}

func (r vacantResult) Print(w io.Writer) {
	fmt.Fprintln(w, kit.Paint(w, kit.Bold, r.Name))
	state := string(r.State) + kit.FormatIf(r.hasDetails && r.DeletedAt == "", ": %s", describeState(r.State))
	kit.PrintFields(w, "id", r.ID, "state", kit.PaintedText(kit.PaintState(w, r.State, state)))
	if r.DeletedAt != "" {
		kit.PrintFields(w, "created", r.CreatedAt, "deleted", r.DeletedAt)
	} else {
		substrate := r.Substrate
		if rawURL, ok := strings.CutPrefix(substrate, "http:"); ok && kit.IsURL(rawURL) {
			substrate = rawURL // the form that users type
		}
		kit.PrintFields(w, "capability", r.Capability, "substrate", substrate, "endpoint", r.Endpoint, "created", r.CreatedAt)
	}
	if r.hasDetails && r.DeletedAt == "" {
		kit.PrintFields(w, "published", formatVisibility(r.Published), "calls", formatCallCount(r.CallsToday)+" today (UTC)")
	}
	kit.PrintFields(w, "tenant", r.Tenant)
	if r.Price != nil || r.hasDetails && r.DeletedAt == "" {
		kit.PrintFields(w, "price", r.Price)
	}
	kit.PrintFields(w, "plain", r.KeylessAccess, "work", kit.FormatIf(r.CallTimeout != "", "%s at most", r.CallTimeout))
	if r.Parent != nil {
		state := "open"
		if r.Closed {
			state = "closed"
		}
		kit.PrintFields(w, "child of", r.Parent.String()+", "+state)
	}
	if r.Agent != nil {
		version := "default settings"
		if r.Agent.Version > 0 {
			version = fmt.Sprintf("version %d", r.Agent.Version)
		}
		fmt.Fprintf(w, "  agent       %s\n", version)
		for _, s := range r.Agent.Settings {
			fmt.Fprintf(w, "    %-17s %-30s %s\n", kit.EscapeLine(s.Name), kit.EscapeLine(kit.Truncate(s.Value, 60)), kit.EscapeLine(s.Origin))
		}
		var agentDocument struct {
			Warnings []string `json:"warnings"`
		}
		if json.Unmarshal(r.Agent.Agent, &agentDocument) == nil {
			for _, entry := range agentDocument.Warnings {
				fmt.Fprintf(w, "    warning           %s\n", kit.EscapeLine(kit.Truncate(entry, kit.MaxShownCause)))
			}
		}
	}
	if r.Tools != nil && !r.hasPrintedWarnings {
		kit.PrintFields(w, "offered", kit.Truncate(strings.Join(r.Tools.Offered, ", "), kit.MaxShownCause), "left out", kit.OmittedToolLines(r.Tools.OmittedTools))
		if r.Tools.Failure != nil {
			kit.PrintFields(w, "warning", "its tools are unknown: "+kit.Truncate(r.Tools.Failure.String(), kit.MaxShownCause))
		}
	}
	if t := r.ToolTexts; t != nil {
		clip := func(s string) string { return kit.EscapeLine(kit.Truncate(s, kit.MaxShownCause)) }
		for _, c := range t.Calls {
			for _, entry := range c.Tools {
				kit.PrintFields(w, "tool", fmt.Sprintf("%s in call %d: %s, %d ms%s", entry.Name, c.Position, entry.Outcome, entry.DurationMS, kit.FormatIf(entry.IsTruncated, ", truncated")))
				fmt.Fprintf(w, "    asked     %s\n    answered  %s\n", clip(entry.Arguments), clip(entry.Result))
			}
		}
		switch {
		case len(t.Calls) > 0:
		case t.Destroyed > 0:
			fmt.Fprintf(w, "  tools       the texts of the last %d calls were destroyed with the keys of their days\n", t.Destroyed)
		default:
			fmt.Fprintln(w, "  tools       no texts of the last calls are stored; to store the texts of later calls, set tool_log: texts in the agent's file")
		}
	}
	for _, e := range r.Logbook {
		fmt.Fprintf(w, "  %4d  %s  %-13s %s\n", e.Position, e.Time, kit.EscapeLine(e.Kind), kit.EscapeLine(string(e.Payload)))
	}
	r.Handout.Print(w)
}

func describeState(s lifecycle.State) string {
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

func formatVisibility(v lifecycle.Visibility) string {
	switch v {
	case lifecycle.Public:
		return "yes"
	case lifecycle.Restricted:
		return "restricted"
	}
	return "no"
}

// formatMaxPrice formats the maximum price of a call for a table.
func formatMaxPrice(p *price.Price) string {
	switch {
	case p.IsFree():
		return "free"
	case p.HasTokenPrice():
		return "up to " + p.Hold().String()
	}
	return p.Flat.String()
}

func formatCallCount(n *uint64) string {
	if n == nil {
		return "?"
	}
	return fmt.Sprint(*n)
}
