package store

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/retry"
)

const (
	MaxTries       = 6
	DefaultTimeout = 20 * time.Second

	firstBackoff = 5 * time.Millisecond
	maxBackoff   = 250 * time.Millisecond
)

// Updater changes a store with optimistic concurrency. Rand must be safe for concurrent use. If
// Wait is nil, the Updater sleeps.
type Updater struct {
	Store Store
	Rand  io.Reader
	Wait  func(ctx context.Context, d time.Duration) error
}

// Update runs decide and commits the writes of the Tx. After a conflict with another writer, it
// runs decide again on a new Tx, until ctx ends. Update never runs decide again while the outcome
// of a commit is unknown.
func (u Updater) Update(ctx context.Context, decide func(ctx context.Context, tx *Tx) error) error {
	ctx, cancel := WithDefaultTimeout(ctx)
	defer cancel()
	for attempt := 1; ; attempt++ {
		id, err := u.NewWriteID()
		if err != nil {
			return err
		}
		tx := &Tx{ID: id, store: u.Store, versions: map[Key]uint64{}}
		err = decide(ctx, tx)
		if err == nil {
			err = tx.encodeErr
		}
		if err == nil && len(tx.writes) > 0 {
			err = u.Commit(ctx, tx.writes...)
		}
		if !IsConflict(err) || u.Backoff(ctx, attempt) != nil {
			return err
		}
	}
}

// Commit sends the writes at most MaxTries times, until the outcome is known.
func (u Updater) Commit(ctx context.Context, writes ...Write) error {
	for attempt := 1; ; attempt++ {
		err := u.Store.Commit(ctx, writes...)
		if !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrClosed) || attempt == MaxTries {
			return err
		}
		if u.waitFor(ctx, time.Duration(attempt*attempt)*firstBackoff) != nil {
			return err
		}
	}
}

func (u Updater) NewWriteID() (id WriteID, err error) {
	if _, err := io.ReadFull(u.Rand, id[:]); err != nil {
		return id, problem.Wrap(problem.Unavailable, err, "no randomness")
	}
	return id, nil
}

func (u Updater) Backoff(ctx context.Context, attempt int) error {
	var b [8]byte
	if _, err := io.ReadFull(u.Rand, b[:]); err != nil {
		return err
	}
	maxWait := min(firstBackoff<<min(attempt, 10), maxBackoff)
	return errors.Join(ctx.Err(), u.waitFor(ctx, time.Duration(binary.BigEndian.Uint64(b[:])%uint64(maxWait))))
}

func (u Updater) waitFor(ctx context.Context, d time.Duration) error {
	if u.Wait == nil {
		return retry.Sleep(ctx, d)
	}
	return u.Wait(ctx, d)
}

func WithDefaultTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, DefaultTimeout)
}

func IsConflict(err error) bool {
	var conflict *ConflictError
	var taken *TakenError
	return errors.As(err, &conflict) || errors.As(err, &taken)
}

// AsProblem wraps a store error in a problem. It returns problems unchanged.
func AsProblem(err error) error {
	var problemErr *problem.Error
	switch {
	case err == nil, errors.As(err, &problemErr):
		return err
	case IsConflict(err):
		return problem.Wrap(problem.Conflict, err, "other requests keep changing it; run the same command again")
	case errors.Is(err, ErrTooLarge):
		return problem.Wrap(problem.TooLarge, err, "it is too large to store")
	}
	return problem.Wrap(problem.Unavailable, err, "storage is unavailable; send the same request again")
}

// Tx collects the writes of one attempt of an Update. It must be used by one goroutine.
type Tx struct {
	ID WriteID

	store     Store
	versions  map[Key]uint64
	writes    []Write
	encodeErr error
}

// Doc reads a document and records its version for Put and Delete.
func (t *Tx) Doc(ctx context.Context, k Key) (Doc, error) {
	d, err := t.store.Doc(ctx, k)
	if err == nil {
		t.versions[k] = d.Version
	}
	return d, err
}

// Put writes a document at the version that Doc read. If Doc has not read the document, it must be
// absent.
func (t *Tx) Put(d Doc) {
	t.writes = append(t.writes, Put{Key: d.Key, IfVersion: t.versions[d.Key], WriteID: t.ID, Data: d.Data, Number: d.Number, Index: d.Index, Expires: d.Expires})
}

// Delete removes a document that Doc has found, at the version that Doc read.
func (t *Tx) Delete(k Key) {
	if v := t.versions[k]; v > 0 {
		t.writes = append(t.writes, Delete{Key: k, IfVersion: v})
	}
}

func (t *Tx) Append(s Stream, position uint64, data []byte) {
	t.writes = append(t.writes, Append{Stream: s, Position: position, WriteID: t.ID, Data: data})
}

func (t *Tx) AddWrites(writes ...Write) { t.writes = append(t.writes, writes...) }
