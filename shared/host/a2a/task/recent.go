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

// RecentTime is the time for which a turn can be found by what was sent.
const RecentTime = 15 * time.Minute

// Recent are the turns of RecentTime in which one payer sent the same to one vacant. Clients of some
// protocols resend a message without an id, and say only that they do.
//
// A message that is sent for the first time has a document of its own, so that the same messages of a
// payer that come at once do not wait for each other. All repeats of which the first message never
// came share one document, whose version decides between them.
type Recent struct {
	hash    string
	repeats bool
	version uint64 // of the document of repeats
	// looked means that TakeLost was called, so Begin does not look for lost answers.
	looked bool
}

// recent is a turn that can be found.
type recent struct {
	Task string    `json:"task"`
	At   time.Time `json:"at"`
}

// repeated sorts after the documents of first messages, which begin with a digit.
const repeated = "repeated"

// Sent returns the place where the next turn is noted in which payer sends what to a vacant.
func Sent(vacant identity.ID, payer, what string) *Recent {
	sum := sha256.Sum256([]byte("vacancy recent v1\x1f" + vacant.String() + "\x1f" + payer + "\x1f" + what))
	return &Recent{hash: hex.EncodeToString(sum[:])}
}

// Repeats returns the newest turn that r finds, for a message that its client sends again: "" if there
// is none. The turn of the message is then noted so that only one of several repeats begins it, and the
// others are refused with Conflict.
func (e *Engine) Repeats(ctx context.Context, r *Recent) (id string, err error) {
	r.repeats = true
	from := e.Now().Add(-RecentTime)
	last, d, err := RecentDocs.Get(ctx, e.Store, RecentDocs.Key(r.hash, repeated))
	if err != nil {
		return "", store.Problem(err)
	}
	r.version = d.Version
	first := RecentDocs.All(r.hash)
	first.Last = repeated
	docs, _, err := e.Store.Docs(ctx, first, 1, "") // the newest
	if err != nil {
		return "", store.Problem(err)
	}
	for _, d := range docs {
		one, err := RecentDocs.Parse(d)
		if err != nil {
			return "", err
		}
		if one.At.After(last.At) {
			last = one
		}
	}
	if last.At.Before(from) {
		return "", nil
	}
	return last.Task, nil
}

// recentUntil returns when a document of a time expires.
func recentUntil(at time.Time) time.Time {
	return at.Add(RecentTime).UTC().Truncate(time.Second).Add(time.Second)
}

// put is the write that notes a turn.
func (r *Recent) put(id string, at time.Time, write store.WriteID) (store.Put, error) {
	b, err := RecentDocs.Encode(recent{id, at})
	if err != nil {
		return store.Put{}, problem.Wrap(problem.Internal, err, "recent turn %s", id)
	}
	p := store.Put{Key: RecentDocs.Key(r.hash, newestFirst(at)+"-"+id), WriteID: write, Data: b, Expires: recentUntil(at)}
	if r.repeats {
		p.Key, p.If = RecentDocs.Key(r.hash, repeated), r.version
	}
	return p, nil
}

// ErrLost refuses a turn that begins although a client has lost the connection on which it sent the same.
// TakeLost may then find the earlier turn.
var ErrLost = problem.New(problem.Conflict, "an earlier answer to the same request was not received")

// lostPrefix begins the keys of turns whose clients did not receive the answers. They sort after the documents of
// first messages, the newest first. At is the time of the loss. It is zero once another request has received
// the answer.
const lostPrefix = "lost-"

// maxLost bounds the lost turns that are looked at. A sender has no more requests under way.
const maxLost = 80

// lostTurn is a lost turn with the key of its document.
type lostTurn struct {
	recent
	key store.Key
}

// Lose records that the client of a turn of r did not receive the whole answer. One equal request then gets
// the answer.
func (e *Engine) Lose(ctx context.Context, r *Recent, id string) error {
	now := recent{id, e.Now().UTC()}
	key := RecentDocs.Key(r.hash, lostPrefix+newestFirst(now.At)+"-"+id)
	return e.updater().Update(ctx, func(_ context.Context, tx *store.Tx) error {
		RecentDocs.Put(tx, store.Doc{Key: key, Expires: recentUntil(now.At)}, now)
		return nil
	})
}

// Deliver records that a request of r has received the answer of an earlier turn.
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
				return store.Problem(err)
			}
			RecentDocs.Put(tx, store.Doc{Key: t.key, Expires: recentUntil(t.At)}, recent{Task: id})
		}
		return nil
	})
}

// TakeLost returns a lost turn of r, or "" if there is none. Until ReleaseLost, this process gives the turn to no
// other request, so that equal requests at once do not share it. Processes do not exclude each other: a
// request that gets an answer for nothing does less harm than a turn that a crash leaves taken. A turn that
// failed was not charged, so the request begins a new turn.
func (e *Engine) TakeLost(ctx context.Context, r *Recent, vacant identity.ID, owner call.Owner) (id string, err error) {
	r.looked = true
	turns, err := e.lostTurns(ctx, r)
	for _, t := range turns {
		if _, taken := e.taken.LoadOrStore(t.Task, true); taken {
			continue
		}
		// The request that had the turn before may have received the answer since.
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

// ReleaseLost ends TakeLost. A nil r took nothing.
func (e *Engine) ReleaseLost(r *Recent, id string) {
	if r != nil && r.looked {
		e.taken.Delete(id)
	}
}

// lostTurns reads the lost turns of r.
func (e *Engine) lostTurns(ctx context.Context, r *Recent) (turns []lostTurn, err error) {
	all := RecentDocs.All(r.hash)
	all.First, all.Last = lostPrefix, lostPrefix+"~"
	docs, _, err := e.Store.Docs(ctx, all, maxLost, "")
	if err != nil {
		return nil, store.Problem(err)
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

// lookForLost reads, beside what the call reads, whether a turn that begins may repeat a lost one. The
// function that it returns waits for the read; its error is ErrLost if so.
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
