package moneycmd

import (
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/account"
	"github.com/vacancy-host/vacancy/shared/host/usage"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// A table of usage has names, as wide as they are, and the sum of each side with several lines. What
// has no name has the first digits of its id.
func TestUsageHasNamesAndSums(t *testing.T) {
	fox, owl := identity.ID{1}, identity.ID{2}
	r := usageResult{names: kit.Names{fox: "fox"}}
	r.Paid = []account.Line{
		{Vacant: fox.String(), Counts: usage.Counts{Answers: 2, Voids: 1, Charge: 4000}},
		{Vacant: owl.String(), Counts: usage.Counts{Answers: 3, Charge: 1_000_000, UnreportedAnswers: 1}},
	}
	r.Earned = []account.Line{{Subject: "s1", Name: "änn\x1b", Counts: usage.Counts{Answers: 1, Charge: 10, Fee: 1}}}
	var b strings.Builder
	r.Print(&b)
	want := `                        answers  voids    charge        fee
paid    fox                   2      1    $0.004         $0
paid    020000000000          3      0        $1         $0
        total                 5      1    $1.004         $0
earned  änn\u001b (s1)        1      0  $0.00001  $0.000001
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}

	r = usageResult{}
	r.Paid = []account.Line{{Caller: fox.String()}, {}}
	b.Reset()
	r.Print(&b)
	for _, name := range []string{"paid  010000000000 ", "paid  other calls "} {
		if !strings.Contains(b.String(), "\n"+name) {
			t.Errorf("got\n%s\nwant a line of %q", b.String(), name)
		}
	}
}
