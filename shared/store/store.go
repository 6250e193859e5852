// Package store is the one port behind which everything durable lives:
// append-only streams of immutable rows, and versioned documents.
//
// It imports floor 1 and problem. Adapters are packages of their own, named
// after what they talk to; storetest is this contract, executable, and every
// adapter passes it. The invariant that all else hangs on: a position of a
// stream, once written, never changes, and no position is written before the
// one below it.
package store

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Stream names an append-only sequence of rows. It is a kind, '#', and one or
// two ids as raw bytes, so that a key costs 36 or 68 bytes and not 132.
type Stream string

// The kinds of stream.
const (
	KindRequest  = "req" // calls and resets of an ordered pair: caller, vacant
	KindResponse = "rsp" // what was decided of them: caller, vacant
	KindLogbook  = "log" // a vacant's logbook: its id
)

// StreamOf names the stream of a kind of three letters and one or two ids.
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

// Kind is the part before '#'.
func (s Stream) Kind() string {
	kind, _, _ := strings.Cut(string(s), "#")
	return kind
}

// IDs are the ids in the name.
func (s Stream) IDs() []identity.ID {
	_, rest, _ := strings.Cut(string(s), "#")
	ids := make([]identity.ID, len(rest)/identity.Size)
	for i := range ids {
		copy(ids[i][:], rest[i*identity.Size:])
	}
	return ids
}

// String is the readable form: kind#hex or kind#hex#hex.
func (s Stream) String() string {
	var b strings.Builder
	b.WriteString(s.Kind())
	for _, id := range s.IDs() {
		b.WriteByte('#')
		b.WriteString(id.String())
	}
	return b.String()
}

// Attempt names one try at a write, chosen at random by the writer. A row or
// document that carries the writer's own attempt is the writer's own: so a
// lost acknowledgement is told from a lost race.
type Attempt [16]byte

func (a Attempt) String() string { return hex.EncodeToString(a[:]) }

// Row is one immutable row.
type Row struct {
	Position uint64 // from 1; 0 in the zero Row, which means none
	Attempt  Attempt
	Data     []byte // the caller's own bytes, never changed; nobody writes into them
}

// Key names a document: sorted by Sort (byte order) within its Partition.
// Both are non-empty UTF-8 of at most 512 bytes.
type Key struct{ Partition, Sort string }

func (k Key) String() string { return k.Partition + "/" + k.Sort }

// Doc is one version of a document. Number is a counter beside the bytes,
// changed by Put and by Add alike. Index, when set, lists the document in the
// sparse index under that partition and sort. Version starts at 1; 0 means
// absent. An Add raises the version too and leaves the rest as it is; a
// document that an Add made has no Attempt and no Data.
type Doc struct {
	Key     Key
	Version uint64
	Attempt Attempt
	Data    []byte
	Number  int64
	Index   Key
}

// Direction is the order in which Rows reads.
type Direction bool

// The two directions.
const (
	Ascending  Direction = false
	Descending Direction = true
)

// Range is a stretch of a partition: First <= sort < Last, byte order. An
// empty Last has no end. With Index it reads the sparse index, which may lag
// behind in some homes; without, reads are strongly consistent.
type Range struct {
	Partition   string
	First, Last string
	Index       bool
}

// Store keeps rows and documents. All methods are safe for concurrent use and
// honour their context: cancelled, they say ErrUnavailable with the context's
// own error in the chain, and a cancelled Commit may or may not have been
// applied. Bytes handed in are not kept or changed; bytes handed out are the
// caller's. Arguments outside their limits are refused with an error that is
// none of those below.
type Store interface {
	// Tip returns the last row of s, strongly consistent; the zero Row if s is
	// empty.
	Tip(ctx context.Context, s Stream) (Row, error)

	// Rows returns up to n rows (1 to MaxPage) from position from on,
	// inclusive, strongly consistent. A page ends early at a limit of the home
	// (large rows), never before its first row if there is one. The rows of a
	// page are contiguous: at a hole, which is an append in progress elsewhere,
	// an ascending page ends. Positions that do not exist are skipped towards
	// the direction: ascending from 0 is from 1, descending from beyond the tip
	// is from the tip.
	Rows(ctx context.Context, s Stream, from uint64, n int, d Direction) ([]Row, error)

	// Doc returns a document, strongly consistent; Version 0 if absent.
	Doc(ctx context.Context, k Key) (Doc, error)

	// Docs returns up to n documents (1 to MaxPage) of r in order, from the
	// cursor of the page before ("" for the first), and the cursor of the next
	// page, "" after the last. A page may be short, even empty, while its
	// cursor is not. In the sparse index documents of one sort come in any
	// order, each once; Key is their own.
	Docs(ctx context.Context, r Range, n int, cursor string) ([]Doc, string, error)

	// Commit applies all writes or none.
	//
	// Refusals, in this order: *TakenError for an Append whose position is
	// occupied (or does not follow on), *BoundsError for an Add that would
	// leave its bounds, *ConflictError for a document not at its version. The
	// first of the kind in the order of the writes is reported. ErrUnavailable:
	// the outcome is unknown, unless ErrNotApplied is in the chain too; the
	// same writes may be sent again. ErrTooLarge: nothing was applied.
	//
	// Sending again what was applied succeeds and changes nothing: an Append
	// or Put whose row or document carries the write's own attempt counts as
	// applied, with all that was beside it, and so does the Delete of what is
	// absent. This comes before any refusal. It holds while the row or the
	// document is there: a document made, deleted and asked for again is made
	// again, at version 1, so do not delete or remake what a late retry may
	// still reach.
	//
	// At most MaxWrites writes; no two on the same stream or document; an Add
	// never without an Append or a Put, whose attempt tells whether it was
	// applied.
	Commit(ctx context.Context, writes ...Write) error

	// Close waits for what is under way, but not for a walk. Later calls say
	// ErrUnavailable, those of a walk's view too in most homes; a later Close
	// does nothing.
	Close() error
}

