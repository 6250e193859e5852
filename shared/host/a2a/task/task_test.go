package task_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/call/calltest"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/local"
	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// clock is shared by the instances of a world.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time          { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *clock) advance(d time.Duration) { c.ahead.Add(int64(d)) }
func (c *clock) Truncated() time.Time    { return c.now().UTC().Truncate(time.Microsecond) }
func keyOf(t testing.TB) *identity.Key   { t.Helper(); return must(identity.NewKey(rand.Reader)) }
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// queue hands messages to the test.
type queue struct {
	sent      chan string
	withdrawn *atomic.Int64 // messages whose calls were not accepted
}

func (q queue) Send(_ context.Context, message string, _ task.Sender) (func(context.Context, bool), error) {
	q.sent <- message
	return func(_ context.Context, stored bool) {
		if !stored {
			q.withdrawn.Add(1)
		}
	}, nil
}

// world is two instances of a host over one store.
type world struct {
	t      *testing.T
	clock  *clock
	store  *faulty
	a, b   *task.Engine
	queue  queue
	vacant *identity.Key
	ran    atomic.Int64
}

// faulty fails commits while fail says so, and reads of rows and documents while away.
type faulty struct {
	store.Store
	mu   sync.Mutex
	fail func([]store.Write) error
	away atomic.Bool
}

func (f *faulty) Doc(ctx context.Context, k store.Key) (store.Doc, error) {
	if f.away.Load() {
		return store.Doc{}, store.ErrUnavailable
	}
	return f.Store.Doc(ctx, k)
}

func (f *faulty) Tip(ctx context.Context, name store.Stream) (store.Row, error) {
	if f.away.Load() {
		return store.Row{}, store.ErrUnavailable
	}
	return f.Store.Tip(ctx, name)
}

func (f *faulty) Rows(ctx context.Context, name store.Stream, from uint64, n int, d store.Direction) ([]store.Row, error) {
	if f.away.Load() {
		return nil, store.ErrUnavailable
	}
	return f.Store.Rows(ctx, name, from, n, d)
}

func (f *faulty) Commit(ctx context.Context, writes ...store.Write) error {
	f.mu.Lock()
	fail := f.fail
	f.mu.Unlock()
	if fail != nil {
		if err := fail(writes); err != nil {
			return err
		}
	}
	return f.Store.Commit(ctx, writes...)
}

func (f *faulty) set(fail func([]store.Write) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = fail
}

// agent is a substrate that says pieces; pieces that are functions are waited for.
type agent func(ctx context.Context, say func(string) bool) error

func (a agent) Infer(ctx context.Context, _ substrate.Request) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		if err := a(ctx, func(s string) bool { return yield(substrate.Text(s), nil) }); err != nil {
			yield(nil, err)
			return
		}
		yield(substrate.FinishStop, nil)
	}
}

func says(pieces ...string) agent {
	return func(_ context.Context, say func(string) bool) error {
		for _, p := range pieces {
			say(p)
		}
		return nil
	}
}

func newWorld(t *testing.T, of substrate.Substrate, changes ...func(*call.Config)) *world {
	t.Helper()
	w := &world{t: t, clock: &clock{}, store: &faulty{Store: memory.New()}, queue: queue{make(chan string, 100), new(atomic.Int64)}, vacant: keyOf(t)}
	vault := must(local.FromHex(strings.Repeat("5a", 32), rand.Reader))
	behave := substrate.Behaviour(of)
	counted := func(ctx context.Context, h *call.Host, e envelope.Envelope) (envelope.Message, error) {
		w.ran.Add(1)
		return behave(ctx, h, e)
	}
	engine := func(over store.Store) *task.Engine {
		texts := textkeys.New(over, vault, w.clock.now, rand.Reader, 0)
		config := call.Config{
			Store: over, Texts: texts, Now: w.clock.now, Rand: rand.Reader, Wait: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
			Directory: call.SingleVacant{ID: w.vacant.ID(), State: lifecycle.Active, Behaviour: counted, Signer: w.vacant},
		}
		for _, change := range changes {
			change(&config)
		}
		calls := call.New(config)
		e := task.New(task.Config{Store: over, Calls: calls, Texts: texts, Queue: w.queue, ChunkInterval: time.Millisecond, PollInterval: 5 * time.Millisecond,
			Log: slog.New(slog.DiscardHandler), Now: w.clock.now, Rand: rand.Reader})
		t.Cleanup(e.Wait)
		return e
	}
	w.a, w.b = engine(w.store), engine(w.store.Store) // only a meets faults
	return w
}

// turn is a message of a new guest.
func (w *world) turn(text string) task.Turn {
	caller := keyOf(w.t)
	id := must(w.a.NewID())
	t := task.Turn{
		Ref: task.Ref{Vacant: w.vacant.ID(), Owner: call.GuestOwner, ID: id}, ListOwner: call.SharedOwner, Caller: caller.ID(),
		Message: task.Message{ID: "m1", Context: "c1", Role: task.User, Parts: []task.Part{{Kind: task.Text, Text: text}}},
	}
	t.SignEnvelope = func(ctx context.Context, next call.ExpectedEnvelope) (*envelope.Envelope, error) {
		e := &envelope.Envelope{From: caller.ID(), To: w.vacant.ID(), Seq: next.Seq, Prev: next.Prev, Time: w.clock.Truncated(),
			Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{text}, MessageID: &t.Message.ID, ContextID: &t.Message.Context}}
		_, err := e.Sign(ctx, caller)
		return e, err
	}
	return t
}

func (w *world) get(e *task.Engine, r task.Ref) task.Task {
	w.t.Helper()
	got, err := e.Get(w.t.Context(), r)
	if err != nil {
		w.t.Fatalf("Get() = %v", err)
	}
	return got
}

// summary is a task in one line.
func summary(t task.Task) string {
	s := string(t.Status.State)
	for _, a := range t.Artifacts {
		s += fmt.Sprintf(" %s=%q", a.ID, textOf(a.Parts))
	}
	if t.Status.Message != nil {
		s += fmt.Sprintf(" says %q", textOf(t.Status.Message.Parts))
	}
	return s
}

func textOf(parts []task.Part) (s string) {
	for _, p := range parts {
		s += p.Text
	}
	return s
}

