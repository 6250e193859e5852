package s3_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/store/blob"
	"github.com/vacancy-host/vacancy/shared/store/blob/s3"
)

// large returns bytes of which no two parts are equal.
func large(size int) []byte {
	b := make([]byte, size)
	_, _ = mathrand.NewChaCha8([32]byte{1}).Read(b) // it never fails
	return b
}

// readsWhole puts and reads objects whose last parts are full, short, and one
// byte long.
func readsWhole(t *testing.T, b *s3.Bucket) {
	for _, size := range []int{16 << 20, 16<<20 + 1, 40 << 20, 41<<20 + 7} {
		want := large(size)
		if _, err := b.Put(t.Context(), "large", bytes.NewReader(want), int64(size), blob.Condition{}); err != nil {
			t.Fatal(err)
		}
		o, err := b.Get(t.Context(), "large")
		if err != nil {
			t.Fatalf("Get() = %v", err)
		}
		got, err := io.ReadAll(o.Body)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("Get() of %d bytes = %d bytes, %v, want what was put", size, len(got), err)
		}
		if err := o.Body.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
	}
}

// content is an object that net/http serves, with ranges and conditions.
type content struct {
	mu       sync.Mutex
	body     []byte
	tag      string
	underway atomic.Int32
	breaks   atomic.Int32 // so many ranges break off
}

func (c *content) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.underway.Add(1)
	defer c.underway.Add(-1)
	c.mu.Lock()
	body, tag := c.body, c.tag
	c.mu.Unlock()
	if match := r.Header.Get("If-Match"); match != "" && match != tag {
		refuse(w, http.StatusPreconditionFailed, "PreconditionFailed")
		return
	}
	if r.Header.Get("Range") != "" && c.breaks.Add(-1) >= 0 {
		w.Header().Set("Content-Length", "100000")
		w.WriteHeader(http.StatusPartialContent)
		_, _ = w.Write(make([]byte, 1000))
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("ETag", tag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
}

func TestPartsThatBreakOffAreFetchedAgain(t *testing.T) {
	c := &content{body: large(40 << 20), tag: `"1"`}
	c.breaks.Store(2)
	o, err := at(t, c).Get(t.Context(), "large")
	if err != nil {
		t.Fatal(err)
	}
	defer o.Body.Close()
	if got, err := io.ReadAll(o.Body); err != nil || !bytes.Equal(got, c.body) {
		t.Errorf("Read() = %d bytes, %v, want all", len(got), err)
	}
}

func TestPartsAreNeverOfTwoVersions(t *testing.T) {
	c := &content{body: large(64 << 20), tag: `"1"`}
	o, err := at(t, c).Get(t.Context(), "large")
	if err != nil {
		t.Fatal(err)
	}
	defer o.Body.Close()
	c.mu.Lock()
	old := c.body
	c.body, c.tag = []byte(strings.Repeat("new ", 16<<20)), `"2"`
	c.mu.Unlock()
	got, err := io.ReadAll(o.Body)
	if !errors.Is(err, blob.ErrUnavailable) || !bytes.HasPrefix(old, got) {
		t.Errorf("Read() of a replaced object = %d bytes, %v, want ErrUnavailable after bytes of the old one", len(got), err)
	}
}

func TestABodyThatIsClosedOrOutlivesItsContextFetchesNoMore(t *testing.T) {
	for name, end := range map[string]func(io.Closer){
		"closed": func(body io.Closer) { _ = body.Close() }, "context": func(io.Closer) {},
	} {
		t.Run(name, func(t *testing.T) {
			c := &content{body: large(128 << 20), tag: `"1"`}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			o, err := at(t, c).Get(ctx, "large")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(o.Body, make([]byte, 9<<20)); err != nil {
				t.Fatal(err)
			}
			end(o.Body)
			if name == "context" {
				cancel()
				if _, err := io.Copy(io.Discard, o.Body); !errors.Is(err, blob.ErrUnavailable) {
					t.Errorf("Read() = %v, want ErrUnavailable", err)
				}
				_ = o.Body.Close()
			}
			await.Until(t, "no request is under way", func() bool { return c.underway.Load() == 0 })
		})
	}
}

func TestReadersOfALargeObjectDoNotMeet(t *testing.T) {
	c := &content{body: large(24 << 20), tag: `"1"`}
	b := at(t, c)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			o, err := b.Get(t.Context(), "large")
			if err != nil {
				t.Errorf("Get() = %v", err)
				return
			}
			defer o.Body.Close()
			if got, err := io.ReadAll(o.Body); err != nil || !bytes.Equal(got, c.body) {
				t.Errorf("Read() = %d bytes, %v, want all", len(got), err)
			}
		})
	}
	wg.Wait()
}
