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

// ErrNoKey: a row names a day that never had a key; destroyed keys leave their
// document. It is of kind problem.Damaged.
var ErrNoKey error = problem.New(problem.Damaged, "there never was a text key of that day")

// ErrKey: the document of a day's key is damaged or does not open. It says
// nothing about the day's texts.
var ErrKey = errors.New("the text key of that day is damaged")

// Reader opens texts and never changes keys, for fsck and transcripts. It reads
// keys from the view that the rows are read from. It is for one goroutine.
type Reader struct {
	docs store.Reader
	keys *Keys
	days map[uint32]error // errors of days' documents
}

// NewReader returns a Reader of the keys in d, sealed by v.
func NewReader(d store.Reader, v custody.Vault, now func() time.Time, retention time.Duration) *Reader {
	return &Reader{docs: d, keys: New(readOnly{docs: d}, v, now, nil, retention), days: map[uint32]error{}}
}

// Open is Keys.Open, but distinguishes a key that never existed (ErrNoKey) from
// a destroyed one, and a damaged key (ErrKey) from a damaged text.
func (r *Reader) Open(ctx context.Context, aad []byte, s Sealed) ([]byte, error) {
	if s.Day > lastDay || len(s.Box) < Overhead {
		return nil, ErrDamaged
	}
	known, ok := r.days[s.Day]
	if !ok {
		d, err := r.docs.Doc(ctx, Key(s.Day))
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

// mostDays bounds a reader's memory: damaged rows name random days.
const mostDays = 4096

func (r *Reader) note(day uint32, verdict error) {
	if len(r.days) >= mostDays {
		clear(r.days)
	}
	r.days[day] = verdict
}

// readOnly is the store of a Reader's Keys, which only read documents.
type readOnly struct {
	store.Store
	docs store.Reader
}

func (s readOnly) Doc(ctx context.Context, k store.Key) (store.Doc, error) { return s.docs.Doc(ctx, k) }
