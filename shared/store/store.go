// Package store is the persistence port: append-only streams of immutable rows,
// and versioned documents.
//
// The invariant: a position of a stream never changes once it is written, and
// no position is written before the one below it. Each adapter is a package
// named after what it talks to. Package storetest is this contract as a test
// suite; every adapter passes it.
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

// Stream names an append-only sequence of rows: a kind, '#', and one or two ids
// as raw bytes. Raw ids keep a key at 36 or 68 bytes instead of 132.
type Stream string

// The kinds of stream.
const (
	KindRequest  = "req" // calls and resets of an ordered pair (caller, vacant)
	KindResponse = "rsp" // answers and voids of an ordered pair (caller, vacant)
	KindLogbook  = "log" // logbook of a vacant
)

// StreamOf returns the name of the stream of a three-letter kind and one or two
// ids.
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

// Kind returns the part before '#'.
func (s Stream) Kind() string {
	kind, _, _ := strings.Cut(string(s), "#")
	return kind
}

// IDs returns the ids in the name.
func (s Stream) IDs() []identity.ID {
	_, rest, _ := strings.Cut(string(s), "#")
	ids := make([]identity.ID, len(rest)/identity.Size)
	for i := range ids {
		copy(ids[i][:], rest[i*identity.Size:])
	}
	return ids
}

// String returns the readable form: kind#hex or kind#hex#hex.
func (s Stream) String() string {
	var b strings.Builder
	b.WriteString(s.Kind())
	for _, id := range s.IDs() {
		b.WriteByte('#')
		b.WriteString(id.String())
	}
	return b.String()
}

// WriteID identifies one attempt at a write. The writer chooses it at random. A
// row or document that carries the writer's WriteID proves that the write was
// applied, so a lost acknowledgement is told apart from a lost race.
type WriteID [16]byte

func (a WriteID) String() string { return hex.EncodeToString(a[:]) }

// Row is one immutable row.
type Row struct {
	Position uint64 // from 1; 0 in the zero Row, which means no row
	WriteID  WriteID
	Data     []byte // opaque bytes; must not be modified
}

// Key names a document within a partition, sorted by Sort in byte order. Both
// parts are non-empty UTF-8 of at most 512 bytes.
type Key struct{ Partition, Sort string }

func (k Key) String() string { return k.Partition + "/" + k.Sort }

// Doc is one version of a document. Number is a counter beside the data; Put
// and Add change it. If Index is set, the sparse index lists the document under
// that partition and sort. Version starts at 1; 0 means absent. Add raises the
// version, may set Expires, and leaves the other fields unchanged; a document
// created by Add has no WriteID and no Data.
//
// After Expires the adapter may delete the document, without a commit. Until it
// does, reads return it; readers check Expired. Zero means never.
type Doc struct {
	Key     Key
	Version uint64
	WriteID WriteID
	Data    []byte
	Number  int64
	Index   Key
	Expires time.Time // UTC, whole seconds
}

// Expired reports whether the document counts as absent.
func (d *Doc) Expired(now time.Time) bool { return !d.Expires.IsZero() && !now.Before(d.Expires) }

// Direction is the order in which Rows reads.
type Direction bool

// The two directions.
const (
	Ascending  Direction = false
	Descending Direction = true
)

// Range selects First <= sort < Last of a partition, in byte order. An empty
// Last means no end. If Index is set, Docs reads the sparse index, which some
// adapters update with a delay; other reads are strongly consistent.
type Range struct {
	Partition   string
	First, Last string
	Index       bool
}

// Forgetter is a Store that remembers something of its rows. Forget drops it,
// because rows are gone when the store came back from a backup.
type Forgetter interface{ Forget() }

