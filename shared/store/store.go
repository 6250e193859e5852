// Package store defines the persistence port: append-only streams of immutable rows, and versioned
// documents. A row never changes, and position p is written only after position p-1. Every adapter
// passes the tests in package storetest.
package store

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Stream names an append-only sequence of rows: a kind, '#', and one or two ids as raw bytes.
type Stream string

const (
	KindRequest  = "req" // calls and resets of an ordered pair (caller, vacant)
	KindResponse = "rsp" // answers and voids of an ordered pair (caller, vacant)
	KindLogbook  = "log" // logbook of a vacant
)

func StreamOf(kind string, ids ...identity.ID) Stream {
	var b strings.Builder
	b.Grow(len(kind) + 1 + len(ids)*identity.Size)
	b.WriteString(kind)
	b.WriteByte('#')
	for i := range ids {
		b.Write(ids[i][:])
	}
	return Stream(b.String())
}

func (s Stream) Kind() string {
	kind, _, _ := strings.Cut(string(s), "#")
	return kind
}

func (s Stream) IDs() []identity.ID {
	_, rest, _ := strings.Cut(string(s), "#")
	ids := make([]identity.ID, len(rest)/identity.Size)
	for i := range ids {
		copy(ids[i][:], rest[i*identity.Size:])
	}
	return ids
}

func (s Stream) String() string {
	var b strings.Builder
	b.WriteString(s.Kind())
	for _, id := range s.IDs() {
		b.WriteByte('#')
		b.WriteString(id.String())
	}
	return b.String()
}

// WriteID identifies one attempt at a write, and must be random. If an acknowledgement is lost, the
// WriteID in the store shows whether the write was applied.
type WriteID [16]byte

func (id WriteID) String() string { return hex.EncodeToString(id[:]) }

type Row struct {
	Position uint64 // 1 or greater; 0 if the row is missing
	WriteID  WriteID
	Data     []byte
}

type Key struct{ Partition, Sort string }

func (k Key) String() string { return k.Partition + "/" + k.Sort }

// Doc is one version of a document. The Version of an absent document is 0. Reads return an expired
// document until the adapter deletes it, so readers must check IsExpired.
type Doc struct {
	Key     Key
	Version uint64
	WriteID WriteID
	Data    []byte
	Number  int64
	Index   Key
	Expires time.Time // UTC, whole seconds; zero means never
}

func (d *Doc) IsExpired(now time.Time) bool { return !d.Expires.IsZero() && !now.Before(d.Expires) }

type Direction bool

const (
	Ascending  Direction = false
	Descending Direction = true
)

// Range selects the documents of a partition with Start <= Sort < End. An empty End means no end.
// If Index is set, the range is in the sparse index, which some adapters update with a delay.
type Range struct {
	Partition  string
	Start, End string
	Index      bool
}

// CacheClearer is a Store with a cache. Call ClearCache after a restore, because the backup may
// lack cached rows.
type CacheClearer interface{ ClearCache() }

// Store stores rows and documents. All methods are safe for concurrent use. All reads except of the
// sparse index are strongly consistent. If the context ends, methods return ErrUnavailable. The
// store does not retain bytes passed in, and the caller owns bytes returned.
type Store interface {
	// Tip returns the last row of s, or the zero Row if s is empty.
	Tip(ctx context.Context, s Stream) (Row, error)

	// Rows returns up to n contiguous rows from a position. Positions that do not exist are skipped. A
	// page is empty only if there are no more rows.
	Rows(ctx context.Context, s Stream, from uint64, n int, d Direction) ([]Row, error)

	Doc(ctx context.Context, k Key) (Doc, error)

	// Docs returns up to n documents of r in order. The first page has the cursor "", and the last
	// page returns "". A page may be empty although another page follows.
	Docs(ctx context.Context, r Range, n int, cursor string) ([]Doc, string, error)

	// Commit applies all writes or none. If conditions do not hold, the error is *TakenError,
	// *BoundsError or *ConflictError, in this order of precedence. After ErrUnavailable, the caller
	// may send the same writes again.
	//
	// Commit succeeds without a change if a row or document already has the WriteID of its write. This
	// check does not recognize a Put whose document was deleted. Therefore do not delete a document
	// that a late retry may create again.
	Commit(ctx context.Context, writes ...Write) error

	// Close waits for running calls, except walks. Later calls return ErrUnavailable.
	Close() error
}