func TestRunStoresTheTaskWithItsAnswer(t *testing.T) {
	w := newWorld(t, says("hello ", "you"))
	turn := w.turn("hi")
	var commits []int
	w.store.set(func(writes []store.Write) error { commits = append(commits, len(writes)); return nil })
	ran, err := w.a.Run(t.Context(), turn)
	if err != nil {
		t.Fatal(err)
	}
	if want := `completed response="hello you" says "hello you"`; summary(ran) != want {
		t.Errorf("Run() = %s, want %s", summary(ran), want)
	}
	// The key of the day, the request, and the answer with the task.
	if diff := cmp.Diff([]int{1, 1, 3}, commits); diff != "" {
		t.Errorf("writes of each commit (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(ran, w.get(w.b, turn.Ref)); diff != "" {
		t.Errorf("another instance reads (-want +got):\n%s", diff)
	}
	if len(ran.History) != 1 || ran.History[0].Task != turn.ID || ran.Status.Message.Metadata == nil {
		t.Errorf("the task is %+v", ran)
	}
}

func TestAnswersOfAnySizeAreStored(t *testing.T) {
	for _, size := range []int{1, 100 << 10, substrate.MaxText} {
		answer := strings.Repeat("x", size)
		w := newWorld(t, says(answer))
		for name, run := range map[string]func(task.Turn) error{
			"run": func(turn task.Turn) error { _, err := w.a.Run(t.Context(), turn); return err },
			"begin": func(turn task.Turn) error {
				_, done, err := w.a.Begin(t.Context(), turn)
				await.Receive(t, "the turn ends", done)
				return err
			},
		} {
			turn := w.turn(strings.Repeat("y", 200<<10))
			if err := run(turn); err != nil {
				t.Fatalf("%s of %d bytes: %v", name, size, err)
			}
			got := w.get(w.b, turn.Ref)
			if got.Status.State != task.Completed || textOf(got.Status.Message.Parts) != answer || textOf(got.Artifacts[0].Parts) != answer {
				t.Errorf("%s of %d bytes: %s says %d bytes", name, size, got.Status.State, len(textOf(got.Status.Message.Parts)))
			}
		}
	}
}

func TestAFailingTurnIsAFailedTask(t *testing.T) {
	w := newWorld(t, agent(func(_ context.Context, say func(string) bool) error {
		say("half")
		return problem.New(problem.SubstrateBusy, "inner secret")
	}))
	turn := w.turn("hi")
	ran, err := w.a.Run(t.Context(), turn)
	if want := `failed says "the vacant failed to answer: its agent is overloaded"`; err != nil || summary(ran) != want {
		t.Errorf("Run() = %s, %v, want %s", summary(ran), err, want)
	}
	if diff := cmp.Diff(ran, w.get(w.b, turn.Ref)); diff != "" {
		t.Errorf("another instance reads (-want +got):\n%s", diff)
	}
	turn = w.turn("hi")
	_, done, err := w.a.Begin(t.Context(), turn)
	if err != nil {
		t.Fatal(err)
	}
	await.Receive(t, "the turn ends", done)
	if want := `failed says "the vacant failed to answer: its agent is overloaded"`; summary(w.get(w.b, turn.Ref)) != want {
		t.Errorf("Begin() = %s, want %s", summary(w.get(w.b, turn.Ref)), want)
	}
}

func TestFollowersOnAnyInstanceSeeTheSameEvents(t *testing.T) {
	step := make(chan string)
	w := newWorld(t, agent(func(_ context.Context, say func(string) bool) error {
		for s := range step {
			say(s)
		}
		return nil
	}))
	turn := w.turn("hi")
	_, done, err := w.a.Begin(t.Context(), turn)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	seen := map[*task.Engine][]string{}
	var followers sync.WaitGroup
	for _, e := range []*task.Engine{w.a, w.b} {
		followers.Go(func() {
			if err := e.Follow(t.Context(), turn.Ref, 0, func(n task.NumberedEvent) bool {
				mu.Lock()
				defer mu.Unlock()
				what := ""
				switch {
				case n.Task != nil:
					what = "task " + string(n.Task.Status.State)
				case n.Status != nil:
					what = string(n.Status.State) + " " + textOf(n.Status.Message.Parts)
				default:
					what = fmt.Sprintf("%q %v %v", textOf(n.Artifact.Artifact.Parts), n.Artifact.Append, n.Artifact.Last)
				}
				seen[e] = append(seen[e], fmt.Sprintf("%d %s", n.Number, what))
				return true
			}); err != nil {
				t.Errorf("Follow() = %v", err)
			}
		})
	}
	for i := range 3 {
		step <- fmt.Sprintf("piece %d. ", i)
		time.Sleep(20 * time.Millisecond)
	}
	close(step)
	await.Receive(t, "the turn ends", done)
	followers.Wait()
	want := []string{"1 task working", `2 "piece 0. " false false`, `3 "piece 1. " true false`, `4 "piece 2. " true false`, `5 "" true true`, "6 completed piece 0. piece 1. piece 2. "}
	for e, got := range seen {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("instance b %v saw (-want +got):\n%s", e == w.b, diff)
		}
	}
	var late []int
	if err := w.b.Follow(t.Context(), turn.Ref, 3, func(n task.NumberedEvent) bool { late = append(late, n.Number); return true }); err != nil || fmt.Sprint(late) != "[4 5 6]" {
		t.Errorf("a follower after 3 saw %v, %v", late, err)
	}
}

func TestThePiecesOfAnAnswerAreJoinedLongerAfterItsBeginning(t *testing.T) {
	for ramp, want := range map[int]string{0: "[a bcdef]", 5: "[a bcdef]", 1 << 40: "[a b c d e f]"} {
		w := newWorld(t, says("a", "b", "c", "d", "e", "f"))
		w.a.ChunkInterval, w.a.ChunkRamp = time.Hour, ramp
		turn := w.turn("hi")
		_, done, err := w.a.Begin(t.Context(), turn)
		if err != nil {
			t.Fatal(err)
		}
		await.Receive(t, "the turn ends", done)
		var pieces []string
		if err := w.b.Follow(t.Context(), turn.Ref, 0, func(n task.NumberedEvent) bool {
			if n.Artifact != nil && len(n.Artifact.Artifact.Parts) > 0 && textOf(n.Artifact.Artifact.Parts) != "" {
				pieces = append(pieces, textOf(n.Artifact.Artifact.Parts))
			}
			return true
		}); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(pieces) != want {
			t.Errorf("with a ramp of %d events the pieces are %v, want %s", ramp, pieces, want)
		}
	}
}

