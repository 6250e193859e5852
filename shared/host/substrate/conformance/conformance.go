// Package conformance is the substrate of vacants that A2A conformance kits test. A prefix of a
// message's id or text selects the behaviour that the kits expect.
package conformance

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/problem"
)

const Kind = "conformance"

// kitV03 is the argument for the kit of A2A 0.3. After an ordinary message, this kit expects a task
// that waits for the next message.
const kitV03 = "0.3"

func New(argument string) (substrate.Substrate, error) {
	if argument != "" && argument != kitV03 {
		return nil, problem.Invalid("substrate", Kind+" or "+Kind+":"+kitV03, argument)
	}
	return agent{isKitV03: argument == kitV03}, nil
}

// Options selects how request handlers answer for a vacant that the kits test. All other vacants
// have the zero Options.
type Options struct {
	SharesTasks        bool // callers without a key share their tasks
	HasJSON            bool
	LegacyErrors       bool // errors have the statuses of A2A 1.0.0
	PureCard           bool // the kit rejects cards with members of A2A 0.3
	AnswersWithoutTask bool
}

func OptionsOf(text string) Options {
	spec, err := substrate.Parse(text)
	if err != nil || spec.Kind != Kind {
		return Options{}
	}
	return Options{SharesTasks: true, HasJSON: true, LegacyErrors: true, PureCard: spec.Argument != kitV03, AnswersWithoutTask: true}
}

// IsAnsweredWithoutTask reports whether a message is answered with a message. The task is
// nevertheless stored.
func (o Options) IsAnsweredWithoutTask(m *task.Message) bool {
	return o.AnswersWithoutTask && findBehaviour(m).withoutTask
}

type behaviour struct {
	prefix      string
	message     string
	state       task.State // final state, where "" means completed
	duration    time.Duration
	chunks      []task.Chunk
	withoutTask bool
	failure     string // error message, or "" for an answer
}

const (
	shortDuration = 50 * time.Millisecond
	// longDuration is twice the time for which the kits wait for an event.
	longDuration = 4500 * time.Millisecond
)

func artifactChunks(parts ...task.Part) []task.Chunk {
	return []task.Chunk{{Artifact: task.Artifact{ID: "artifact-1", Name: "artifact", Parts: parts}, Last: true}}
}

func textPart(s string) task.Part { return task.Part{Kind: task.Text, Text: s} }

var (
	filePart    = task.Part{Kind: task.Raw, Raw: []byte("Generated file content"), Filename: "output.txt", MediaType: "text/plain"}
	fileURLPart = task.Part{Kind: task.URL, Text: "https://example.com/output.txt", Filename: "output.txt", MediaType: "text/plain"}
	dataPart    = task.Part{Kind: task.Data, Data: json.RawMessage(`{"key":"value","count":42}`), MediaType: "application/json"}
	twoChunks   = []task.Chunk{
		{Artifact: task.Artifact{ID: "artifact-1", Name: "artifact", Parts: []task.Part{textPart("chunk-1")}}},
		{Artifact: task.Artifact{ID: "artifact-1", Name: "artifact", Parts: []task.Part{textPart("chunk-2")}}, Append: true, Last: true},
	}
)

const multiTurn = "tck-multi-turn"

// behaviours is searched for the longest matching prefix.
var behaviours = []behaviour{
	{prefix: "tck-complete-task", message: "Hello from TCK"},
	{prefix: "tck-message-response", message: "Direct message response", withoutTask: true},
	{prefix: "tck-artifact-text", message: "done", chunks: artifactChunks(textPart("Generated text content"))},
	{prefix: "tck-artifact-data", message: "done", chunks: artifactChunks(dataPart)},
	{prefix: "tck-artifact-file", message: "done", chunks: artifactChunks(filePart)},
	{prefix: "tck-artifact-file-url", message: "done", chunks: artifactChunks(fileURLPart)},
	{prefix: "tck-input-required", message: "More input is needed", state: task.InputRequired},
	{prefix: "tck-auth-required", message: "Authentication is needed", state: task.AuthRequired},
	{prefix: multiTurn, message: "More input is needed", state: task.InputRequired},
	{prefix: "tck-reject-task", message: "Rejected", state: task.Rejected},
	{prefix: "tck-stream", message: "done", duration: shortDuration, chunks: artifactChunks(textPart("Stream hello from TCK"))},
	{prefix: "tck-stream-002", message: "done"},
	{prefix: "tck-stream-artifact-file", message: "done", duration: shortDuration, chunks: artifactChunks(filePart)},
	{prefix: "tck-stream-artifact-chunked", message: "done", duration: shortDuration, chunks: twoChunks},
	{prefix: "tck-stream-chunked", message: "done", duration: shortDuration, chunks: twoChunks},
	{prefix: "tck-long-running", message: "done", duration: longDuration, chunks: artifactChunks(textPart("Long running result"))},
	{prefix: "tck-cancel", message: "done", duration: 4 * longDuration},
	{prefix: "tck-task-failure", failure: "the task failed as requested"},
	{prefix: "test-resubscribe-message-id", message: "done", duration: longDuration},
}

func findBehaviour(m *task.Message) behaviour {
	if m == nil {
		return behaviour{}
	}
	prompt := ""
	for _, p := range m.Parts {
		if p.Kind == task.Text {
			prompt = p.Text
			break
		}
	}
	for _, s := range []string{m.ID, prompt} {
		var best behaviour
		for _, b := range behaviours {
			if strings.HasPrefix(s, b.prefix) && len(b.prefix) > len(best.prefix) {
				best = b
			}
		}
		if best.prefix != "" {
			return best
		}
	}
	return behaviour{}
}

type agent struct{ isKitV03 bool }

func (a agent) currentBehaviour(ctx context.Context, prompt string) behaviour {
	m := task.MessageOf(ctx)
	b := findBehaviour(m)
	if b.prefix == "" && m != nil && m.Task != "" {
		if first := findBehaviour(task.FirstMessageOf(ctx)); first.prefix == multiTurn {
			b = first
		}
	}
	switch {
	case b.prefix == multiTurn && m.Task != "" && !a.isKitV03 && strings.Contains(strings.ToLower(prompt), "done"):
		return behaviour{message: "done"}
	case b.prefix != "":
		return b
	case a.isKitV03:
		return behaviour{message: "done", duration: shortDuration, state: task.InputRequired}
	}
	return behaviour{message: "done", duration: shortDuration}
}

func (a agent) Infer(ctx context.Context, r substrate.Request) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		b := a.currentBehaviour(ctx, r.Text())
		if !sleep(ctx, b.duration) {
			yield(nil, ctx.Err())
			return
		}
		if b.failure != "" {
			yield(nil, problem.New(problem.SubstrateRefused, "%s", b.failure))
			return
		}
		for _, c := range slices.Clone(b.chunks) {
			call.Report(ctx, call.ProvisionalEvent{Detail: c})
		}
		state := b.state
		state = cmp.Or(state, task.Completed)
		call.Report(ctx, call.ProvisionalEvent{Detail: task.EndRequest{State: state}})
		if yield(substrate.Text(b.message), nil) {
			yield(substrate.FinishStop, nil)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	if d == 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
