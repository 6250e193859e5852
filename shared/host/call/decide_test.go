package call

import (
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// Every combination of facts, chain positions and kinds of envelope is refused
// for the first reason in the order of PROTOCOL §6.2, or accepted if there is
// none.
func TestDecideRefusesInTheOrderOfTheProtocol(t *testing.T) {
	noon := time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)
	tip := RequestRow{Kind: RowCall, Position: 3, Seq: 3, Hash: identity.Hash{3}, Floor: noon}
	pair := Pair{Caller: identity.ID{1}, Vacant: identity.ID{2}}
	texts := map[bool]string{false: "hello", true: envelope.ResetText}
	positions := []struct {
		name string
		seq  int64
		prev identity.Hash
		want problem.Kind // zero if the envelope is accepted
	}{
		{"fits", 4, identity.Hash{3}, 0}, {"replay", 3, identity.Hash{2}, problem.Replay},
		{"gap", 6, identity.Hash{3}, problem.Gap}, {"fork", 4, identity.Hash{9}, problem.Fork},
	}
	bools := []bool{false, true}
	count := 0
	for _, notRelated := range bools {
		for _, state := range []lifecycle.State{lifecycle.Active, lifecycle.Hibernating, lifecycle.Archived} {
			for _, keyRevoked := range bools {
				for _, payment := range []problem.Kind{0, problem.PaymentRequired, problem.TooManyRequests} {
					for _, at := range positions {
						for _, reset := range bools {
							for _, early := range bools {
								count++
								f := facts{vacant: Vacant{State: state, Floor: noon.Add(time.Hour), Reachability: composite.ParentOnly}, notRelated: notRelated, vacantKeyRevoked: keyRevoked}
								if payment != 0 {
									f.paymentRefusal = problem.New(payment, "unpaid")
								}
								e := &envelope.Envelope{Seq: at.seq, Prev: at.prev, Time: noon.Add(2 * time.Hour), Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{texts[reset]}}}
								if early {
									e.Time = noon
								}
								var want problem.Kind
								switch {
								case notRelated:
									want = problem.TreeOnly
								case keyRevoked || state == lifecycle.Archived:
									want = problem.Gone
								case state == lifecycle.Hibernating:
									want = problem.NotAccepting
								case payment != 0:
									want = payment
								case at.want != 0:
									want = at.want
								case reset:
									want = problem.Malformed
								case early:
									want = problem.BelowFloor
								}
								v := decide(f, pair, e, tip)
								if want == 0 && v.refusal != nil || want != 0 && !problem.Is(v.refusal, want) {
									t.Errorf("notRelated %t, %s, revoked %t, payment %v, %s, reset %t, early %t: refusal %v, want %v",
										notRelated, state, keyRevoked, payment, at.name, reset, early, v.refusal, want)
								}
								if v.mayBeResend != (at.want != 0) {
									t.Errorf("%s: maybeResend = %t", at.name, v.mayBeResend)
								}
								if told := !v.floor.IsZero(); told != (want == problem.BelowFloor || want != 0 && want == at.want) {
									t.Errorf("refused by %v: floor told = %t", want, told)
								}
								if again := decide(f, pair, e, tip); (again.refusal == nil) != (v.refusal == nil) || again.floor != v.floor {
									t.Errorf("the same facts were decided differently: %v, %v", v, again)
								}
							}
						}
					}
				}
			}
		}
	}
	if count != 2*3*2*3*4*2*2 {
		t.Errorf("%d combinations, want all", count)
	}
}

func TestDecideResetRefusesInTheOrderOfTheProtocol(t *testing.T) {
	noon := time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)
	tip := RequestRow{Kind: RowCall, Position: 3, Seq: 3, Floor: noon}
	for _, tt := range []struct {
		name  string
		facts facts
		tip   RequestRow
		at    time.Time
		want  problem.Kind
	}{
		{"later than the floor", facts{vacant: Vacant{State: lifecycle.Active}}, tip, noon.Add(time.Second), 0},
		{"at the floor", facts{vacant: Vacant{State: lifecycle.Active}}, tip, noon, problem.BelowFloor},
		{"below the vacant's floor", facts{vacant: Vacant{State: lifecycle.Active, Floor: noon.Add(time.Hour)}}, RequestRow{}, noon, problem.BelowFloor},
		{"an empty chain without floors", facts{vacant: Vacant{State: lifecycle.Active}}, RequestRow{}, time.Time{}, 0},
		{"asleep", facts{vacant: Vacant{State: lifecycle.Hibernating}}, tip, noon.Add(time.Second), 0},
		{"terminal before the floor", facts{vacant: Vacant{State: lifecycle.Sunk}}, tip, noon, problem.Gone},
		{"revoked", facts{vacant: Vacant{State: lifecycle.Active}, vacantKeyRevoked: true}, tip, noon.Add(time.Second), problem.Gone},
		{"not related before terminal", facts{vacant: Vacant{State: lifecycle.Sunk}, notRelated: true}, tip, noon, problem.TreeOnly},
	} {
		v := decideReset(tt.facts, Pair{}, &envelope.Envelope{Seq: 1, Time: tt.at}, tt.tip)
		if tt.want == 0 && v.refusal != nil || tt.want != 0 && !problem.Is(v.refusal, tt.want) || (tt.want == problem.BelowFloor) == v.floor.IsZero() {
			t.Errorf("%s: %v, floor %v, want kind %v", tt.name, v.refusal, v.floor, tt.want)
		}
	}
}