func TestAPieceIsStoredWhileTheAgentIsSilent(t *testing.T) {
	seen := make(chan struct{})
	w := newWorld(t, agent(func(_ context.Context, say func(string) bool) error {
		say("a")
		say("b") // within the joining time
		<-seen
		return nil
	}))
	w.a.ChunkInterval = 20 * time.Millisecond
	turn := w.turn("hi")
	_, done, err := w.a.Begin(t.Context(), turn)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.a.Follow(t.Context(), turn.Ref, 0, func(n task.NumberedEvent) bool {
		return n.Artifact == nil || textOf(n.Artifact.Artifact.Parts) != "b"
	}); err != nil {
		t.Fatal(err)
	}
	close(seen)
	await.Receive(t, "the turn ends", done)
}

// refusesEvents refuses writes that contain only events, while refuse says so.
func refusesEvents(refuse func() bool) func([]store.Write) error {
	return func(writes []store.Write) error {
		if p, ok := writes[0].(store.Put); ok && len(writes) == 1 && strings.HasPrefix(p.Key.Sort, "e#") && refuse() {
			return store.NotAppliedError(errors.New("down"))
		}
		return nil
	}
}

func TestAnAnswerReplacesPiecesThatWereLost(t *testing.T) {
	w := newWorld(t, nil)
	first := true
	w = newWorld(t, agent(func(_ context.Context, say func(string) bool) error {
		say("one ")
		w.store.set(refusesEvents(func() bool { return first }))
		time.Sleep(2 * time.Millisecond)
		say("two ")
		first = false
		say("three")
		return nil
	}))
	turn := w.turn("hi")
	_, done, err := w.a.Begin(t.Context(), turn)
	if err != nil {
		t.Fatal(err)
	}
	await.Receive(t, "the turn ends", done)
	if got, want := summary(w.get(w.b, turn.Ref)), `completed response="one two three" says "one two three"`; got != want {
		t.Errorf("the task is %s, want %s", got, want)
	}
}

// The mark of the last piece is not worth an answer whose pieces are all stored.
func TestAnAnswerOutlivesTheMarkOfItsLastPiece(t *testing.T) {
	w := newWorld(t, nil)
	refused := 0
	w = newWorld(t, agent(func(_ context.Context, say func(string) bool) error {
		say("all of it")
		w.store.set(refusesEvents(func() bool { refused++; return true }))
		return nil
	}))
	turn := w.turn("hi")
	_, done, err := w.a.Begin(t.Context(), turn)
	if err != nil {
		t.Fatal(err)
	}
	await.Receive(t, "the turn ends", done)
	if got, want := summary(w.get(w.b, turn.Ref)), `completed response="all of it" says "all of it"`; got != want || refused == 0 {
		t.Errorf("the task is %s after %d refused writes, want %s", got, refused, want)
	}
}

func TestCancelStopsTheTurnOnAnotherInstance(t *testing.T) {
	started, stopped := make(chan bool), make(chan bool)
	w := newWorld(t, agent(func(ctx context.Context, say func(string) bool) error {
		say("working on it")
		started <- true
		<-ctx.Done()
		stopped <- true
		say("too late")
		return nil
	}))
	for name, canceller := range map[string]*task.Engine{"the same": w.a, "another": w.b} {
		turn := w.turn("hi")
		_, done, err := w.a.Begin(t.Context(), turn)
		if err != nil {
			t.Fatal(err)
		}
		await.Receive(t, "the agent is asked", started)
		got, err := canceller.Cancel(t.Context(), turn.Ref)
		if want := `canceled response="working on it" says "working on it"`; err != nil || summary(got) != want {
			t.Errorf("%s: Cancel() = %s, %v, want %s", name, summary(got), err, want)
		}
		await.Receive(t, "the agent learns of the cancel", stopped)
		await.Receive(t, "the turn ends", done)
		if diff := cmp.Diff(got, w.get(w.b, turn.Ref)); diff != "" {
			t.Errorf("%s: afterwards (-want +got):\n%s", name, diff)
		}
		if _, err := canceller.Cancel(t.Context(), turn.Ref); !errors.Is(err, task.ErrNotCancelable) {
			t.Errorf("%s: a second Cancel() = %v", name, err)
		}
	}
}

func TestATurnWhoseRunnerDiedFailsOnce(t *testing.T) {
	block := make(chan bool)
	w := newWorld(t, agent(func(_ context.Context, say func(string) bool) error { say("half"); <-block; say(" more"); return nil }))
	turn := w.turn("hi")
	_, done, err := w.a.Begin(t.Context(), turn)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(20 * time.Millisecond)
	// The runner's instance is frozen: it neither renews nor stores.
	frozen := true
	w.store.set(func(writes []store.Write) error {
		if p, ok := writes[0].(store.Put); ok && len(writes) == 1 && p.Key.Sort == "head" && frozen {
			return store.NotAppliedError(errors.New("frozen"))
		}
		return nil
	})
	if got := w.get(w.b, turn.Ref); got.Status.State != task.Working {
		t.Fatalf("the task is %s", summary(got))
	}
	w.clock.advance(90 * time.Second)
	want := `failed says "the turn was interrupted; send the message again"`
	if got := w.get(w.b, turn.Ref); summary(got) != want {
		t.Fatalf("the task is %s, want %s", summary(got), want)
	}
	close(block)
	await.Receive(t, "the turn ends", done)
	if got := w.get(w.b, turn.Ref); summary(got) != want || w.ran.Load() != 1 {
		t.Errorf("later the task is %s after %d turns", summary(got), w.ran.Load())
	}
}

func TestAWorkerRunsWhatWasStarted(t *testing.T) {
	w := newWorld(t, says("done"))
	turn := w.turn("hi")
	started, err := w.a.Enqueue(t.Context(), turn)
	if err != nil || started.Status.State != task.Submitted || w.ran.Load() != 0 {
		t.Fatalf("Start() = %s, %v, %d turns ran", summary(started), err, w.ran.Load())
	}
	message := await.Receive(t, "a message is queued", w.queue.sent)
	for range 3 { // a queue delivers at least once
		if err := w.b.RunQueued(t.Context(), message); err != nil {
			t.Fatalf("Work() = %v", err)
		}
	}
	if got, want := summary(w.get(w.a, turn.Ref)), `completed response="done" says "done"`; got != want || w.ran.Load() != 1 {
		t.Errorf("the task is %s after %d turns, want %s", got, w.ran.Load(), want)
	}
}

