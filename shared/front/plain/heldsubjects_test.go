package plain

import (
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// A person who holds all streams that a sender may have takes none from others of the account, nor from another account.
func TestPeopleOfAnAccountHoldStreamsOfTheirOwn(t *testing.T) {
	h := newRequestLimiter(requestLimit{perSender: 1, perVacant: 8, requestKind: "streams open", advice: "end one"})
	by := func(payer call.Payer, run func()) error {
		c := &Caller{Sender: Sender{Payer: &payer}}
		return h.Run(c, func() error { run(); return nil })
	}
	const ann, bo = "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"
	acme, other := strings.Repeat("a", 64), strings.Repeat("b", 64)
	ran := false
	err := by(call.Payer{Account: acme, Subject: ann, Key: "k1"}, func() {
		if err := by(call.Payer{Account: acme, Subject: ann, Key: "k2"}, func() {}); !problem.Is(err, problem.TooManyRequests) {
			t.Errorf("ann's second: %v, want too many", err)
		}
		for who, payer := range map[string]call.Payer{
			"bo":                     {Account: acme, Subject: bo, Key: "k1"},
			"a key":                  {Account: acme, Key: "k1"},
			"ann of another account": {Account: other, Subject: ann, Key: "k1"},
			"ann by a test key":      {Account: acme, Subject: ann, Key: "k1", Test: true},
		} {
			if err := by(payer, func() {}); err != nil {
				t.Errorf("%s, while ann holds all of hers: %v", who, err)
			}
		}
		ran = true
	})
	if err != nil || !ran {
		t.Errorf("ann's first: %v", err)
	}
	if len(h.activeCounts) != 0 {
		t.Errorf("after the last request %d holders stay in memory, want none", len(h.activeCounts))
	}
}
