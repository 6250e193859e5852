package call_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/answer/hosttest"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/store/memory"
)

// remembered returns the questions that the previous call is reminded of. It checks echo's answers
// and omits them.
func remembered(t *testing.T, c *hosttest.Caller, since time.Time) (asked []string) {
	t.Helper()
	all, err := c.Host.ReadThread(c.Ctx, c.Last(), since)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range all {
		if !strings.HasSuffix(x.Answer, ": "+x.Question) {
			t.Errorf("%q was answered by %.80q", x.Question, x.Answer)
		}
		asked = append(asked, x.Question)
	}
	return asked
}

func TestAThreadIsRemembered(t *testing.T) {
	c := hosttest.New(t, memory.New()).Caller()
	one, two := "one", "two"
	say := func(thread *string, text string) {
		c.ContextID = thread
		c.Call(text)
	}
	want := func(what string, since time.Time, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, remembered(t, c, since)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	say(&one, "a")
	want("the first of a thread", time.Time{})
	say(&two, "b")
	say(nil, "c")
	want("no thread", time.Time{})
	say(&one, "fail")
	say(&one, "d")
	want("the thread alone, and what was answered", time.Time{}, "a")
	say(&one, "e")
	want("the oldest first", time.Time{}, "a", "d")
	say(&two, "f")
	want("another thread", time.Time{}, "b")

	other := c.Fixture.Caller()
	other.ContextID = &one
	other.Call("of another caller")
	if got := remembered(t, other, time.Time{}); got != nil {
		t.Errorf("another caller is told of %q", got)
	}

	// Forgotten exchanges are not returned, but later ones are.
	since := c.Time
	say(&one, "g")
	say(&one, "h")
	want("after it was forgotten", since, "g")

	say(&one, "i")
	last := c.Last()
	say(&one, "j")
	all, err := c.Host.ReadThread(c.Ctx, last, since)
	if err != nil || len(all) != 2 {
		t.Errorf("a call is told of %v, %v; want nothing of later ones", all, err)
	}

	c.Reset()
	say(&one, "k")
	want("after a reset", time.Time{})
}

func TestMemoryHasItsLimits(t *testing.T) {
	c := hosttest.New(t, memory.New()).Caller()
	thread := "t"
	c.ContextID = &thread
	for i := range 25 {
		c.Call(fmt.Sprint(i))
	}
	if got := remembered(t, c, time.Time{}); len(got) != call.MaxExchanges || got[0] != "4" || got[19] != "23" {
		t.Errorf("of 25 are remembered %q, want the last 20 before the last", got)
	}
	// Two sides of 20 KB each: one exchange fits, two do not.
	for range 3 {
		c.Call(strings.Repeat("x", 20_000))
	}
	if got := remembered(t, c, time.Time{}); len(got) != 1 {
		t.Errorf("%d exchanges of 40 KB are remembered, want 1", len(got))
	}
	c.Call("end")
	c.ContextID = nil
	for range 200 {
		c.Call("noise")
	}
	c.ContextID = &thread
	c.Call("again")
	if got := remembered(t, c, time.Time{}); got != nil {
		t.Errorf("beyond 200 rows are remembered %.80q", got)
	}
}

func TestMemoryDiesWithTheKeysOfItsDay(t *testing.T) {
	c := hosttest.New(t, memory.New()).Caller()
	thread := "t"
	c.ContextID = &thread
	c.Call("old")
	c.Call("then")
	if diff := cmp.Diff([]string{"old"}, remembered(t, c, time.Time{})); diff != "" {
		t.Errorf("before the key is destroyed (-want +got):\n%s", diff)
	}
	c.Time = c.Time.Add(72 * time.Hour)
	c.Call("new")
	c.Call("last")
	if _, err := c.Texts.Sweep(c.Ctx); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"new"}, remembered(t, c, time.Time{})); diff != "" {
		t.Errorf("after it (-want +got):\n%s", diff)
	}
}

func TestAThreadRemembersThatAnAnswerWasCut(t *testing.T) {
	c := hosttest.New(t, memory.New()).Caller()
	thread := "one"
	c.ContextID = &thread
	c.Call("a")
	c.Crash("b")
	part := call.PartialAnswer{Text: "only the", StartedAt: c.Time}
	if state, err := c.Host.StorePartialAnswer(c.Ctx, c.Pair(), 2, call.CutCanceled, part, call.Options{}); state != call.Answered || err != nil {
		t.Fatalf("Cut() = %q, %v", state, err)
	}
	c.Call("c")
	all, err := c.Host.ReadThread(c.Ctx, c.Last(), time.Time{})
	if err != nil || len(all) != 2 || all[0].CutReason != "" || all[1] != (call.ThreadExchange{Question: "b", Answer: "only the", CutReason: call.CutCanceled}) {
		t.Errorf("Remember() = %+v, %v", all, err)
	}
}
