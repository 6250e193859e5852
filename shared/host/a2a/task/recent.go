package task

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// RecentTime is the time during which a turn can be found by the content of its request.
const RecentTime = 15 * time.Minute

// Recent identifies the turns of the last RecentTime in which one payer sent the same content to
// one vacant. Clients of some protocols resend a message without an id, and only indicate that it
// is a repeat.
//
// Each message that is sent for the first time has its own document, so that equal messages that a
// payer sends concurrently do not wait for each other. Repeats whose first message never arrived
// share one document, whose version decides which repeat begins a turn.
type Recent struct {
	hash    string
	repeats bool
	version uint64 // version of the document of repeats
	// looked reports that TakeLost was called, so that Begin need not look for lost answers.
	looked bool
}

type recent struct {
	Task string    `json:"task"`
	At   time.Time `json:"at"`
}

// repeated is the sort key of the document of repeats. It sorts after the documents of first
// messages, whose sort keys begin with a digit.
const repeated = "repeated"

func NewRecent(vacant identity.ID, payer, what string) *Recent {
	sum := sha256.Sum256([]byte("vacancy recent v1\x1f" + vacant.String() + "\x1f" + payer + "\x1f" + what))
	return &Recent{hash: hex.EncodeToString(sum[:])}
}

// FindRepeat returns the newest turn of r for a message that its client marks as a repeat, or "" if
// there is no such turn. In that case, only one of several concurrent repeats can begin a turn, and
// the others are refused with Conflict.
func (e *Engine) FindRepeat(ctx context.Context, r *Recent) (id string, err error) {
	r.repeats = true
	from := e.Now().Add(-RecentTime)
	last, d, err := RecentDocs.Get(ctx, e.Store, RecentDocs.Key(r.hash, repeated))
	if err != nil {
		return "", store.AsProblem(err)
	}
	r.version = d.Version
	first := RecentDocs.Range(r.hash)
	first.Last = repeated
	docs, _, err := e.Store.Docs(ctx, first, 1, "") // the newest turn
	if err != nil {
		return "", store.AsProblem(err)
	}
	for _, d := range docs {
		turn, err := RecentDocs.Parse(d)
		if err != nil {
			return "", err
		}
		if turn.At.After(last.At) {
			last = turn
		}
	}
	if last.At.Before(from) {
		return "", nil
	}
	return last.Task, nil
}

func recentUntil(start time.Time) time.Time {
	return start.Add(RecentTime).UTC().Truncate(time.Second).Add(time.Second)
}

func (r *Recent) put(id string, start time.Time, write store.WriteID) (store.Put, error) {
	b, err := RecentDocs.Encode(recent{id, start})
	if err != nil {
		return store.Put{}, problem.Wrap(problem.Internal, err, "recent turn %s", id)
	}
	p := store.Put{Key: RecentDocs.Key(r.hash, newestFirstKey(start)+"-"+id), WriteID: write, Data: b, Expires: recentUntil(start)}
	if r.repeats {
		p.Key, p.IfVersion = RecentDocs.Key(r.hash, repeated), r.version
	}
	return p, nil
}

// ErrLost is the error of a turn that should not begin, because a client lost the connection on
// which it sent the same request. TakeLost may then find the earlier turn.
var ErrLost = problem.New(problem.Conflict, "the client did not receive an earlier answer to the same request")

// lostPrefix begins the sort keys of turns whose clients did not receive the answers. The documents
// of these turns sort after the documents of first messages, newest first. Their member At is the
// time of the loss, or zero if another request has received the answer since.
const lostPrefix = "lost-"

// maxLost limits the lost turns that are read. It exceeds the concurrent requests of a sender.
const maxLost = 80

type lostTurn struct {
	recent
	key store.Key
}

// Lose records that the client of a turn of r did not receive the complete answer. The next equal
// request then receives the answer.
func (e *Engine) Lose(ctx context.Context, r *Recent, id string) error {
	now := recent{id, e.Now().UTC()}
	key := RecentDocs.Key(r.hash, lostPrefix+newestFirstKey(now.At)+"-"+id)
	return e.updater().Update(ctx, func(_ context.Context, tx *store.Tx) error {
		RecentDocs.Put(tx, store.Doc{Key: key, Expires: recentUntil(now.At)}, now)
		return nil
	})
}

func (e *Engine) Deliver(ctx context.Context, r *Recent, id string) error {
	return e.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		turns, err := e.lostTurns(ctx, r)
		if err != nil {
			return err
		}
		for _, t := range turns {
			if t.Task != id {
				continue
			}
			if _, _, err := RecentDocs.Get(ctx, tx, t.key); err != nil {
				return store.AsProblem(err)
			}
			RecentDocs.Put(tx, store.Doc{Key: t.key, Expires: recentUntil(t.At)}, recent{Task: id})
		}
		return nil
	})
}

// TakeLost returns a lost turn of r, or "" if there is none. Until ReleaseLost, this process does
// not return the turn again, so that concurrent equal requests do not share it. Other processes may
// return it: an answer that is delivered twice does less harm than a turn that remains taken after
// a crash. A failed turn is skipped, because it was not charged and the request can begin a new
// turn.
func (e *Engine) TakeLost(ctx context.Context, r *Recent, vacant identity.ID, owner call.Owner) (id string, err error) {
	r.looked = true
	turns, err := e.lostTurns(ctx, r)
	for _, t := range turns {
		if _, taken := e.taken.LoadOrStore(t.Task, true); taken {
			continue
		}
		// The request that took the turn earlier may have received the answer since.
		again, err := e.lostTurns(ctx, r)
		if err == nil && slices.ContainsFunc(again, func(o lostTurn) bool { return o.Task == t.Task }) {
			var found Task
			found, err = e.Get(ctx, Ref{vacant, owner, t.Task})
			switch {
			case err == nil && found.Status.Failure != "":
				err = e.Deliver(ctx, r, t.Task)
			case err == nil || errors.Is(err, ErrNotFound):
				return t.Task, nil
			}
		}
		if e.taken.Delete(t.Task); err != nil {
			return "", err
		}
	}
	return "", err
}

func (e *Engine) ReleaseLost(r *Recent, id string) {
	if r != nil && r.looked {
		e.taken.Delete(id)
	}
}

func (e *Engine) lostTurns(ctx context.Context, r *Recent) (turns []lostTurn, err error) {
	lostRange := RecentDocs.Range(r.hash)
	lostRange.First, lostRange.Last = lostPrefix, lostPrefix+"~"
	docs, _, err := e.Store.Docs(ctx, lostRange, maxLost, "")
	if err != nil {
		return nil, store.AsProblem(err)
	}
	from := e.Now().Add(-RecentTime)
	for _, d := range docs {
		t, err := RecentDocs.Parse(d)
		if err != nil {
			return nil, err
		}
		if !t.At.Before(from) {
			turns = append(turns, lostTurn{t, d.Key})
		}
	}
	return turns, nil
}

// lookForLost checks, concurrently with the reads of the call, whether a new turn may repeat a lost
// turn. The returned function waits for the result. Its error is ErrLost if the turn may repeat a
// lost turn.
func (e *Engine) lookForLost(ctx context.Context, t *Turn) func() error {
	if t.Recent == nil || t.Recent.repeats || t.Recent.looked {
		return func() error { return nil }
	}
	var err error
	read := make(chan struct{})
	go func() {
		defer close(read)
		var turns []lostTurn
		if turns, err = e.lostTurns(ctx, t.Recent); len(turns) > 0 {
			err = ErrLost
		}
	}()
	return func() error { <-read; return err }
}
