package task_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/local"
	"github.com/vacancy-host/vacancy/shared/host/keys/guests"
	"github.com/vacancy-host/vacancy/shared/host/money"
	localqueue "github.com/vacancy-host/vacancy/shared/host/queue/local"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// directory has vacants that can be deleted.
type directory struct {
	mu      sync.Mutex
	vacants map[identity.ID]call.Vacant
}

func (d *directory) Vacant(_ context.Context, id identity.ID, _ bool) (call.Vacant, bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v, ok := d.vacants[id]
	return v, ok, nil
}

// team is a world whose engines take dispatched tasks.
type team struct {
	*world
	directory *directory
}

func newTeam(t *testing.T, of substrate.Substrate) *team {
	t.Helper()
	d := &directory{vacants: map[identity.ID]call.Vacant{}}
	w := newWorld(t, of, func(c *call.Config) {
		v := call.Vacant(c.Directory.(call.SingleVacant))
		d.vacants[v.ID], c.Directory = v, d
	})
	keys := guests.New(store.Updater{Store: w.store.Store, Rand: rand.Reader}, must(local.FromHex(strings.Repeat("5a", 32), rand.Reader)), rand.Reader)
	w.a.Guests, w.b.Guests = keys, keys
	return &team{w, d}
}

// hire adds a vacant with the behaviour of the first one.
func (w *team) hire() identity.ID {
	key := keyOf(w.t)
	w.directory.mu.Lock()
	defer w.directory.mu.Unlock()
	v := w.directory.vacants[w.vacant.ID()]
	v.ID, v.Signer = key.ID(), key
	w.directory.vacants[v.ID] = v
	return v.ID
}

func (w *team) fire(id identity.ID) {
	w.directory.mu.Lock()
	defer w.directory.mu.Unlock()
	delete(w.directory.vacants, id)
}

// assign dispatches a task of an account to a vacant.
func assign(e *task.Engine, vacant identity.ID, account, text string, d task.Dispatch) (task.Ref, error) {
	owner, id := call.AccountOwner(account, ""), must(e.NewID())
	turn := task.Turn{
		Ref: task.Ref{Vacant: vacant, Owner: owner, ID: id}, ListOwner: owner,
		Message: task.Message{ID: "m-" + id, Context: "c-" + id, Role: task.User, Parts: []task.Part{{Kind: task.Text, Text: text}}},
	}
	_, err := e.Dispatch(context.Background(), turn, d)
	return turn.Ref, err
}

// dispatch dispatches a task of the account acme to the first vacant, and returns its message.
func (w *team) dispatch(text string) (task.Ref, string) {
	w.t.Helper()
	ref, err := assign(w.a, w.vacant.ID(), "acme", text, task.Dispatch{Agent: "writer", IsOwn: true})
	if err != nil {
		w.t.Fatal(err)
	}
	return ref, await.Receive(w.t, "a message is queued", w.queue.sent)
}

// reply returns the turn of an answer to a task.
func (w *team) reply(r task.Ref, text string) task.Turn {
	w.t.Helper()
	d, err := w.b.FindDispatched(w.t.Context(), r.Owner, r.ID)
	if err != nil {
		w.t.Fatal(err)
	}
	turn := task.Turn{Ref: r, ListOwner: r.Owner, Continue: true}
	m := task.Message{ID: "m-" + must(w.b.NewID()), Task: r.ID, Context: d.Task.Context, Role: task.User, Parts: []task.Part{{Kind: task.Text, Text: text}}}
	if err := w.b.PrepareSigning(w.t.Context(), &turn, m.Context, m, ""); err != nil {
		w.t.Fatal(err)
	}
	return turn
}

// unfinished returns the number of unfinished tasks of acme.
func (w *team) unfinished() (n int) {
	w.t.Helper()
	for _, err := range store.Documents(w.t.Context(), w.store.Store, task.UnfinishedDocs.Range(call.AccountOwner("acme", "").String())) {
		if err != nil {
			w.t.Fatal(err)
		}
		n++
	}
	return n
}

// asks is an agent that answers "paint" with a question, and any other text with that text.
var asks = agent(func(ctx context.Context, say func(string) bool) error {
	text := textOf(task.MessageOf(ctx).Parts)
	if text == "paint" {
		call.Report(ctx, call.ProvisionalEvent{IsQuestion: true})
		text = "which color?"
	}
	say(text)
	return nil
})

