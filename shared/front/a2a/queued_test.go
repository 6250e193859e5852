package a2a_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/front/handlers"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/call"
)

// queued is a host whose process runs only while it handles a message: the test hands the
// messages over, by a clock of its own.
type queued struct {
	*world
	agents *serve.A2A

	mu     sync.Mutex
	tasks  []string
	came   chan bool // a message of tasks; nil without workers
	pushes []due
	groups []task.Sender // of the notices so far
	broken bool          // the queue of notices takes none
}

type due struct {
	at     time.Time
	notice string
}

type taskQueue struct{ q *queued }

func (t taskQueue) Send(_ context.Context, m string, _ task.Sender) (func(context.Context, bool), error) {
	if t.q.came == nil {
		t.q.sent(m)
		return func(context.Context, bool) {}, nil
	}
	return func(_ context.Context, stored bool) { // before, the message would come again after a second
		if stored {
			t.q.sent(m)
		}
	}, nil
}

func (q *queued) sent(m string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.tasks = append(q.tasks, m)
	select {
	case q.came <- true:
	default: // the workers will look anyway
	}
}

type noticeQueue struct{ q *queued }

func (n noticeQueue) SendAfter(_ context.Context, m string, of task.Sender, after time.Duration) error {
	n.q.mu.Lock()
	n.q.groups = append(n.q.groups, of)
	n.q.mu.Unlock()
	return n.q.add(m, after)
}

func (q *queued) add(m string, after time.Duration) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.broken {
		return errors.New("the queue is away")
	}
	q.pushes = append(q.pushes, due{q.now().Add(after), m})
	return nil
}

func newQueued(t *testing.T) *queued { return newQueuedWith(t, serve.Queues{}) }

func newQueuedWith(t *testing.T, with serve.Queues, changes ...func(*serve.Config)) *queued {
	t.Helper()
	q := &queued{world: openWorld(t, true, changes...)}
	with.Tasks, with.Notices = taskQueue{q}, noticeQueue{q}
	q.agents = q.server.OpenQueuedA2A(with)
	q.http.Config.Handler = serve.Handlers{Message: q.server.MessageHandler(), Plain: q.agents.Plain, Protocols: handlers.NewProtocols(q.agents)}.Public()
	return q
}

// work hands each message of the queue of tasks over, so many times at once.
func (q *queued) work(times int) {
	q.t.Helper()
	q.mu.Lock()
	all := q.tasks
	q.tasks = nil
	q.mu.Unlock()
	var running sync.WaitGroup
	for _, m := range all {
		for range times {
			running.Go(func() {
				if err := q.agents.Tasks.RunQueued(context.Background(), m); err != nil && !errors.Is(err, task.ErrRetryLater) {
					q.t.Error(err)
				}
			})
		}
	}
	running.Wait()
	q.agents.Tasks.Wait()
}

// workers hands each message of the queue of tasks to a worker, at most n at once, until the test ends.
// The message of a turn without room comes again.
func (q *queued) workers(n int) {
	q.t.Helper()
	q.came = make(chan bool, 1)
	ctx, stop := context.WithCancel(context.Background())
	room, ended := make(chan bool, n), make(chan bool)
	go func() {
		defer close(ended)
		var running sync.WaitGroup
		defer running.Wait()
		for {
			select {
			case <-q.came:
			case <-ctx.Done():
				return
			}
			q.mu.Lock()
			all := q.tasks
			q.tasks = nil
			q.mu.Unlock()
			for _, m := range all {
				room <- true
				running.Go(func() {
					defer func() { <-room }()
					switch err := q.agents.Tasks.RunQueued(context.Background(), m); {
					case errors.Is(err, task.ErrFull):
						time.AfterFunc(10*time.Millisecond, func() { q.sent(m) })
					case err != nil && !errors.Is(err, task.ErrRetryLater):
						q.t.Error(err)
					}
				})
			}
		}
	}()
	q.t.Cleanup(func() { stop(); <-ended })
}

