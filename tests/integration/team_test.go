package integration

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/await"
)

// dispatched makes agent, worker and admin do all that they ever do for dispatched tasks. Other instances answer and
// cancel a task than the instance that dispatched it.
func (s *deployed) dispatched(t *testing.T) {
	t.Helper()
	a, mine, own := s.tenant(t, "crew"+word(t)), "asker"+word(t), "own"+word(t)
	var made struct{ Secret string }
	a.read(&made, "keys", "create", a.name, "--scope", "agents,read", "--json")
	a.key = made.Secret
	asks := object{"provider": "mock", "ask": true, "system": "```mock\ncall: ask_user {\"question\":\"which {input}?\"}\n```"}
	s.agent(t, mine, a.name, asks)
	s.agent(t, own, "", asks)
	if status, all := a.askAt(s.URL, "GET", "/v1/agents", ""); status != 200 || !strings.Contains(fmt.Sprint(all), mine) {
		t.Errorf("agents = %d %v, want %s", status, all, mine)
	}
	for _, side := range []struct {
		by                          *tenant
		base, path, agent, function string
	}{
		{a, s.URL, "/v1/tasks", mine, "agent"},
		{&tenant{deployed: s, t: t, key: string(s.OperatorKey)}, s.AdminURL, "/v1/admin/tasks", own, "admin"},
	} {
		do := func(method, path, body string) object {
			t.Helper()
			status, answer := side.by.askAt(side.base, method, side.path+path, body)
			if status/100 != 2 {
				t.Fatalf("%s %s%s = %d %v", method, side.path, path, status, answer)
			}
			return answer
		}
		id := do("POST", "", fmt.Sprintf(`{"agent":%q,"task":"one"}`, side.agent))["taskId"].(string)
		waits := func(question string) {
			t.Helper()
			await.Until(t, "the agent asks "+question, func() bool { return do("GET", "/"+id, "")["question"] == question })
			if s.aws != nil {
				s.kill(t, side.function)
			}
		}
		waits("which one?")
		do("POST", "/"+id+"/answer", `{"text":"two"}`)
		waits("which two?")
		if got := do("POST", "/"+id+"/cancel", ""); got["status"] != "cancelled" {
			t.Errorf("cancel = %v", got)
		}
		if all := do("GET", "?state=cancelled", ""); !strings.Contains(fmt.Sprint(all), id) {
			t.Errorf("list = %v, want task %s", all, id)
		}
	}
}

func TestOtherInstancesAnswerAndCancelADispatchedTask(t *testing.T) {
	s := shared(t)
	s.dispatched(t)
	s.whole(t)
}
