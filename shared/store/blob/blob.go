// Package blob is the port for large objects: whole objects under a key,
// replaced as a whole and on a condition.
//
// Adapters are separate packages; blobtest is their contract suite. Invariant:
// a reader sees exactly one version of an object, whole. Of concurrent writers
// with one condition exactly one succeeds.
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

// Info describes an object without its body. Tag identifies the version: two
// versions with different bytes have different tags. Tag is opaque and not
// empty, except in results of List, which have no tags.
type Info struct {
	Key      string
	Size     int64
	Tag      string
	Modified time.Time // by the clock of the adapter
}

// Object is an open object. The caller must close Body.
type Object struct {
	Info
	Body io.ReadCloser
}

// If is the condition of a Put; set at most one member. The zero If always
// holds.
type If struct {
	Absent bool   // the object must not exist
	Tag    string // the object must be at this version
}

// Blobs stores objects. All methods are safe for concurrent use and honour
// their context. Keys are checked by CheckKey; the error of a wrong key is none
// of the errors below.
type Blobs interface {
	// Get opens an object; ErrAbsent if it does not exist. If the adapter
	// cannot read the body to its end, Read returns ErrUnavailable, not io.EOF.
	Get(ctx context.Context, key string) (Object, error)

	// Head describes an object without its body; ErrAbsent if it does not
	// exist.
	Head(ctx context.Context, key string) (Info, error)

	// Put creates or replaces an object with size bytes of body from its
	// current offset, and returns the tag of the new version. ErrConflict: the
	// condition did not hold and nothing changed. ErrUnavailable: the outcome
	// is unknown; read the object to learn it. If the adapter retries a Put
	// that was applied, the retry succeeds. A version is durable before any
	// reader sees it.
	Put(ctx context.Context, key string, body io.ReadSeeker, size int64, cond If) (tag string, err error)

	// Delete removes an object. It succeeds if the object does not exist.
	Delete(ctx context.Context, key string) error

	// List returns up to n (1 to MaxPage) objects whose keys begin with prefix,
	// in byte order, after the cursor of the page before ("" for the first),
	// and the cursor of the next page, "" after the last.
	List(ctx context.Context, prefix string, n int, cursor string) ([]Info, string, error)
}

// Limits of every adapter.
const (
	MaxKey  = 512 // in bytes
	MaxPage = 1000
	MaxSize = 5 << 30 // in bytes, the limit of one S3 PUT

	maxName = 128 // in bytes, between two slashes
)

var (
	// ErrAbsent means that no object has this key.
	ErrAbsent = errors.New("no such object")
	// ErrConflict means that the condition of a Put does not hold.
	ErrConflict = errors.New("the object is not at the expected version")
	// ErrUnavailable means that the adapter cannot be reached or an outcome is
	// unknown. It is the store's error, so handlers answer 503 for both.
	ErrUnavailable = store.ErrUnavailable
)

// CheckKey refuses a key that some adapter cannot store. A key is one or more
// names joined by '/', each with 1 to 128 lower-case letters, digits, '.', '_'
// and '-', not beginning or ending with '.'. Such keys cannot leave a
// directory, never collide on file systems that fold case, and need no escaping
// in a URL.
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

// CheckPut refuses arguments of Put that adapters would treat differently. It
// restores the offset of body.
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

// CheckList refuses arguments of List that adapters would treat differently. A
// prefix consists of the characters of a key but need not be a key.
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
