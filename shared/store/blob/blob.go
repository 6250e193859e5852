// Package blob defines the port for large objects, which Put replaces completely. Readers see only
// complete versions. Adapters are separate packages, and package blobtest is their contract suite.
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

// Info describes an object. Versions with different bytes have different tags. Tag is empty only in
// results of List.
type Info struct {
	Key      string
	Size     int64
	Tag      string
	Modified time.Time
}

// Object is an open object. The caller must close Body.
type Object struct {
	Info
	Body io.ReadCloser
}

// Condition is the condition of a Put. At most one field may be set.
type Condition struct {
	Absent bool
	Tag    string
}

// Blobs stores objects. All methods are safe for concurrent use.
type Blobs interface {
	// Get opens an object, or returns ErrAbsent. An incomplete body ends with ErrUnavailable.
	Get(ctx context.Context, key string) (Object, error)

	Head(ctx context.Context, key string) (Info, error)

	// Put stores size bytes of body from its current offset, and returns the new tag. If writers with
	// the same Absent or Tag condition compete, one writer succeeds and the others get ErrConflict.
	// After ErrUnavailable, the outcome is unknown. A version is durable before readers can see it.
	Put(ctx context.Context, key string, body io.ReadSeeker, size int64, cond Condition) (tag string, err error)

	// Delete succeeds if the object does not exist.
	Delete(ctx context.Context, key string) error

	// List returns up to n objects in byte order. The first page has the cursor "", and the last page
	// returns "".
	List(ctx context.Context, prefix string, n int, cursor string) ([]Info, string, error)
}

const (
	MaxKey  = 512 // in bytes
	MaxPage = 1000
	MaxSize = 5 << 30 // in bytes, the limit of one S3 PUT

	maxNameBytes = 128 // between two slashes
)

var (
	ErrAbsent   = errors.New("no such object")
	ErrConflict = errors.New("the object is not at the expected version")
	// ErrUnavailable equals store.ErrUnavailable, so that handlers answer 503 for both.
	ErrUnavailable = store.ErrUnavailable
)

// CheckKey returns an error unless every adapter can store the key. Valid keys cannot leave a
// directory, do not collide on case-insensitive file systems, and need no escaping in a URL.
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

// CheckPut returns an error for arguments that adapters would treat differently.
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
