// Package store defines the persistence port: append-only streams of immutable rows, and versioned
// documents.
//
// A stream has no holes and no rewrites: a row never changes, and position p is written only after
// position p-1. Each adapter is a package named after its backend. Every adapter passes package
// storetest, the test suite of this contract.
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

// Stream names an append-only sequence of rows: a kind, '#', and one or two ids as raw bytes. A
// name has 36 or 68 bytes.
type Stream string

// The kinds of stream.
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

// String returns the readable form kind#hex or kind#hex#hex.
func (s Stream) String() string {
	var b strings.Builder
	b.WriteString(s.Kind())
	for _, id := range s.IDs() {
		b.WriteByte('#')
		b.WriteString(id.String())
	}
	return b.String()
}

// WriteID identifies one attempt at a write. The writer chooses it at random. If the stored row or
// document carries the writer's WriteID, the write was applied. If an acknowledgement is lost, the
// writer can therefore find out whether its write was applied.
type WriteID [16]byte

func (id WriteID) String() string { return hex.EncodeToString(id[:]) }

type Row struct {
	Position uint64 // 1 or greater; the zero Row stands for a missing row
	WriteID  WriteID
	Data     []byte // opaque bytes; must not be modified
}

// Key names a document within a partition, sorted by Sort in byte order. Both
// parts are non-empty UTF-8 of at most 512 bytes.
type Key struct{ Partition, Sort string }

func (k Key) String() string { return k.Partition + "/" + k.Sort }

// Doc is one version of a document. Number is a counter stored next to Data. If Index is set, the
// sparse index lists the document under that partition and sort. Version starts at 1, and 0 means
// that the document is absent.
//
// Put replaces all fields. Add changes Number, raises Version and may set Expires; a document
// created by Add has no WriteID and no Data.
//
// The adapter may delete a document after Expires, without a commit. Reads return an expired
// document until its deletion, so readers must check IsExpired.
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

// Direction is the order in which Rows reads.
type Direction bool

const (
	Ascending  Direction = false
	Descending Direction = true
)

// Range selects the documents of a partition with Start <= sort < End, in byte order. An empty
// End means no end. If Index is set, Docs reads the sparse index, which some adapters update with
// a delay. All other reads are strongly consistent.
type Range struct {
	Partition  string
	Start, End string
	Index      bool
}

// CacheClearer is a Store that caches facts about its rows. Call ClearCache after the store was
// restored from a backup, which may lack the cached rows.
type CacheClearer interface{ ClearCache() }

// Store stores rows and documents. All methods are safe for concurrent use. If the context ends, a
// method returns ErrUnavailable wrapping the context's error; a canceled Commit may or may not have
// been applied. The store neither retains nor changes bytes passed in, and the caller owns bytes
// returned. For arguments outside their limits, methods return an error other than the errors
// declared below.
type Store interface {
	// Tip returns the last row of s, or the zero Row if s is empty. It is strongly consistent.
	Tip(ctx context.Context, s Stream) (Row, error)

	// Rows returns up to n rows (1 to MaxPage), starting at position from. It is strongly consistent.
	// A page may be short because of a size limit of the adapter, but has at least one row if a row
	// exists. The rows of a page are contiguous: if the adapter misses a row that is appended during
	// the read, the page ends before that row. Positions that do not exist are skipped: ascending from
	// 0 starts at 1, and descending from beyond the tip starts at the tip.
	Rows(ctx context.Context, s Stream, from uint64, n int, d Direction) ([]Row, error)

	// Doc returns a document. If it is absent, its Version is 0. Doc is strongly consistent.
	Doc(ctx context.Context, k Key) (Doc, error)

	// Docs returns up to n documents (1 to MaxPage) of r in order, and the cursor of the next page.
	// The first page has the cursor "", and the last page returns "". A page may be short or empty
	// although another page follows. In the sparse index, documents with the same sort are returned
	// once each, in any order. Doc.Key is always the document's own key.
	Docs(ctx context.Context, r Range, n int, cursor string) ([]Doc, string, error)

	// Commit applies all writes or none.
	//
	// If the position of an Append is occupied or not the next one, Commit returns *TakenError.
	// Otherwise, if an Add would leave its bounds, it returns *BoundsError. Otherwise, if a document
	// is not at the expected version, it returns *ConflictError. Each error reports the first failing
	// write. ErrTooLarge means that Commit applied no write. After ErrUnavailable, the caller may send
	// the same writes again; the outcome is unknown unless ErrNotApplied is also in the chain.
	//
	// Commit is idempotent. It first checks whether a row or document already carries the WriteID of
	// the Append or Put that writes it. If so, Commit treats all writes as applied and succeeds. This
	// check cannot recognize a Put whose document was deleted: a retry with IfVersion 0 creates the
	// document again. Therefore do not delete a document that a late retry may still write. Deleting
	// an absent document succeeds.
	//
	// A commit has at most MaxWrites writes, at most one for each stream or document. A commit with
	// an Add needs an Append or a Put, whose WriteID shows whether the commit was applied.
	Commit(ctx context.Context, writes ...Write) error

	// Close waits for calls in progress, except walks. Later calls return ErrUnavailable. In most
	// adapters, running walks fail as well. Closing a closed store has no effect.
	Close() error
}

