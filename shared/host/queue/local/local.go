// Package local implements a queue in the host's own store, for a host that runs in one process.
// Each message is handled at least once, even if the process ends before or during its handling.
package local

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/queue"
	"github.com/vacancy-host/vacancy/shared/obs"
	"github.com/vacancy-host/vacancy/shared/store"
)

const retryDelay = 500 * time.Millisecond

var MessageDocs = store.DocKind[message]{
	Shape: store.Shape{Name: "message of the queue", Partition: "queue#tasks", Sort: "*#*", Verify: store.VerifySkip},
	Codec: store.Codec[message]{
		Decode: func(d store.Doc) (message, error) {
			text, of, _ := strings.Cut(string(d.Data), senderSeparator)
			return message{text, task.Sender(of)}, nil
		},
		Encode: func(m message) ([]byte, error) { return []byte(m.text + senderSeparator + string(m.sender)), nil },
	},
}

type message struct {
	text   string
	sender task.Sender
}

const senderSeparator = "\n"

const timeFormat = "20060102T150405.000000"

type Queue struct {
	storeUpdater store.Updater
	now          func() time.Time
	wakeups      chan struct{} // receives a value when Run must read the queue
}

func New(u store.Updater, now func() time.Time) *Queue {
	return &Queue{storeUpdater: u, now: now, wakeups: make(chan struct{}, 1)}
}

func (q *Queue) updater() store.Updater { return q.storeUpdater }

func (q *Queue) Send(ctx context.Context, text string, sender task.Sender) (settle func(context.Context, bool), err error) {
	id, err := q.updater().NewWriteID()
	if err != nil {
		return nil, err
	}
	data, err := MessageDocs.Encode(message{text, sender})
	if err != nil {
		return nil, err
	}
	k := MessageDocs.Key(q.now().UTC().Format(timeFormat), id.String())
	if err := q.updater().Commit(ctx, store.Put{Key: k, WriteID: id, Data: data}); err != nil {
		return nil, store.AsProblem(err)
	}
	return func(ctx context.Context, stored bool) {
		if stored {
			q.wake()
			return
		}
		// If this deletion fails, Run drops the message later.
		_ = q.updater().Commit(context.WithoutCancel(ctx), store.Delete{Key: k, IfVersion: 1})
	}, nil
}

func (q *Queue) wake() {
	select {
	case q.wakeups <- struct{}{}:
	default: // Run is already about to read the queue
	}
}

// Run passes messages to handle until ctx ends, and returns once all handlers have returned. shares
// returns the limits of concurrent turns that apply to a message.
func (q *Queue) Run(ctx context.Context, log *slog.Logger, shares func(string, task.Sender) []task.Share, handle func(context.Context, string) error) {
	w := &worker{queue: q, log: log, shares: shares, handle: handle, busy: map[string]bool{}, runningByShare: map[string]int{}, refusalTimes: map[string]time.Time{}, handledKeys: map[string]bool{}}
	defer w.running.Wait()
	for {
		if err := w.startHandlers(ctx); err != nil && ctx.Err() == nil {
			log.LogAttrs(ctx, slog.LevelError, "the queue cannot be read", slog.String("cause", err.Error()))
			time.AfterFunc(retryDelay, q.wake)
		}
		select {
		case <-q.wakeups:
		case <-ctx.Done():
			return
		}
	}
}

type worker struct {
	queue   *Queue
	log     *slog.Logger
	shares  func(string, task.Sender) []task.Share
	handle  func(context.Context, string) error
	running sync.WaitGroup

	mu sync.Mutex
	// busy contains messages that are being handled or must not be retried yet.
	busy           map[string]bool
	runningByShare map[string]int
	// refusalTimes contains the time at which a handler first refused a message. The retry time
	// begins only then, because a message may wait long for its shares.
	refusalTimes map[string]time.Time
	// handledKeys contains the messages whose handlers have returned since the last clearHandledKeys. The
	// current page may still contain them although they are deleted.
	handledKeys map[string]bool
}

func (w *worker) startHandlers(ctx context.Context) error {
	w.clearHandledKeys()
	for page, err := range store.Pages(ctx, w.queue.updater().Store, MessageDocs.Range(), store.MaxPage) {
		if err != nil {
			return err
		}
		for _, d := range page {
			if ctx.Err() != nil {
				return nil
			}
			m, err := MessageDocs.Parse(d)
			if err != nil {
				return err
			}
			shares := w.shares(m.text, m.sender)
			if !w.tryStart(d.Key.Sort, shares) {
				continue
			}
			senderCtx := context.WithoutCancel(ctx)
			if m.sender != "" {
				senderCtx = obs.WithSender(senderCtx, obs.Sender{ID: string(m.sender)})
			}
			w.running.Go(func() { w.handleMessage(senderCtx, d, m.text, shares) })
		}
		w.clearHandledKeys() // must precede the read of the next page
	}
	return nil
}

func (w *worker) handleMessage(ctx context.Context, d store.Doc, message string, shares []task.Share) {
	err := w.handle(ctx, message)
	if errors.Is(err, task.ErrWaiting) {
		w.mu.Lock()
		delete(w.refusalTimes, d.Key.Sort)
		w.mu.Unlock()
	} else if err != nil && w.queue.now().Sub(w.firstRefusalTime(d.Key.Sort)) > queue.RetryTime {
		w.log.LogAttrs(ctx, slog.LevelWarn, "a message of the queue is dropped", slog.String("cause", err.Error()))
		err = nil
	}
	if err == nil {
		err = w.deleteMessage(ctx, d)
	}
	if wasFull := w.releaseShares(d.Key.Sort, shares, err == nil); wasFull {
		w.queue.wake()
	}
	if err != nil {
		time.AfterFunc(retryDelay, func() {
			w.mu.Lock()
			delete(w.busy, d.Key.Sort)
			w.mu.Unlock()
			w.queue.wake()
		})
	}
}

func (w *worker) firstRefusalTime(sortKey string) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.refusalTimes[sortKey]; !ok {
		w.refusalTimes[sortKey] = w.queue.now()
	}
	return w.refusalTimes[sortKey]
}

func (w *worker) deleteMessage(ctx context.Context, d store.Doc) error {
	if err := w.queue.updater().Commit(ctx, store.Delete{Key: d.Key, IfVersion: d.Version}); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.refusalTimes, d.Key.Sort)
	return nil
}

func (w *worker) clearHandledKeys() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.handledKeys)
}

func (w *worker) tryStart(sortKey string, shares []task.Share) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.busy[sortKey] || w.handledKeys[sortKey] {
		return false
	}
	for _, s := range shares {
		if w.runningByShare[s.Key] >= s.Max {
			return false
		}
	}
	w.busy[sortKey] = true
	for _, s := range shares {
		w.runningByShare[s.Key]++
	}
	return true
}

// releaseShares reports whether one of the shares was full. An unfinished message remains busy
// until its retry. Otherwise, Run would retry the message at once, in an endless loop.
func (w *worker) releaseShares(sortKey string, shares []task.Share, isDone bool) (wasFull bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if isDone {
		delete(w.busy, sortKey)
	}
	w.handledKeys[sortKey] = true
	for _, s := range shares {
		wasFull = wasFull || w.runningByShare[s.Key] == s.Max
		if w.runningByShare[s.Key]--; w.runningByShare[s.Key] == 0 {
			delete(w.runningByShare, s.Key)
		}
	}
	return wasFull
}