func TestADispatchedTaskRunsOnceHoweverOftenItsMessageComes(t *testing.T) {
	w := newTeam(t, says("done"))
	ref, message := w.dispatch("hi")
	var all sync.WaitGroup
	for _, e := range []*task.Engine{w.a, w.b, w.a} {
		all.Go(func() {
			// A worker that loses against another learns of the conflict.
			if err := e.RunQueued(context.Background(), message); err != nil && !errors.Is(err, task.ErrRetryLater) && !problem.Is(err, problem.Conflict) {
				t.Errorf("RunQueued() = %v", err)
			}
		})
	}
	all.Wait()
	for range 3 {
		if err := w.b.RunQueued(t.Context(), message); err != nil {
			t.Errorf("RunQueued() of the ended task = %v", err)
		}
	}
	if got, want := summary(w.get(w.b, ref)), `completed response="done" says "done"`; got != want || w.ran.Load() != 1 || w.unfinished() != 0 {
		t.Errorf("the task is %s after %d turns, %d unfinished; want %s", got, w.ran.Load(), w.unfinished(), want)
	}
}

// A cancel that meets the commit of the answer is earlier or later than the answer, and not both.
func TestACancelMeetsTheAnswer(t *testing.T) {
	for _, isEarlier := range []bool{true, false} {
		w := newTeam(t, says("done"))
		ref, message := w.dispatch("hi")
		var canceled error
		met := false
		w.store.set(func(writes []store.Write) error {
			isAnswer := slices.ContainsFunc(writes, func(one store.Write) bool {
				row, ok := one.(store.Append)
				return ok && row.Stream.Kind() == store.KindResponse
			})
			if !isAnswer || met {
				return nil
			}
			met = true
			if !isEarlier {
				if err := w.store.Store.Commit(context.Background(), writes...); err != nil {
					return err
				}
			}
			_, canceled = w.b.Cancel(context.Background(), ref)
			return nil
		})
		if err := w.a.RunQueued(t.Context(), message); err != nil {
			t.Errorf("RunQueued() = %v", err)
		}
		w.store.set(nil)
		// Before its end is stored, the answer can be read.
		want, wantErr := `canceled response="done" says "done"`, error(nil)
		if !isEarlier {
			want, wantErr = `completed response="done" says "done"`, task.ErrNotCancelable
		}
		if got := summary(w.get(w.b, ref)); got != want || !errors.Is(canceled, wantErr) || w.unfinished() != 0 {
			t.Errorf("earlier %t: the task is %s, Cancel() = %v, %d unfinished; want %s, %v", isEarlier, got, canceled, w.unfinished(), want, wantErr)
		}
	}
}

func TestASecondCancelChangesNothing(t *testing.T) {
	w := newTeam(t, says("done"))
	ref, message := w.dispatch("hi")
	first, err := w.a.Cancel(t.Context(), ref)
	if err != nil || first.Status.State != task.Canceled {
		t.Fatalf("Cancel() = %s, %v", summary(first), err)
	}
	if _, err := w.b.Cancel(t.Context(), ref); !errors.Is(err, task.ErrNotCancelable) {
		t.Errorf("a second Cancel() = %v", err)
	}
	if err := w.b.RunQueued(t.Context(), message); err != nil || w.ran.Load() != 0 {
		t.Errorf("RunQueued() = %v, %d turns ran", err, w.ran.Load())
	}
	if diff := cmp.Diff(first, w.get(w.b, ref)); diff != "" || w.unfinished() != 0 {
		t.Errorf("afterwards %d are unfinished, the task (-want +got):\n%s", w.unfinished(), diff)
	}
}

