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

// ErrNoKey is returned if a row names a day that never had a key. A day with a destroyed key still
// has a document. The error is of kind problem.Damaged.
var ErrNoKey error = problem.New(problem.Damaged, "there never was a text key of that day")

// ErrKeyDamaged is returned if the document of a day's key is damaged or does not open. The texts
// of the day may be intact.
var ErrKeyDamaged = errors.New("the text key of that day is damaged")

// Reader opens texts for fsck and transcripts and never changes keys. It reads keys from the same
// view as the rows. It must not be used concurrently.
type Reader struct {
	docs      store.Reader
	keys      *Keys
	dayErrors map[uint32]error // error of each day's document; nil if it is readable
}

func NewReader(d store.Reader, v custody.Vault, now func() time.Time, retention time.Duration) *Reader {
	return &Reader{docs: d, keys: New(readOnlyStore{docs: d}, v, now, nil, retention), dayErrors: map[uint32]error{}}
}

// Open works like Keys.Open, but returns ErrNoKey for a key that never existed and ErrKeyDamaged
// for a damaged key.
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

// maxCachedDays limits a reader's memory, because damaged rows may name arbitrary days.
const maxCachedDays = 4096

func (r *Reader) recordDayError(day uint32, err error) {
	if len(r.dayErrors) >= maxCachedDays {
		clear(r.dayErrors)
	}
	r.dayErrors[day] = err
}

// readOnlyStore is the store of a Reader's Keys. It only reads documents.
type readOnlyStore struct {
	store.Store
	docs store.Reader
}

func (s readOnlyStore) Doc(ctx context.Context, k store.Key) (store.Doc, error) {
	return s.docs.Doc(ctx, k)
}
