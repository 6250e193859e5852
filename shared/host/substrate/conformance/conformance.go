// Package conformance is the substrate of vacants that A2A conformance kits test. A prefix of a
// message's id selects the behaviour that the kits expect. If the id has no known prefix, a prefix of
// the message's text selects it. Other vacants should not use this substrate.
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

// Kind is the kind of this substrate in a substrate.Spec.
const Kind = "conformance"

// parking is the argument for the kit of A2A 0.3. After an ordinary message, this kit expects a
// task that waits for the next message.
const parking = "0.3"

func New(argument string) (substrate.Substrate, error) {
	if argument != "" && argument != parking {
		return nil, problem.Invalid("substrate", Kind+" or "+Kind+":"+parking, argument)
	}
	return agent{parks: argument == parking}, nil
}

// Options selects how request handlers answer for a vacant that the kits test. All other vacants have
// the zero Options.
type Options struct {
	SharesTasks bool // callers without a key share their tasks
	HasJSON     bool // the vacant accepts and returns JSON, because the kits send data
	OldErrors   bool // errors have the statuses of A2A 1.0.0, and errors of streams are JSON
	PureCard    bool // the kit rejects cards with members of A2A 0.3, and its requests name no version
	HasBare     bool // some messages are answered with a message instead of a task
}

func OptionsOf(text string) Options {
	spec, err := substrate.Parse(text)
	if err != nil || spec.Kind != Kind {
		return Options{}
	}
	return Options{SharesTasks: true, HasJSON: true, OldErrors: true, PureCard: spec.Argument != parking, HasBare: true}
}

// IsBare reports whether a message is answered with a message instead of a task. The task is
// nevertheless stored.
func (o Options) IsBare(m *task.Message) bool { return o.HasBare && behaviourOf(m).bare }

// behaviour is the agent's reaction to a message.
type behaviour struct {
	prefix  string
	says    string        // message of the final status
	state   task.State    // final state, where "" means completed
	takes   time.Duration // time until the task ends
	chunks  []task.Chunk
	bare    bool   // whether the answer is a message without a task
	failure string // error message, or "" for an answer
}

const (
	moment = 50 * time.Millisecond
	// long is twice the time for which the kits wait for an event of a stream.
	long = 4500 * time.Millisecond
)

func artifact(parts ...task.Part) []task.Chunk {
	return []task.Chunk{{Artifact: task.Artifact{ID: "artifact-1", Name: "artifact", Parts: parts}, Last: true}}
}

func text(s string) task.Part { return task.Part{Kind: task.Text, Text: s} }

var (
	file    = task.Part{Kind: task.Raw, Raw: []byte("Generated file content"), Filename: "output.txt", MediaType: "text/plain"}
	fileURL = task.Part{Kind: task.URL, Text: "https://example.com/output.txt", Filename: "output.txt", MediaType: "text/plain"}
	data    = task.Part{Kind: task.Data, Data: json.RawMessage(`{"key":"value","count":42}`), MediaType: "application/json"}
	chunked = []task.Chunk{
		{Artifact: task.Artifact{ID: "artifact-1", Name: "artifact", Parts: []task.Part{text("chunk-1")}}},
		{Artifact: task.Artifact{ID: "artifact-1", Name: "artifact", Parts: []task.Part{text("chunk-2")}}, Append: true, Last: true},
	}
)

// multiTurn is the prefix of a conversation with several turns.
const multiTurn = "tck-multi-turn"

// behaviours lists the behaviours by prefix. The longest matching prefix is used.
var behaviours = []behaviour{
	{prefix: "tck-complete-task", says: "Hello from TCK"},
	{prefix: "tck-message-response", says: "Direct message response", bare: true},
	{prefix: "tck-artifact-text", says: "done", chunks: artifact(text("Generated text content"))},
	{prefix: "tck-artifact-data", says: "done", chunks: artifact(data)},
	{prefix: "tck-artifact-file", says: "done", chunks: artifact(file)},
	{prefix: "tck-artifact-file-url", says: "done", chunks: artifact(fileURL)},
	{prefix: "tck-input-required", says: "More input is needed", state: task.InputRequired},
	{prefix: "tck-auth-required", says: "Authentication is needed", state: task.AuthRequired},
	{prefix: multiTurn, says: "More input is needed", state: task.InputRequired},
	{prefix: "tck-reject-task", says: "Rejected", state: task.Rejected},
	{prefix: "tck-stream", says: "done", takes: moment, chunks: artifact(text("Stream hello from TCK"))},
	{prefix: "tck-stream-002", says: "done"},
	{prefix: "tck-stream-artifact-file", says: "done", takes: moment, chunks: artifact(file)},
	{prefix: "tck-stream-artifact-chunked", says: "done", takes: moment, chunks: chunked},
	{prefix: "tck-stream-chunked", says: "done", takes: moment, chunks: chunked},
	{prefix: "tck-long-running", says: "done", takes: long, chunks: artifact(text("Long running result"))},
	{prefix: "tck-cancel", says: "done", takes: 4 * long},
	{prefix: "tck-task-failure", failure: "the task failed as requested"},
	{prefix: "test-resubscribe-message-id", says: "done", takes: long},
}

// behaviourOf returns the behaviour for a message. It matches the prefixes with the message's id,
// and then with its text.
func behaviourOf(m *task.Message) behaviour {
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

type agent struct{ parks bool }

// behaviourOf returns the behaviour for the current message. A message without a known prefix completes
// its task, and a message with "done" completes a multiTurn conversation. In both cases, the kit of
// A2A 0.3 expects that the task waits for the next message instead.
func (a agent) behaviourOf(ctx context.Context, prompt string) behaviour {
	m := task.MessageOf(ctx)
	b := behaviourOf(m)
	if b.prefix == "" && m != nil && m.Task != "" {
		if begun := behaviourOf(task.FirstMessageOf(ctx)); begun.prefix == multiTurn {
			b = begun
		}
	}
	switch {
	case b.prefix == multiTurn && m.Task != "" && !a.parks && strings.Contains(strings.ToLower(prompt), "done"):
		return behaviour{says: "done"}
	case b.prefix != "":
		return b
	case a.parks:
		return behaviour{says: "done", takes: moment, state: task.InputRequired}
	}
	return behaviour{says: "done", takes: moment}
}

func (a agent) Infer(ctx context.Context, r substrate.Request) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		b := a.behaviourOf(ctx, r.Text())
		if !wait(ctx, b.takes) {
			yield(nil, ctx.Err())
			return
		}
		if b.failure != "" {
			yield(nil, problem.New(problem.SubstrateRefused, "%s", b.failure))
			return
		}
		for _, c := range slices.Clone(b.chunks) {
			call.Report(ctx, call.Provisional{Detail: c})
		}
		state := b.state
		state = cmp.Or(state, task.Completed)
		call.Report(ctx, call.Provisional{Detail: task.Ending{State: state}})
		if yield(substrate.Text(b.says), nil) {
			yield(substrate.Stop, nil)
		}
	}
}

func wait(ctx context.Context, d time.Duration) bool {
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