// Store keeps rows and documents. All methods are safe for concurrent use and
// respect their context. If the context ends, they return ErrUnavailable
// wrapping the context's error, and a cancelled Commit may or may not have been
// applied. The store does not keep or change bytes passed in; the caller owns
// bytes returned. Arguments outside their limits return an error that is none
// of those below.
type Store interface {
	// Tip returns the last row of s, strongly consistent, or the zero Row if s
	// is empty.
	Tip(ctx context.Context, s Stream) (Row, error)

	// Rows returns up to n rows (1 to MaxPage) starting at position from,
	// strongly consistent. A page may be short because of a size limit of the
	// adapter, but holds at least one row if there is one. The rows of a page
	// are contiguous: an ascending page ends at a hole, which is an append in
	// progress. Positions that do not exist are skipped: ascending from 0
	// starts at 1, descending from beyond the tip starts at the tip.
	Rows(ctx context.Context, s Stream, from uint64, n int, d Direction) ([]Row, error)

	// Doc returns a document, strongly consistent, with Version 0 if it is
	// absent.
	Doc(ctx context.Context, k Key) (Doc, error)

	// Docs returns up to n documents (1 to MaxPage) of r in order, starting
	// after the cursor ("" for the first page), and the cursor of the next page
	// ("" after the last). A page may be short or empty while its cursor is
	// not. In the sparse index, documents with the same sort come in any order,
	// each once; Key is the document's own key.
	Docs(ctx context.Context, r Range, n int, cursor string) ([]Doc, string, error)

	// Commit applies all writes or none.
	//
	// Refusals, in this order: *TakenError if the position of an Append is
	// occupied or not the next one, *BoundsError if an Add would leave its
	// bounds, *ConflictError if a document is not at the expected version.
	// Within a kind the first write is reported. ErrUnavailable means the
	// outcome is unknown, unless ErrNotApplied is in the chain too; the same
	// writes may be sent again. ErrTooLarge means nothing was applied.
	//
	// Commit is idempotent: if the row or document of an Append or Put carries
	// the write's own WriteID, the whole commit counts as applied and succeeds.
	// Deleting an absent document succeeds. This check comes before any
	// refusal. It works only while the row or document exists: retrying a Put
	// after its document was deleted creates it again at version 1, so do not
	// delete a document that a late retry may still write.
	//
	// A commit has at most MaxWrites writes, no two on the same stream or
	// document. An Add needs an Append or a Put beside it, whose WriteID tells
	// whether the commit was applied.
	Commit(ctx context.Context, writes ...Write) error

	// Close waits for calls in progress, but not for a walk. Later calls return
	// ErrUnavailable; in most adapters reads of an open walk do too. Closing
	// again does nothing.
	Close() error
}

// Walker lists all streams, for verify. Walk calls fn with a view that stays
// unchanged while fn runs, as far as the adapter supports that.
type Walker interface {
	Walk(ctx context.Context, fn func(View) error) error
}

