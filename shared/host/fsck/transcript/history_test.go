package transcript_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/answer/hosttest"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/fsck/transcript"
	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func said(t transcript.Text) string {
	switch {
	case t.Sealed:
		return "(sealed)"
	case t.Damaged:
		return "(damaged)"
	}
	return t.Content
}

func line(e transcript.Entry) string {
	if e.Reset {
		return fmt.Sprintf("%d: epoch %d reset %s", e.Position, e.Epoch, said(e.Text))
	}
	s := fmt.Sprintf("%d: epoch %d call %d %s: %s", e.Position, e.Epoch, e.Seq, said(e.Text), e.Outcome)
	if d := e.Decision; d.Position > 0 {
		s += fmt.Sprintf(" by %d", d.Position)
		if d.Seq > 0 {
			s += fmt.Sprintf(" seq %d", d.Seq)
		}
	}
	return s
}

// tell reads a history within a Walk.
func tell(t *testing.T, a *hosttest.Caller, last uint64) []string {
	t.Helper()
	var lines []string
	a.Must(a.Store.Walk(a.Ctx, func(v store.View) error {
		texts := textkeys.NewReader(v, a.Vault, a.Now, hosttest.Retention)
		return transcript.Read(a.Ctx, v, texts, a.Pair(), last, func(e transcript.Entry) error {
			if e.Outcome == transcript.Answered && e.Decision.Text.Content != "" && !strings.HasSuffix(e.Decision.Text.Content, ": "+e.Text.Content) {
				t.Errorf("row %d said %q, the answer beside it is %q", e.Position, e.Text.Content, e.Decision.Text.Content)
			}
			lines = append(lines, line(e))
			return nil
		})
	}))
	return lines
}

func TestAHistoryTellsWhatBecameOfEachCall(t *testing.T) {
	a := hosttest.Story(t, memory.New())
	want := []string{
		"1: epoch 0 call 1 (sealed): answered by 1 seq 1",
		"2: epoch 0 call 2 (sealed): answered by 2 seq 2",
		"3: epoch 0 call 3 (sealed): answered by 3 seq 3",
		"4: epoch 0 call 4 (sealed): void by 4",
		"5: epoch 0 call 5 (sealed): answered by 5 seq 4",
		"6: epoch 0 call 6 hello tomorrow: answered by 6 seq 5",
		"7: epoch 0 call 7 late: void by 8",
		"8: epoch 0 call 8 after it: answered by 7 seq 6",
		"9: epoch 1 reset RESET_CHAIN",
		"10: epoch 1 call 1 epoch one: answered by 9 seq 1",
		"11: epoch 1 call 2 closed by the next epoch: closed",
		"12: epoch 2 reset RESET_CHAIN",
		"13: epoch 2 call 1 epoch two: answered by 10 seq 1",
		"14: epoch 2 call 2 fail: void by 11",
		"15: epoch 2 call 3 bye: answered by 12 seq 2",
		"16: epoch 2 call 4 pending: pending",
	}
	if diff := cmp.Diff(want, tell(t, a, 0)); diff != "" {
		t.Errorf("Read() (-want +got):\n%s", diff)
	}
	for last := 1; last <= 17; last++ {
		if diff := cmp.Diff(want[max(0, len(want)-last):], tell(t, a, uint64(last))); diff != "" {
			t.Errorf("Read(last %d) (-want +got):\n%s", last, diff)
		}
	}
}

func TestALongHistoryIsReadInPages(t *testing.T) {
	a := hosttest.New(t, memory.New()).Caller()
	late := a.Crash("late")
	for i := range 600 {
		a.Call(fmt.Sprint(i))
	}
	a.Time = a.Time.Add(call.DefaultCallTimeout + call.GracePeriod)
	a.Ask(late, call.Unanswered)
	lines := tell(t, a, 0)
	if len(lines) != 601 || lines[0] != "1: epoch 0 call 1 late: void by 601" || lines[600] != "601: epoch 0 call 601 599: answered by 600 seq 600" {
		t.Errorf("Read() = %d lines, first %q, last %q", len(lines), lines[0], lines[len(lines)-1])
	}
}

func TestAHistoryEndsWithItsReader(t *testing.T) {
	a := hosttest.Story(t, memory.New())
	stop := errors.New("enough")
	err := a.Store.Walk(a.Ctx, func(v store.View) error {
		return transcript.Read(a.Ctx, v, textkeys.NewReader(v, a.Vault, a.Now, hosttest.Retention), a.Pair(), 0, func(transcript.Entry) error { return stop })
	})
	if !errors.Is(err, stop) {
		t.Errorf("Read() = %v, want %v", err, stop)
	}
}

func TestADamagedRowEndsAHistoryAndNamesVerify(t *testing.T) {
	a := hosttest.New(t, memory.New()).Caller()
	a.Call("hello")
	a.Must(a.Store.Commit(a.Ctx, store.Append{Stream: a.Pair().Requests(), Position: 2, WriteID: store.WriteID{1}, Data: []byte{9, 9}}))
	err := a.Store.Walk(a.Ctx, func(v store.View) error {
		return transcript.Read(a.Ctx, v, textkeys.NewReader(v, a.Vault, a.Now, hosttest.Retention), a.Pair(), 0, func(transcript.Entry) error { return nil })
	})
	if !problem.Is(err, problem.Damaged) || !strings.Contains(err.Error(), "row 2 of req#") || !strings.Contains(err.Error(), "run verify") {
		t.Errorf("Read() = %v, want the damaged row named", err)
	}
}

