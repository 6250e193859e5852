package childcmd

import (
	"cmp"
	"fmt"
	"io"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/host/family/graduation"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
)

type graduateResult struct {
	graduation.View
	name    string
	explain bool
}

func (r graduateResult) Print(w io.Writer) {
	switch r.State {
	case graduation.Accepted:
		fmt.Fprintf(w, "%s has graduated, attempt %d\n", kit.Printable(r.name), r.Position)
	case graduation.Open:
		fmt.Fprintf(w, "%s: attempt %d is open, until %s at the latest\n", kit.Printable(r.name), r.Position, r.Due.UTC().Format("15:04:05Z"))
	case graduation.Failed: // the attempt ended without a verdict
		fmt.Fprintf(w, "%s has not graduated: attempt %d has failed\n", kit.Printable(r.name), r.Position)
	default:
		fmt.Fprintf(w, "%s has not graduated: attempt %d was %s\n", kit.Printable(r.name), r.Position, kit.Printable(string(r.State)))
	}
	// The steps before r.Step are ok. Steps that have not run are shown as "-".
	before := r.Step != "" || r.State == graduation.Accepted
	for _, s := range gate.Steps() {
		status := "-"
		switch {
		case r.State == graduation.Accepted:
			status = "ok"
		case before && s.Name != r.Step:
			status = "ok"
		case before && r.State == graduation.Open:
			status, before = "...", false
		case before:
			status, before = string(r.State), false
			if r.Refusal != nil {
				status += ": " + kit.Printable(r.Refusal.Detail)
			}
		}
		fmt.Fprintf(w, "  %-10s %s\n", s.Name, status)
	}
	if r.Outcome != nil {
		fmt.Fprintf(w, "  found by   %s\n  called at  %s\n", kit.Printable(r.Capability), kit.Printable(r.Outcome.Endpoint))
	}
	if r.explain {
		r.printEvidence(w)
	}
}

func (r graduateResult) printEvidence(w io.Writer) {
	p := r.Policy
	fmt.Fprintf(w, "policy %s: %d of one parent within 24 hours, threshold %g, mode %s, detector %s\n",
		kit.Printable(p.Version), p.Limit, p.Threshold, kit.Printable(string(p.Mode)), kit.Printable(p.Detector))
	if r.Findings == nil {
		fmt.Fprintln(w, "no evidence was examined")
		return
	}
	// Signals are printed in groups. Refusals use the same group names.
	groups := map[gate.Name]string{gate.Substrate: "substrate", gate.Style: "stylo"}
	for _, pair := range r.Findings.Pairs {
		fmt.Fprintf(w, "compared with its %s %s\n", kit.Printable(string(pair.Role)), pair.With.Short())
		for _, name := range []string{"controller", "substrate", "stylo"} {
			shown := name
			for _, s := range pair.Signals {
				if cmp.Or(groups[s.Name], "controller") != name {
					continue
				}
				layer := kit.Printable(string(s.Name))
				if layer == name {
					layer = ""
				}
				fmt.Fprintf(w, "  %-10s  %-9s %s\n", shown, layer, signalText(pair.Role, &s))
				shown = ""
			}
		}
	}
	if len(r.Findings.Pairs) == 0 {
		fmt.Fprintln(w, "nothing was compared")
	}
}

func signalText(role gate.Role, s *gate.Signal) string {
	text := string(s.State)
	if s.State == gate.SignalObserved {
		text = fmt.Sprintf("%.2f", s.Strength)
		if s.CanRefuse {
			text += ", may refuse"
		} else {
			text += ", recorded only"
		}
	}
	why := s.Why
	if why == "" && s.Name == gate.Substrate && s.State == gate.SignalObserved {
		switch {
		case s.Strength == 0:
			why = "their substrates differ"
		case role == gate.Parent:
			why = "the child and its parent have the same substrate"
		default:
			why = "the child and its sibling have the same substrate"
		}
	}
	if why != "" {
		text += ": " + why
	}
	if in := s.Inputs; in != nil {
		switch {
		case in.A == in.B && in.A != "":
			text += fmt.Sprintf(" (%s)", in.A)
		case in.A != "" || in.B != "":
			text += fmt.Sprintf(" (%s and %s)", in.A, in.B)
		case s.State == gate.SignalObserved:
			text += fmt.Sprintf(" (similarity %.3f, from %d and %d samples)", in.Similarity, in.SamplesA, in.SamplesB)
		case in.SamplesA > 0 || in.SamplesB > 0:
			text += fmt.Sprintf(" (%d and %d samples)", in.SamplesA, in.SamplesB)
		}
	}
	return kit.Printable(text)
}

func refusalOf(v *graduation.View, name string) error {
	if v.Refusal == nil {
		return nil
	}
	kind := problem.Internal
	for _, k := range problem.Kinds() {
		if k.String() == v.Refusal.Kind {
			kind = k
		}
	}
	err := problem.New(kind, "%s", v.Refusal.Detail)
	again := fmt.Sprintf("vacancy graduate %s --capability %q", name, v.Capability)
	switch kind {
	case problem.GraduationRate:
		return kit.WithHint(err, "%s, once 24 hours have passed since the oldest of the parent's last %d graduations", again, v.Policy.Limit)
	case problem.Collusion:
		return kit.WithHint(err, "vacancy graduate %s --explain", name)
	case problem.Unavailable, problem.Deadline:
		return kit.WithHint(err, "%s", again)
	}
	return err
}