// View is a read-only store that can also list its streams. It is for one
// goroutine and must not be used after Walk returns.
type View interface {
	Rows(ctx context.Context, s Stream, from uint64, n int, d Direction) ([]Row, error)
	Doc(ctx context.Context, k Key) (Doc, error)
	// Streams returns up to n names (1 to MaxPage) of streams that begin with
	// prefix ("" for all), starting after the cursor ("" for the first page),
	// and the cursor of the next page ("" after the last). Each name comes
	// once. The order is the adapter's own, because a hash-partitioned table
	// has no global order. A page may be short or empty while its cursor is
	// not.
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

// Put writes a document if it is at version If. An If of 0 means that it is
// absent. The new version is If + 1.
type Put struct {
	Key     Key
	If      uint64
	WriteID WriteID
	Data    []byte
	Number  int64
	Index   Key
	Expires time.Time // UTC, whole seconds; zero means never
}

// Delete removes a document if it is at version If.
type Delete struct {
	Key Key
	If  uint64
}

// Add adds Delta to the Number of a document if the sum stays within Min and
// Max. An absent document is created with Number 0 first. A document that never
// expires gets Expires; others keep theirs.
type Add struct {
	Key             Key
	Delta, Min, Max int64
	Expires         time.Time // UTC, whole seconds; zero means never
}

// Fits reports whether the sum stays within the bounds and does not overflow
// int64.
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

// ErrUnavailable means the store cannot be reached, or the outcome of a commit
// is unknown. Callers must not report it as a replay.
var ErrUnavailable = errors.New("store unavailable")

// ErrNotApplied, in a chain with ErrUnavailable, means that nothing was applied
// and nothing will be.
var ErrNotApplied = errors.New("nothing was applied")

// ErrClosed, in a chain with ErrUnavailable, means that the store was closed.
var ErrClosed = errors.New("the store is closed")

// NotApplied wraps the cause of a call that ended before anything was applied.
func NotApplied(cause error) error {
	return fmt.Errorf("%w: %w: %w", ErrUnavailable, ErrNotApplied, cause)
}

// ErrTrimmed means that a Feed has dropped rows after an offset.
var ErrTrimmed = errors.New("rows of the feed are gone")

// ErrTooLarge means that a row or document exceeds MaxData, or that a commit
// exceeds what the adapter accepts at once.
var ErrTooLarge = errors.New("too large for the store")

// TakenError reports that the position is not the next one. Occupant is the row
// that holds it, or the zero Row if the position lies beyond the next one.
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

// Check validates a commit before it reaches an adapter, so that all adapters
// refuse alike. It does not allocate, because it runs on every call.
func Check(writes []Write) error {
	if len(writes) == 0 || len(writes) > MaxWrites {
		return fmt.Errorf("a commit has 1 to %d writes, got %d", MaxWrites, len(writes))
	}
	owned, adds := false, false
	for i, w := range writes {
		if err := checkWrite(w); err != nil {
			return err
		}
		switch w.(type) {
		case Append, Put:
			owned = true
		case Add:
			adds = true
		}
		for _, earlier := range writes[:i] {
			if sameTarget(earlier, w) {
				return errors.New("two writes on one stream or document")
			}
		}
	}
	if adds && !owned {
		return errors.New("an add needs an append or a put beside it")
	}
	return nil
}

func checkWrite(w Write) error {
	switch w := w.(type) {
	case Append:
		if w.Position == 0 || w.Position > math.MaxInt64 || w.WriteID == (WriteID{}) {
			return fmt.Errorf("append to %s at %d: a position from 1 and an attempt are needed", w.Stream, w.Position)
		}
		return errors.Join(checkStream(w.Stream), checkData(w.Data))
	case Put:
		if w.WriteID == (WriteID{}) {
			return fmt.Errorf("put %s: an attempt is needed", w.Key)
		}
		if err := checkExpires(w.Expires); err != nil {
			return fmt.Errorf("put %s: %w", w.Key, err)
		}
		if w.Index != (Key{}) {
			if err := checkKey(w.Index); err != nil {
				return fmt.Errorf("put %s: index %w", w.Key, err)
			}
		}
		return errors.Join(checkKey(w.Key), checkData(w.Data))
	case Delete:
		if w.If == 0 {
			return fmt.Errorf("delete %s: a version is needed", w.Key)
		}
		return checkKey(w.Key)
	case Add:
		if w.Min > w.Max {
			return fmt.Errorf("add to %s: bounds %d to %d", w.Key, w.Min, w.Max)
		}
		if err := checkExpires(w.Expires); err != nil {
			return fmt.Errorf("add to %s: %w", w.Key, err)
		}
		return checkKey(w.Key)
	}
	// A pointer to a write satisfies the interface and would otherwise be
	// skipped.
	return fmt.Errorf("a write is an Append, Put, Delete or Add, got %T", w)
}

func checkExpires(at time.Time) error {
	if !at.IsZero() && (at.Nanosecond() != 0 || at.Location() != time.UTC || at.Unix() <= 0) {
		return fmt.Errorf("expires: expected whole seconds in UTC after 1970, got %v", at)
	}
	return nil
}

func sameTarget(a, b Write) bool {
	x, isRow := a.(Append)
	y, isRowToo := b.(Append)
	if isRow || isRowToo {
		return isRow && isRowToo && x.Stream == y.Stream
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

// CheckPage validates a page length.
func CheckPage(n int) error {
	if n < 1 || n > MaxPage {
		return fmt.Errorf("a page has 1 to %d rows, got %d", MaxPage, n)
	}
	return nil
}

// CheckRange validates the arguments of Docs.
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

// CloneRow copies a row out of memory that the adapter owns.
func CloneRow(r Row) Row {
	r.Data = bytes.Clone(r.Data)
	return r
}
