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

const RecentWindow = 15 * time.Minute

// RecentTurns identifies the recent turns in which one payer sent the same content to one vacant.
// Some clients mark a repeated message as a repeat, but send no message id.
//
// All repeats share one document, whose version lets only one of several concurrent repeats begin a
// turn.
type RecentTurns struct {
	hash                  string
	isRepeat              bool
	repeatVersion         uint64 // version of the shared document
	hasCheckedUndelivered bool
}

type recentEntry struct {
	Task string    `json:"task"`
	Time time.Time `json:"at"`
}

// repeatSortKey sorts after the keys of first messages, which begin with a digit.
const repeatSortKey = "repeated"

func NewRecentTurns(vacant identity.ID, payer, content string) *RecentTurns {
	sum := sha256.Sum256([]byte("vacancy recent v1\x1f" + vacant.String() + "\x1f" + payer + "\x1f" + content))
	return &RecentTurns{hash: hex.EncodeToString(sum[:])}
}

// FindRepeat returns the newest turn of r for a message that is marked as a repeat, or "".
func (e *Engine) FindRepeat(ctx context.Context, r *RecentTurns) (id string, err error) {
	r.isRepeat = true
	earliest := e.Now().Add(-RecentWindow)
	newest, d, err := RecentDocs.Get(ctx, e.Store, RecentDocs.Key(r.hash, repeatSortKey))
	if err != nil {
		return "", store.AsProblem(err)
	}
	r.repeatVersion = d.Version
	keyRange := RecentDocs.Range(r.hash)
	keyRange.End = repeatSortKey
	docs, _, err := e.Store.Docs(ctx, keyRange, 1, "")
	if err != nil {
		return "", store.AsProblem(err)
	}
	for _, d := range docs {
		turn, err := RecentDocs.Parse(d)
		if err != nil {
			return "", err
		}
		if turn.Time.After(newest.Time) {
			newest = turn
		}
	}
	if newest.Time.Before(earliest) {
		return "", nil
	}
	return newest.Task, nil
}

func recentExpiry(start time.Time) time.Time {
	return start.Add(RecentWindow).UTC().Truncate(time.Second).Add(time.Second)
}

func (r *RecentTurns) newPut(taskID string, start time.Time, writeID store.WriteID) (store.Put, error) {
	b, err := RecentDocs.Encode(recentEntry{taskID, start})
	if err != nil {
		return store.Put{}, problem.Wrap(problem.Internal, err, "recent turn %s", taskID)
	}
	p := store.Put{Key: RecentDocs.Key(r.hash, newestFirstKey(start)+"-"+taskID), WriteID: writeID, Data: b, Expires: recentExpiry(start)}
	if r.isRepeat {
		p.Key, p.IfVersion = RecentDocs.Key(r.hash, repeatSortKey), r.repeatVersion
	}
	return p, nil
}

// ErrUndelivered means that a client did not receive an earlier answer, which ClaimUndelivered may
// find.
var ErrUndelivered = problem.New(problem.Conflict, "the client did not receive an earlier answer to the same request")

// undeliveredPrefix begins the sort keys of undelivered turns, which sort after the keys of first
// messages. If the Time of an entry is zero, the answer has been delivered since.
const undeliveredPrefix = "lost-"

const maxUndelivered = 80 // more than the concurrent requests of a sender

type undeliveredTurn struct {
	recentEntry
	key store.Key
}

// RecordUndelivered lets the next equal request receive the answer of the turn.
func (e *Engine) RecordUndelivered(ctx context.Context, r *RecentTurns, id string) error {
	entry := recentEntry{id, e.Now().UTC()}
	key := RecentDocs.Key(r.hash, undeliveredPrefix+newestFirstKey(entry.Time)+"-"+id)
	return e.updater().Update(ctx, func(_ context.Context, tx *store.Tx) error {
		RecentDocs.Put(tx, store.Doc{Key: key, Expires: recentExpiry(entry.Time)}, entry)
		return nil
	})
}

func (e *Engine) RecordDelivery(ctx context.Context, r *RecentTurns, id string) error {
	return e.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		turns, err := e.listUndelivered(ctx, r)
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
			RecentDocs.Put(tx, store.Doc{Key: t.key, Expires: recentExpiry(t.Time)}, recentEntry{Task: id})
		}
		return nil
	})
}

// ClaimUndelivered returns an undelivered turn of r, or "". Until ReleaseUndelivered is called,
// this process does not return the turn again. Other processes may return it, because an answer
// that is delivered twice does less harm than a claim that survives a crash.
func (e *Engine) ClaimUndelivered(ctx context.Context, r *RecentTurns, vacant identity.ID, owner call.Owner) (id string, err error) {
	r.hasCheckedUndelivered = true
	turns, err := e.listUndelivered(ctx, r)
	for _, t := range turns {
		if _, isClaimed := e.claimedUndelivered.LoadOrStore(t.Task, true); isClaimed {
			continue
		}
		// The answer may have been delivered since.
		current, err := e.listUndelivered(ctx, r)
		if err == nil && slices.ContainsFunc(current, func(o undeliveredTurn) bool { return o.Task == t.Task }) {
			var found Task
			found, err = e.Get(ctx, Ref{vacant, owner, t.Task})
			switch {
			case err == nil && found.Status.FailureKind != "":
				// A failed turn was not charged and can be repeated.
				err = e.RecordDelivery(ctx, r, t.Task)
			case err == nil || errors.Is(err, ErrNotFound):
				return t.Task, nil
			}
		}
		if e.claimedUndelivered.Delete(t.Task); err != nil {
			return "", err
		}
	}
	return "", err
}

func (e *Engine) ReleaseUndelivered(r *RecentTurns, id string) {
	if r != nil && r.hasCheckedUndelivered {
		e.claimedUndelivered.Delete(id)
	}
}

func (e *Engine) listUndelivered(ctx context.Context, r *RecentTurns) (turns []undeliveredTurn, err error) {
	undeliveredRange := RecentDocs.Range(r.hash)
	undeliveredRange.Start, undeliveredRange.End = undeliveredPrefix, undeliveredPrefix+"~"
	docs, _, err := e.Store.Docs(ctx, undeliveredRange, maxUndelivered, "")
	if err != nil {
		return nil, store.AsProblem(err)
	}
	earliest := e.Now().Add(-RecentWindow)
	for _, d := range docs {
		t, err := RecentDocs.Parse(d)
		if err != nil {
			return nil, err
		}
		if !t.Time.Before(earliest) {
			turns = append(turns, undeliveredTurn{t, d.Key})
		}
	}
	return turns, nil
}

func (e *Engine) startUndeliveredCheck(ctx context.Context, t *Turn) func() error {
	if t.Recent == nil || t.Recent.isRepeat || t.Recent.hasCheckedUndelivered {
		return func() error { return nil }
	}
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		var turns []undeliveredTurn
		if turns, err = e.listUndelivered(ctx, t.Recent); len(turns) > 0 {
			err = ErrUndelivered
		}
	}()
	return func() error { <-done; return err }
}
