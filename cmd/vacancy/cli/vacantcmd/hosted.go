package vacantcmd

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/host/call"
)

// vacantResult is a hosted vacant.
type vacantResult struct {
	admin.Vacant
	// Agent is nil for vacants without an agent.
	Agent   *shownAgent   `json:"agent,omitempty"`
	Logbook []admin.Entry `json:"logbook,omitempty"`
	// Failure says why a call would fail now, if the agent was asked and did not answer.
	Failure *call.Cause `json:"failure,omitempty"`
}

func (r vacantResult) Print(w io.Writer) {
	if r.Deleted != "" {
		fmt.Fprintf(w, "%s\n  id          %s\n  state       %s\n  created     %s\n  deleted     %s\n", r.Name, r.ID, r.State, r.Created, r.Deleted)
	} else {
		fmt.Fprintf(w, "%s\n  id          %s\n  state       %s\n  capability  %s\n  substrate   %s\n  endpoint    %s\n  created     %s\n",
			r.Name, r.ID, r.State, kit.Printable(r.Capability), kit.Printable(r.Substrate), kit.Printable(r.Endpoint), r.Created)
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
	for _, e := range r.Logbook {
		fmt.Fprintf(w, "  %4d  %s  %-13s %s\n", e.Position, e.Time, kit.Printable(e.Kind), kit.Printable(string(e.Payload)))
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
		fmt.Fprintf(w, "%-*s  %-11s  %s  %s\n", widest, v.Name, v.State, v.ID.Short(), kit.Printable(does))
	}
}