// notify hands the notices over, each so many times at once, until none is left. The clock
// is set to the time at which each is due.
func (q *queued) notify(times int) {
	q.t.Helper()
	for range 500 {
		q.mu.Lock()
		all := q.pushes
		q.pushes = nil
		q.mu.Unlock()
		if len(all) == 0 {
			return
		}
		slices.SortStableFunc(all, func(a, b due) int { return a.at.Compare(b.at) })
		next := all[0]
		q.mu.Lock()
		q.pushes = append(q.pushes, all[1:]...)
		q.mu.Unlock()
		if ahead := next.at.Sub(q.now()); ahead > 0 {
			q.skip.Add(int64(ahead))
		}
		var running sync.WaitGroup
		for range times {
			running.Go(func() {
				if err := q.agents.Push.Handle(context.Background(), next.notice); err != nil && !errors.Is(err, task.ErrRetryLater) {
					q.t.Error(err)
				}
			})
		}
		running.Wait()
	}
	q.t.Error("the notices never end")
}

func config(r *receiver) string { return fmt.Sprintf(`"taskPushNotificationConfig":{"url":%q}`, r.URL) }

func (q *queued) begin(vacant, id, text, config string) answer {
	q.t.Helper()
	got := q.rpc("/v/"+vacant, "SendMessage", fmt.Sprintf(`{"message":{"messageId":%q,"role":"ROLE_USER","parts":[{"text":%q}]},"configuration":{"returnImmediately":true,%s}}`, id, text, config))
	if at(q.t, got.body, "error") != "" {
		q.t.Fatal(got.body)
	}
	return got
}

// shapes are the kinds of what was delivered, and its states.
func (r *receiver) shapes() (all []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range r.got {
		kind, _, _ := strings.Cut(strings.TrimPrefix(d.body, `{"`), `"`)
		for _, s := range []string{"SUBMITTED", "WORKING", "INPUT_REQUIRED", "COMPLETED", "FAILED", "CANCELED"} {
			if strings.Contains(d.body, "TASK_STATE_"+s) {
				kind += " " + s
			}
		}
		all = append(all, kind)
	}
	return all
}

func TestAQueuedTurnRunsOnceAndIsPushedInOrder(t *testing.T) {
	for times := range 3 {
		q := newQueued(t)
		r := newReceiver(t)
		id := at(t, q.begin("echo", "m1", "hi", config(r)).body, "result", "task", "id")
		q.mu.Lock()
		text := strings.Join(q.tasks, " ") + q.pushes[0].notice
		q.mu.Unlock()
		if !strings.Contains(text, id) || strings.Contains(text, "hi") || strings.Contains(text, r.URL) {
			t.Errorf("the queues carry %s, want the task's key and no text", text)
		}
		q.work(times + 1)
		q.notify(times + 1)
		// Each is delivered at least once, and none after a later one.
		got := slices.Compact(r.shapes())
		if diff := cmp.Diff([]string{"task SUBMITTED", "statusUpdate WORKING", "artifactUpdate", "statusUpdate COMPLETED"}, got); diff != "" {
			t.Errorf("each message %d times: deliveries (-want +got):\n%s", times+1, diff)
		}
		if got := q.do("GET", "/v/echo/tasks/"+id, ""); at(t, got.body, "status", "state") != "TASK_STATE_COMPLETED" {
			t.Errorf("the task: %s", got.body)
		}
	}
}

// The queue is shared out by the address that sets a configuration, which it does not learn.
// All notices of a task have the same sender.
func TestNoticesNameTheirSender(t *testing.T) {
	q := newQueued(t)
	r := newReceiver(t)
	senders := func(address string) []task.Sender {
		t.Helper()
		q.mu.Lock()
		q.groups = nil
		q.mu.Unlock()
		if got := q.post(address, "/v/echo/message:send", `{"message":{"role":"ROLE_USER","parts":[{"text":"hi"}]},"configuration":{"returnImmediately":true,`+config(r)+`}}`); got.status != http.StatusOK {
			t.Fatalf("a message = %d %s", got.status, got.body)
		}
		q.work(1)
		q.notify(1)
		q.mu.Lock()
		defer q.mu.Unlock()
		slices.Sort(q.groups)
		return slices.Compact(q.groups)
	}
	one, same, other := senders("203.0.113.7"), senders("203.0.113.7"), senders("203.0.113.8")
	if len(one) != 1 || !slices.Equal(one, same) || slices.Equal(one, other) || strings.Contains(string(one[0]), ".") {
		t.Errorf("senders: %q, %q of the same address, %q of another", one, same, other)
	}
}

