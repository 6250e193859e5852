package cloud

import "testing"

func TestTheCauseIsTheFirstRealFailure(t *testing.T) {
	at := func(id, resource, status, reason string) Event {
		return Event{ID: id, Stack: "s", Resource: resource, Type: "AWS::X", Status: status, Reason: reason}
	}
	whole := Event{ID: "9", Stack: "s", Resource: "s", Type: "AWS::CloudFormation::Stack", Status: "UPDATE_FAILED", Reason: "The following resource(s) failed"}
	for name, tc := range map[string]struct {
		events []Event
		want   string
	}{
		"nothing failed":   {[]Event{at("1", "A", "CREATE_COMPLETE", "")}, ""},
		"after cancelled":  {[]Event{at("1", "A", "CREATE_FAILED", "Resource creation cancelled"), at("2", "B", "CREATE_FAILED", "no role"), at("3", "C", "CREATE_FAILED", "later")}, "2"},
		"before the stack": {[]Event{whole, at("2", "B", "UPDATE_FAILED", "no role")}, "2"},
		"the stack alone":  {[]Event{at("1", "A", "UPDATE_FAILED", "Resource update cancelled"), whole}, "9"},
	} {
		if e, ok := FirstFailure(tc.events); e.ID != tc.want || ok != (tc.want != "") {
			t.Errorf("%s: FirstFailure() = %q, %t, want %q", name, e.ID, ok, tc.want)
		}
	}
}
