package push_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/a2a/a2awire"
	"github.com/vacancy-host/vacancy/shared/host/a2a/push"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/local"
	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// world is a host with one vacant, in a bubble: its clock is the bubble's.
type world struct {
	t      *testing.T
	by     way
	behave call.Behaviour
	data   store.Store // outlives the process
	ctx    context.Context
	end    func()
	all    sync.WaitGroup

	handled atomic.Int64 // notices

	// Of the process.
	store   *watched
	failing int // number of the store call of the next process that fails, from 1; zero means no call
	stop    func()
	tasks   *task.Engine
	pusher  atomic.Pointer[push.Pusher]

	vacant *identity.Key

	mu                     sync.Mutex
	sent                   []sent
	inFlight, mostInFlight int                                             // bytes of bodies
	hosts                  map[string]func(ctx context.Context, n int) int // status of the nth try at a host; others answer 200
	retryAfter             string                                          // of all answers of receivers
}

// sent is a try as it reached its receiver.
type sent struct {
	at     time.Time
	host   string
	header http.Header
	body   string
}

// watched is a store that takes a moment for the events of a task, and counts how many are
// read at once.
type watched struct {
	store.Store
	mu          sync.Mutex
	reads, most int
	scans       int // reads of the first page of all configurations
	until       int // calls before the failing call, from 1; with zero no call fails
	dead        bool
	afterRead   func() // called once, after configurations were read, unless nil
}

// kill fails all calls from now on.
func (w *watched) kill() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dead = true
}

// readAtOnce returns the highest number of tasks that were read at once.
func (w *watched) readAtOnce() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.most
}

// allRead returns the number of times that all configurations were read.
func (w *watched) allRead() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.scans
}

// fail fails the nth call from now.
func (w *watched) fail(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.until = n + 1
}

func (w *watched) fault() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dead {
		return store.NotAppliedError(errors.New("the process was killed"))
	}
	if w.until > 0 {
		if w.until--; w.until == 0 {
			return store.NotAppliedError(errors.New("a fault"))
		}
	}
	return nil
}

func (w *watched) Doc(ctx context.Context, k store.Key) (store.Doc, error) {
	if err := w.fault(); err != nil {
		return store.Doc{}, err
	}
	return w.Store.Doc(ctx, k)
}

func (w *watched) Commit(ctx context.Context, writes ...store.Write) error {
	if err := w.fault(); err != nil {
		return err
	}
	return w.Store.Commit(ctx, writes...)
}

func (w *watched) Docs(ctx context.Context, r store.Range, n int, cursor string) ([]store.Doc, string, error) {
	if err := w.fault(); err != nil {
		return nil, "", err
	}
	if r.Index && cursor == "" {
		w.mu.Lock()
		w.scans++
		w.mu.Unlock()
	}
	if r.End == "head\x00" {
		w.mu.Lock()
		w.reads++
		w.most = max(w.most, w.reads)
		w.mu.Unlock()
		time.Sleep(time.Millisecond)
		defer func() {
			w.mu.Lock()
			w.reads--
			w.mu.Unlock()
		}()
	}
	docs, next, err := w.Store.Docs(ctx, r, n, cursor)
	w.mu.Lock()
	then := w.afterRead
	if strings.HasPrefix(r.Start, "push#") {
		w.afterRead = nil
	} else {
		then = nil
	}
	w.mu.Unlock()
	if then != nil {
		then()
	}
	return docs, next, err
}

// CheckPermission and Do make a world the client of its pusher.
func (w *world) CheckPermission(context.Context, outbound.Actor, string) error { return nil }

func (w *world) Do(ctx context.Context, _ outbound.Actor, r outbound.Request) (outbound.Reply, error) {
	u := must(url.Parse(r.URL))
	w.mu.Lock()
	n := 1
	for _, s := range w.sent {
		if s.host == u.Host {
			n++
		}
	}
	w.sent = append(w.sent, sent{time.Now(), u.Host, r.Header, string(r.Body)})
	answer := w.hosts[u.Host]
	w.inFlight += len(r.Body)
	w.mostInFlight = max(w.mostInFlight, w.inFlight)
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		w.inFlight -= len(r.Body)
		w.mu.Unlock()
	}()
	status := http.StatusOK
	if answer != nil {
		status = answer(ctx, n)
	}
	if status == notAllowed {
		return outbound.Reply{}, problem.New(problem.Forbidden, "this host may not ask %s", u.Host)
	}
	if ctx.Err() != nil {
		return outbound.Reply{}, problem.Wrap(problem.DeadlineExceeded, ctx.Err(), "%s does not answer", u.Host)
	}
	return outbound.Reply{Status: status, Header: http.Header{"Retry-After": {w.retryAfter}}}, nil
}

