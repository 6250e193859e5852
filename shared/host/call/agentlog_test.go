package call_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/call"
)

func TestLeftOutNamesEveryReasonAndIsBounded(t *testing.T) {
	var l call.OmittedTools
	for i := range 1000 {
		l.Add(call.OmittedTool{Name: fmt.Sprint(i), Reason: "many"})
	}
	l.Add(call.OmittedTool{Name: "one", Reason: "its own"})
	for i := range 100 { // more reasons than names
		l.Add(call.OmittedTool{Name: "x", Reason: strings.Repeat("y", i)})
	}
	var other call.OmittedTools
	other.AddAll(l)
	for _, l := range []call.OmittedTools{l, other} {
		reasons := map[string]bool{}
		for _, tool := range l.Tools {
			reasons[tool.Reason] = true
		}
		if l.Count() != 1101 || len(l.Tools) != call.MaxOmittedTools || len(reasons) != call.MaxOmittedTools || !reasons["many"] || !reasons["its own"] {
			t.Errorf("%d left out, %d named with %d reasons: %+v", l.Count(), len(l.Tools), len(reasons), l)
		}
	}
	if diff := cmp.Diff(l, other); diff != "" {
		t.Errorf("Join (-l +other):\n%s", diff)
	}
}