// A store that applies the commit of a task and does not say so leaves a task that waits. Its message stays in the queue.
func TestAMessageStaysWhoseTaskMayBeStored(t *testing.T) {
	w := newWorld(t, says("done"))
	w.store.set(func(writes []store.Write) error {
		if !slices.ContainsFunc(writes, func(w store.Write) bool { a, ok := w.(store.Append); return ok && a.Stream.Kind() == store.KindRequest }) {
			return nil
		}
		err := w.store.Store.Commit(t.Context(), writes...)
		w.store.away.Store(true)
		return errors.Join(err, store.ErrUnavailable)
	})
	turn := w.turn("hi")
	if _, err := w.a.Enqueue(t.Context(), turn); !problem.Is(err, problem.Unavailable) {
		t.Fatalf("Start() = %v, want unavailable", err)
	}
	if n := w.queue.withdrawn.Load(); n != 0 {
		t.Errorf("%d messages were withdrawn, want none", n)
	}
	if err := w.b.RunQueued(t.Context(), <-w.queue.sent); err != nil {
		t.Fatal(err)
	}
	if got, want := summary(w.get(w.b, turn.Ref)), `completed response="done" says "done"`; got != want {
		t.Errorf("the task is %s, want %s", got, want)
	}
}

// The message of a task at work comes again until the task has ended, because its worker may die.
func TestTheMessageOfATaskAtWorkComesAgain(t *testing.T) {
	block, begun := make(chan bool), make(chan bool)
	w := newWorld(t, agent(func(_ context.Context, say func(string) bool) error { close(begun); <-block; say("late"); return nil }))
	turn := w.turn("hi")
	if _, err := w.a.Enqueue(t.Context(), turn); err != nil {
		t.Fatal(err)
	}
	message := <-w.queue.sent
	worked := make(chan error)
	go func() { worked <- w.a.RunQueued(context.Background(), message) }()
	<-begun
	if err := w.b.RunQueued(t.Context(), message); !errors.Is(err, task.ErrRetryLater) {
		t.Errorf("Work() beside the worker = %v, want %v", err, task.ErrRetryLater)
	}
	w.store.set(func([]store.Write) error { return store.NotAppliedError(errors.New("the worker is dead")) })
	w.clock.advance(2 * time.Minute)
	if err := w.b.RunQueued(t.Context(), message); err != nil {
		t.Errorf("Work() after the worker's lease = %v", err)
	}
	var head store.Doc
	for d, err := range store.Documents(t.Context(), w.store.Store, store.Range{Partition: "task#" + turn.Vacant.String() + "#" + turn.Owner.String() + "#" + turn.ID, End: "\xff"}) {
		if err != nil {
			t.Fatal(err)
		}
		if d.Key.Sort == task.HeadDocs.Sort {
			head = d
		}
	}
	if !strings.Contains(string(head.Data), "failed") { // stored, and not only judged by a reader
		t.Errorf("the stored task is %s, want failed", head.Data)
	}
	w.store.set(nil)
	close(block)
	<-worked
}

// A worker whose call was voided by others ends the task, unless another runner has begun the task's next turn since.
func TestAWorkerEndsTheTaskOfItsOwnTurnOnly(t *testing.T) {
	for _, isNext := range []bool{false, true} {
		block, begun := make(chan bool), make(chan bool)
		w := newWorld(t, agent(func(context.Context, func(string) bool) error { close(begun); <-block; return nil }))
		turn := w.turn("hi")
		if _, err := w.a.Enqueue(t.Context(), turn); err != nil {
			t.Fatal(err)
		}
		worked := make(chan error, 1)
		message := await.Receive(t, "a message is queued", w.queue.sent)
		go func() { worked <- w.a.RunQueued(context.Background(), message) }()
		await.Receive(t, "the turn runs", begun)
		pair := call.Pair{Caller: turn.Caller, Vacant: turn.Vacant}
		if _, err := w.b.Calls.Void(t.Context(), pair, 1, problem.New(problem.DeadlineExceeded, "it is due"), call.Options{}); err != nil {
			t.Fatal(err)
		}
		key, want := task.HeadDocs.Key(message), task.Failed
		if isNext {
			d := must(w.store.Store.Doc(t.Context(), key))
			data := regexp.MustCompile(`"runner":"[0-9a-f]+"`).ReplaceAll(d.Data, []byte(`"runner":"another"`))
			if err := w.store.Store.Commit(t.Context(), store.Put{Key: key, IfVersion: d.Version, WriteID: store.WriteID{1}, Data: data, Index: d.Index, Expires: d.Expires}); err != nil {
				t.Fatal(err)
			}
			want = task.Working
		}
		close(block)
		if err := await.Receive(t, "the worker returns", worked); err != nil {
			t.Errorf("Work() = %v", err)
		}
		if d := must(w.store.Store.Doc(t.Context(), key)); !strings.Contains(string(d.Data), `"state":"`+string(want)+`"`) || isNext != strings.Contains(string(d.Data), "another") {
			t.Errorf("with a next turn %t, the stored task is %s, want %s", isNext, d.Data, want)
		}
	}
}

// elsewhere is a ledger whose payments are made elsewhere, and stay uncertain.
type elsewhere struct{ calltest.Ledger }

func (*elsewhere) Quote(context.Context, call.QuoteRequest) (call.PaymentPlan, error) {
	return call.PaymentPlan{Kind: call.PaidByVoucher, Hold: 1, Version: 1}, nil
}
func (*elsewhere) Debit(call.Pair, *call.PaymentPlan, *call.RequestRow) []store.Write { return nil }
func (*elsewhere) Refund(call.Pair, *call.RequestRow, bool) []store.Write             { return nil }
func (*elsewhere) CanSettleLate(*call.RequestRow) bool                                { return true }

func (*elsewhere) Settle(context.Context, call.SettlementRequest) (call.FinalCharge, error) {
	return call.FinalCharge{}, call.ErrUncertain
}

// The message of a turn whose payment is uncertain comes again, until the call is decided.
func TestTheMessageOfAnUndecidedTurnComesAgain(t *testing.T) {
	ledger := &elsewhere{}
	w := newWorld(t, says("done"), func(c *call.Config) {
		vacant := c.Directory.(call.SingleVacant)
		vacant.Price = &price.Price{Version: 1, Flat: 1}
		c.Directory, c.Ledger = vacant, ledger
	})
	turn := w.turn("hi")
	if _, err := w.a.Enqueue(t.Context(), turn); err != nil {
		t.Fatal(err)
	}
	message := <-w.queue.sent
	if err := w.a.RunQueued(t.Context(), message); !errors.Is(err, task.ErrUndecided) {
		t.Errorf("Work() = %v, want %v", err, task.ErrUndecided)
	}
	w.clock.advance(2 * time.Minute) // the worker's lease is over, and the sweeper has not asked yet
	if err := w.b.RunQueued(t.Context(), message); !errors.Is(err, call.ErrUncertain) || w.ran.Load() != 1 {
		t.Errorf("Work() after the lease = %v, %d turns ran, want uncertain and one", err, w.ran.Load())
	}
}