// Walker lists all streams, for example for vacancy verify. Walk calls fn with a view. If the
// adapter supports snapshots, the view does not change while fn runs.
type Walker interface {
	Walk(ctx context.Context, fn func(View) error) error
}

// View is a read-only store that can also list its streams. It must be used by one goroutine, and
// not after Walk returns.
type View interface {
	Rows(ctx context.Context, s Stream, from uint64, n int, d Direction) ([]Row, error)
	Doc(ctx context.Context, k Key) (Doc, error)
	// Streams returns up to n names (1 to MaxPage) of streams that begin with prefix, and the cursor
	// of the next page. The first page has the cursor "", and the last page returns "". Streams
	// returns each name once. The order depends on the adapter. A page may be short or empty although
	// another page follows.
	Streams(ctx context.Context, prefix Stream, n int, cursor string) ([]Stream, string, error)
}

// Limits of every adapter.
const (
	MaxPage   = 1000
	MaxWrites = 25
	MaxData   = 350 << 10 // bytes of Data in a row or document
	MaxKey    = 512       // bytes of a stream name, a partition or a sort
)

// Write is one of Append, Put, Delete, Add.
type Write interface{ write() }

// Append writes a row at the next position of a stream.
type Append struct {
	Stream   Stream
	Position uint64
	WriteID  WriteID
	Data     []byte
}

// Put writes a document if it is at version IfVersion. If IfVersion is 0, the document must be
// absent. The new version is IfVersion+1.
type Put struct {
	Key       Key
	IfVersion uint64
	WriteID   WriteID
	Data      []byte
	Number    int64
	Index     Key
	Expires   time.Time // UTC, whole seconds; zero means never
}

// Delete removes a document if it is at version IfVersion.
type Delete struct {
	Key       Key
	IfVersion uint64
}

// Add adds Delta to the Number of a document if the sum stays within Min and Max. If the document
// is absent, Add creates it with Number 0 first. Add does not change an expiry that is already set.
type Add struct {
	Key             Key
	Delta, Min, Max int64
	Expires         time.Time // UTC, whole seconds; zero means never
}

// Fits reports whether number+Delta stays within the bounds without overflowing int64.
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
// Callers must not report it as a replay.
var ErrUnavailable = errors.New("store unavailable")

// ErrNotApplied, in a chain with ErrUnavailable, means that no write was applied or will be applied
// later.
var ErrNotApplied = errors.New("no write was applied")

// ErrClosed, in a chain with ErrUnavailable, means that the store was closed.
var ErrClosed = errors.New("the store is closed")

// NotAppliedError wraps the cause of a call that ended before any write was applied.
func NotAppliedError(cause error) error {
	return fmt.Errorf("%w: %w: %w", ErrUnavailable, ErrNotApplied, cause)
}

// ErrTrimmed means that a Feed no longer has the rows after an offset.
var ErrTrimmed = errors.New("rows of the feed have expired")

// ErrTooLarge means that a row or document exceeds MaxData, or that a commit exceeds the adapter's
// limit.
var ErrTooLarge = errors.New("too large for the store")

// TakenError reports that a position is not the next one. Occupant is the row at the position, or
// the zero Row if the position lies beyond the next one.
type TakenError struct {
	Stream   Stream
	Position uint64
	Occupant Row
}

func (e *TakenError) Error() string {
	return fmt.Sprintf("position %d of %s is not free", e.Position, e.Stream)
}

// BoundsError reports that an Add would leave its bounds.
type BoundsError struct {
	Key    Key
	Number int64 // current value
}

func (e *BoundsError) Error() string { return fmt.Sprintf("%s: bounds at %d", e.Key, e.Number) }

// ConflictError reports that a document is not at the expected version.
type ConflictError struct {
	Key     Key
	Version uint64 // current version; 0 if absent
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("%s is at version %d", e.Key, e.Version)
}

// CheckWrites validates a commit before it reaches an adapter, so that all adapters reject the same
// commits. It does not allocate, because it runs on every call.
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
			return fmt.Errorf("add to %s: bounds %d to %d", w.Key, w.Min, w.Max)
		}
		if err := checkExpiry(w.Expires); err != nil {
			return fmt.Errorf("add to %s: %w", w.Key, err)
		}
		return checkKey(w.Key)
	}
	// A pointer to a write also implements Write. Adapters would silently skip it.
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