func TestATaskThatDoesNotWaitTakesNoAnswer(t *testing.T) {
	w := newTeam(t, asks)
	ref, message := w.dispatch("paint")
	if _, err := w.a.Enqueue(t.Context(), w.reply(ref, "blue")); !errors.Is(err, task.ErrBusy) {
		t.Errorf("before the first turn, Enqueue() = %v", err)
	}
	if err := w.b.RunQueued(t.Context(), message); err != nil {
		t.Fatal(err)
	}
	if got := summary(w.get(w.b, ref)); got != `input-required says "which color?"` {
		t.Fatalf("the task is %s", got)
	}
	if _, err := w.a.Enqueue(t.Context(), w.reply(ref, "blue")); err != nil {
		t.Fatal(err)
	}
	if _, err := w.a.Enqueue(t.Context(), w.reply(ref, "red")); !errors.Is(err, task.ErrBusy) {
		t.Errorf("after an answer, Enqueue() = %v", err)
	}
	if err := w.b.RunQueued(t.Context(), <-w.queue.sent); err != nil {
		t.Fatal(err)
	}
	if got := summary(w.get(w.b, ref)); got != `completed response="blue" says "blue"` {
		t.Errorf("the task is %s", got)
	}
	if _, err := w.a.Enqueue(t.Context(), w.reply(ref, "red")); !errors.Is(err, task.ErrBusy) || w.ran.Load() != 2 {
		t.Errorf("after the end, Enqueue() = %v, %d turns ran", err, w.ran.Load())
	}
}

// An answer that is sent while the turn before ends would otherwise have the budget of before that turn.
func TestAnAnswerHasTheBudgetThatIsLeft(t *testing.T) {
	release, begun := make(chan bool), make(chan bool)
	left := make(chan money.Amount, 2)
	var w *team
	w = newTeam(t, agent(func(ctx context.Context, say func(string) bool) error {
		left <- *task.DispatchOf(ctx, w.vacant.ID()).RemainingBudget()
		if textOf(task.MessageOf(ctx).Parts) == "paint" {
			close(begun)
			<-release
			call.Report(ctx, call.ProvisionalEvent{IsQuestion: true})
		}
		say("yes")
		return nil
	}))
	budget := money.Amount(10)
	ref, err := assign(w.a, w.vacant.ID(), "acme", "paint", task.Dispatch{Agent: "writer", IsOwn: true, Budget: &budget})
	if err != nil {
		t.Fatal(err)
	}
	worked := make(chan error, 1)
	message := <-w.queue.sent
	go func() { worked <- w.b.RunQueued(context.Background(), message) }()
	await.Receive(t, "the turn runs", begun)
	early := w.reply(ref, "blue")
	sign := early.SignEnvelope
	early.SignEnvelope = func(ctx context.Context, next call.ExpectedEnvelope) (*envelope.Envelope, error) {
		close(release) // the first turn ends after the answer has read its budget
		if err := await.Receive(t, "the turn ends", worked); err != nil {
			t.Errorf("RunQueued() = %v", err)
		}
		head := must(w.store.Store.Doc(ctx, task.HeadDocs.Key(message)))
		data := strings.Replace(string(head.Data), `"budget":10`, `"budget":10,"spent":7`, 1)
		put := store.Put{Key: head.Key, IfVersion: head.Version, WriteID: store.WriteID{1}, Data: []byte(data), Index: head.Index, Expires: head.Expires}
		if err := w.store.Store.Commit(ctx, put); err != nil {
			t.Errorf("the cost of the turn is not stored: %v", err)
		}
		return sign(ctx, next)
	}
	if _, err := w.a.Enqueue(t.Context(), early); !errors.Is(err, task.ErrBusy) {
		t.Errorf("Enqueue() with the old budget = %v, want %v", err, task.ErrBusy)
	}
	if _, err := w.a.Enqueue(t.Context(), w.reply(ref, "blue")); err != nil {
		t.Fatal(err)
	}
	if err := w.b.RunQueued(t.Context(), <-w.queue.sent); err != nil {
		t.Fatal(err)
	}
	if first, second := <-left, <-left; first != 10 || second != 3 {
		t.Errorf("the turns had budgets of %d and %d, want 10 and 3", first, second)
	}
}

func TestATaskEndsAtTheSecondOfItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTeam(t, says("done"))
		time.Sleep(123456789) // the beginning is not at a full second
		for asked, limit := range map[time.Duration]time.Duration{0: task.DefaultRunTime, time.Hour: time.Hour, 48 * time.Hour: task.MaxRunTime} {
			deadline := time.Now().Add(asked)
			if asked == 0 {
				deadline = time.Time{}
			}
			ref, err := assign(w.a, w.vacant.ID(), "acme", "hi", task.Dispatch{Deadline: deadline})
			if err != nil {
				t.Fatal(err)
			}
			d := must(w.b.FindDispatched(t.Context(), ref.Owner, ref.ID))
			if got := d.Deadline.Sub(d.StartedAt).Round(time.Millisecond); got != limit {
				t.Errorf("a task with the deadline %s has %s, want %s", deadline, got, limit)
			}
			time.Sleep(time.Until(d.Deadline) - time.Microsecond)
			if got := w.get(w.b, ref); got.Status.State != task.Submitted || w.unfinished() != 1 {
				t.Errorf("before its deadline the task is %s, %d unfinished", summary(got), w.unfinished())
			}
			time.Sleep(time.Microsecond)
			if got := w.get(w.b, ref); got.Status.State != task.Failed || !strings.Contains(summary(got), "did not end within "+limit.String()) || w.unfinished() != 0 {
				t.Errorf("at its deadline the task is %s, %d unfinished", summary(got), w.unfinished())
			}
			if err := w.b.RunQueued(t.Context(), <-w.queue.sent); err != nil || w.ran.Load() != 0 {
				t.Errorf("RunQueued() = %v, %d turns ran", err, w.ran.Load())
			}
		}
	})
}

// A store may keep a document after it has expired.
func TestAnExpiredTaskIsNotFoundWhileItIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTeam(t, says("done"))
		ref, message := w.dispatch("hi")
		if err := w.b.RunQueued(t.Context(), message); err != nil {
			t.Fatal(err)
		}
		everything := func(*task.DispatchedTask) bool { return true }
		head := must(w.store.Doc(t.Context(), task.HeadDocs.Key(message)))
		time.Sleep(time.Until(head.Expires) - time.Nanosecond)
		if all, _, err := w.b.ListDispatched(t.Context(), ref.Owner, "", 10, everything); err != nil || len(all) != 1 {
			t.Errorf("before it expires %d tasks are listed, %v", len(all), err)
		}
		time.Sleep(time.Nanosecond)
		_, err := w.b.FindDispatched(t.Context(), ref.Owner, ref.ID)
		all, _, listErr := w.b.ListDispatched(t.Context(), ref.Owner, "", 10, everything)
		if !errors.Is(err, task.ErrNotFound) || listErr != nil || len(all) != 0 {
			t.Errorf("when it expires: %v, %d tasks are listed, %v", err, len(all), listErr)
		}
		if d := must(w.store.Doc(t.Context(), head.Key)); d.Version == 0 {
			t.Error("the document is deleted, so the test shows nothing")
		}
	})
}

// The tasks of two accounts, whose turns take turns, stay apart.
func TestTwoAccountsDoNotMeet(t *testing.T) {
	w := newTeam(t, asks)
	refs, messages := map[string]task.Ref{}, map[string]string{}
	accounts := []string{"acme", "other"}
	for _, account := range accounts {
		ref, err := assign(w.a, w.vacant.ID(), account, "paint", task.Dispatch{})
		if err != nil {
			t.Fatal(err)
		}
		refs[account], messages[account] = ref, <-w.queue.sent
	}
	for _, account := range accounts {
		if err := w.a.RunQueued(t.Context(), messages[account]); err != nil {
			t.Fatal(err)
		}
	}
	for _, account := range accounts {
		if _, err := w.a.Enqueue(t.Context(), w.reply(refs[account], "color of "+account)); err != nil {
			t.Fatal(err)
		}
		messages[account] = <-w.queue.sent
	}
	for _, account := range slices.Backward(accounts) {
		if err := w.a.RunQueued(t.Context(), messages[account]); err != nil {
			t.Fatal(err)
		}
	}
	for i, account := range accounts {
		text := "color of " + account
		if got, want := summary(w.get(w.b, refs[account])), fmt.Sprintf("completed response=%q says %q", text, text); got != want {
			t.Errorf("the task of %s is %s, want %s", account, got, want)
		}
		stranger := refs[account]
		stranger.Owner = call.AccountOwner(accounts[1-i], "")
		if _, err := w.b.FindDispatched(t.Context(), stranger.Owner, stranger.ID); !errors.Is(err, task.ErrNotFound) {
			t.Errorf("another account finds the task of %s: %v", account, err)
		}
		if _, err := w.b.Cancel(t.Context(), stranger); !errors.Is(err, task.ErrNotFound) {
			t.Errorf("another account cancels the task of %s: %v", account, err)
		}
		all, _, err := w.b.ListDispatched(t.Context(), refs[account].Owner, "", 10, func(*task.DispatchedTask) bool { return true })
		if err != nil || len(all) != 1 || all[0].Ref != refs[account] {
			t.Errorf("the list of %s has %d tasks, %v", account, len(all), err)
		}
	}
}

