// Package plan defines how a composite answers a call: which children it asks
// for what, and how it combines their answers.
//
// The invariants: a plan has one canonical form that parses back to it. A
// caller's text is inserted into a task once, as text, and never parsed as part
// of the plan.
package plan

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Kind is the kind of the substrate that answers by a plan.
const Kind = "composite"

// CardWord is the substrate on a composite's card. That it has children is not
// public.
const CardWord = "vacancy"

// Version is the format version of a plan.
const Version = 1

// Limits of a plan, and of the tree of plans below it.
const (
	MaxBlob        = 64 << 10 // bytes of a whole plan
	MaxDelegations = 32
	MaxTask        = 8 << 10 // bytes
	MaxKind        = 64      // bytes
	MaxSeparator   = 256     // bytes
	// MaxDepth bounds nested plans: a composite of plain children has depth 1.
	MaxDepth = 4
	// MaxCalls bounds the delegations of one call, children's plans included.
	// Otherwise a caller of a deep tree could get a million calls for the price
	// of one.
	MaxCalls = 128
)

// OnFailure is the effect of a failed delegation on the call.
type OnFailure string

// Abort fails the call, like the reference. Skip continues without the answer,
// unless none is left.
const (
	Abort OnFailure = "abort"
	Skip  OnFailure = "skip"
)

// How is the way to combine answers.
type How string

// The combiners. List is the reference's: the answers in the plan's order, as a
// JSON array. Join puts a separator between them. First is the first answer; a
// sequential plan calls no child after it. Vote is the most frequent answer, of
// equals the earliest. BySubstrate lets another substrate combine them.
const (
	List        How = "list"
	Join        How = "join"
	First       How = "first"
	Vote        How = "vote"
	BySubstrate How = "substrate"
)

// DefaultSeparator is Join's default.
const DefaultSeparator = "\n\n"

// Plan lists a composite's delegations and how to join their answers.
type Plan struct {
	Parallel  bool         `json:"parallel"` // all at once; else one after the other, like the reference
	Delegate  []Delegation `json:"delegate"`
	OnFailure OnFailure    `json:"on_failure"`
	Aggregate Aggregate    `json:"aggregate"`
}

// Delegation calls one child.
type Delegation struct {
	Child string `json:"child"` // its name until the plan is set, then its id
	Kind  string `json:"kind"`  // the subtask's kind, for the logbooks; "" if the task is a text
	Task  string `json:"task"`  // {input} is the caller's text, {previous} the answer before
}

// Aggregate combines answers.
type Aggregate struct {
	How       How    `json:"how"`
	Separator string `json:"separator"` // for Join
	Substrate string `json:"substrate"` // for BySubstrate, in substrate.Spec text form
}

// Check checks the form of p; the error names the field.
func (p *Plan) Check() error {
	switch n := len(p.Delegate); {
	case n == 0:
		return problem.Invalid("delegate", "at least one delegation", "none")
	case n > MaxDelegations:
		return problem.Invalid("delegate", fmt.Sprintf("at most %d delegations", MaxDelegations), strconv.Itoa(n))
	case p.OnFailure != Abort && p.OnFailure != Skip:
		return problem.Invalid("on_failure", "abort or skip", clip(string(p.OnFailure)))
	}
	for i := range p.Delegate {
		if err := p.Delegate[i].check(fmt.Sprintf("delegate[%d].", i), i > 0 && !p.Parallel); err != nil {
			return err
		}
	}
	if err := p.Aggregate.check(); err != nil {
		return err
	}
	if n := len(p.Blob()); n > MaxBlob {
		return &problem.Error{Kind: problem.TooLarge, Field: "plan", Want: fmt.Sprintf("at most %d bytes", MaxBlob), Got: strconv.Itoa(n)}
	}
	return nil
}

func (d *Delegation) check(at string, follows bool) error {
	for _, text := range []struct {
		field, text string
		most        int
	}{{"child", d.Child, 2 * identity.Size}, {"kind", d.Kind, MaxKind}, {"task", d.Task, MaxTask}} {
		if len(text.text) > text.most {
			return problem.Invalid(at+text.field, fmt.Sprintf("at most %d bytes", text.most), strconv.Itoa(len(text.text)))
		}
		if text.text == "" && text.field != "kind" {
			return problem.Invalid(at+text.field, "a text", "none")
		}
		if !utf8.ValidString(text.text) {
			return problem.Invalid(at+text.field, "UTF-8", "other bytes")
		}
	}
	// The kind goes into signed logbooks; a task may have line breaks.
	if err := canon.CheckText(at+"kind", d.Kind); err != nil {
		return err
	}
	if d.Kind != "" && canon.IsBlank(d.Kind) {
		return problem.Invalid(at+"kind", "a word", "a blank string")
	}
	for _, name := range placeholders(d.Task) {
		switch {
		case name == "previous" && !follows:
			return problem.Invalid(at+"task", "{previous} only where one delegation follows another", "the first, or parallel: true")
		case name != "previous" && name != "input":
			return problem.Invalid(at+"task", "{input} or {previous}", "{"+name+"}")
		}
	}
	return nil
}

