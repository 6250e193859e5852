// Package spawning lets a parent request children with its own signature. A repeated request refers
// to the same child. Another request with the same nonce is refused. The limits apply to all
// instances of the host together.
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

const (
	MaxSkew = 300 * time.Second
	// MaxRequests limits a parent's requests within Window, which is longer than a request is
	// valid.
	MaxRequests = 10
	Window      = time.Hour
	// MaxChildren limits the requested children. Deleted children are detected at most once per
	// RecountInterval, because the check costs a read per child.
	MaxChildren     = 100
	RecountInterval = time.Minute
)

type Requests struct {
	Store store.Store
	Now   func() time.Time
	Rand  io.Reader
	// Wait may be nil. Then retry.Sleep is used.
	Wait func(ctx context.Context, d time.Duration) error
}

type storedRequests struct {
	Accepted    []acceptedRequest `json:"taken"`
	Children    []requestedChild  `json:"children,omitempty"`
	RecountedAt int64             `json:"recounted,omitempty"` // Unix microseconds
}

type requestedChild struct {
	Name        string `json:"name"`
	RequestedAt int64  `json:"at"`
}

// GoneFunc reports whether the child with a requested name is missing or deleted.
type GoneFunc func(ctx context.Context, name string) (bool, error)

type acceptedRequest struct {
	Nonce       string        `json:"nonce"`
	Hash        identity.Hash `json:"hash"`
	RequestedAt int64         `json:"at"`
}

func (q *Requests) Check(r *composite.SpawnRequest) error {
	now := q.Now()
	if skew := r.Time.Sub(now); skew > MaxSkew || skew < -MaxSkew {
		return problem.New(problem.ClockSkew, "ts: expected a time within %d s of the host's, which is %s, got %s",
			int(MaxSkew.Seconds()), canon.FormatTime(now.UTC().Truncate(time.Second)), canon.FormatTime(r.Time))
	}
	return r.Verify()
}

// Accept accepts a request that passed Check. The error is Replay, TooManyRequests or Unavailable.
func (q *Requests) Accept(ctx context.Context, r *composite.SpawnRequest, isGone GoneFunc) error {
	var refusal error // returned after the update, because a refused request may also write
	u := store.Updater{Store: q.Store, Rand: q.Rand, Wait: q.Wait}
	err := u.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		next, err := q.decide(ctx, tx, r, isGone)
		if refusal = err; next != nil {
			SpawnsDocs.Put(tx, store.Doc{Key: Key(r.ParentID)}, *next)
		}
		return nil
	})
	return errors.Join(unavailableError(err), refusal)
}

func unavailableError(err error) error {
	var problemErr *problem.Error
	if err == nil || errors.As(err, &problemErr) {
		return err
	}
	return problem.Wrap(problem.Unavailable, err, "storage is unavailable; send the same request again")
}

func (q *Requests) decide(ctx context.Context, tx *store.Tx, r *composite.SpawnRequest, isGone GoneFunc) (*storedRequests, error) {
	old, _, err := SpawnsDocs.Get(ctx, tx, Key(r.ParentID))
	if err != nil {
		return nil, unavailableError(err)
	}
	now, hash := q.Now(), r.Hash()
	next := storedRequests{Children: old.Children, RecountedAt: old.RecountedAt}
	for _, t := range old.Accepted {
		switch {
		case now.Sub(time.UnixMicro(t.RequestedAt)) >= Window:
			continue
		case t.Nonce == r.Nonce && t.Hash != hash:
			return nil, problem.New(problem.Replay, "nonce: expected one that was not used before")
		case t.Nonce == r.Nonce:
			return nil, nil
		}
		next.Accepted = append(next.Accepted, t)
	}
	if len(next.Accepted) >= MaxRequests {
		return nil, problem.New(problem.TooManyRequests, "parent %s has reached the limit of %d requests for children an hour", r.ParentID.Short(), MaxRequests)
	}
	recounted, err := next.addChild(ctx, now, r.Name, isGone)
	switch {
	case err != nil:
		return nil, err
	case len(next.Children) > MaxChildren:
		limitErr := problem.New(problem.TooManyRequests, "parent %s has reached the limit of %d children that it requested itself; the operator can delete some", r.ParentID.Short(), MaxChildren)
		if !recounted {
			return nil, limitErr
		}
		next.Children = next.Children[:MaxChildren]
		return &next, limitErr
	}
	next.Accepted = append(next.Accepted, acceptedRequest{r.Nonce, hash, now.UnixMicro()})
	return &next, nil
}

func (s *storedRequests) addChild(ctx context.Context, now time.Time, name string, isGone GoneFunc) (recounted bool, err error) {
	// The child of a recent request may not exist yet, so its name is kept.
	others := slices.DeleteFunc(slices.Clone(s.Children), func(c requestedChild) bool { return c.Name == name })
	recounted = len(others) >= MaxChildren && now.Sub(time.UnixMicro(s.RecountedAt)).Abs() >= RecountInterval
	if recounted {
		s.RecountedAt = now.UnixMicro()
		remaining := others[:0]
		for _, c := range others {
			isDeleted := false
			if now.Sub(time.UnixMicro(c.RequestedAt)) >= Window {
				if isDeleted, err = isGone(ctx, c.Name); err != nil {
					return false, err
				}
			}
			if !isDeleted {
				remaining = append(remaining, c)
			}
		}
		others = remaining
	}
	s.Children = append(others, requestedChild{name, now.UnixMicro()})
	return recounted, nil
}