func TestAVacantHasABoundedNumberOfTurnsInTheBackground(t *testing.T) {
	w := newWorld(t, says("done"))
	for i := range task.MaxBackground {
		if _, err := w.a.Enqueue(t.Context(), w.turn("hi")); err != nil {
			t.Fatalf("Start() %d = %v", i, err)
		}
	}
	last := w.turn("one too many")
	if _, err := w.a.Enqueue(t.Context(), last); !problem.Is(err, problem.TooManyRequests) {
		t.Fatalf("Start() = %v, want too many", err)
	}
	if n := w.queue.withdrawn.Load(); n != 1 {
		t.Errorf("%d messages were withdrawn, want that of the refused call", n)
	}
	if err := w.b.RunQueued(t.Context(), await.Receive(t, "a message is queued", w.queue.sent)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.a.Enqueue(t.Context(), w.turn("room again")); err != nil {
		t.Fatalf("after one ended, Start() = %v", err)
	}
	// The message of the refused one names no task.
	for range task.MaxBackground {
		message := await.Receive(t, "a message is queued", w.queue.sent)
		if err := w.b.RunQueued(t.Context(), message); strings.Contains(message, last.ID) != errors.Is(err, task.ErrRetryLater) {
			t.Errorf("Work(%s) = %v", message, err)
		}
	}
}

func TestACanceledTaskDoesNotRun(t *testing.T) {
	w := newWorld(t, says("done"))
	turn := w.turn("hi")
	if _, err := w.a.Enqueue(t.Context(), turn); err != nil {
		t.Fatal(err)
	}
	if _, err := w.b.Cancel(t.Context(), turn.Ref); err != nil {
		t.Fatal(err)
	}
	if err := w.b.RunQueued(t.Context(), await.Receive(t, "a message is queued", w.queue.sent)); err != nil || w.ran.Load() != 0 {
		t.Errorf("Work() = %v, %d turns ran", err, w.ran.Load())
	}
}

func list(ctx context.Context, e *task.Engine, q task.ListRequest) (page task.Page, err error) {
	err = e.List(ctx, q, func(p *task.Page) { page = *p })
	return page, err
}

func TestListIsNewestFirstAndFiltered(t *testing.T) {
	w := newWorld(t, says("done"))
	var ids []string
	for i := range 5 {
		turn := w.turn("hi")
		turn.Message.Context = fmt.Sprintf("c%d", i%2)
		if i == 4 {
			turn.ListOwner = call.KeyOwner(keyOf(t).ID())
		}
		w.clock.advance(time.Second)
		if _, err := w.a.Run(t.Context(), turn); err != nil {
			t.Fatal(err)
		}
		ids = append([]string{turn.ID}, ids...)
	}
	ids = ids[1:]
	q := task.ListRequest{Ref: task.Ref{Vacant: w.vacant.ID(), Owner: call.GuestOwner}, ListOwner: call.SharedOwner, PageSize: 3}
	page, err := list(t.Context(), w.b, q)
	if err != nil || page.Total != 4 || len(page.Tasks) != 3 || page.Next == "" {
		t.Fatalf("List() = %d of %d, next %q, %v", len(page.Tasks), page.Total, page.Next, err)
	}
	q.PageToken = page.Next
	rest, err := list(t.Context(), w.b, q)
	if err != nil || rest.Total != 4 || len(rest.Tasks) != 1 || rest.Next != "" {
		t.Fatalf("List(next) = %d of %d, next %q, %v", len(rest.Tasks), rest.Total, rest.Next, err)
	}
	var got []string
	for _, one := range append(page.Tasks, rest.Tasks...) {
		got = append(got, one.ID)
	}
	if diff := cmp.Diff(ids, got); diff != "" {
		t.Errorf("listed (-want +got):\n%s", diff)
	}
	for what, q := range map[string]task.ListRequest{
		"a context": {Context: "c1"}, "a state": {State: task.Failed}, "a time": {UpdatedAfter: w.clock.now().Add(-2500 * time.Millisecond)},
	} {
		q.Ref, q.ListOwner, q.PageSize = task.Ref{Vacant: w.vacant.ID(), Owner: call.GuestOwner}, call.SharedOwner, 10
		page, err := list(t.Context(), w.b, q)
		if want := map[string]int{"a context": 2, "a state": 0, "a time": 2}[what]; err != nil || page.Total != want {
			t.Errorf("with %s: %d, %v, want %d", what, page.Total, err, want)
		}
	}
	q.PageToken = "!"
	if _, err := list(t.Context(), w.b, q); !problem.Is(err, problem.Malformed) && !problem.Is(err, problem.Usage) {
		t.Errorf("List(wrong token) = %v", err)
	}
}

func TestATaskIsGoneADayAfterItsEnd(t *testing.T) {
	w := newWorld(t, says("done"))
	turn := w.turn("hi")
	if _, err := w.a.Run(t.Context(), turn); err != nil {
		t.Fatal(err)
	}
	w.clock.advance(task.Retention - time.Minute)
	w.get(w.b, turn.Ref)
	w.clock.advance(2 * time.Minute)
	if _, err := w.b.Get(t.Context(), turn.Ref); !errors.Is(err, task.ErrNotFound) {
		t.Errorf("Get() = %v", err)
	}
	page, err := list(t.Context(), w.b, task.ListRequest{Ref: turn.Ref, ListOwner: call.SharedOwner, PageSize: 10})
	if err != nil || page.Total != 0 {
		t.Errorf("List() = %d, %v", page.Total, err)
	}
}

// A crash of an instance at any of its commits, before or after it is applied, leaves
// no task, or one that ends; and an answer in the rows is one of the task.
func TestACrashAtAnyCommitLeavesTaskAndRowsThatAgree(t *testing.T) {
	ways := map[string]func(*world, task.Turn){
		"run": func(w *world, turn task.Turn) { _, _ = w.a.Run(context.Background(), turn) },
		"begin": func(w *world, turn task.Turn) {
			_, done, _ := w.a.Begin(context.Background(), turn)
			await.Receive(w.t, "the turn ends", done)
		},
		"background": func(w *world, turn task.Turn) {
			_, _ = w.a.Enqueue(context.Background(), turn)
			select {
			case message := <-w.queue.sent:
				_ = w.a.RunQueued(context.Background(), message)
				w.queue.sent <- message
			default:
			}
		},
		"cancel": func(w *world, turn task.Turn) {
			if _, err := w.a.Enqueue(context.Background(), turn); err == nil {
				_, _ = w.a.Cancel(context.Background(), turn.Ref)
			}
		},
	}
	for name, way := range ways {
		for _, applied := range []bool{false, true} {
			for at := 1; ; at++ {
				w := newWorld(t, says("one ", "two"))
				turn := w.turn("hi")
				if _, err := w.b.Run(t.Context(), w.turn("first")); err != nil { // makes the key of the day
					t.Fatal(err)
				}
				commits, dead := 0, false
				var mu sync.Mutex
				w.store.set(func(writes []store.Write) error {
					mu.Lock()
					defer mu.Unlock()
					if dead {
						return store.NotAppliedError(errors.New("the instance is dead"))
					}
					if commits++; commits < at {
						return nil
					}
					dead = true
					if applied {
						if err := w.store.Store.Commit(context.Background(), writes...); err != nil {
							return err
						}
						return fmt.Errorf("%w: the acknowledgement is lost", store.ErrUnavailable)
					}
					return store.NotAppliedError(errors.New("the instance dies"))
				})
				way(w, turn)
				mu.Lock()
				reached := dead
				mu.Unlock()
				if !reached {
					if at < 3 {
						t.Errorf("%s makes %d commits", name, at-1)
					}
					break
				}
				what := fmt.Sprintf("%s, crash at commit %d, applied %v", name, at, applied)
				w.agrees(what, turn, "one two")
				if n := w.ran.Load(); n > 2 { // with the first
					t.Errorf("%s: the turn ran %d times", what, n-1)
				}
			}
		}
	}
}

// agrees checks a task and its pair's rows after a crash; an answer says answer.
func (w *world) agrees(what string, turn task.Turn, answer string) {
	w.t.Helper()
	ctx := context.Background()
	pair := call.Pair{Caller: turn.Caller, Vacant: turn.Vacant}
	w.clock.advance(call.MaxQueueDuration + task.MaxTurnTime + time.Minute)
	for {
		select {
		case message := <-w.queue.sent: // it comes back to another worker
			if err := w.b.RunQueued(ctx, message); err != nil && !errors.Is(err, task.ErrRetryLater) {
				w.t.Errorf("%s: Work() = %v", what, err)
			}
			continue
		default:
		}
		break
	}
	got, err := w.b.Get(ctx, turn.Ref)
	rows, rowsErr := w.store.Store.Rows(ctx, pair.Responses(), 0, 10, store.Ascending)
	if rowsErr != nil {
		w.t.Fatal(rowsErr)
	}
	answered, cut := false, call.CutReason("")
	for _, row := range rows {
		r, err := call.DecodeResponse(row)
		if err != nil {
			w.t.Fatal(err)
		}
		answered, cut = answered || r.Kind == call.RowAnswer, cut+r.CutReason
	}
	switch {
	case errors.Is(err, task.ErrNotFound):
		if answered {
			w.t.Errorf("%s: there is an answer and no task", what)
		}
	case err != nil:
		w.t.Errorf("%s: Get() = %v", what, err)
	case !got.Status.State.IsTerminal() || (answered && cut == "") != (got.Status.State == task.Completed):
		w.t.Errorf("%s: the task is %s, answered %v", what, summary(got), answered)
	case answered != (len(got.Artifacts) > 0) || got.Status.Message.CutReason != cut:
		w.t.Errorf("%s: the task is %s, answered %v, cut %q", what, summary(got), answered, cut)
	case cut != "" && (got.Status.State != task.Canceled || !strings.HasPrefix(answer, textOf(got.Artifacts[0].Parts))):
		w.t.Errorf("%s: the task is %s, cut %q", what, summary(got), cut)
	case answered && cut == "" && textOf(got.Artifacts[0].Parts) != answer, answered && textOf(got.Artifacts[0].Parts) != textOf(got.Status.Message.Parts):
		w.t.Errorf("%s: the task is %s", what, summary(got))
	}
	if err == nil {
		pieces := 0
		followed := w.b.Follow(ctx, turn.Ref, 0, func(n task.NumberedEvent) bool {
			if n.Artifact != nil {
				pieces++
			}
			return true
		})
		if followed != nil || !answered && pieces > 0 {
			w.t.Errorf("%s: a follower of the task without an answer reads %d pieces, %v", what, pieces, followed)
		}
	}
	d, err := w.store.Store.Doc(ctx, store.Key{Partition: "turns#" + turn.Vacant.String(), Sort: "background"})
	if err != nil || d.Number != 0 {
		w.t.Errorf("%s: %d turns are counted in the background, %v", what, d.Number, err)
	}
}

func TestATextThatIsNoIDFindsNoTask(t *testing.T) {
	w := newWorld(t, says("done"))
	for _, id := range []string{"", "x", strings.Repeat("0", 31), strings.Repeat("0", 33), strings.Repeat("g", 32), strings.Repeat("x", 512), "a#b"} {
		if _, err := w.a.Get(t.Context(), task.Ref{Vacant: w.vacant.ID(), Owner: call.GuestOwner, ID: id}); !errors.Is(err, task.ErrNotFound) {
			t.Errorf("Get(%q) = %v", id, err)
		}
	}
}

// owners are owners of all kinds, each of which differs from all others.
func owners(t *testing.T) map[string]call.Owner {
	return map[string]call.Owner{
		"account A": call.AccountOwner("aa", ""), "x of A": call.AccountOwner("aa", "x"), "y of A": call.AccountOwner("aa", "y"),
		"account B": call.AccountOwner("bb", ""), "x of B": call.AccountOwner("bb", "x"),
		"guests": call.GuestOwner, "shared": call.SharedOwner, "a signer": call.KeyOwner(keyOf(t).ID()), "another signer": call.KeyOwner(keyOf(t).ID()),
	}
}

func TestATaskIsFoundByItsOwnerOnly(t *testing.T) {
	w := newWorld(t, says("done"))
	ctx, all := t.Context(), owners(t)
	for whose, owner := range all {
		turn := w.turn("hi")
		turn.Owner, turn.ListOwner, turn.Idempotent = owner, owner, true
		turn.ID = task.MessageTaskID(turn.Vacant, owner, turn.Message.ID)
		if _, err := w.a.Run(ctx, turn); err != nil {
			t.Fatal(err)
		}
		ran := w.ran.Load()
		for whom, asker := range all {
			ref := turn.Ref
			ref.Owner = asker
			again := turn
			again.Owner, again.ID = asker, task.MessageTaskID(turn.Vacant, asker, turn.Message.ID)
			more := w.turn("more")
			more.Ref, more.Continue = ref, true
			push := task.PushConfig{ID: "p", URL: "https://example.com"}
			for name, try := range map[string]struct {
				err  func() error
				want error // to the owner
			}{
				"get":           {func() error { _, err := w.a.Get(ctx, ref); return err }, nil},
				"snapshot":      {func() error { _, _, err := w.a.Snapshot(ctx, ref); return err }, nil},
				"follow":        {func() error { return w.a.Follow(ctx, ref, 0, func(task.NumberedEvent) bool { return true }) }, nil},
				"cancel":        {func() error { _, err := w.a.Cancel(ctx, ref); return err }, task.ErrNotCancelable},
				"continue":      {func() error { _, err := w.a.Run(ctx, more); return err }, task.ErrBusy},
				"push configs":  {func() error { _, err := w.a.ListPushConfigs(ctx, ref); return err }, nil},
				"add a push":    {func() error { _, err := w.a.AddPushConfig(ctx, ref, push); return err }, nil},
				"remove a push": {func() error { return w.a.RemovePushConfig(ctx, ref, push.ID) }, nil},
			} {
				want := try.want
				if asker != owner {
					want = task.ErrNotFound
				}
				if err := try.err(); !errors.Is(err, want) {
					t.Errorf("%s of a task of %s by %s = %v, want %v", name, whose, whom, err, want)
				}
			}
			if same := again.ID == turn.ID; same != (asker == owner) {
				t.Errorf("message ids of %s and %s name one task: %t", whose, whom, same)
			}
			page, err := list(ctx, w.a, task.ListRequest{Ref: ref, ListOwner: asker, PageSize: 10})
			if found := slices.ContainsFunc(page.Tasks, func(one task.Task) bool { return one.ID == turn.ID }); err != nil || found != (asker == owner) {
				t.Errorf("the list of %s has the task of %s: %t, %v", whom, whose, found, err)
			}
		}
		if _, err := w.a.Run(ctx, turn); err != nil || w.ran.Load() != ran {
			t.Errorf("the message of %s again: %v, %d turns, want %d", whose, err, w.ran.Load(), ran)
		}
	}
}

func TestMessagesOfOneCallerAtOnceAllRun(t *testing.T) {
	w := newWorld(t, says("done"))
	first := w.turn("hi")
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			turn := first
			turn.ID = must(w.a.NewID())
			engine := w.a
			if i%2 == 0 {
				engine = w.b
			}
			if _, err := engine.Run(t.Context(), turn); err != nil {
				t.Errorf("Run() = %v", err)
			}
		})
	}
	all.Wait()
	if w.ran.Load() != 4 {
		t.Errorf("%d turns ran, want 4", w.ran.Load())
	}
}