func (a *Aggregate) check() error {
	switch a.How {
	case List, Join, First, Vote:
		if a.Substrate != "" {
			return problem.Invalid("aggregate.substrate", "none with "+string(a.How), clip(a.Substrate))
		}
	case BySubstrate:
		spec, err := substrate.Parse(a.Substrate)
		if err != nil {
			return problem.Below("aggregate", err)
		}
		if spec.Kind == Kind {
			return problem.Invalid("aggregate.substrate", "one that reads the answers itself", Kind)
		}
		if err := canon.CheckText("aggregate.substrate", a.Substrate); err != nil {
			return err
		}
	default:
		return problem.Invalid("aggregate.how", "list, join, first, vote or substrate", clip(string(a.How)))
	}
	switch {
	case a.How != Join && a.Separator != "":
		return problem.Invalid("aggregate.separator", "none with "+string(a.How), clip(a.Separator))
	case len(a.Separator) > MaxSeparator:
		return problem.Invalid("aggregate.separator", fmt.Sprintf("at most %d bytes", MaxSeparator), strconv.Itoa(len(a.Separator)))
	case !utf8.ValidString(a.Separator):
		return problem.Invalid("aggregate.separator", "UTF-8", "other bytes")
	}
	return nil
}

// Children returns the distinct ids of p's children, in the plan's order. The
// error is of kind Damaged for a plan that still has names.
func (p *Plan) Children() ([]identity.ID, error) {
	var ids []identity.ID
	seen := map[identity.ID]bool{}
	for i, d := range p.Delegate {
		id, err := identity.ParseID(d.Child)
		if err != nil {
			return nil, problem.Wrap(problem.Damaged, err, "delegate[%d].child is not an id", i)
		}
		if !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// Hash is the hash of the canonical form.
func (p *Plan) Hash() identity.Hash { return identity.Sum(p.Blob()) }

// Blob is the canonical form: canonical JSON of all members.
func (p *Plan) Blob() []byte {
	dst := canon.AppendString([]byte(`{"aggregate":{"how":`), string(p.Aggregate.How))
	if p.Aggregate.How == Join {
		dst = canon.AppendString(append(dst, `,"separator":`...), p.Aggregate.Separator)
	}
	if p.Aggregate.How == BySubstrate {
		dst = canon.AppendString(append(dst, `,"substrate":`...), p.Aggregate.Substrate)
	}
	dst = append(dst, `},"delegate":[`...)
	for i, d := range p.Delegate {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = canon.AppendString(append(dst, `{"child":`...), d.Child)
		if d.Kind != "" {
			dst = canon.AppendString(append(dst, `,"kind":`...), d.Kind)
		}
		dst = append(canon.AppendString(append(dst, `,"task":`...), d.Task), '}')
	}
	dst = canon.AppendString(append(dst, `],"on_failure":`...), string(p.OnFailure))
	dst = strconv.AppendBool(append(dst, `,"parallel":`...), p.Parallel)
	return append(strconv.AppendInt(append(dst, `,"version":`...), Version, 10), '}')
}

// Fill inserts the caller's text and the answer before into the task, once and
// unparsed, so braces in them mean nothing.
func (d *Delegation) Fill(input, previous string) string {
	return strings.NewReplacer("{input}", input, "{previous}", previous).Replace(d.Task)
}

// placeholders returns the names in braces in a task.
func placeholders(task string) (names []string) {
	for {
		_, rest, found := strings.Cut(task, "{")
		if !found {
			return names
		}
		name := strings.TrimLeft(rest, "abcdefghijklmnopqrstuvwxyz")
		n := len(rest) - len(name)
		if n > 0 && strings.HasPrefix(name, "}") {
			names = append(names, rest[:n])
		}
		task = rest
	}
}

// clip shortens foreign text for an error.
func clip(s string) string { return fmt.Sprintf("%.40q", s) }