// While a turn runs its events are looked for; its end, and the next turn, bring notices
// of their own.
func TestQueuedNoticesFollowATaskOverItsTurns(t *testing.T) {
	q := newQueued(t)
	q.create("sut", "conformance")
	r := newReceiver(t)
	id := at(t, q.begin("sut", "tck-input-required-1", "one", config(r)).body, "result", "task", "id")
	q.notify(1)
	if got := r.shapes(); len(got) != 1 || got[0] != "task SUBMITTED" {
		t.Errorf("before the turn: %v", got)
	}
	q.work(1)
	q.notify(1)
	want := []string{"task SUBMITTED", "statusUpdate WORKING", "statusUpdate INPUT_REQUIRED"}
	if diff := cmp.Diff(want, r.shapes()); diff != "" {
		t.Errorf("after the first turn (-want +got):\n%s", diff)
	}
	// The next one brings another configuration, which gets what comes.
	second := newReceiver(t)
	q.rpc("/v/sut", "SendMessage", fmt.Sprintf(`{"message":{"messageId":"m2","taskId":%q,"role":"ROLE_USER","parts":[{"text":"two"}]},"configuration":{%s}}`, id, config(second)))
	q.notify(1)
	more := []string{"statusUpdate WORKING", "statusUpdate COMPLETED"}
	if diff := cmp.Diff(append(want, more...), r.shapes()); diff != "" {
		t.Errorf("after the second turn (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(more, second.shapes()); diff != "" {
		t.Errorf("to the second configuration (-want +got):\n%s", diff)
	}
}

// A message is queued once its envelope is verified, and refused if it cannot be.
func TestWhatIsNotAcceptedIsNotQueued(t *testing.T) {
	q := newQueued(t)
	r := newReceiver(t)
	s := q.signer()
	forged := strings.Replace(params1(s.envelope(q.echo.ID, 1, [32]byte{}, "hi", "m1", ""), ""), `"hi"`, `"ho"`, 1)
	if got := q.rpc("/v/echo", "SendMessage", strings.TrimSuffix(forged, "}")+`,"configuration":{"returnImmediately":true,`+config(r)+`}}`); got.status != http.StatusUnauthorized {
		t.Fatalf("a forged message: %s", got.body)
	}
	q.mu.Lock()
	if len(q.tasks)+len(q.pushes) != 0 {
		t.Errorf("a forged message was queued: %v, %v", q.tasks, q.pushes)
	}
	q.broken = true
	q.mu.Unlock()
	for _, immediately := range []string{"true", "false"} {
		got := q.rpc("/v/echo", "SendMessage", fmt.Sprintf(`{"message":{"role":"ROLE_USER","parts":[{"text":"hi"}]},"configuration":{"returnImmediately":%s,%s}}`, immediately, config(r)))
		if got.status != http.StatusServiceUnavailable || !strings.Contains(got.body, "send the same request again") {
			t.Errorf("without a queue: %d %s", got.status, got.body)
		}
	}
	if got := q.rpc("/v/echo", "SendMessage", message("hi", "")); at(t, got.body, "result", "task", "status", "state") != "TASK_STATE_COMPLETED" {
		t.Errorf("without notifications: %s", got.body)
	}
}

// A notice for a task that is not stored yet comes again; one that is damaged does not.
func TestANoticeWaitsForItsTask(t *testing.T) {
	q := newQueued(t)
	of := task.Notice{Task: task.Ref{Vacant: q.echo.ID, Owner: call.GuestOwner, ID: strings.Repeat("ab", 16)}, MinEvents: 1}
	if err := q.agents.Push.Handle(t.Context(), of.String()); !errors.Is(err, task.ErrRetryLater) {
		t.Errorf("Handle() of a task that is not there = %v, want ErrAgain", err)
	}
	of.Slot = 1
	for _, m := range []string{of.String(), "", "a#b#c", strings.Replace(of.String(), "#1#0", "#-1#0", 1), strings.Repeat("#", 5)} {
		if err := q.agents.Push.Handle(t.Context(), m); err != nil {
			t.Errorf("Handle(%q) = %v, want it done with", m, err)
		}
	}
}

func FuzzNotice(f *testing.F) {
	f.Add(task.Notice{Task: task.Ref{Owner: call.GuestOwner, ID: strings.Repeat("ab", 16)}, Slot: 4, IdleChecks: 2, MinEvents: 1}.String())
	f.Fuzz(func(t *testing.T, s string) {
		n, err := task.ParseNotice(s)
		if err != nil {
			return
		}
		again, err := task.ParseNotice(n.String())
		if err != nil || again != n {
			t.Errorf("%q is %+v, and again %+v, %v", s, n, again, err)
		}
	})
}
