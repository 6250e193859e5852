package dispatch_test

import (
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch/dispatchtest"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func TestThreads(t *testing.T) {
	w := newWorld(t)
	say := func(thread dispatch.ThreadChoice, text, context string) (string, bool, error) {
		msg := dispatchtest.UserMessage(text)
		if context != "" {
			msg.ContextID = &context
		}
		w.Thread = thread
		res, err := w.Call(t.Context(), w.host.Target(), msg)
		if id := res.Request.Payload.ContextID; id != nil {
			return *id, res.Resumed, err
		}
		return "", res.Resumed, err
	}
	_, _, err := say(dispatch.LastThread, "on", "")
	dispatchtest.WantKind(t, err, problem.Usage, "no call to demo has started a thread")
	first, _, err := say(dispatch.NewThread, "I am Ann", "")
	if err != nil || !strings.HasPrefix(first, "c-") {
		t.Fatalf("a new thread = %q, %v", first, err)
	}
	for _, tt := range []struct {
		thread        dispatch.ThreadChoice
		context, want string
	}{
		{dispatch.LastThread, "", first}, {dispatch.AnyThread, "", ""}, {dispatch.AnyThread, "other", "other"}, {dispatch.LastThread, "", first},
		{dispatch.NamedThread, "mine", "mine"}, {dispatch.LastThread, "", "mine"},
	} {
		if got, _, err := say(tt.thread, "on", tt.context); err != nil || got != tt.want {
			t.Errorf("thread %v of %q = %q, %v, want %q", tt.thread, tt.context, got, err, tt.want)
		}
	}
	if got, _, err := say(dispatch.NewThread, "on", ""); err != nil || got == first || !strings.HasPrefix(got, "c-") {
		t.Errorf("another new thread = %q, %v", got, err)
	}
	before := w.state(t)
	after, err := dispatch.DecodeState(before.AppendJSON(nil))
	if err != nil || after.ThreadID != before.ThreadID || before.ThreadID == "" {
		t.Errorf("DecodeState() = thread %q, %v, want %q", after.ThreadID, err, before.ThreadID)
	}
	before.ThreadID = ""
	if old := string(before.AppendJSON(nil)); strings.Contains(old, "thread") {
		t.Errorf("a state without a thread is %s", old)
	}

	// A call whose reply was lost is found again, in its thread.
	for _, thread := range []dispatch.ThreadChoice{dispatch.NewThread, dispatch.LastThread} {
		w.wire.Fault = once("reply lost", dispatch.DefaultTries)
		lost, _, err := say(thread, "lost", "")
		dispatchtest.WantKind(t, err, problem.Pending)
		if got, resumed, err := say(thread, "lost", ""); err != nil || !resumed || got != lost || lost == "" {
			t.Errorf("thread %v: the same call = %q resumed %v, %v, want %q", thread, got, resumed, err, lost)
		}
	}

	// A caller that does not know that the agent remembers finds the call, too.
	w.wire.Fault = once("reply lost", dispatch.DefaultTries)
	lost, _, err := say(dispatch.NewThread, "lost again", "")
	dispatchtest.WantKind(t, err, problem.Pending)
	if got, resumed, err := say(dispatch.AnyThread, "lost again", ""); err != nil || !resumed || got != lost {
		t.Errorf("the same call without a thread = %q resumed %v, %v, want %q", got, resumed, err, lost)
	}
}
