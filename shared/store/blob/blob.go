// Package blob defines the port for large objects. An object is stored under a key. Put replaces a
// complete object, optionally on a condition.
//
// A reader always sees exactly one complete version of an object. Of several concurrent writers
// with the same condition, exactly one succeeds. Adapters are separate packages, and package
// blobtest is their contract suite.
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

// Info describes an object without its body. Tag identifies the version: versions with different
// bytes have different tags. Tag is opaque. It is empty only in results of List.
type Info struct {
	Key      string
	Size     int64
	Tag      string
	Modified time.Time // according to the adapter's clock
}

// Object is an open object. The caller must close Body.
type Object struct {
	Info
	Body io.ReadCloser
}

// Condition is the condition of a Put. At most one field may be set. The zero Condition always
// holds.
type Condition struct {
	Absent bool   // the object must not exist
	Tag    string // the object must be at this version
}

// Blobs stores objects. All methods are safe for concurrent use and respect their context. They
// check keys with CheckKey; the error for an invalid key is not one of the errors below.
type Blobs interface {
	// Get opens an object. If the object does not exist, it returns ErrAbsent. If the adapter
	// cannot read the complete body, Read returns ErrUnavailable, not io.EOF.
	Get(ctx context.Context, key string) (Object, error)

	// Head describes an object without its body. If the object does not exist, it returns
	// ErrAbsent.
	Head(ctx context.Context, key string) (Info, error)

	// Put creates or replaces an object with size bytes of body, starting at the body's current
	// offset, and returns the tag of the new version. ErrConflict means that the condition did not
	// hold and that Put did not store the object. ErrUnavailable means that the outcome is unknown
	// until the caller reads the object. If the adapter retries a Put that was applied, the retry
	// succeeds. A version is durable before readers can see it.
	Put(ctx context.Context, key string, body io.ReadSeeker, size int64, cond Condition) (tag string, err error)

	// Delete removes an object. It succeeds if the object does not exist.
	Delete(ctx context.Context, key string) error

	// List returns up to n (1 to MaxPage) objects whose keys begin with prefix, in byte order, and
	// the cursor of the next page. The first page has the cursor "", and the last page returns "".
	List(ctx context.Context, prefix string, n int, cursor string) ([]Info, string, error)
}

// Limits of every adapter.
const (
	MaxKey  = 512 // in bytes
	MaxPage = 1000
	MaxSize = 5 << 30 // in bytes, the limit of one S3 PUT

	maxNameBytes = 128 // in bytes, between two slashes
)

var (
	// ErrAbsent means that no object has this key.
	ErrAbsent = errors.New("no such object")
	// ErrConflict means that the condition of a Put does not hold.
	ErrConflict = errors.New("the object is not at the expected version")
	// ErrUnavailable means that the adapter is unreachable or that an outcome is unknown. It equals
	// store.ErrUnavailable, so that handlers answer 503 for both.
	ErrUnavailable = store.ErrUnavailable
)

// CheckKey returns an error unless every adapter can store the key: one or more names joined by
// '/', each with 1 to 128 lower-case letters, digits, '.', '_' and '-', without a '.' at its ends.
// Such keys cannot leave a directory, do not collide on case-insensitive file systems, and need no
// escaping in a URL.
func CheckKey(key string) error {
	if key == "" || len(key) > MaxKey {
		return fmt.Errorf("a key has 1 to %d bytes, got %d", MaxKey, len(key))
	}
	for name := range strings.SplitSeq(key, "/") {
		switch {
		case name == "" || len(name) > maxNameBytes:
			return fmt.Errorf("a name in a key has 1 to %d bytes, got %d in %q", maxNameBytes, len(name), key)
		case name[0] == '.' || name[len(name)-1] == '.':
			return fmt.Errorf("a name in a key does not begin or end with '.', got %q", key)
		case strings.ContainsFunc(name, isNotKeyChar):
			return fmt.Errorf("a name in a key may contain only a-z, 0-9, '.', '_' and '-', got %q", key)
		}
	}
	return nil
}

func isNotKeyChar(c rune) bool {
	return !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-')
}

// CheckPut returns an error for arguments of Put that adapters would treat differently. It restores
// the offset of body.
func CheckPut(key string, body io.Seeker, size int64, cond Condition) error {
	if err := CheckKey(key); err != nil {
		return err
	}
	if cond.Absent && cond.Tag != "" {
		return errors.New("a condition has at most one of Absent and Tag, got both")
	}
	if size < 0 || size > MaxSize {
		return fmt.Errorf("an object has 0 to %d bytes, got %d", int64(MaxSize), size)
	}
	start, err := body.Seek(0, io.SeekCurrent)
	if err != nil {
		return fmt.Errorf("the body of %s: %w", key, err)
	}
	end, err := body.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = body.Seek(start, io.SeekStart)
	}
	if err != nil {
		return fmt.Errorf("the body of %s: %w", key, err)
	}
	if end-start != size {
		return fmt.Errorf("the body of %s has %d bytes, want %d", key, end-start, size)
	}
	return nil
}

// CheckList returns an error for arguments of List that adapters would treat differently. A prefix
// has the characters of a key but need not be a valid key.
func CheckList(prefix string, n int) error {
	if n < 1 || n > MaxPage {
		return fmt.Errorf("a page has 1 to %d objects, got %d", MaxPage, n)
	}
	if len(prefix) > MaxKey {
		return fmt.Errorf("a prefix has at most %d bytes, got %d", MaxKey, len(prefix))
	}
	if strings.ContainsFunc(strings.ReplaceAll(prefix, "/", ""), isNotKeyChar) {
		return fmt.Errorf("a prefix may contain only a-z, 0-9, '.', '_', '-' and '/', got %q", prefix)
	}
	return nil
}
