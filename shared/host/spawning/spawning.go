// Package spawning lets a parent ask for children by its own signature: it says
// whether a request is of now, is the parent's, was not seen before under
// another meaning, and is not one too many.
//
// It imports composite, pause, settle, store and problem. The invariants: what
// is not signed by the parent it names costs no read; a nonce that was taken
// stands for one request for as long as its time would pass, so that the same
// bytes sent again mean the same child, and others under it are refused; a
// parent has at most Most requests taken within an hour, on all instances
// together.
package spawning

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/pause"
	"github.com/vacancy-host/vacancy/shared/host/settle"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// The limits of requests.
const (
	// Skew is how far a request's time may be from the host's clock.
	Skew = 300 * time.Second
	// Most is how many requests of a parent are taken within Window, which is
	// longer than a request's time passes.
	Most   = 10
	Window = time.Hour
)

// Key is where the requests of parent lie that were taken.
func Key(parent identity.ID) store.Key {
	return store.Key{Partition: "v#" + parent.String(), Sort: "spawns"}
}

// Requests takes requests. It is safe for concurrent use if Rand is.
type Requests struct {
	Store store.Store
	Now   func() time.Time
	Rand  io.Reader
	// Wait sleeps between tries, or ends early with ctx; pause.For if nil.
	Wait settle.Wait
}

// format is the version of the stored document.
const format = 1

// stored is the document: at most Most requests, each till it is a Window old.
type stored struct {
	Format int     `json:"format"`
	Taken  []taken `json:"taken"`
}

type taken struct {
	Nonce string        `json:"nonce"`
	Hash  identity.Hash `json:"hash"`
	At    int64         `json:"at"` // Unix microseconds
}

// Check says whether r is of now and signed by its parent: nil, or a problem of
// kind Clock or BadSignature. It reads nothing.
func (q *Requests) Check(r *composite.SpawnRequest) error {
	now := q.Now()
	if off := r.Time.Sub(now); off > Skew || off < -Skew {
		return problem.New(problem.Clock, "ts: expected a time within %d s of the host's, which is %s, got %s",
			int(Skew.Seconds()), canon.FormatTime(now.UTC().Truncate(time.Second)), canon.FormatTime(r.Time))
	}
	return r.Verify()
}

// Take takes a request that passed Check: nil for one that is new, and for the
// very same sent again. Otherwise the problem is of kind Replay, for a nonce
// that stands for another request, TooMany, or Unavailable.
func (q *Requests) Take(ctx context.Context, r *composite.SpawnRequest) error {
	wait := q.Wait
	if wait == nil {
		wait = pause.For
	}
	ctx, cancel := settle.WithPatience(ctx)
	defer cancel()
	for try := 1; ; try++ {
		put, err := q.decide(ctx, r)
		if put == nil || err != nil {
			return err
		}
		err = settle.Commit(ctx, q.Store, wait, *put)
		switch {
		case err == nil:
			return nil
		case !settle.Overtaken(err), settle.BackOff(ctx, wait, q.Rand, try) != nil:
			return problem.Wrap(problem.Unavailable, err, "storage is unavailable; the same request may be sent again")
		}
	}
}

// decide is the write that takes r; nil if it was taken before.
func (q *Requests) decide(ctx context.Context, r *composite.SpawnRequest) (*store.Put, error) {
	d, err := q.Store.Doc(ctx, Key(r.ParentID))
	if err != nil {
		return nil, problem.Wrap(problem.Unavailable, err, "storage is unavailable; the same request may be sent again")
	}
	was, err := decode(r.ParentID, d)
	if err != nil {
		return nil, err
	}
	now, hash := q.Now(), r.Hash()
	s := stored{Format: format}
	for _, t := range was.Taken {
		switch {
		case now.Sub(time.UnixMicro(t.At)) >= Window:
			continue
		case t.Nonce == r.Nonce && t.Hash != hash:
			return nil, problem.New(problem.Replay, "nonce: expected one that was not used before")
		case t.Nonce == r.Nonce:
			return nil, nil
		}
		s.Taken = append(s.Taken, t)
	}
	if len(s.Taken) >= Most {
		return nil, problem.New(problem.TooMany, "parent %s has asked for %d children within an hour, which is the limit", r.ParentID.Short(), Most)
	}
	s.Taken = append(s.Taken, taken{r.Nonce, hash, now.UnixMicro()})
	put := &store.Put{Key: Key(r.ParentID), If: d.Version}
	if _, err := io.ReadFull(q.Rand, put.Attempt[:]); err != nil {
		return nil, problem.Wrap(problem.Unavailable, err, "no randomness")
	}
	if put.Data, err = json.Marshal(s); err != nil {
		return nil, problem.Wrap(problem.Internal, err, "requests of %s", r.ParentID.Short())
	}
	return put, nil
}

func decode(parent identity.ID, d store.Doc) (s stored, err error) {
	if d.Version == 0 {
		return stored{Format: format}, nil
	}
	if err := json.Unmarshal(d.Data, &s); err != nil || s.Format != format {
		return s, problem.Wrap(problem.Damaged, err, "the requests of vacant %s for children are not readable", parent.Short())
	}
	return s, nil
}