// Walker may pass a view that is not a snapshot.
type Walker interface {
	Walk(ctx context.Context, fn func(View) error) error
}

// View must be used by one goroutine, and not after Walk returns.
type View interface {
	Rows(ctx context.Context, s Stream, from uint64, n int, d Direction) ([]Row, error)
	Doc(ctx context.Context, k Key) (Doc, error)
	// Streams lists names in the adapter's order. Cursors work as in Docs.
	Streams(ctx context.Context, prefix Stream, n int, cursor string) ([]Stream, string, error)
}

const (
	MaxPage   = 1000
	MaxWrites = 25
	MaxData   = 350 << 10 // bytes
	MaxKey    = 512       // bytes
)

type Write interface{ write() }

type Append struct {
	Stream   Stream
	Position uint64
	WriteID  WriteID
	Data     []byte
}

// Put writes a document if it is at version IfVersion, or absent if IfVersion is 0. The new version
// is IfVersion+1.
type Put struct {
	Key       Key
	IfVersion uint64
	WriteID   WriteID
	Data      []byte
	Number    int64
	Index     Key
	Expires   time.Time // UTC, whole seconds; zero means never
}

// Delete removes a document if it is at version IfVersion or absent.
type Delete struct {
	Key       Key
	IfVersion uint64
}

// Add adds Delta to the Number of a document if the sum stays within Min and Max. If the document
// is absent, Add creates it. Add does not change an expiry that is already set. The commit must
// contain an Append or a Put.
type Add struct {
	Key             Key
	Delta, Min, Max int64
	Expires         time.Time
}

func (a Add) Fits(number int64) bool {
	if a.Delta > 0 && number > math.MaxInt64-a.Delta || a.Delta < 0 && number < math.MinInt64-a.Delta {
		return false
	}
	return number+a.Delta >= a.Min && number+a.Delta <= a.Max
}

func (Append) write() {}
func (Put) write()    {}
func (Delete) write() {}
func (Add) write()    {}

// ErrUnavailable means that the store is unreachable or that the outcome of a commit is unknown.
// Callers must not report this error as a replay.
var ErrUnavailable = errors.New("store unavailable")

// ErrNotApplied, in a chain with ErrUnavailable, means that no write was or will be applied.
var ErrNotApplied = errors.New("no write was applied")

var ErrClosed = errors.New("the store is closed")

func NotAppliedError(cause error) error {
	return fmt.Errorf("%w: %w: %w", ErrUnavailable, ErrNotApplied, cause)
}

var ErrTrimmed = errors.New("rows of the feed have expired")

// ErrTooLarge means that data or a commit exceeds a limit, and that Commit applied no write.
var ErrTooLarge = errors.New("too large for the store")

type TakenError struct {
	Stream   Stream
	Position uint64
	Occupant Row // zero if the position lies beyond the next position
}

func (e *TakenError) Error() string {
	return fmt.Sprintf("position %d of %s is not free", e.Position, e.Stream)
}

type BoundsError struct {
	Key    Key
	Number int64
}

func (e *BoundsError) Error() string {
	return fmt.Sprintf("the addition to %s would leave its bounds; the current number is %d", e.Key, e.Number)
}

type ConflictError struct {
	Key     Key
	Version uint64 // current version; 0 if absent
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("%s is at version %d", e.Key, e.Version)
}

// CheckWrites must not allocate, because it runs on every call.
func CheckWrites(writes []Write) error {
	if len(writes) == 0 || len(writes) > MaxWrites {
		return fmt.Errorf("a commit has 1 to %d writes, got %d", MaxWrites, len(writes))
	}
	hasWriteID, hasAdd := false, false
	for i, w := range writes {
		if err := checkWrite(w); err != nil {
			return err
		}
		switch w.(type) {
		case Append, Put:
			hasWriteID = true
		case Add:
			hasAdd = true
		}
		for _, earlier := range writes[:i] {
			if hasSameTarget(earlier, w) {
				return errors.New("expected at most one write for each stream or document, got two writes")
			}
		}
	}
	if hasAdd && !hasWriteID {
		return errors.New("a commit with an Add needs an Append or a Put")
	}
	return nil
}

