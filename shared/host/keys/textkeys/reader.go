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

// ErrNoKey: a row names a day of which there is no key, and never was: keys
// that are destroyed leave their document. It is of kind problem.Damaged.
var ErrNoKey error = problem.New(problem.Damaged, "there never was a text key of that day")

// ErrKey: the document of a day's key is damaged, or does not open. It says
// nothing about the texts of the day.
var ErrKey = errors.New("the text key of that day is damaged")

// Documents is where a Reader finds the keys: a store, or a view of one.
type Documents interface {
	Doc(ctx context.Context, k store.Key) (store.Doc, error)
}

// Reader opens texts and makes, changes and destroys no key: for verify and
// for who reads histories, in the one view that they read the rows in. It is
// for one goroutine.
type Reader struct {
	docs Documents
	keys *Keys
	days map[uint32]error // what is known of a day's document
}

// NewReader returns a Reader of the keys in d, sealed by v.
func NewReader(d Documents, v custody.Vault, now func() time.Time, retention time.Duration) *Reader {
	return &Reader{docs: d, keys: New(readOnly{docs: d}, v, now, nil, retention), days: map[uint32]error{}}
}

// Open is Keys.Open, but tells a key that never was (ErrNoKey) from one that is
// destroyed, and a key that is damaged (ErrKey) from a text that is.
func (r *Reader) Open(ctx context.Context, aad []byte, s Sealed) ([]byte, error) {
	if s.Day > lastDay || len(s.Box) < Overhead {
		return nil, ErrDamaged
	}
	known, ok := r.days[s.Day]
	if !ok {
		d, err := r.docs.Doc(ctx, keyOf(s.Day))
		switch {
		case problem.Is(err, problem.Damaged):
			known = fmt.Errorf("%w: %w", ErrKey, err)
		case err != nil:
			return nil, err
		case d.Version == 0:
			known = ErrNoKey
		}
		r.note(s.Day, known)
	}
	if known != nil {
		return nil, known
	}
	plain, err := r.keys.Open(ctx, aad, s)
	if problem.Is(err, problem.Damaged) && !errors.Is(err, ErrDamaged) {
		err = fmt.Errorf("%w: %w", ErrKey, err)
		r.note(s.Day, err)
	}
	return plain, err
}

// mostDays bounds what a reader remembers: damaged rows name days at random.
const mostDays = 4096

func (r *Reader) note(day uint32, verdict error) {
	if len(r.days) >= mostDays {
		clear(r.days)
	}
	r.days[day] = verdict
}

// Key is where the key of a day lies, for who reports on it.
func Key(day uint32) store.Key { return keyOf(day) }

// readOnly is the store of a Reader's Keys, which only ever asks for documents.
type readOnly struct {
	store.Store
	docs Documents
}

func (s readOnly) Doc(ctx context.Context, k store.Key) (store.Doc, error) { return s.docs.Doc(ctx, k) }
