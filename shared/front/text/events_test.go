package text

import (
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/call"
)

func pieceOf(text string, follows bool) *task.Event {
	return &task.Event{Artifact: &task.Chunk{Append: follows, Artifact: task.Artifact{ID: task.ResponseArtifact, Parts: []task.Part{{Kind: task.Text, Text: text}}}}}
}

// A client that lost pieces gets the whole answer in their place, and the end says whether the
// answer is whole.
func TestEventsOfATextReplaceAndEndAnAnswer(t *testing.T) {
	ends := func(state task.State, text string, cut call.CutReason) *task.Event {
		return &task.Event{Status: &task.Status{State: state, Message: &task.Message{CutReason: cut, Parts: []task.Part{{Kind: task.Text, Text: text}}}}}
	}
	for name, tc := range map[string]struct {
		events []*task.Event
		want   string
	}{
		"pieces":               {[]*task.Event{pieceOf("a", false), pieceOf("b", true), ends(task.Completed, "ab", "")}, "data: a\n\ndata: b\n\nevent: done\ndata: \n\n"},
		"pieces that are lost": {[]*task.Event{pieceOf("a", false), pieceOf("abc", false), ends(task.Completed, "abc", "")}, "data: a\n\nevent: replace\ndata: abc\n\nevent: done\ndata: \n\n"},
		"no piece":             {[]*task.Event{ends(task.Completed, "abc", call.CutLength)}, "data: abc\n\nevent: done\ndata: length\n\n"},
		"a task that works":    {[]*task.Event{ends(task.Working, "", "")}, ""},
	} {
		var got []byte
		events := &textEvents{}
		for _, e := range tc.events {
			b, err := events.RenderEvent(task.NumberedEvent{Event: *e})
			if err != nil {
				t.Error(err)
			}
			got = append(got, b...)
		}
		if string(got) != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
		if end := string(events.RenderEnd(nil)); (end == "") != (tc.want != "") {
			t.Errorf("%s: the end of the stream is %q", name, end)
		}
	}
}