func TestATaskEndsIfItsAgentIsDeleted(t *testing.T) {
	t.Run("before its turn", func(t *testing.T) {
		w := newTeam(t, says("done"))
		ref, message := w.dispatch("hi")
		w.fire(ref.Vacant)
		if err := w.b.RunQueued(t.Context(), message); err != nil {
			t.Fatal(err)
		}
		if got := w.get(w.b, ref); got.Status.State != task.Failed || w.ran.Load() != 0 || w.unfinished() != 0 {
			t.Errorf("the task is %s after %d turns, %d unfinished", summary(got), w.ran.Load(), w.unfinished())
		}
	})
	t.Run("in its turn", func(t *testing.T) {
		var w *team
		w = newTeam(t, agent(func(_ context.Context, say func(string) bool) error {
			w.fire(w.vacant.ID())
			say("done")
			return nil
		}))
		ref, message := w.dispatch("hi")
		for range 3 {
			if err := w.b.RunQueued(t.Context(), message); err != nil {
				t.Fatal(err)
			}
		}
		if got := w.get(w.b, ref); got.Status.State != task.Completed || w.ran.Load() != 1 || w.unfinished() != 0 {
			t.Errorf("the task is %s after %d turns, %d unfinished", summary(got), w.ran.Load(), w.unfinished())
		}
	})
	t.Run("while it waits for an answer", func(t *testing.T) {
		w := newTeam(t, asks)
		ref, message := w.dispatch("paint")
		if err := w.b.RunQueued(t.Context(), message); err != nil {
			t.Fatal(err)
		}
		answer := w.reply(ref, "blue")
		w.fire(ref.Vacant)
		if _, err := w.a.Enqueue(t.Context(), answer); err == nil {
			t.Error("the deleted agent takes an answer")
		}
		if got, err := w.a.Cancel(t.Context(), ref); err != nil || got.Status.State != task.Canceled || w.unfinished() != 0 {
			t.Errorf("Cancel() = %s, %v, %d unfinished", summary(got), err, w.unfinished())
		}
	})
}

func TestATaskThatWaitedForTwentyMinutesRuns(t *testing.T) {
	w := newTeam(t, says("done"))
	w.noon()
	ref, message := w.dispatch("hi")
	e := w.worker(4) // the account has a quarter of them
	share := task.RunningCountDocs.Key("sender "+string(task.SenderOfQueueMessage(message)), w.clock.now().UTC().Format(time.DateOnly))
	if err := w.store.Commit(t.Context(), store.Put{Key: share, WriteID: store.WriteID{1}, Number: 1}); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		if err := w.refused(e, message); !errors.Is(err, task.ErrWaiting) {
			t.Errorf("without room, RunQueued() = %v", err)
		}
		if got := w.get(w.b, ref); got.Status.State != task.Submitted {
			t.Fatalf("the task is %s", summary(got))
		}
		w.clock.advance(5 * time.Minute)
	}
	if err := w.store.Commit(t.Context(), store.Put{Key: share, IfVersion: 1, WriteID: store.WriteID{2}}); err != nil {
		t.Fatal(err)
	}
	if err := e.RunQueued(t.Context(), message); err != nil {
		t.Fatal(err)
	}
	if got := summary(w.get(w.b, ref)); got != `completed response="done" says "done"` {
		t.Errorf("the task is %s", got)
	}
}

func TestAnAgentTakesFortyTasksOfAnAccount(t *testing.T) {
	w := newTeam(t, says("done"))
	var messages []string
	for range task.MaxUnfinishedPerVacant {
		_, message := w.dispatch("hi")
		messages = append(messages, message)
	}
	const want = "the limit of 40 unfinished tasks at this agent is reached"
	if _, err := assign(w.a, w.vacant.ID(), "acme", "hi", task.Dispatch{}); !problem.Is(err, problem.TooManyRequests) || !strings.Contains(err.Error(), want) {
		t.Errorf("one more: %v, want %s", err, want)
	}
	if _, err := assign(w.a, w.hire(), "acme", "hi", task.Dispatch{}); err != nil {
		t.Errorf("at another agent: %v", err)
	}
	if _, err := assign(w.a, w.vacant.ID(), "other", "hi", task.Dispatch{}); err != nil {
		t.Errorf("of another account: %v", err)
	}
	for _, message := range messages {
		if err := w.b.RunQueued(t.Context(), message); err != nil {
			t.Errorf("RunQueued() = %v", err)
		}
	}
	if n := w.ran.Load(); n != task.MaxUnfinishedPerVacant || w.unfinished() != 1 {
		t.Errorf("%d turns ran, %d tasks are unfinished", n, w.unfinished())
	}
	w.dispatch("after")
}