// A host signs the same message as the same bytes if it comes twice within a microsecond.
func TestAMessageSignedTwiceAsTheSameBytesIsOneTask(t *testing.T) {
	for name, run := range map[string]func(*task.Engine, task.Turn) (task.Ref, error){
		"a turn": func(e *task.Engine, turn task.Turn) (task.Ref, error) {
			_, err := e.Run(t.Context(), turn)
			return turn.Ref, err
		},
		"in the background": func(e *task.Engine, turn task.Turn) (task.Ref, error) {
			found, err := e.Enqueue(t.Context(), turn)
			return task.Ref{Vacant: turn.Vacant, Owner: turn.Owner, ID: found.ID}, err
		},
		"a stream": func(e *task.Engine, turn task.Turn) (task.Ref, error) {
			ref, done, err := e.Begin(t.Context(), turn)
			if done != nil {
				await.Receive(t, "the turn ends", done)
			}
			return ref, err
		},
	} {
		w := newWorld(t, says("done"))
		first := w.turn("hi")
		first.Owner, first.Idempotent = call.AccountOwner("acme", ""), true
		first.ID = task.MessageTaskID(first.Vacant, first.Owner, first.Message.ID)
		late, sign := first, first.SignEnvelope
		var same *envelope.Envelope
		first.SignEnvelope = func(ctx context.Context, next call.ExpectedEnvelope) (*envelope.Envelope, error) {
			e, err := sign(ctx, next)
			same = e
			return e, err
		}
		late.SignEnvelope = func(context.Context, call.ExpectedEnvelope) (*envelope.Envelope, error) {
			if _, err := w.b.Run(t.Context(), first); err != nil { // after late has found no task
				t.Fatal(err)
			}
			return same, nil
		}
		ref, err := run(w.a, late)
		if err != nil || ref != first.Ref || w.ran.Load() != 1 {
			t.Errorf("%s of the message at once: %v, %v, %d turns ran, want the task %s of 1", name, ref, err, w.ran.Load(), first.ID)
		}
	}
}

