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
	child        string
	withEvidence bool
}

func (r graduateResult) Print(w io.Writer) {
	switch r.Phase {
	case graduation.Accepted:
		fmt.Fprintf(w, "%s has graduated, attempt %d\n", kit.EscapeLine(r.child), r.Position)
	case graduation.Open:
		fmt.Fprintf(w, "%s: attempt %d is open, until %s at the latest\n", kit.EscapeLine(r.child), r.Position, r.DueAt.UTC().Format("15:04:05Z"))
	case graduation.Failed: // the attempt ended without a verdict
		fmt.Fprintf(w, "%s has not graduated: attempt %d has failed\n", kit.EscapeLine(r.child), r.Position)
	default:
		fmt.Fprintf(w, "%s has not graduated: attempt %d was %s\n", kit.EscapeLine(r.child), r.Position, kit.EscapeLine(string(r.Phase)))
	}
	// The steps before r.Step are ok.
	isBefore := r.Step != "" || r.Phase == graduation.Accepted
	for _, s := range gate.Steps() {
		status := "-"
		switch {
		case r.Phase == graduation.Accepted:
			status = "ok"
		case isBefore && s.Name != r.Step:
			status = "ok"
		case isBefore && r.Phase == graduation.Open:
			status, isBefore = "...", false
		case isBefore:
			status, isBefore = string(r.Phase), false
			if r.Refusal != nil {
				status += ": " + kit.EscapeLine(r.Refusal.Detail)
			}
		}
		fmt.Fprintf(w, "  %-10s %s\n", s.Name, status)
	}
	if r.Outcome != nil {
		fmt.Fprintf(w, "  found by   %s\n  called at  %s\n", kit.EscapeLine(r.Capability), kit.EscapeLine(r.Outcome.Endpoint))
	}
	if r.withEvidence {
		r.printEvidence(w)
	}
}

func (r graduateResult) printEvidence(w io.Writer) {
	p := r.Policy
	fmt.Fprintf(w, "policy %s: %d of one parent within 24 hours, threshold %g, mode %s, detector %s\n",
		kit.EscapeLine(p.Version), p.DailyLimit, p.Threshold, kit.EscapeLine(string(p.Mode)), kit.EscapeLine(p.Detector))
	if r.Findings == nil {
		fmt.Fprintln(w, "no evidence was examined")
		return
	}
	// Refusals use the same group names.
	groupOf := map[gate.SignalName]string{gate.Substrate: "substrate", gate.Style: "stylo"}
	for _, pair := range r.Findings.PairFindings {
		fmt.Fprintf(w, "compared with its %s %s\n", kit.EscapeLine(string(pair.Role)), pair.OtherID.Short())
		for _, group := range []string{"controller", "substrate", "stylo"} {
			label := group
			for _, s := range pair.Signals {
				if cmp.Or(groupOf[s.Name], "controller") != group {
					continue
				}
				layer := kit.EscapeLine(string(s.Name))
				if layer == group {
					layer = ""
				}
				fmt.Fprintf(w, "  %-10s  %-9s %s\n", label, layer, formatSignal(pair.Role, &s))
				label = ""
			}
		}
	}
	if len(r.Findings.PairFindings) == 0 {
		fmt.Fprintln(w, "nothing was compared")
	}
}

func formatSignal(role gate.Role, s *gate.Signal) string {
	text := string(s.State)
	if s.State == gate.SignalObserved {
		text = fmt.Sprintf("%.2f", s.Strength)
		if s.CanRefuse {
			text += ", may refuse"
		} else {
			text += ", recorded only"
		}
	}
	reason := s.Reason
	if reason == "" && s.Name == gate.Substrate && s.State == gate.SignalObserved {
		switch {
		case s.Strength == 0:
			reason = "their substrates differ"
		case role == gate.RoleParent:
			reason = "the child and its parent have the same substrate"
		default:
			reason = "the child and its sibling have the same substrate"
		}
	}
	if reason != "" {
		text += ": " + reason
	}
	if inputs := s.Inputs; inputs != nil {
		switch {
		case inputs.ChildFamilies == inputs.OtherFamilies && inputs.ChildFamilies != "":
			text += fmt.Sprintf(" (%s)", inputs.ChildFamilies)
		case inputs.ChildFamilies != "" || inputs.OtherFamilies != "":
			text += fmt.Sprintf(" (%s and %s)", inputs.ChildFamilies, inputs.OtherFamilies)
		case s.State == gate.SignalObserved:
			text += fmt.Sprintf(" (similarity %.3f, from %d and %d samples)", inputs.Similarity, inputs.ChildSamples, inputs.OtherSamples)
		case inputs.ChildSamples > 0 || inputs.OtherSamples > 0:
			text += fmt.Sprintf(" (%d and %d samples)", inputs.ChildSamples, inputs.OtherSamples)
		}
	}
	return kit.EscapeLine(text)
}

func refusalError(v *graduation.View, name string) error {
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
	command := fmt.Sprintf("vacancy graduate %s --capability %q", name, v.Capability)
	switch kind {
	case problem.GraduationRateExceeded:
		return kit.WithHint(err, "%s, once 24 hours have passed since the oldest of the parent's last %d graduations", command, v.Policy.DailyLimit)
	case problem.CollusionFound:
		return kit.WithHint(err, "vacancy graduate %s --explain", name)
	case problem.Unavailable, problem.DeadlineExceeded:
		return kit.WithHint(err, "%s", command)
	}
	return err
}