// An account whose turns block has its share of the running turns, and no more.
func TestAHundredTasksOfTenAccountsEndOnce(t *testing.T) {
	const accounts, each, turns = 10, 10, 8
	release := make(chan bool)
	var others atomic.Int64
	w := newTeam(t, agent(func(ctx context.Context, say func(string) bool) error {
		text := textOf(task.MessageOf(ctx).Parts)
		if text == "account 0" {
			<-release
		} else {
			others.Add(1)
		}
		say(text)
		return nil
	}))
	q := localqueue.New(store.Updater{Store: w.store.Store, Rand: rand.Reader}, w.clock.now)
	c := w.b.Config
	c.Queue = q
	e := task.New(c)
	var refs []task.Ref
	for n := range accounts {
		vacant, name := w.hire(), fmt.Sprint("account ", n)
		for range each {
			ref, err := assign(e, vacant, name, name, task.Dispatch{})
			if err != nil {
				t.Fatal(err)
			}
			refs = append(refs, ref)
		}
	}
	shares := func(message string, sender task.Sender) []task.Share {
		return append([]task.Share{{Key: "turns", Max: turns}}, task.Shares(must(task.ParseRef(message)), sender, false, turns)...)
	}
	ctx, end := context.WithCancel(t.Context())
	stopped := make(chan bool)
	go func() {
		defer close(stopped)
		q.Run(ctx, slog.New(slog.DiscardHandler), shares, e.RunQueued)
	}()
	await.Until(t, "the tasks of the other accounts run", func() bool { return others.Load() == (accounts-1)*each })
	if n := w.ran.Load() - others.Load(); n > turns/4 {
		t.Errorf("%d turns of the account that blocks have begun, want at most %d", n, turns/4)
	}
	close(release)
	await.Until(t, "all tasks end", func() bool {
		return !slices.ContainsFunc(refs, func(r task.Ref) bool { return !w.get(e, r).Status.State.IsTerminal() })
	})
	end()
	await.Receive(t, "the queue stops", stopped)
	e.Wait()
	for _, ref := range refs {
		ends := 0
		err := e.Follow(t.Context(), ref, 0, func(n task.NumberedEvent) bool {
			if n.Status != nil && n.Status.State == task.Completed {
				ends++
			}
			return true
		})
		if err != nil || ends != 1 {
			t.Errorf("the task %s was completed %d times, %v", ref.ID, ends, err)
		}
	}
	if n := w.ran.Load(); n != accounts*each {
		t.Errorf("%d turns ran, want %d", n, accounts*each)
	}
}

