package openai

import (
	"testing"

	"github.com/vacancy-host/vacancy/shared/front/plain"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func pieceOf(text string, follows bool) *task.Event {
	return &task.Event{Artifact: &task.Chunk{Append: follows, Artifact: task.Artifact{ID: task.ResponseArtifact, Parts: []task.Part{{Kind: task.Text, Text: text}}}}}
}

// A chunk cannot take back what was sent: an artifact that replaces other pieces is an error, and no text.
func TestChunksDoNotReplaceWhatWasSent(t *testing.T) {
	for name, tc := range map[string]struct {
		events []*task.Event
		want   string // said
		lost   bool   // the last event is refused
	}{
		"pieces":                        {[]*task.Event{pieceOf("a", false), pieceOf("b", true)}, "ab", false},
		"the whole answer":              {[]*task.Event{pieceOf("a", false), pieceOf("abc", false)}, "abc", false},
		"the whole answer, nothing new": {[]*task.Event{pieceOf("a", false), pieceOf("a", false)}, "a", false},
		"another answer":                {[]*task.Event{pieceOf("a", false), pieceOf("bc", false)}, "a", true},
		"a part of what was sent":       {[]*task.Event{pieceOf("a", false), pieceOf("b", true), pieceOf("a", false)}, "ab", true},
	} {
		c := &pieceRenderer{completion: &completion{exchange: &plain.Exchange{}}}
		c.RequestHash = "known"
		for i, e := range tc.events {
			b, err := c.RenderEvent(task.NumberedEvent{Event: *e})
			if lost := tc.lost && i == len(tc.events)-1; lost != problem.Is(err, problem.Unavailable) || lost && len(b) > 0 {
				t.Errorf("%s: event %d is %q, %v", name, i+1, b, err)
			}
		}
		if c.Text != tc.want {
			t.Errorf("%s: sent %q, want %q", name, c.Text, tc.want)
		}
	}
}