func checkWrite(w Write) error {
	switch w := w.(type) {
	case Append:
		if w.Position == 0 || w.Position > math.MaxInt64 || w.WriteID == (WriteID{}) {
			return fmt.Errorf("append to %s at %d: expected a position from 1 and a WriteID", w.Stream, w.Position)
		}
		return errors.Join(checkStream(w.Stream), checkData(w.Data))
	case Put:
		if w.WriteID == (WriteID{}) {
			return fmt.Errorf("put %s: expected a WriteID", w.Key)
		}
		if err := checkExpiry(w.Expires); err != nil {
			return fmt.Errorf("put %s: %w", w.Key, err)
		}
		if w.Index != (Key{}) {
			if err := checkKey(w.Index); err != nil {
				return fmt.Errorf("put %s: index %w", w.Key, err)
			}
		}
		return errors.Join(checkKey(w.Key), checkData(w.Data))
	case Delete:
		if w.IfVersion == 0 {
			return fmt.Errorf("delete %s: expected a version", w.Key)
		}
		return checkKey(w.Key)
	case Add:
		if w.Min > w.Max {
			return fmt.Errorf("add to %s: expected a minimum that does not exceed the maximum, got %d and %d", w.Key, w.Min, w.Max)
		}
		if err := checkExpiry(w.Expires); err != nil {
			return fmt.Errorf("add to %s: %w", w.Key, err)
		}
		return checkKey(w.Key)
	}
	// Adapters would silently skip a pointer to a write, which also implements Write.
	return fmt.Errorf("a write is an Append, Put, Delete or Add, got %T", w)
}

func checkExpiry(expiry time.Time) error {
	if !expiry.IsZero() && (expiry.Nanosecond() != 0 || expiry.Location() != time.UTC || expiry.Unix() <= 0) {
		return fmt.Errorf("expires: expected whole seconds in UTC after 1970, got %v", expiry)
	}
	return nil
}

func hasSameTarget(a, b Write) bool {
	appendA, isAppendA := a.(Append)
	appendB, isAppendB := b.(Append)
	if isAppendA || isAppendB {
		return isAppendA && isAppendB && appendA.Stream == appendB.Stream
	}
	return docKey(a) == docKey(b)
}

func docKey(w Write) Key {
	switch w := w.(type) {
	case Put:
		return w.Key
	case Delete:
		return w.Key
	case Add:
		return w.Key
	}
	return Key{}
}

func CheckPage(n int) error {
	if n < 1 || n > MaxPage {
		return fmt.Errorf("a page has 1 to %d rows, got %d", MaxPage, n)
	}
	return nil
}

func CheckRange(r Range, n int) error {
	if r.Partition == "" || len(r.Partition) > MaxKey {
		return fmt.Errorf("a partition has 1 to %d bytes, got %d", MaxKey, len(r.Partition))
	}
	return CheckPage(n)
}

func checkStream(s Stream) error {
	if s == "" || len(s) > MaxKey {
		return fmt.Errorf("a stream's name has 1 to %d bytes, got %d", MaxKey, len(s))
	}
	return nil
}

func checkKey(k Key) error {
	if k.Partition == "" || k.Sort == "" || len(k.Partition) > MaxKey || len(k.Sort) > MaxKey ||
		!utf8.ValidString(k.Partition) || !utf8.ValidString(k.Sort) {
		return fmt.Errorf("key %q: partition and sort have 1 to %d bytes of UTF-8", k.String(), MaxKey)
	}
	return nil
}

func checkData(data []byte) error {
	if len(data) > MaxData {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(data), MaxData)
	}
	return nil
}

func CloneRow(r Row) Row {
	r.Data = bytes.Clone(r.Data)
	return r
}