// events is a substrate with these events; the functions among them are called.
type events []any

func (e events) Infer(context.Context, substrate.Request) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		for _, one := range e {
			switch one := one.(type) {
			case func():
				one()
			case substrate.Event:
				if !yield(one, nil) {
					return
				}
			}
		}
		yield(substrate.FinishStop, nil)
	}
}

// The usage of a cut answer is the agent's report, and an estimate for the unreported rest:
// a token for every four bytes, rounded up.
func TestACutAnswerUsesWhatWasReportedAndAnEstimateOfTheRest(t *testing.T) {
	text := substrate.Text(strings.Repeat("x", 9))
	report := substrate.Usage{InputTokens: 1000, OutputTokens: 50, Turns: 1, Cost: 7}
	for name, tt := range map[string]struct {
		events []any
		want   *call.Usage // nil if the call is void
	}{
		"nothing came":        {[]any{}, nil},
		"a report alone":      {[]any{report}, nil},
		"text alone":          {[]any{text}, &call.Usage{InputTokens: 2, OutputTokens: 3, UnreportedTurns: 1}},
		"more text":           {[]any{text, text}, &call.Usage{InputTokens: 2, OutputTokens: 5, UnreportedTurns: 1}},
		"a report, then text": {[]any{report, text}, &call.Usage{InputTokens: 1000, OutputTokens: 53, Turns: 1, UnreportedTurns: 1, Cost: 7}},
		"text after a report of text": {[]any{text, report, text, text},
			&call.Usage{InputTokens: 1000, OutputTokens: 55, Turns: 1, UnreportedTurns: 1, Cost: 7}},
		"a report of all text that is stored": {[]any{text, text, report}, &call.Usage{InputTokens: 2, OutputTokens: 5, UnreportedTurns: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			var w *world
			var turn task.Turn
			all := []any{}
			for _, one := range tt.events {
				// Every piece is stored at once.
				all = append(all, func() { w.clock.advance(time.Second) }, one)
			}
			all = append(all, func() {
				if _, err := w.b.Cancel(t.Context(), turn.Ref); err != nil {
					t.Errorf("Cancel() = %v", err)
				}
			})
			w = newWorld(t, events(all))
			turn = w.turn("ask me!") // seven bytes
			_, done, err := w.a.Begin(t.Context(), turn)
			if err != nil {
				t.Fatal(err)
			}
			await.Receive(t, "the turn ends", done)
			rows := must(w.store.Store.Rows(t.Context(), call.Pair{Caller: turn.Caller, Vacant: turn.Vacant}.Responses(), 0, 10, store.Ascending))
			row := must(call.DecodeResponse(rows[0]))
			if len(rows) != 1 || (row.Kind == call.RowAnswer) != (tt.want != nil) || (row.CutReason == call.CutCanceled) != (tt.want != nil) {
				t.Fatalf("%d rows, the first is a %v, cut %q", len(rows), row.Kind, row.CutReason)
			}
			if diff := cmp.Diff(tt.want, row.Usage); tt.want != nil && diff != "" {
				t.Errorf("usage (-want +got):\n%s", diff)
			}
		})
	}
}

