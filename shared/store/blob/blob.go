// Package blob is the port behind which large bodies live: whole objects under
// a key, replaced as a whole and on a condition.
//
// Adapters are packages of their own; blobtest is this contract, executable.
// The invariant: a reader sees one whole version of an object, never a part of
// one nor a mix of two, and of any number of writers with one condition exactly
// one wins.
package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/store"
)

// Info is what is known of an object without its body. Tag names the version:
// two versions of different bytes have different tags. It is opaque, never
// empty but in a List, which does not tell it.
type Info struct {
	Key      string
	Size     int64
	Tag      string
	Modified time.Time // by the clock of the adapter
}

// Object is an object being read. Whoever got it closes Body.
type Object struct {
	Info
	Body io.ReadCloser
}

// If is the condition of a Put; at most one of its members. The zero If holds
// always.
type If struct {
	Absent bool   // there is no object of this key
	Tag    string // the object is at this version
}

// Blobs keeps objects. All methods are safe for concurrent use and honour their
// context. Keys are checked by CheckKey; a wrong one is refused with an error
// that is none of those below.
type Blobs interface {
	// Get opens an object; ErrAbsent if there is none. A body that breaks off
	// or that the adapter cannot read ends with ErrUnavailable, not with io.EOF.
	Get(ctx context.Context, key string) (Object, error)

	// Head tells an object without its body; ErrAbsent if there is none.
	Head(ctx context.Context, key string) (Info, error)

	// Put makes or replaces an object from all of body, which is size bytes
	// from where it stands, and returns the new version's tag. ErrConflict: the
	// condition did not hold and nothing changed. ErrUnavailable: the outcome
	// is unknown; what is there now tells. A retry within the adapter of a Put
	// that was applied succeeds. Bytes of one version are durable before any
	// reader sees them.
	Put(ctx context.Context, key string, body io.ReadSeeker, size int64, cond If) (tag string, err error)

	// Delete removes an object. Deleting what is absent succeeds.
	Delete(ctx context.Context, key string) error

	// List returns up to n (1 to MaxPage) objects whose keys begin with prefix,
	// in byte order, after the cursor of the page before ("" for the first),
	// and the cursor of the next page, "" after the last.
	List(ctx context.Context, prefix string, n int, cursor string) ([]Info, string, error)
}

// Limits of every adapter.
const (
	MaxKey  = 512 // bytes
	MaxPage = 1000
	MaxSize = 5 << 30 // bytes of an object, what one PUT of S3 takes

	maxName = 128 // bytes between two '/'
)

var (
	// ErrAbsent: there is no object of this key.
	ErrAbsent = errors.New("no such object")
	// ErrConflict: the condition of a Put does not hold.
	ErrConflict = errors.New("the object is not at the expected version")
	// ErrUnavailable: the adapter cannot be reached, or an outcome is unknown. It
	// is the store's, so that whoever shows the one as 503 shows both so.
	ErrUnavailable = store.ErrUnavailable
)

// CheckKey refuses what is not a key of every adapter: one or more names joined
// by '/', each of 1 to 128 lower-case letters, digits, '.', '_' and '-', not
// beginning or ending with '.'. So no key leaves a directory, two keys are never
// one file where file systems fold case, and none needs escaping in a URL.
func CheckKey(key string) error {
	if key == "" || len(key) > MaxKey {
		return fmt.Errorf("a key has 1 to %d bytes, got %d", MaxKey, len(key))
	}
	for name := range strings.SplitSeq(key, "/") {
		switch {
		case name == "" || len(name) > maxName:
			return fmt.Errorf("a name in a key has 1 to %d bytes, got %d in %q", maxName, len(name), key)
		case name[0] == '.' || name[len(name)-1] == '.':
			return fmt.Errorf("a name in a key does not begin or end with '.', got %q", key)
		case strings.ContainsFunc(name, notOfName):
			return fmt.Errorf("a name in a key is of a-z, 0-9, '.', '_' and '-', got %q", key)
		}
	}
	return nil
}

func notOfName(c rune) bool {
	return !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-')
}

// CheckPut refuses a Put that no adapter would take alike. It leaves body where
// it stands.
func CheckPut(key string, body io.Seeker, size int64, cond If) error {
	if err := CheckKey(key); err != nil {
		return err
	}
	if cond.Absent && cond.Tag != "" {
		return errors.New("a condition is one of Absent and Tag, got both")
	}
	if size < 0 || size > MaxSize {
		return fmt.Errorf("an object has 0 to %d bytes, got %d", int64(MaxSize), size)
	}
	from, err := body.Seek(0, io.SeekCurrent)
	if err != nil {
		return fmt.Errorf("the body of %s: %w", key, err)
	}
	end, err := body.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = body.Seek(from, io.SeekStart)
	}
	if err != nil {
		return fmt.Errorf("the body of %s: %w", key, err)
	}
	if end-from != size {
		return fmt.Errorf("the body of %s has %d bytes, want %d", key, end-from, size)
	}
	return nil
}

// CheckList refuses a page that no adapter would give alike. A prefix need not be
// a key; it is made of a key's bytes.
func CheckList(prefix string, n int) error {
	if n < 1 || n > MaxPage {
		return fmt.Errorf("a page has 1 to %d objects, got %d", MaxPage, n)
	}
	if len(prefix) > MaxKey {
		return fmt.Errorf("a prefix has at most %d bytes, got %d", MaxKey, len(prefix))
	}
	if strings.ContainsFunc(strings.ReplaceAll(prefix, "/", ""), notOfName) {
		return fmt.Errorf("a prefix is of a key's bytes, got %q", prefix)
	}
	return nil
}
