// Package plan defines how a composite answers a call. A composite is a vacant that delegates calls
// to its children. A plan contains the tasks for the children and the way in which their answers
// are combined. A caller's text is never parsed as part of the plan.
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

const Kind = "composite"

// CardKind replaces the kind on a composite's card, because the existence of children is not
// public.
const CardKind = "vacancy"

const Version = 1

const (
	MaxBlobBytes      = 64 << 10 // bytes
	MaxDelegations    = 32
	MaxTaskBytes      = 8 << 10 // bytes
	MaxKindBytes      = 64      // bytes
	MaxSeparatorBytes = 256     // bytes
	// MaxDepth limits nested plans. A composite whose children have no plans has depth 1.
	MaxDepth = 4
	// MaxCalls includes nested plans. Otherwise, a caller could get a million calls for the price
	// of one call.
	MaxCalls = 128
)

type OnFailure string

// Skip ignores failed children unless all of them fail.
const (
	Abort OnFailure = "abort"
	Skip  OnFailure = "skip"
)

type Method string

// Vote returns the most frequent answer. BySubstrate lets another substrate combine the answers.
const (
	List        Method = "list"
	Join        Method = "join"
	First       Method = "first"
	Vote        Method = "vote"
	BySubstrate Method = "substrate"
)

const DefaultSeparator = "\n\n"

type Plan struct {
	Parallel    bool         `json:"parallel"`
	Delegations []Delegation `json:"delegate"`
	OnFailure   OnFailure    `json:"on_failure"`
	Aggregate   Aggregate    `json:"aggregate"`
}

type Delegation struct {
	Child string `json:"child"` // name of the child until the plan is set, then its id
	Kind  string `json:"kind"`  // subtask kind for the logbooks, or "" if the task is a text
	Task  string `json:"task"`  // {input} is the caller's text, {previous} the previous answer
}

type Aggregate struct {
	Method    Method `json:"how"`
	Separator string `json:"separator"` // only for Join
	Substrate string `json:"substrate"` // string form of a substrate.Spec
}

func (p *Plan) Check() error {
	switch n := len(p.Delegations); {
	case n == 0:
		return problem.Invalid("delegate", "at least one delegation", "none")
	case n > MaxDelegations:
		return problem.Invalid("delegate", fmt.Sprintf("at most %d delegations", MaxDelegations), strconv.Itoa(n))
	case p.OnFailure != Abort && p.OnFailure != Skip:
		return problem.Invalid("on_failure", "abort or skip", quoteTruncated(string(p.OnFailure)))
	}
	for i := range p.Delegations {
		if err := p.Delegations[i].check(fmt.Sprintf("delegate[%d].", i), i > 0 && !p.Parallel); err != nil {
			return err
		}
	}
	if err := p.Aggregate.check(); err != nil {
		return err
	}
	if n := len(p.Blob()); n > MaxBlobBytes {
		return &problem.Error{Kind: problem.TooLarge, Field: "plan", Want: fmt.Sprintf("at most %d bytes", MaxBlobBytes), Got: strconv.Itoa(n)}
	}
	return nil
}

func (d *Delegation) check(prefix string, hasPrevious bool) error {
	for _, text := range []struct {
		field, text string
		most        int
	}{{"child", d.Child, 2 * identity.Size}, {"kind", d.Kind, MaxKindBytes}, {"task", d.Task, MaxTaskBytes}} {
		if len(text.text) > text.most {
			return problem.Invalid(prefix+text.field, fmt.Sprintf("at most %d bytes", text.most), strconv.Itoa(len(text.text)))
		}
		if text.text == "" && text.field != "kind" {
			return problem.Invalid(prefix+text.field, "a text", "none")
		}
		if !utf8.ValidString(text.text) {
			return problem.Invalid(prefix+text.field, "UTF-8", "other bytes")
		}
	}
	// The kind is written to signed logbooks.
	if err := canon.CheckSignedText(prefix+"kind", d.Kind); err != nil {
		return err
	}
	if d.Kind != "" && canon.IsBlank(d.Kind) {
		return problem.Invalid(prefix+"kind", "a word", "a blank string")
	}
	for _, name := range listPlaceholders(d.Task) {
		switch {
		case name == "previous" && !hasPrevious:
			return problem.Invalid(prefix+"task", "{previous} only in a sequential plan, after the first delegation", "the first delegation, or parallel: true")
		case name != "previous" && name != "input":
			return problem.Invalid(prefix+"task", "{input} or {previous}", "{"+name+"}")
		}
	}
	return nil
}

func (a *Aggregate) check() error {
	switch a.Method {
	case List, Join, First, Vote:
		if a.Substrate != "" {
			return problem.Invalid("aggregate.substrate", "none with "+string(a.Method), quoteTruncated(a.Substrate))
		}
	case BySubstrate:
		spec, err := substrate.Parse(a.Substrate)
		if err != nil {
			return problem.AtPath("aggregate", err)
		}
		if spec.Kind == Kind {
			return problem.Invalid("aggregate.substrate", "a substrate that reads the answers itself", Kind)
		}
		if err := canon.CheckSignedText("aggregate.substrate", a.Substrate); err != nil {
			return err
		}
	default:
		return problem.Invalid("aggregate.how", "list, join, first, vote or substrate", quoteTruncated(string(a.Method)))
	}
	switch {
	case a.Method != Join && a.Separator != "":
		return problem.Invalid("aggregate.separator", "none with "+string(a.Method), quoteTruncated(a.Separator))
	case len(a.Separator) > MaxSeparatorBytes:
		return problem.Invalid("aggregate.separator", fmt.Sprintf("at most %d bytes", MaxSeparatorBytes), strconv.Itoa(len(a.Separator)))
	case !utf8.ValidString(a.Separator):
		return problem.Invalid("aggregate.separator", "UTF-8", "other bytes")
	}
	return nil
}

// Children returns the distinct ids of p's children.
func (p *Plan) Children() ([]identity.ID, error) {
	var ids []identity.ID
	seen := map[identity.ID]bool{}
	for i, d := range p.Delegations {
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

func (p *Plan) Hash() identity.Hash { return identity.Sum(p.Blob()) }

func (p *Plan) Blob() []byte {
	dst := canon.AppendString([]byte(`{"aggregate":{"how":`), string(p.Aggregate.Method))
	if p.Aggregate.Method == Join {
		dst = canon.AppendString(append(dst, `,"separator":`...), p.Aggregate.Separator)
	}
	if p.Aggregate.Method == BySubstrate {
		dst = canon.AppendString(append(dst, `,"substrate":`...), p.Aggregate.Substrate)
	}
	dst = append(dst, `},"delegate":[`...)
	for i, d := range p.Delegations {
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

// RenderTask inserts texts into the task. Braces in these texts have no meaning.
func (d *Delegation) RenderTask(input, previous string) string {
	return strings.NewReplacer("{input}", input, "{previous}", previous).Replace(d.Task)
}

func listPlaceholders(task string) (names []string) {
	for {
		_, rest, found := strings.Cut(task, "{")
		if !found {
			return names
		}
		afterLetters := strings.TrimLeft(rest, "abcdefghijklmnopqrstuvwxyz")
		n := len(rest) - len(afterLetters)
		if n > 0 && strings.HasPrefix(afterLetters, "}") {
			names = append(names, rest[:n])
		}
		task = rest
	}
}

func quoteTruncated(s string) string { return fmt.Sprintf("%.40q", s) }
