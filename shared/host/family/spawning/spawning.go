// Package spawning lets a parent request children by its own signature. It
// checks that a request is current, signed by the parent, not a reused nonce,
// and within the limits.
//
// The invariants: a request that its parent did not sign costs no read. A nonce
// stands for one request while its time is valid: the same bytes mean the same
// child, and others are refused. A parent has at most Most requests an hour and
// MostChildren children by requests, across all instances.
package spawning

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Limits of requests.
const (
	// Skew bounds the distance of a request's time from the host's clock.
	Skew = 300 * time.Second
	// Most bounds the requests of a parent that are accepted within Window,
	// which is longer than a request stays valid.
	Most   = 10
	Window = time.Hour
	// MostChildren bounds the children that a parent has by its requests.
	// Deleted ones are looked up at most once in Recount, with a read for each.
	MostChildren = 100
	Recount      = time.Minute
)

// Requests accepts spawn requests. It is safe for concurrent use if Rand is.
type Requests struct {
	Store store.Store
	Now   func() time.Time
	Rand  io.Reader
	// Wait sleeps between tries, or returns early when ctx ends; retry.Sleep if
	// nil.
	Wait func(ctx context.Context, d time.Duration) error
}

// stored is the document: at most Most requests, each until it is a Window old,
// and at most MostChildren requested names.
type stored struct {
	Taken     []taken `json:"taken"`
	Children  []child `json:"children,omitempty"`
	Recounted int64   `json:"recounted,omitempty"` // Unix microseconds
}

type child struct {
	Name string `json:"name"`
	At   int64  `json:"at"` // Unix microseconds
}

// Gone reports whether the parent has no child of a requested name, or no
// longer has one.
type Gone func(ctx context.Context, name string) (bool, error)

type taken struct {
	Nonce string        `json:"nonce"`
	Hash  identity.Hash `json:"hash"`
	At    int64         `json:"at"` // Unix microseconds
}

// Check checks that r is current and signed by its parent. The error is of kind
// Clock or BadSignature. It reads nothing.
func (q *Requests) Check(r *composite.SpawnRequest) error {
	now := q.Now()
	if off := r.Time.Sub(now); off > Skew || off < -Skew {
		return problem.New(problem.Clock, "ts: expected a time within %d s of the host's, which is %s, got %s",
			int(Skew.Seconds()), canon.FormatTime(now.UTC().Truncate(time.Second)), canon.FormatTime(r.Time))
	}
	return r.Verify()
}

// Take accepts a request that passed Check: a new one, or exactly the same
// again. Otherwise the error is Replay, for a nonce of another request,
// TooMany, or Unavailable.
func (q *Requests) Take(ctx context.Context, r *composite.SpawnRequest, gone Gone) error {
	var refusal error // a refusal may still write
	u := store.Updater{Store: q.Store, Rand: q.Rand, Wait: q.Wait}
	err := u.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		next, err := q.decide(ctx, tx, r, gone)
		if refusal = err; next != nil {
			SpawnsDocs.Put(tx, store.Doc{Key: Key(r.ParentID)}, *next)
		}
		return nil
	})
	return errors.Join(unavailable(err), refusal)
}

// unavailable gives an error of the store a kind: conflicts too are gone later.
func unavailable(err error) error {
	var known *problem.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	return problem.Wrap(problem.Unavailable, err, "storage is unavailable; the same request may be sent again")
}

// decide returns the document to store in place of the one that tx reads, or nil if
// nothing changes: r was accepted before, or is refused.
func (q *Requests) decide(ctx context.Context, tx *store.Tx, r *composite.SpawnRequest, gone Gone) (*stored, error) {
	was, _, err := SpawnsDocs.Get(ctx, tx, Key(r.ParentID))
	if err != nil {
		return nil, unavailable(err)
	}
	now, hash := q.Now(), r.Hash()
	s := stored{Children: was.Children, Recounted: was.Recounted}
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
	counted, err := s.count(ctx, now, r.Name, gone)
	switch {
	case err != nil:
		return nil, err
	case len(s.Children) > MostChildren:
		full := problem.New(problem.TooMany, "parent %s has %d children that it requested itself, which is the limit; the operator may delete some", r.ParentID.Short(), MostChildren)
		if !counted {
			return nil, full
		}
		s.Children = s.Children[:MostChildren]
		return &s, full
	}
	s.Taken = append(s.Taken, taken{r.Nonce, hash, now.UnixMicro()})
	return &s, nil
}

// count appends name. If there are too many names and they were not counted
// lately, it drops the names of deleted children. A name that was requested
// within Window counts, because its child may be about to be created.
func (s *stored) count(ctx context.Context, now time.Time, name string, gone Gone) (counted bool, err error) {
	others := slices.DeleteFunc(slices.Clone(s.Children), func(c child) bool { return c.Name == name })
	counted = len(others) >= MostChildren && now.Sub(time.UnixMicro(s.Recounted)).Abs() >= Recount
	if counted {
		s.Recounted = now.UnixMicro()
		kept := others[:0]
		for _, c := range others {
			over := false
			if now.Sub(time.UnixMicro(c.At)) >= Window {
				if over, err = gone(ctx, c.Name); err != nil {
					return false, err
				}
			}
			if !over {
				kept = append(kept, c)
			}
		}
		others = kept
	}
	s.Children = append(others, child{name, now.UnixMicro()})
	return counted, nil
}
