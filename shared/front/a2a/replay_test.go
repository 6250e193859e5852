package a2a_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// The signature does not cover the task that a message names. Whoever holds an envelope gets
// the task of that envelope, and learns of no other.
func TestAReplayFindsNoTaskButItsOwn(t *testing.T) {
	q := newQueued(t)
	q.create("sut", "conformance")
	sut, ok, err := q.server.Vacants.FindCachedByName(t.Context(), "sut")
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	s := q.signer()
	prev, seq := identity.Hash{}, int64(0)
	send := func(messageID, text, more string) (params func(taskID string) string, id string) {
		seq++
		e := s.envelope(sut.ID, seq, prev, text, messageID, "")
		prev = e.Hash()
		got := q.rpc("/v/sut", "SendMessage", params1(e, more))
		if id = at(t, got.body, "result", "task", "id"); id == "" {
			t.Fatalf("%s: %s", messageID, got.body)
		}
		return func(taskID string) string { return params1(e, fmt.Sprintf(`,"taskId":%q`, taskID)) }, id
	}
	_, ended := send("tck-complete-task-1", "the first secret", "")
	_, waiting := send("tck-input-required-1", "the second secret", "")
	begins, begun := send("tck-complete-task-2", "mine", "")
	_, several := send("tck-multi-turn-1", "mine", "")
	continues, _ := send("tck-multi-turn-2", "mine, too", fmt.Sprintf(`,"taskId":%q`, several))
	send("tck-multi-turn-3", "mine in the end", fmt.Sprintf(`,"taskId":%q`, several))

	nobodys := strings.Repeat("0", 32)
	replays := map[string]func(params string) answer{
		"SendMessage": func(p string) answer { return q.rpc("/v/sut", "SendMessage", p) },
		"SendMessage, immediately": func(p string) answer {
			return q.rpc("/v/sut", "SendMessage", strings.TrimSuffix(p, "}")+`,"configuration":{"returnImmediately":true}}`)
		},
		"SendStreamingMessage": func(p string) answer { return q.rpc("/v/sut", "SendStreamingMessage", p) },
		"message/send": func(p string) answer {
			return q.rpc("/v/sut", "message/send", strings.NewReplacer(`"ROLE_USER"`, `"user"`, `{"text":`, `{"kind":"text","text":`).Replace(p))
		},
		"message:send":   func(p string) answer { return q.do("POST", "/v/sut/message:send", p) },
		"message:stream": func(p string) answer { return q.do("POST", "/v/sut/message:stream", p) },
	}
	for name, replay := range replays {
		for _, named := range []string{ended, waiting, nobodys, begun, several} {
			got := replay(begins(named))
			if got.status != 200 || !strings.Contains(got.body, begun) || strings.Contains(got.body, "secret") {
				t.Errorf("%s of the message that began %s, with the task %s: %d %s", name, begun, named, got.status, got.body)
			}
		}
		if got := replay(continues(several)); got.status != 200 || !strings.Contains(got.body, several) || !strings.Contains(got.body, "mine, too") {
			t.Errorf("%s of a turn of %s: %d %s", name, several, got.status, got.body)
		}
		want := replay(continues(nobodys))
		if !strings.Contains(want.body, "REPLAY") {
			t.Errorf("%s of a turn, with the task of nobody: %d %s", name, want.status, want.body)
		}
		for _, named := range []string{ended, waiting, begun, "x", strings.Repeat("#", 300)} {
			if got := replay(continues(named)); got.status != want.status || got.body != want.body {
				t.Errorf("%s of a turn of %s, with the task %.40s: %d %s, want as for no task %d %s", name, several, named, got.status, got.body, want.status, want.body)
			}
		}
	}
	// The caller itself is told that there is no such task, and its chain does not advance.
	for _, named := range []string{nobodys, "x", strings.Repeat("#", 300)} {
		next := params1(s.envelope(sut.ID, seq+1, prev, "more", "m", ""), fmt.Sprintf(`,"taskId":%q`, named))
		for name, send := range replays {
			if got := send(next); !strings.Contains(got.body, "TASK_NOT_FOUND") {
				t.Errorf("%s to task %.40s: %d %s", name, named, got.status, got.body)
			}
		}
	}
	send("tck-complete-task-3", "the chain goes on", "")
}