// notAllowed is the status of a receiver that the host may not ask.
const notAllowed = -1

// Receivers of all kinds of harm.
func fails(context.Context, int) int       { return http.StatusInternalServerError }
func hangs(ctx context.Context, _ int) int { <-ctx.Done(); return 0 }
func redirects(context.Context, int) int   { return http.StatusFound }
func forbidden(context.Context, int) int   { return notAllowed }
func failsThreeOfFour(_ context.Context, n int) int {
	if n%4 != 0 {
		return http.StatusInternalServerError
	}
	return http.StatusOK
}
func failsBut(n int) func(context.Context, int) int {
	return func(_ context.Context, try int) int {
		if try < n {
			return http.StatusBadGateway
		}
		return http.StatusOK
	}
}

// way is one of the two ways in which events are pushed.
type way int

const (
	running  way = iota // by Run, in one process
	notified            // by Handle, in whatever process
)

// inBubble runs a test by both ways, with a vacant of a behaviour.
func inBubble(t *testing.T, behave call.Behaviour, test func(w *world)) {
	t.Helper()
	for name, by := range map[string]way{"in one process": running, "by notices": notified} {
		t.Run(name, func(t *testing.T) { bubble(t, by, behave, test) })
	}
}

func bubble(t *testing.T, by way, behave call.Behaviour, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, by: by, behave: behave, vacant: must(identity.NewKey(rand.Reader)), hosts: map[string]func(context.Context, int) int{}}
		w.data = memory.New()
		w.ctx, w.end = context.WithCancel(t.Context())
		w.start()
		test(w)
		w.tasks.Wait()
		w.end()
		w.all.Wait()
	})
}

// start makes the process of the world: its engine, and what pushes.
func (w *world) start() {
	w.store = &watched{Store: w.data, until: w.failing}
	vault := must(local.FromHex(strings.Repeat("5a", 32), rand.Reader))
	texts := textkeys.New(w.store, vault, time.Now, rand.Reader, 0)
	calls := call.New(call.Config{Store: w.store, Texts: texts, Now: time.Now, Rand: rand.Reader,
		Directory: call.SingleVacant{ID: w.vacant.ID(), State: lifecycle.Active, Behaviour: w.behave, Signer: w.vacant}})
	c := task.Config{Store: w.store, Calls: calls, Texts: texts, Log: slog.New(slog.DiscardHandler), Now: time.Now, Rand: rand.Reader, ChunkInterval: 500 * time.Millisecond}
	p := push.Config{Client: w, Log: c.Log, Now: time.Now, WithSigner: func(_ context.Context, _ identity.ID, fn func(identity.Signer) error) error { return fn(w.vacant) }}
	if w.by == notified {
		c.Notices = notices(w.deliver)
		p.Notices = c.Notices
	}
	w.tasks = task.New(c)
	p.Tasks = w.tasks
	pusher := push.New(p)
	w.pusher.Store(pusher)
	if w.by == running {
		ctx, stop := context.WithCancel(w.ctx)
		w.stop = stop
		w.all.Go(func() { pusher.Run(ctx) })
	}
}

// kill ends the process as a crash does, and starts another one. The turns of the old process
// go on without a store.
func (w *world) kill() {
	w.store.kill()
	if w.by == running {
		w.stop()
	}
	w.start()
}

// deliver hands a notice over when it is due, to whatever process is there then.
func (w *world) deliver(n string, after time.Duration) {
	w.all.Go(func() {
		select {
		case <-time.After(after):
		case <-w.ctx.Done():
			return
		}
		w.handled.Add(1)
		if err := w.pusher.Load().Handle(w.ctx, n); errors.Is(err, task.ErrRetryLater) || errors.Is(err, store.ErrUnavailable) {
			w.deliver(n, time.Second)
		} else if err != nil && w.ctx.Err() == nil {
			w.t.Errorf("Handle(%s) = %v", n, err)
		}
	})
}

// notices is a queue that hands its messages over when they are due.
type notices func(notice string, after time.Duration)

func (n notices) SendAfter(_ context.Context, m string, _ task.Sender, after time.Duration) error {
	n(m, after)
	return nil
}

// to is a configuration of a sender's.
func to(host, from string) task.PushConfig {
	return task.PushConfig{ID: host, URL: "https://" + host + "/hook", ClientAddress: from}
}