// Cutting a task's second turn cuts only this turn; earlier answers stay.
func TestACancelOfALaterTurnCutsThatTurn(t *testing.T) {
	var w *world
	var turn task.Turn
	w = newWorld(t, agent(func(ctx context.Context, say func(string) bool) error {
		if strings.HasPrefix(textOf(task.MessageOf(ctx).Parts), "more") {
			if began := textOf(task.FirstMessageOf(ctx).Parts); began != "hi" {
				t.Errorf("the task began with %q", began)
			}
			say("second")
			if _, err := w.b.Cancel(t.Context(), turn.Ref); err != nil {
				t.Errorf("Cancel() = %v", err)
			}
			return nil
		}
		call.Report(ctx, call.ProvisionalEvent{Detail: task.Chunk{Artifact: task.Artifact{ID: "file", Parts: []task.Part{{Kind: task.Text, Text: "kept"}}}}})
		call.Report(ctx, call.ProvisionalEvent{Detail: task.EndRequest{State: task.InputRequired}})
		say("what else?")
		return nil
	}))
	turn = w.turn("hi")
	_, done, err := w.a.Begin(t.Context(), turn)
	if err != nil {
		t.Fatal(err)
	}
	await.Receive(t, "the turn ends", done)
	next := w.turn("more")
	next.Ref, next.Continue = turn.Ref, true
	if _, done, err = w.a.Begin(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	await.Receive(t, "the turn ends", done)
	if got, want := summary(w.get(w.b, turn.Ref)), `canceled file="kept" response="second" says "second"`; got != want {
		t.Errorf("the task is %s, want %s", got, want)
	}
}

// A commit that relies on a configuration as it was read fails once another configuration has
// its place, even if several changes happened in between. Nothing is sent without such a
// commit.
func TestAConfigurationOfBeforeIsKeptNoMore(t *testing.T) {
	for name, change := range map[string]func(w *world, r task.Ref) error{
		"removed": func(w *world, r task.Ref) error { return w.a.RemovePushConfig(w.t.Context(), r, "p") },
		"replaced": func(w *world, r task.Ref) error {
			_, err := w.a.AddPushConfig(w.t.Context(), r, task.PushConfig{ID: "p", URL: "https://b.example"})
			return err
		},
		"removed and set again": func(w *world, r task.Ref) error {
			_, err := w.a.AddPushConfig(w.t.Context(), r, task.PushConfig{ID: "q", URL: "https://b.example"})
			return errors.Join(w.a.RemovePushConfig(w.t.Context(), r, "p"), w.a.RemovePushConfig(w.t.Context(), r, "q"), err,
				errorOf(w.a.AddPushConfig(w.t.Context(), r, task.PushConfig{ID: "p", URL: "https://c.example"})))
		},
		"ended": func(w *world, r task.Ref) error {
			open := must(w.b.ListActivePushConfigsOf(w.t.Context(), r, 0))
			return w.b.EndDeliveries(w.t.Context(), &open[0])
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, says("done"))
			turn := w.turn("hi")
			turn.Push = &task.PushConfig{ID: "p", URL: "https://a.example"}
			if _, err := w.a.Run(t.Context(), turn); err != nil {
				t.Fatal(err)
			}
			old := must(w.a.ListActivePushConfigsOf(t.Context(), turn.Ref, 0))[0]
			if err := change(w, turn.Ref); err != nil {
				t.Fatal(err)
			}
			for _, take := range []task.DeliveryCost{{}, {Bytes: 1, TaskLimit: 1, SenderLimit: 1}} {
				if err := w.a.SaveProgress(t.Context(), &old, take); !store.IsConflict(err) {
					t.Errorf("Keep(%+v) = %v, want a conflict", take, err)
				}
			}
		})
	}
}

func errorOf[T any](_ T, err error) error { return err }

// The sender of a notification is an account, with all its subjects, or an address, whatever
// key or context it uses.
func TestTheSenderOfNotificationsIsAnAccountOrAnAddress(t *testing.T) {
	w := newWorld(t, says("done"))
	sender := func(owner call.Owner, from string) task.Sender {
		t.Helper()
		turn := w.turn("hi")
		turn.Owner, turn.Push = owner, &task.PushConfig{ID: "p", URL: "https://a.example", ClientAddress: from}
		if _, err := w.a.Run(t.Context(), turn); err != nil {
			t.Fatal(err)
		}
		return must(w.a.ListActivePushConfigsOf(t.Context(), turn.Ref, 0))[0].Sender()
	}
	key := func() call.Owner { return call.KeyOwner(keyOf(t).ID()) }
	here := sender(call.GuestOwner, "203.0.113.7/32")
	for range 2 {
		if sender(key(), "203.0.113.7/32") != here {
			t.Error("keys tell senders apart")
		}
	}
	if sender(call.GuestOwner, "2001:db8::/64") == here {
		t.Error("addresses do not tell senders apart")
	}
	acme := sender(call.AccountOwner("acme", ""), "203.0.113.7/32")
	if acme == here || sender(call.AccountOwner("acme", "alice"), "2001:db8::/64") != acme || sender(call.AccountOwner("other", ""), "203.0.113.7/32") == acme {
		t.Error("accounts do not tell senders apart")
	}
}
