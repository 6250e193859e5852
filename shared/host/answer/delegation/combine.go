package delegation

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/plan"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// combine combines results, which must not be empty, into one answer. The answer is incomplete if
// it uses an incomplete result.
func (r *run) combine(ctx context.Context, results []result) (text string, err error) {
	usedResults := results
	switch a := &r.plan.Aggregate; a.Method {
	case plan.List:
		text = listTexts(results)
	case plan.Join:
		var texts []string
		for _, res := range results {
			texts = append(texts, res.text)
		}
		text = strings.Join(texts, a.Separator)
	case plan.First:
		text, usedResults = results[0].text, results[:1]
	case plan.Vote:
		text = findMostFrequent(results)
	case plan.BySubstrate:
		text, err = r.combineBySubstrate(ctx, results)
		usedResults = nil
	default:
		err = problem.New(problem.Damaged, "the plan has an unknown aggregation: %q", a.Method)
	}
	if err == nil && len(text) > substrate.MaxText {
		err = &problem.Error{Kind: problem.SubstrateTooLarge, Field: "answer", Want: fmt.Sprintf("at most %d bytes from all children together", substrate.MaxText), Got: strconv.Itoa(len(text))}
	}
	for _, res := range usedResults {
		if res.cutReason != "" {
			call.RecordCutReason(ctx, res.cutReason)
		}
	}
	return text, err
}

func listTexts(results []result) string {
	// The reference implementation returns the same JSON array.
	dst := []byte{'['}
	for i, res := range results {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = canon.AppendString(dst, res.text)
	}
	return string(append(dst, ']'))
}

func findMostFrequent(results []result) string {
	// The earliest of the most frequent answers wins.
	votes := map[string]int{}
	for _, res := range results {
		votes[strings.TrimSpace(res.text)]++
	}
	best := strings.TrimSpace(results[0].text)
	for _, res := range results[1:] {
		if answer := strings.TrimSpace(res.text); votes[answer] > votes[best] {
			best = answer
		}
	}
	return best
}

func (r *run) combineBySubstrate(ctx context.Context, results []result) (string, error) {
	spec, err := substrate.Parse(r.plan.Aggregate.Substrate)
	if err != nil {
		return "", err
	}
	s, err := r.Substrates.Open(spec)
	if err != nil {
		return "", err
	}
	// The children's ids are private to the parent, so the substrate gets the kinds of the tasks.
	q := r.question
	dst := canon.AppendString([]byte(`{"input":`), q.Text())
	dst = append(dst, `,"results":[`...)
	for i, res := range results {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = canon.AppendString(append(dst, `{"kind":`...), res.kind)
		dst = append(canon.AppendString(append(dst, `,"text":`...), res.cutReason.AppendRemark(res.text)), '}')
	}
	a, err := substrate.ReadAnswer(s.Infer(ctx, substrate.Request{
		Caller: q.Caller, Vacant: q.Vacant, Chooser: q.Chooser, ContextID: q.ContextID, Turns: []substrate.Turn{{Role: substrate.RoleCaller, Text: string(append(dst, "]}"...))}},
	}))
	if err == nil && a.Reason == substrate.FinishToolUse {
		err = problem.New(problem.SubstrateMisconfigured, "the combiner's model called a tool, but the combiner has no tools")
	}
	if reason := a.CutReason(); reason != "" {
		call.RecordCutReason(ctx, reason)
	}
	return a.Text, err
}