// Walker lists the streams of a home, for verify. Walk calls fn with a view
// that does not change while fn runs, as far as the home can hold one.
type Walker interface {
	Walk(ctx context.Context, fn func(View) error) error
}

// View is a store to read from, and the names of its streams. It is for one
// goroutine, and not for after the walk.
type View interface {
	Rows(ctx context.Context, s Stream, from uint64, n int, d Direction) ([]Row, error)
	Doc(ctx context.Context, k Key) (Doc, error)
	// Streams returns up to n names (1 to MaxPage) of streams that begin with
	// prefix ("" for all), from the cursor of the page before ("" for the
	// first), and the cursor of the next page, "" after the last. Each name
	// comes once, in the home's own order: a table that is spread by hash has
	// no other that could be listed without keeping all names. A page may be
	// short, even empty, while its cursor is not.
	Streams(ctx context.Context, prefix Stream, n int, cursor string) ([]Stream, string, error)
}

// Limits of every home.
const (
	MaxPage   = 1000
	MaxWrites = 25
	MaxData   = 350 << 10 // bytes of a row's or document's Data
	MaxKey    = 512       // bytes of a stream's name, a partition, a sort
)

// Write is one of Append, Put, Delete, Add.
type Write interface{ write() }

// Append writes a row at a position: the one after the stream's last.
type Append struct {
	Stream   Stream
	Position uint64
	Attempt  Attempt
	Data     []byte
}

// Put writes a document if it is at version If (0: absent). The new version is
// If + 1.
type Put struct {
	Key     Key
	If      uint64
	Attempt Attempt
	Data    []byte
	Number  int64
	Index   Key
}

// Delete removes a document if it is at version If.
type Delete struct {
	Key Key
	If  uint64
}

// Add adds Delta to the Number of a document, made at 0 if absent, if the sum
// stays within Min and Max.
type Add struct {
	Key             Key
	Delta, Min, Max int64
}

// Fits reports whether the sum stays within the bounds, and within an int64.
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

// ErrUnavailable: the home cannot be reached or is closed, or an outcome is
// unknown. It is never shown as a replay.
var ErrUnavailable = errors.New("store unavailable")

// ErrNotApplied, beside ErrUnavailable: nothing was applied, nor will be.
var ErrNotApplied = errors.New("nothing was applied")

// ErrClosed, beside ErrUnavailable: the store was closed.
var ErrClosed = errors.New("the store is closed")

// NotApplied is the error of a call that ended before anything was applied,
// and why.
func NotApplied(cause error) error {
	return fmt.Errorf("%w: %w: %w", ErrUnavailable, ErrNotApplied, cause)
}

// ErrTooLarge: a row or document is above MaxData, or a commit above what the
// home takes at once.
var ErrTooLarge = errors.New("too large for the store")

// TakenError: the position is not the next one. Occupant is the row that holds
// it, the zero Row when the position lies beyond the next one.
type TakenError struct {
	Stream   Stream
	Position uint64
	Occupant Row
}

func (e *TakenError) Error() string {
	return fmt.Sprintf("position %d of %s is not free", e.Position, e.Stream)
}

// BoundsError: an Add would leave its bounds.
type BoundsError struct {
	Key    Key
	Number int64 // where the number stands
}

func (e *BoundsError) Error() string { return fmt.Sprintf("%s: bounds at %d", e.Key, e.Number) }

// ConflictError: the document is not at the version the write asked for.
type ConflictError struct {
	Key     Key
	Version uint64 // where the document is; 0 if absent
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("%s is at version %d", e.Key, e.Version)
}

// Check validates a commit before any home sees it, so that every home refuses
// alike. It allocates nothing: it stands before every write of every call.
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
		if w.Position == 0 || w.Position > math.MaxInt64 || w.Attempt == (Attempt{}) {
			return fmt.Errorf("append to %s at %d: a position from 1 and an attempt are needed", w.Stream, w.Position)
		}
		return errors.Join(checkStream(w.Stream), checkData(w.Data))
	case Put:
		if w.Attempt == (Attempt{}) {
			return fmt.Errorf("put %s: an attempt is needed", w.Key)
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
		return checkKey(w.Key)
	}
	// A pointer to a write would satisfy the interface and be skipped.
	return fmt.Errorf("a write is an Append, Put, Delete or Add, got %T", w)
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

// CheckPage validates the length of a page.
func CheckPage(n int) error {
	if n < 1 || n > MaxPage {
		return fmt.Errorf("a page has 1 to %d rows, got %d", MaxPage, n)
	}
	return nil
}

// CheckRange validates what Docs is asked for.
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

// CloneRow copies a row out of memory that the home owns.
func CloneRow(r Row) Row {
	r.Data = bytes.Clone(r.Data)
	return r
}
