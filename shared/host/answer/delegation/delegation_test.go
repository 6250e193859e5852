package delegation_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/answer/delegation"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/plan"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

func TestACompositeAnswersByItsPlan(t *testing.T) {
	const three = `"delegate":[{"child":"a"},{"child":"b"},{"child":"c"}]`
	say := func(text string) thinks {
		return func(context.Context, substrate.Request) (string, error) { return text, nil }
	}
	fail := func(context.Context, substrate.Request) (string, error) { return "", errBroken }
	for name, c := range map[string]struct {
		plan  string
		minds map[string]thinks
		want  string
		fails problem.Kind // Internal: it answers
	}{
		"list":             {plan: three, want: `["a(hi \"{previous}\"\n)","b(hi \"{previous}\"\n)","c(hi \"{previous}\"\n)"]`},
		"list, at once":    {plan: `"parallel":true,` + three, minds: map[string]thinks{"a": slow(60, "1"), "b": slow(30, "2"), "c": say("3")}, want: `["1","2","3"]`},
		"join":             {plan: `"aggregate":{"how":"join","separator":" | "},` + three, minds: map[string]thinks{"a": say("x"), "b": say("y"), "c": say("z")}, want: "x | y | z"},
		"first":            {plan: `"aggregate":{"how":"first"},` + three, minds: map[string]thinks{"a": say("x"), "b": fail, "c": fail}, want: "x"},
		"first that can":   {plan: `"on_failure":"skip","aggregate":{"how":"first"},` + three, minds: map[string]thinks{"a": fail, "b": say("y"), "c": fail}, want: "y"},
		"first, at once":   {plan: `"parallel":true,"on_failure":"skip","aggregate":{"how":"first"},` + three, minds: map[string]thinks{"a": fail, "b": slow(40, "y"), "c": say("z")}, want: "y"},
		"vote":             {plan: `"aggregate":{"how":"vote"},` + three, minds: map[string]thinks{"a": say("no"), "b": say("yes\n"), "c": say(" yes")}, want: "yes"},
		"a drawn vote":     {plan: `"aggregate":{"how":"vote"},` + three, minds: map[string]thinks{"a": say("no"), "b": say("yes"), "c": say("maybe")}, want: "no"},
		"by a substrate":   {plan: `"aggregate":{"how":"substrate","substrate":"test:judge"},"delegate":[{"child":"a","kind":"draft"},{"child":"b"}]`, minds: map[string]thinks{"a": say("x"), "b": say("y")}, want: `judge({"input":"hi \"{previous}\"\n","results":[{"kind":"draft","text":"x"},{"kind":"","text":"y"}]})`},
		"tasks":            {plan: `"aggregate":{"how":"join","separator":";"},"delegate":[{"child":"a","task":"1 {input}"},{"child":"b","task":"2 {previous}"},{"child":"a","task":"3"}]`, want: "a(1 hi \"{previous}\"\n);b(2 a(1 hi \"{previous}\"\n));a(3)"},
		"one is skipped":   {plan: `"on_failure":"skip","delegate":[{"child":"a"},{"child":"b"},{"child":"c","task":"after {previous}"}]`, minds: map[string]thinks{"a": say("x"), "b": fail}, want: `["x","c(after x)"]`},
		"one aborts":       {plan: three, minds: map[string]thinks{"b": fail}, fails: problem.BehaviourFailed},
		"one of all":       {plan: `"parallel":true,` + three, minds: map[string]thinks{"b": fail}, fails: problem.BehaviourFailed},
		"none is left":     {plan: `"on_failure":"skip",` + three, minds: map[string]thinks{"a": fail, "b": fail, "c": fail}, fails: problem.BehaviourFailed},
		"combiner fails":   {plan: `"aggregate":{"how":"substrate","substrate":"test:judge"},` + three, minds: map[string]thinks{"judge": fail}, fails: problem.BehaviourFailed},
		"too much in all":  {plan: three, minds: map[string]thinks{"a": say(strings.Repeat("x", 200<<10)), "b": say(strings.Repeat("x", 200<<10))}, fails: problem.SubstrateTooLarge},
		"too late":         {plan: three, minds: map[string]thinks{"b": never}, fails: problem.DeadlineExceeded},
		"too late, in all": {plan: `"parallel":true,` + three, minds: map[string]thinks{"b": never}, fails: problem.DeadlineExceeded},
		"without the late": {plan: `"parallel":true,"on_failure":"skip",` + three, minds: map[string]thinks{"a": say("x"), "b": never, "c": say("z")}, want: `["x","z"]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStore()
			h := open(t, s)
			if strings.Contains(name, "late") {
				h = h.over(s, work)
			}
			parent := h.create("parent")
			children := h.spawn(parent.ID, "a", "b", "c")
			h.set(parent.ID, `{"version":1,`+c.plan+`}`)
			for name, f := range c.minds {
				h.minds.set(name, f)
			}
			got, failed := h.ask(parent.ID, "hi \"{previous}\"\n")
			log := h.log(parent.ID)
			if c.fails != problem.Internal {
				if failed == nil || failed.Kind != c.fails {
					t.Errorf("Send() = %q, %v, want %v", got, failed, c.fails)
				}
				if n := count(log, logbook.KindAggregate); n != 0 {
					t.Errorf("%d aggregations of a call that failed, want none", n)
				}
			} else {
				if failed != nil || got != c.want {
					t.Errorf("Send() = %q, %v, want %q", got, failed, c.want)
				}
				if n := count(log, logbook.KindAggregate); n != 1 {
					t.Errorf("%d aggregations, want one", n)
				}
			}
			executed := 0
			for _, child := range children {
				executed += count(h.log(child.ID), logbook.KindExecute)
			}
			if n := count(log, logbook.KindDelegate); n != executed {
				t.Errorf("%d entries of tasks given, %d of tasks taken, want as many", n, executed)
			}
			wantClean(t, h, s)
		})
	}
}

// slow says text after some milliseconds.
func slow(ms int, text string) thinks {
	return func(ctx context.Context, _ substrate.Request) (string, error) {
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(time.Duration(ms) * time.Millisecond):
			return text, nil
		}
	}
}

func never(ctx context.Context, _ substrate.Request) (string, error) {
	<-ctx.Done()
	return "", ctx.Err()
}

// An answer that repeats a part of an answer is a part, too.
func TestACompositeSaysThatAnAnswerWasCut(t *testing.T) {
	const two = `"delegate":[{"child":"a"},{"child":"b"}]`
	cut := func(ctx context.Context, q substrate.Request) (string, error) {
		call.RecordCutReason(ctx, call.CutLength)
		return "half", nil
	}
	for plan, want := range map[string]struct {
		text string
		cut  call.CutReason
	}{
		two: {`["half","b(hi)"]`, call.CutLength},
		`"aggregate":{"how":"first"},"delegate":[{"child":"b"},{"child":"a"}]`:                                          {"b(hi)", ""},
		`"parallel":true,"aggregate":{"how":"join","separator":"|"},` + two:                                             {"half|b(hi)", call.CutLength},
		`"aggregate":{"how":"substrate","substrate":"test:judge"},` + two:                                               {`judge({"input":"hi","results":[{"kind":"","text":"half\n[This answer was cut off here: length.]"},{"kind":"","text":"b(hi)"}]})`, ""},
		`"delegate":[{"child":"a"},{"child":"b","task":"check {previous}"}],"aggregate":{"how":"join","separator":"|"}`: {"half|b(check half\n[This answer was cut off here: length.])", call.CutLength},
	} {
		s := newStore()
		h := open(t, s)
		parent := h.create("parent")
		h.spawn(parent.ID, "a", "b")
		h.set(parent.ID, `{"version":1,`+plan+`}`)
		h.minds.set("a", cut)
		out := h.calls.Send(t.Context(), identity.ID{}, newCaller(t, parent.ID).sign(t, "hi"))
		if out.Reply == nil || out.Reply.Payload.Text() != want.text || out.CutReason != want.cut {
			t.Errorf("%s: %+v, %v, cut %q; want %q, cut %q", plan, out.Reply, out.Problem, out.CutReason, want.text, want.cut)
		}
		wantClean(t, h, s)
	}
}

func TestBothLogbooksSayWhatWasAskedAndAnswered(t *testing.T) {
	h, parent, children := firm(t, newStore(), `{"version":1,"delegate":[{"child":"drafter","kind":"draft","task":"draft {input}"},{"child":"reviewer","task":"check {previous}"}],
		"aggregate":{"how":"join","separator":"; "}}`)
	got, failed := h.ask(parent.ID, "a will")
	if failed != nil || got != "drafter(draft a will); reviewer(check drafter(draft a will))" {
		t.Fatalf("Send() = %q, %v", got, failed)
	}
	last := func(id identity.ID, n int) (lines []string) {
		entries, err := h.vacants.Logbook(t.Context(), id, 1, vacants.MaxPage)
		h.must(err)
		for _, e := range entries[len(entries)-n:] {
			lines = append(lines, e.Entry.Kind+" "+string(e.Entry.Payload))
		}
		return lines
	}
	sum := func(s string) string { return identity.Sum([]byte(s)).String() }
	drafter, reviewer := children[0].ID, children[1].ID
	tasks := []string{sum("draft a will"), sum("check drafter(draft a will)")}
	answers := []string{sum("drafter(draft a will)"), sum("reviewer(check drafter(draft a will))")}
	if diff := cmp.Diff([]string{
		fmt.Sprintf(`COMPOSITE_DELEGATE {"child_id":"%s","subtask_kind":"draft","task_hash":"%s"}`, drafter, tasks[0]),
		fmt.Sprintf(`COMPOSITE_DELEGATE {"child_id":"%s","subtask_kind":"str","task_hash":"%s"}`, reviewer, tasks[1]),
		fmt.Sprintf(`COMPOSITE_AGGREGATE {"child_ids":["%s","%s"],"n_results":2,"result_hash":"%s","result_hashes":["%s","%s"],"task_hashes":["%s","%s"]}`,
			drafter, reviewer, sum(got), answers[0], answers[1], tasks[0], tasks[1]),
	}, last(parent.ID, 3)); diff != "" {
		t.Errorf("the parent's logbook (-want +got):\n%s", diff)
	}
	for i, kind := range []string{"draft", "str"} {
		want := []string{fmt.Sprintf(`COMPOSITE_EXECUTE {"parent_id":"%s","subtask_kind":"%s","task_hash":"%s"}`, parent.ID, kind, tasks[i])}
		if diff := cmp.Diff(want, last(children[i].ID, 1)); diff != "" {
			t.Errorf("the logbook of child %d (-want +got):\n%s", i, diff)
		}
	}
}

func TestAChildIsCalledInAChainOfItsOwnWithAReceipt(t *testing.T) {
	s := newStore()
	h, parent, children := firm(t, s, both)
	for range 3 {
		if _, failed := h.ask(parent.ID, "x"); failed != nil {
			t.Fatal(failed)
		}
	}
	for _, child := range children {
		pair := call.Pair{Caller: parent.ID, Vacant: child.ID}
		tip, err := s.Tip(t.Context(), pair.Requests())
		h.must(err)
		req, err := call.DecodeRequest(tip)
		h.must(err)
		tip, err = s.Tip(t.Context(), pair.Responses())
		h.must(err)
		rsp, err := call.DecodeResponse(tip)
		h.must(err)
		if req.Seq != 3 || rsp.Seq != 3 || rsp.RequestHash != req.Hash {
			t.Errorf("pair with %s: %d requests, %d answers, want 3 of each, the last to the last", child.Name, req.Seq, rsp.Seq)
		}
	}
	wantClean(t, h, s)
}

// limit matches the limit that an error names.
var limit = regexp.MustCompile(`within [0-9.]+s, the time that the (host allows|request has)`)

func TestErrorsOfAChildAreNotShown(t *testing.T) {
	t.Parallel()
	s := newStore()
	h, parent, _ := firm(t, s, both)
	h = h.over(s, work)
	plain := h.create("plain")
	for _, c := range []struct {
		name string
		f    thinks
	}{
		{"fails", func(context.Context, substrate.Request) (string, error) { return "", errBroken }},
		{"is late", never},
		{"panics", func(context.Context, substrate.Request) (string, error) { panic("drafter") }},
		{"says too much", func(context.Context, substrate.Request) (string, error) { return "\xff", nil }},
	} {
		h.minds.set("drafter", c.f)
		h.minds.set("plain", c.f)
		_, inside := h.ask(parent.ID, "x")
		_, alone := h.ask(plain.ID, "x")
		want := alone.Text()
		if c.name == "says too much" { // for its parent it failed like any other
			want = problem.BehaviourFailed.Forms().DefaultMessage
		}
		// The parent of a late child had a part of the time.
		if inside == nil || limit.ReplaceAllString(inside.Text(), "") != limit.ReplaceAllString(want, "") || inside.Kind != alone.Kind {
			t.Errorf("a child that %s: Send() = %v, want %v", c.name, inside, alone)
		}
	}
}

func TestFiveAtOnceToOneChildLeaveBothChainsWhole(t *testing.T) {
	s := newStore()
	h := open(t, s)
	parent := h.create("parent")
	child := h.spawn(parent.ID, "only")[0]
	h.set(parent.ID, `{"version":1,"parallel":true,"delegate":[`+strings.Repeat(`{"child":"only","task":"{input}"},`, 4)+`{"child":"only","task":"last"}]}`)
	var at counter
	h.minds.set("only", func(ctx context.Context, q substrate.Request) (string, error) {
		defer at.enter()()
		return slow(50, q.Text())(ctx, q)
	})
	got, failed := h.ask(parent.ID, "x")
	if failed != nil || got != `["x","x","x","x","last"]` {
		t.Errorf("Send() = %q, %v", got, failed)
	}
	if n := at.most.Load(); n < 2 {
		t.Errorf("at most %d ran at once, want several", n)
	}
	if n := count(h.log(child.ID), logbook.KindExecute); n != 5 {
		t.Errorf("the child took %d tasks, want 5", n)
	}
	wantClean(t, h, s)
}

func TestTwoHostsOfOneStoreAnswerByOnePlanAtOnce(t *testing.T) {
	s := newStore()
	h := open(t, s)
	parent := h.create("parent")
	h.spawn(parent.ID, "a", "b")
	h.set(parent.ID, `{"version":1,"parallel":true,"delegate":[{"child":"a"},{"child":"b"},{"child":"a"}]}`)
	hosts := []*fixture{h, h.over(s, ample)}
	const each = 4
	done := make(chan error, len(hosts)*each)
	for _, host := range hosts {
		for range each {
			go func() {
				got, failed := newCaller(t, parent.ID).call(t.Context(), t, host, "x")
				if failed != nil || got != `["a(x)","b(x)","a(x)"]` {
					done <- fmt.Errorf("Send() = %q, %w", got, failed)
					return
				}
				done <- nil
			}()
		}
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if n := count(h.log(parent.ID), logbook.KindAggregate); n != len(hosts)*each {
		t.Errorf("%d aggregations, want %d", n, len(hosts)*each)
	}
	wantClean(t, h, s)
}

func TestAChildThatCannotAnswerIsNotAskedAndItsLogbookNotWritten(t *testing.T) {
	for name, do := range map[string]func(h *fixture, id identity.ID) error{
		"paused": func(h *fixture, id identity.ID) error { _, err := h.vacants.Pause(h.Context(), id); return err },
		"sunk":   func(h *fixture, id identity.ID) error { _, err := h.vacants.Sink(h.Context(), id); return err },
		"revoked": func(h *fixture, id identity.ID) error {
			_, _, err := h.vacants.Revoke(h.Context(), id, "lost")
			return err
		},
		"deleted": func(h *fixture, id identity.ID) error {
			_, err := h.vacants.Sink(h.Context(), id)
			if err == nil {
				_, err = h.vacants.Archive(h.Context(), id)
			}
			if err == nil {
				_, err = h.vacants.Delete(h.Context(), id)
			}
			return err
		},
	} {
		for _, policy := range []string{"abort", "skip"} {
			t.Run(name+", "+policy, func(t *testing.T) {
				s := newStore()
				h, parent, children := firm(t, s, both[:len(both)-1]+`,"on_failure":"`+policy+`"}`)
				h.must(do(h, children[0].ID))
				before := h.log(children[0].ID)
				got, failed := h.ask(parent.ID, "x")
				if policy == "skip" && (failed != nil || got != `["reviewer(x)"]`) {
					t.Errorf("Send() = %q, %v, want the other's answer", got, failed)
				}
				if policy == "abort" && (failed == nil || failed.Kind != problem.SubstrateUnavailable) {
					t.Errorf("Send() = %q, %v, want a failure", got, failed)
				}
				if diff := cmp.Diff(before, h.log(children[0].ID)); diff != "" {
					t.Errorf("its logbook (-before +after):\n%s", diff)
				}
				wantClean(t, h, s)
			})
		}
	}
}

func TestTheLogSaysOnceWhyAChildDidNotAnswer(t *testing.T) {
	s := newStore()
	h, parent, children := firm(t, s, both)
	h.minds.set("drafter", func(context.Context, substrate.Request) (string, error) { return "", errBroken })
	_, failed := h.ask(parent.ID, "x")
	if want := "the vacant failed to answer: child " + children[0].ID.Short() + " failed: broken"; failed == nil || failed.Error() != want {
		t.Errorf("Send() = %v, want %s", failed, want)
	}
	_, err := h.vacants.Pause(t.Context(), children[0].ID)
	h.must(err)
	_, failed = h.ask(parent.ID, "x")
	if want := "the vacant failed to answer: its agent is not available: its plan failed: child " + children[0].ID.Short() + ": it is HIBERNATING"; failed == nil || failed.Error() != want {
		t.Errorf("Send() = %v, want %s", failed, want)
	}
}

func TestAChildOfAnotherIsNeverAsked(t *testing.T) {
	s := newStore()
	h, parent, _ := firm(t, s, both)
	other := h.create("other")
	stranger := h.spawn(other.ID, "stranger")[0]
	// As if the plan had been written without SetPlan.
	d, err := s.Doc(t.Context(), vacants.PlanKey(parent.ID))
	h.must(err)
	p := parse(t, `{"version":1,"delegate":[{"child":"`+stranger.ID.String()+`"}]}`)
	h.must(s.Commit(t.Context(), store.Put{Key: d.Key, IfVersion: d.Version, WriteID: store.WriteID{1}, Data: p.Blob()}))
	if got, failed := h.ask(parent.ID, "x"); failed == nil {
		t.Errorf("Send() = %q, want a failure", got)
	}
	if n := count(h.log(stranger.ID), logbook.KindExecute); n != 0 {
		t.Errorf("a stranger's child took %d tasks, want none", n)
	}
}

func TestPlansBelowEachOtherAnswerTogether(t *testing.T) {
	s := newStore()
	h := open(t, s)
	top := h.create("l1")
	at := top.ID
	for _, name := range []string{"l2", "l3", "l4", "l5"} {
		at = h.spawn(at, name)[0].ID
	}
	for _, one := range [][2]string{{"l4", "l5"}, {"l3", "l4"}, {"l2", "l3"}, {"l1", "l2"}} {
		r, err := h.vacants.GetByName(t.Context(), vacants.OperatorAsker(), one[0])
		h.must(err)
		h.set(r.ID, `{"version":1,"aggregate":{"how":"first"},"delegate":[{"child":"`+one[1]+`","task":"`+one[0]+` {input}"}]}`)
	}
	if got, failed := h.ask(top.ID, "x"); failed != nil || got != "l5(l4 l3 l2 l1 x)" {
		t.Errorf("Send() = %q, %v, want the last one's answer", got, failed)
	}
	wantClean(t, h, s)
}

// Both limits are checked when plans are set, and again by a call, because
// plans may change during it.
func TestACallGoesNoDeeperAndMakesNoMoreCallsThanItMay(t *testing.T) {
	s := newStore()
	h := open(t, s)
	top := h.create("l1")
	ids, leaves := []identity.ID{top.ID}, []identity.ID{}
	for i := range 4 {
		leaves = append(leaves, h.spawn(ids[i], fmt.Sprintf("leaf%d", i+1))[0].ID)
		ids = append(ids, h.spawn(ids[i], fmt.Sprintf("l%d", i+2))[0].ID)
	}
	leaves = append(leaves, h.spawn(ids[4], "leaf5")[0].ID)
	asks := func(n int, child identity.ID) string {
		return `{"version":1,"aggregate":{"how":"join","separator":""},"delegate":[` + strings.TrimSuffix(strings.Repeat(`{"child":"`+child.String()+`","task":"x"},`, n), ",") + `]}`
	}
	// around writes a plan that SetPlan would refuse.
	around := func(id identity.ID, text string) {
		d, err := s.Doc(t.Context(), vacants.PlanKey(id))
		h.must(err)
		p := parse(t, text)
		h.must(s.Commit(t.Context(), store.Put{Key: d.Key, IfVersion: d.Version, WriteID: store.WriteID{byte(d.Version), id[0]}, Data: p.Blob()}))
	}
	wantRefused := func(id identity.ID, text string) {
		t.Helper()
		if _, _, err := h.vacants.SetPlan(t.Context(), vacants.OperatorAsker(), id, parse(t, text)); !problem.Is(err, problem.Malformed) {
			t.Errorf("SetPlan() = %v, want a refusal", err)
		}
	}
	for i, id := range ids {
		h.set(id, asks(1, leaves[i]))
	}
	for i := range 3 {
		h.set(ids[i], asks(1, ids[i+1]))
	}
	wantRefused(ids[3], asks(1, ids[4]))
	around(ids[3], asks(1, ids[4]))
	if got, failed := h.ask(top.ID, "x"); failed == nil {
		t.Errorf("Send() through five plans = %q, want a failure", got)
	}
	around(ids[3], asks(1, leaves[3]))
	if got, failed := h.ask(top.ID, "x"); failed != nil || got != "leaf4(x)" {
		t.Errorf("Send() through four plans = %q, %v, want the leaf's answer", got, failed)
	}
	h.set(ids[1], asks(32, ids[2]))
	wantRefused(ids[0], asks(2, ids[1]))
	h.set(ids[1], asks(32, leaves[1]))
	wantRefused(ids[0], asks(4, ids[1]))
	h.set(ids[0], asks(3, ids[1]))
	around(ids[0], asks(4, ids[1]))
	before := len(h.log(leaves[1]))
	if got, failed := h.ask(top.ID, "x"); failed == nil {
		t.Errorf("Send() of 132 delegations = %q, want a failure", got)
	}
	if n := len(h.log(leaves[1])) - before; n != plan.MaxCalls-4 {
		t.Errorf("the leaf was asked %d times, want %d", n, plan.MaxCalls-4)
	}
	around(ids[0], asks(3, ids[1])) // verify finds a plan that is not in its logbook
	wantClean(t, h, s)
}

func TestAReportCountsCallsFailuresAndTheirTime(t *testing.T) {
	s := newStore()
	h, parent, children := firm(t, s, `{"version":1,"on_failure":"skip","delegate":[{"child":"drafter"},{"child":"reviewer"}]}`)
	idle := h.spawn(parent.ID, "idle")[0]
	calls := 0
	h.minds.set("drafter", func(ctx context.Context, q substrate.Request) (string, error) {
		if calls++; calls%2 == 0 {
			return "", errBroken
		}
		return slow(20, "x")(ctx, q)
	})
	for range 4 {
		if _, failed := h.ask(parent.ID, "x"); failed != nil {
			t.Fatal(failed)
		}
	}
	got := map[string]delegation.Child{}
	for cursor, more := "", true; more; more = cursor != "" {
		page, next, err := delegation.ReportChildren(t.Context(), vacants.OperatorAsker(), h.vacants, s, parent.ID, cursor, 2)
		h.must(err)
		for _, c := range page {
			got[c.Record.Name] = c
		}
		cursor = next
	}
	for _, want := range []struct {
		id                identity.ID
		name              string
		calls             uint64
		decided, failures int
		atLeast, lessThan time.Duration
	}{
		{children[0].ID, "drafter", 4, 4, 2, 20 * time.Millisecond, ample},
		{children[1].ID, "reviewer", 4, 4, 0, 0, ample},
		{idle.ID, "idle", 0, 0, 0, 0, time.Nanosecond},
	} {
		c := got[want.name]
		if c.Record.ID != want.id || c.Calls != want.calls || c.DecidedCalls != want.decided || c.FailedCalls != want.failures || c.MedianLatency < want.atLeast || c.MedianLatency >= want.lessThan {
			t.Errorf("ReportChildren() of %s = %d calls, %d decided, %d failures, p50 %s, want %+v", want.name, c.Calls, c.DecidedCalls, c.FailedCalls, c.MedianLatency, want)
		}
	}
	if len(got) != 3 {
		t.Errorf("ReportChildren() tells of %d children, want 3", len(got))
	}
}

// The documents beside a record are deleted before it becomes a tombstone: a
// host that dies in between leaves a composite without its plan.
func TestADeletedCompositeLeavesAWholeHomeAtEveryStep(t *testing.T) {
	s := newStore()
	h, parent, children := firm(t, s, both)
	if _, failed := h.ask(parent.ID, "x"); failed != nil {
		t.Fatal(failed)
	}
	for _, r := range append(children, parent) {
		_, err := h.vacants.Sink(t.Context(), r.ID)
		h.must(err)
		_, err = h.vacants.Archive(t.Context(), r.ID)
		h.must(err)
		wantClean(t, h, s)
		if r.ID == parent.ID {
			d, err := s.Doc(t.Context(), vacants.PlanKey(r.ID))
			h.must(err)
			h.must(s.Commit(t.Context(), store.Delete{Key: d.Key, IfVersion: d.Version}))
			wantClean(t, h, s)
		}
		_, err = h.vacants.Delete(t.Context(), r.ID)
		h.must(err)
		wantClean(t, h, s)
	}
}