// An earlier program knows no dispatched tasks, and reads heads of format 1.
func TestAnEarlierProgramDoesNotReadDispatchedTasks(t *testing.T) {
	w := newTeam(t, says("done"))
	earlier := store.JSONCodec[struct{ State string }](1)
	_, dispatched := w.dispatch("hi")
	if _, err := w.a.Enqueue(t.Context(), w.turn("hi")); err != nil {
		t.Fatal(err)
	}
	for message, isRead := range map[string]bool{dispatched: false, <-w.queue.sent: true} {
		for range 2 { // before and after its turn
			if h, err := earlier.Decode(must(w.store.Doc(t.Context(), task.HeadDocs.Key(message)))); (err == nil && h.State != "") != isRead {
				t.Errorf("an earlier program reads %+v, %v, want %t", h, err, isRead)
			}
			if err := w.b.RunQueued(t.Context(), message); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestWorkForATaskNeedsItsSettings(t *testing.T) {
	w := newTeam(t, says("done"))
	ref, name := w.dispatch("hi")
	ctx, stop := task.WatchTurn(t.Context(), w.store, name)
	if d := task.DispatchOf(ctx, ref.Vacant); d == nil || d.Agent != "writer" || ctx.Err() != nil {
		t.Errorf("the context has the settings %+v, and has ended: %v", d, ctx.Err())
	}
	stop()
	w.store.away.Store(true)
	ctx, stop = task.WatchTurn(t.Context(), w.store, name)
	defer stop()
	if !errors.Is(ctx.Err(), context.Canceled) || !problem.Is(context.Cause(ctx), problem.Unavailable) {
		t.Errorf("without a store the context has ended: %v, because %v", ctx.Err(), context.Cause(ctx))
	}
}

// counted counts the ranges of tasks that are read.
type counted struct {
	store.Store
	tasks atomic.Int64
}

func (c *counted) Docs(ctx context.Context, r store.Range, n int, cursor string) ([]store.Doc, string, error) {
	if strings.HasPrefix(r.Partition, "task#") {
		c.tasks.Add(1)
	}
	return c.Store.Docs(ctx, r, n, cursor)
}

// A list reads the events of the tasks that fit, and ends after a number of others.
func TestAListReadsWhatFits(t *testing.T) {
	w := newTeam(t, says("done"))
	owner := call.AccountOwner("acme", "")
	const ended, open = 210, 3
	for range ended {
		w.clock.advance(time.Millisecond)
		ref, _ := w.dispatch("hi")
		if _, err := w.a.Cancel(t.Context(), ref); err != nil {
			t.Fatal(err)
		}
	}
	over := &counted{Store: w.store.Store}
	c := w.b.Config
	c.Store = over
	e := task.New(c)
	all := func(size int, state task.State) (ids []string, requests int) {
		t.Helper()
		for cursor := ""; ; {
			page, next, err := e.ListDispatched(t.Context(), owner, cursor, size, func(d *task.DispatchedTask) bool { return state == "" || d.Task.Status.State == state })
			if err != nil {
				t.Fatal(err)
			}
			requests++
			for _, d := range page {
				ids = append(ids, d.Ref.ID)
			}
			if cursor = next; next == "" {
				return ids, requests
			}
		}
	}
	if ids, requests := all(10, task.Submitted); len(ids) != 0 || requests != 2 || over.tasks.Load() != 0 {
		t.Errorf("%d tasks in %d requests, which read the events of %d; want none in two", len(ids), requests, over.tasks.Load())
	}
	var want []string
	for range open {
		w.clock.advance(time.Millisecond)
		ref, _ := w.dispatch("hi")
		want = append([]string{ref.ID}, want...)
	}
	if ids, _ := all(2, task.Submitted); !slices.Equal(ids, want) || over.tasks.Load() != open {
		t.Errorf("listed %v, want %v; the events of %d tasks were read, want %d", ids, want, over.tasks.Load(), open)
	}
	ids, _ := all(50, "")
	if slices.Sort(ids); len(ids) != ended+open || len(slices.Compact(ids)) != ended+open {
		t.Errorf("%d tasks are listed, want %d, each once", len(ids), ended+open)
	}
	if _, _, err := e.ListDispatched(t.Context(), owner, "!", 10, nil); err == nil {
		t.Error("a wrong cursor is accepted")
	}
}

// settled is a queue that says how messages were settled.
type settled struct {
	queue
	stored chan bool
}

func (q settled) Send(ctx context.Context, message string, of task.Sender) (func(context.Context, bool), error) {
	_, err := q.queue.Send(ctx, message, of)
	return func(_ context.Context, stored bool) { q.stored <- stored }, err
}

// The queue delivers the message of a task that may be stored.
func TestATaskWhoseCommitHasNoAnswerRuns(t *testing.T) {
	w := newTeam(t, says("done"))
	q := settled{w.queue, make(chan bool, 1)}
	w.a.Queue = q
	w.store.set(func(writes []store.Write) error {
		if len(writes) == 1 {
			return nil // the text key of the day
		}
		return errors.Join(w.store.Store.Commit(context.Background(), writes...), store.ErrUnavailable)
	})
	ref, err := assign(w.a, w.vacant.ID(), "acme", "hi", task.Dispatch{})
	if !problem.Is(err, problem.Unavailable) || len(q.stored) == 0 || !<-q.stored {
		t.Errorf("Dispatch() = %v, want an error, and a message that is delivered", err)
	}
	if err := w.b.RunQueued(t.Context(), <-w.queue.sent); err != nil {
		t.Fatal(err)
	}
	if got := w.get(w.b, ref); got.Status.State != task.Completed {
		t.Errorf("the task is %s", summary(got))
	}
}

// The trace of a dispatched task is beside its events, which are the same with and without a trace.
func TestADispatchedTaskHasATrace(t *testing.T) {
	isSilent := false
	w := newTeam(t, agent(func(ctx context.Context, say func(string) bool) error {
		if !isSilent {
			call.Report(ctx, call.ProvisionalEvent{Thought: "secret "})
			call.Report(ctx, call.ProvisionalEvent{Thought: "thought"})
			call.Report(ctx, call.ProvisionalEvent{Detail: call.ToolStep{ID: "1", Name: "look", Arguments: `{"for":"a"}`}})
			call.Report(ctx, call.ProvisionalEvent{Detail: call.ToolStep{ID: "1", Name: "look", Outcome: call.ToolOK}})
		}
		if textOf(task.MessageOf(ctx).Parts) == "paint" {
			call.Report(ctx, call.ProvisionalEvent{IsQuestion: true})
		}
		say("done")
		return nil
	}))
	w.a.ChunkInterval, w.b.ChunkInterval = time.Hour, time.Hour // the text of an answer is one event
	trace := func(r task.Ref) (lines []string) {
		t.Helper()
		all, err := w.b.ReadTrace(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range all {
			if entry.Time.IsZero() {
				t.Errorf("an entry without a time: %+v", entry)
			}
			entry.Time = time.Time{}
			lines = append(lines, string(must(json.Marshal(entry))))
		}
		return lines
	}
	events := func(r task.Ref) (lines []string) {
		t.Helper()
		if err := w.b.Follow(t.Context(), r, 0, func(n task.NumberedEvent) bool {
			what := "artifact"
			if n.Status != nil {
				what = string(n.Status.State)
			}
			lines = append(lines, fmt.Sprint(n.Number, " ", what))
			if strings.Contains(string(must(json.Marshal(n))), "secret") {
				t.Errorf("event %d has a thought", n.Number)
			}
			return true
		}); err != nil {
			t.Fatal(err)
		}
		return lines
	}
	// The turn of a stranger has the same events as the turn of a silent agent.
	isSilent = true
	silent, message := w.dispatch("hi")
	if err := w.b.RunQueued(t.Context(), message); err != nil {
		t.Fatal(err)
	}
	isSilent = false
	ref, message := w.dispatch("hi")
	if err := w.b.RunQueued(t.Context(), message); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(events(silent), events(ref)); diff != "" || len(trace(silent)) != 0 {
		t.Errorf("%d entries of the silent agent; events (-silent +got):\n%s", len(trace(silent)), diff)
	}
	one := []string{
		`{"time":"0001-01-01T00:00:00Z","thought":"secret thought"}`,
		`{"time":"0001-01-01T00:00:00Z","tool":{"id":"1","name":"look","arguments":"{\"for\":\"a\"}"}}`,
		`{"time":"0001-01-01T00:00:00Z","tool":{"id":"1","name":"look","outcome":"ok"}}`,
	}
	if diff := cmp.Diff(one, trace(ref)); diff != "" {
		t.Errorf("trace (-want +got):\n%s", diff)
	}
	// The trace of a later turn follows.
	ref, message = w.dispatch("paint")
	if err := w.b.RunQueued(t.Context(), message); err != nil {
		t.Fatal(err)
	}
	if _, err := w.a.Enqueue(t.Context(), w.reply(ref, "blue")); err != nil {
		t.Fatal(err)
	}
	if err := w.b.RunQueued(t.Context(), <-w.queue.sent); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(append(slices.Clone(one), one...), trace(ref)); diff != "" {
		t.Errorf("trace of two turns (-want +got):\n%s", diff)
	}
	// A task that was not dispatched has none, and a trace is sealed.
	started := w.turn("hi")
	if _, err := w.a.Enqueue(t.Context(), started); err != nil {
		t.Fatal(err)
	}
	if err := w.b.RunQueued(t.Context(), <-w.queue.sent); err != nil {
		t.Fatal(err)
	}
	if got := trace(started.Ref); len(got) != 0 {
		t.Errorf("a task that was not dispatched has the trace %v", got)
	}
	for d, err := range store.Documents(t.Context(), w.store.Store, task.TraceDocs.Range(message)) {
		if err != nil || strings.Contains(string(d.Data), "secret") {
			t.Errorf("a stored trace: %q, %v", d.Data, err)
		}
	}
}
