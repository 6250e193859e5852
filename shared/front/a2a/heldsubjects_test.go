package a2a

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// A person who holds all streams that a sender may have takes none from others of the account.
func TestPeopleOfAnAccountHoldStreamsOfTheirOwn(t *testing.T) {
	h := newHeld(bound{ofSender: 1, ofVacant: 8, what: "streams open", helps: "end one"})
	by := func(subject string, run func()) error {
		payer := &call.Payer{Account: strings.Repeat("a", 64), Subject: subject}
		r := &request{ResponseWriter: httptest.NewRecorder(), Request: httptest.NewRequest("POST", "/v/clerk", nil), payer: payer}
		return h.hold(r, func() error { run(); return nil })
	}
	const ann, bo = "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"
	ran := false
	err := by(ann, func() {
		if err := by(ann, func() {}); !problem.Is(err, problem.TooMany) {
			t.Errorf("ann's second: %v, want too many", err)
		}
		for who, subject := range map[string]string{"bo": bo, "a key": ""} {
			if err := by(subject, func() {}); err != nil {
				t.Errorf("%s, while ann holds all of hers: %v", who, err)
			}
		}
		ran = true
	})
	if err != nil || !ran {
		t.Errorf("ann's first: %v", err)
	}
	if len(h.open) != 0 {
		t.Errorf("after the last request %d holders stay in memory, want none", len(h.open))
	}
}
