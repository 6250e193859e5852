package textkeys

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

// ErrNoKey means that a row names a day that never had a key.
var ErrNoKey error = problem.New(problem.Damaged, "there never was a text key of that day")

// ErrKeyDamaged means that a day's key does not open. The texts of the day may be intact.
var ErrKeyDamaged = errors.New("the text key of that day is damaged")

// Reader opens texts and never changes keys. It must not be used concurrently.
type Reader struct {
	docs      store.Reader
	keys      *Keys
	dayErrors map[uint32]error
}

func NewReader(d store.Reader, v custody.Vault, now func() time.Time, retention time.Duration) *Reader {
	return &Reader{docs: d, keys: New(readOnlyStore{docs: d}, v, now, nil, retention), dayErrors: map[uint32]error{}}
}

func (r *Reader) Open(ctx context.Context, aad []byte, sealed Sealed) ([]byte, error) {
	if sealed.Day > lastDay || len(sealed.Box) < Overhead {
		return nil, ErrDamaged
	}
	keyErr, ok := r.dayErrors[sealed.Day]
	if !ok {
		d, err := r.docs.Doc(ctx, DocKey(sealed.Day))
		switch {
		case problem.Is(err, problem.Damaged):
			keyErr = fmt.Errorf("%w: %w", ErrKeyDamaged, err)
		case err != nil:
			return nil, err
		case d.Version == 0:
			keyErr = ErrNoKey
		}
		r.recordDayError(sealed.Day, keyErr)
	}
	if keyErr != nil {
		return nil, keyErr
	}
	text, err := r.keys.Open(ctx, aad, sealed)
	if problem.Is(err, problem.Damaged) && !errors.Is(err, ErrDamaged) {
		err = fmt.Errorf("%w: %w", ErrKeyDamaged, err)
		r.recordDayError(sealed.Day, err)
	}
	return text, err
}

// maxCachedDays limits memory, because damaged rows may name arbitrary days.
const maxCachedDays = 4096

func (r *Reader) recordDayError(day uint32, err error) {
	if len(r.dayErrors) >= maxCachedDays {
		clear(r.dayErrors)
	}
	r.dayErrors[day] = err
}

type readOnlyStore struct {
	store.Store
	docs store.Reader
}

func (s readOnlyStore) Doc(ctx context.Context, k store.Key) (store.Doc, error) {
	return s.docs.Doc(ctx, k)
}
