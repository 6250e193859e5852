package answer_test

import (
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// The beginning and the end of each call of a tool are reported, whatever the log of the agent keeps.
func TestCallsOfToolsAreReported(t *testing.T) {
	long := `{"text":"` + strings.Repeat("so ", call.MaxToolArgumentBytes) + `"}`
	c := using(t, "call: look {\"for\":\"api_key: abcdefgh\"}\ncall: write "+long+"\n---\ntext: done", "")
	steps := map[string][]call.ToolStep{}
	sink := func(p call.Progress) {
		if piece, ok := p.(call.ProvisionalEvent); ok {
			if step, ok := piece.Detail.(call.ToolStep); ok {
				steps[step.Name] = append(steps[step.Name], step)
			}
		}
	}
	if out := c.Host.SendWith(c.Ctx, identity.ID{}, c.Sign("hi"), call.Options{Sink: sink}); out.Problem != nil {
		t.Fatal(out.Problem)
	}
	for name, outcome := range map[string]call.ToolOutcome{"look": call.ToolOK, "write": call.ToolRefused} {
		if s := steps[name]; len(s) != 2 || s[0].Outcome != "" || s[1].Outcome != outcome || s[1].Arguments != "" || s[0].ID == "" || s[0].ID != s[1].ID {
			t.Fatalf("%s: reported %+v, want a beginning, and an end that is %s", name, s, outcome)
		}
	}
	if got := steps["look"][0].Arguments; got != `{"for":"api_key: [redacted]"}` {
		t.Errorf("arguments = %s", got)
	}
	if got := steps["write"][0].Arguments; len(got) != call.MaxToolArgumentBytes || !strings.HasPrefix(long, got) {
		t.Errorf("arguments of %d bytes, want the first %d", len(got), call.MaxToolArgumentBytes)
	}
}