func TestAPairIsFoundByNamesIDsAndBeginnings(t *testing.T) {
	a := hosttest.Story(t, memory.New())
	stranger := a.Fixture.Caller()
	from, to := a.Pair().Caller, a.Pair().Vacant
	find := func(from, to string) (pair call.Pair, err error) {
		a.Must(a.Store.Walk(a.Ctx, func(v store.View) error {
			pair, err = transcript.Find(a.Ctx, v, from, to)
			return nil
		}))
		return pair, err
	}
	for _, tc := range [][2]string{
		{from.String(), "demo"}, {from.String(), to.String()}, {from.String()[:12], "demo"}, {from.String()[:13], to.String()[:9]},
		{strings.ToUpper(from.String()), strings.ToUpper(to.String()[:9])},
	} {
		if got, err := find(tc[0], tc[1]); err != nil || got != a.Pair() {
			t.Errorf("Find(%.12s, %.12s) = %v, %v", tc[0], tc[1], got, err)
		}
	}
	for _, tc := range []struct {
		from, to string
		want     problem.Kind
	}{
		{from.String(), "other", problem.NotFound},             // hosted, but never called
		{from.String(), "nobody", problem.NotFound},            // no such name
		{stranger.Key.ID().String(), "demo", problem.NotFound}, // never called
		{"demo", "demo", problem.NotFound},
		{from.String()[:3], "demo", problem.NotFound}, // too short for a beginning
		{"", "demo", problem.NotFound},
		{"zzzz", "demo", problem.NotFound},
		{from.String() + "00", "demo", problem.NotFound},
	} {
		if got, err := find(tc.from, tc.to); !problem.Is(err, tc.want) {
			t.Errorf("Find(%.12s, %.12s) = %v, %v, want %v", tc.from, tc.to, got, err, tc.want)
		}
	}
}

func TestANameOfAnOwnIdentityIsRefusedIfAVacantHereHasItToo(t *testing.T) {
	a := hosttest.Story(t, memory.New())
	own, demo := a.Pair().Caller.String(), a.Pair().Vacant.String()
	near := identity.ID{0xab, 0xcd}
	for i := range byte(2) {
		a.Must(a.Store.Commit(a.Ctx, store.Append{Stream: store.StreamOf(store.KindLogbook, identity.ID{0xab, 0xcd, i}), Position: 1, WriteID: store.WriteID{1}, Data: []byte{1}}))
	}
	for _, tc := range []struct {
		word, own, want string
		kind            problem.Kind
	}{
		{word: "demo", want: "demo"},
		{word: "alice", own: own, want: own},
		{word: "demo", own: demo, want: demo}, // it is hosted here
		{word: "demo", own: own, kind: problem.Usage},
		{word: demo[:4], own: own, kind: problem.Usage},
		{word: strings.ToUpper(demo[:9]), own: own, kind: problem.Usage},
		{word: demo[:9], own: demo, want: demo},
		{word: demo[:3], own: own, want: own}, // too short for a beginning
		{word: own[:9], own: own, want: own},  // calls, but is not hosted
		{word: "abcd00", own: near.String(), want: near.String()},
		{word: "abcd", own: near.String(), kind: problem.Usage},
		{word: "alice", own: own[:9], kind: problem.Malformed},
	} {
		a.Must(a.Store.Walk(a.Ctx, func(v store.View) error {
			got, err := transcript.ResolveOwnReference(a.Ctx, v, tc.word, tc.own)
			if got != tc.want || (tc.want == "") != problem.Is(err, tc.kind) {
				t.Errorf("Own(%.9s, %.9s) = %.9s, %v, want %.9s, %v", tc.word, tc.own, got, err, tc.want, tc.kind)
			}
			return nil
		}))
	}
}

func TestABeginningThatFitsSeveralPairsIsRefused(t *testing.T) {
	a := hosttest.New(t, memory.New()).Caller()
	for i := range 9 {
		id := identity.ID{0xab, 0xcd, byte(i)}
		a.Must(a.Store.Commit(a.Ctx, store.Append{Stream: call.Pair{Caller: id, Vacant: a.Demo.ID}.Requests(), Position: 1, WriteID: store.WriteID{1}, Data: []byte{1}}))
	}
	a.Must(a.Store.Commit(a.Ctx, store.Append{Stream: "req#\xab\xcd", Position: 1, WriteID: store.WriteID{1}, Data: []byte{1}}))
	a.Must(a.Store.Walk(a.Ctx, func(v store.View) error {
		_, err := transcript.Find(a.Ctx, v, "abcd", "demo")
		if !problem.Is(err, problem.Malformed) || !strings.Contains(err.Error(), "abcd01000000 > ") {
			t.Errorf("Find(abcd) = %v, want the pairs named", err)
		}
		if got, err := transcript.Find(a.Ctx, v, "abcd0", "demo"); !problem.Is(err, problem.Malformed) {
			t.Errorf("Find(abcd0) = %v, %v, want several", got, err)
		}
		got, err := transcript.Find(a.Ctx, v, "abcd07", "demo")
		if err != nil || got.Caller[2] != 7 {
			t.Errorf("Find(abcd07) = %v, %v, want the one", got, err)
		}
		return nil
	}))
}