// turn returns a message of a new guest, without notifications if config is
// nil.
func (w *world) turn(text string, config *task.PushConfig) task.Turn {
	w.t.Helper()
	caller := must(identity.NewKey(rand.Reader))
	t := task.Turn{
		Ref: task.Ref{Vacant: w.vacant.ID(), Owner: call.GuestOwner, ID: must(w.tasks.NewID())}, Caller: caller.ID(), Push: config,
		Message: task.Message{ID: "m1", Context: "c1", Role: task.User, Parts: []task.Part{{Kind: task.Text, Text: text}}},
	}
	t.SignEnvelope = func(ctx context.Context, next call.ExpectedEnvelope) (*envelope.Envelope, error) {
		e := &envelope.Envelope{From: caller.ID(), To: w.vacant.ID(), Seq: next.Seq, Prev: next.Prev, Time: time.Now().UTC().Truncate(time.Microsecond),
			Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{text}, MessageID: &t.Message.ID, ContextID: &t.Message.Context}}
		_, err := e.Sign(ctx, caller)
		return e, err
	}
	return t
}

// begins begins a turn, which is done when the channel is closed.
func (w *world) begins(t task.Turn) <-chan struct{} {
	w.t.Helper()
	_, done, err := w.tasks.Begin(w.t.Context(), t)
	if err != nil {
		w.t.Fatalf("Begin() = %v", err)
	}
	return done
}

// adds sets a configuration on a task.
func (w *world) adds(r task.Ref, c task.PushConfig) {
	w.t.Helper()
	if _, err := w.tasks.AddPushConfig(w.t.Context(), r, c); err != nil {
		w.t.Fatalf("AddPushConfig() = %v", err)
	}
}

// spends counts bytes that a sender has sent in this hour.
func (w *world) spends(s task.Sender, bytes int64) {
	w.t.Helper()
	key := task.PushedByteDocs.Key(string(s), time.Now().UTC().Truncate(time.Hour).Format(time.RFC3339))
	before := must(w.data.Doc(w.t.Context(), key))
	if err := w.data.Commit(w.t.Context(), store.Put{Key: key, IfVersion: before.Version, WriteID: store.WriteID{1}, Number: bytes}); err != nil {
		w.t.Fatal(err)
	}
}

// got returns what reached a host so far, once nothing happens any more at this time.
func (w *world) got(host string) (all []sent) {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.sent {
		if s.host == host {
			all = append(all, s)
		}
	}
	return all
}

// everything returns what was sent so far, and most what was in flight at once, in bytes.
func (w *world) everything() (all []sent, most int) {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.sent), w.mostInFlight
}

// told is a delivery of 1.0 in a word or two: its kind and state.
func told(s sent) string {
	var v struct {
		Task           *struct{ Status struct{ State string } }
		StatusUpdate   *struct{ Status struct{ State string } }
		ArtifactUpdate *struct{ Artifact struct{ Name string } }
	}
	if err := json.Unmarshal([]byte(s.body), &v); err != nil {
		return s.body
	}
	switch {
	case v.Task != nil:
		return "task " + strings.TrimPrefix(v.Task.Status.State, "TASK_STATE_")
	case v.StatusUpdate != nil:
		return strings.TrimPrefix(v.StatusUpdate.Status.State, "TASK_STATE_")
	}
	return "piece"
}

func allTold(all []sent) (words []string) {
	for _, s := range all {
		words = append(words, told(s))
	}
	return words
}

// pieces is the text of the artifact that the deliveries of 1.0 add up to.
func pieces(t *testing.T, all []sent) (text string) {
	t.Helper()
	for _, s := range all {
		var v struct {
			ArtifactUpdate *struct {
				Artifact struct{ Parts []struct{ Text string } }
				Append   bool
			}
		}
		if err := json.Unmarshal([]byte(s.body), &v); err != nil {
			t.Fatal(err)
		}
		if u := v.ArtifactUpdate; u != nil {
			if !u.Append {
				text = ""
			}
			for _, p := range u.Artifact.Parts {
				text += p.Text
			}
		}
	}
	return text
}

func says(text string) envelope.Message {
	return envelope.Message{Role: envelope.RoleAgent, Parts: []string{text}}
}

// echo answers with the message.
func echo(_ context.Context, _ *call.Host, e envelope.Envelope) (envelope.Message, error) {
	return says(e.Payload.Text()), nil
}

// after answers after a while.
func after(d time.Duration) call.Behaviour {
	return func(ctx context.Context, _ *call.Host, _ envelope.Envelope) (envelope.Message, error) {
		select {
		case <-time.After(d):
			return says("at last"), nil
		case <-ctx.Done():
			return envelope.Message{}, ctx.Err()
		}
	}
}

// streams answers in n pieces, one every so often.
func streams(n int, every time.Duration) call.Behaviour {
	return func(ctx context.Context, _ *call.Host, _ envelope.Envelope) (envelope.Message, error) {
		var all strings.Builder
		for i := range n {
			piece := fmt.Sprintf("%d ", i)
			all.WriteString(piece)
			call.Report(ctx, call.ProvisionalEvent{Text: piece})
			time.Sleep(every)
		}
		return says(all.String()), nil
	}
}

var v03 = uint8(a2awire.V03)
