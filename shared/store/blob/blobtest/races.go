package blobtest

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/vacancy-host/vacancy/shared/store/blob"
)

func testOneCreator(t *testing.T, b blob.Blobs) {
	const creators = 16
	var wins atomic.Int32
	var winner atomic.Value
	var wg sync.WaitGroup
	for i := range creators {
		wg.Go(func() {
			text := fmt.Sprintf("creator %02d", i)
			switch _, err := b.Put(t.Context(), "one", strings.NewReader(text), int64(len(text)), blob.Condition{Absent: true}); {
			case err == nil:
				wins.Add(1)
				winner.Store(text)
			case !errors.Is(err, blob.ErrConflict):
				t.Errorf("Put() = %v, want ErrConflict", err)
			}
		})
	}
	wg.Wait()
	if wins.Load() != 1 {
		t.Fatalf("%d of %d created the object, want one", wins.Load(), creators)
	}
	if got, _ := get(t, b, "one"); got != winner.Load() {
		t.Errorf("Get() = %q, want the winner's %q", got, winner.Load())
	}
}

// testNoLostUpdate increments a counter in an object concurrently.
func testNoLostUpdate(t *testing.T, b blob.Blobs) {
	const writers, perWriter = 4, 5
	put(t, b, "counter", "0", blob.Condition{Absent: true})
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for successes := 0; successes < perWriter; {
				ok, err := incrementCounter(t, b)
				if err != nil {
					t.Error(err)
					return
				}
				if ok {
					successes++
				}
			}
		})
	}
	wg.Wait()
	if got, _ := get(t, b, "counter"); got != strconv.Itoa(writers*perWriter) {
		t.Errorf("counter = %s, want %d", got, writers*perWriter)
	}
}

func incrementCounter(t *testing.T, b blob.Blobs) (bool, error) {
	o, err := b.Get(t.Context(), "counter")
	if err != nil {
		return false, err
	}
	text, err := io.ReadAll(o.Body)
	if err = errors.Join(err, o.Body.Close()); err != nil {
		return false, err
	}
	n, err := strconv.Atoi(string(text))
	if err != nil {
		return false, err
	}
	next := strconv.Itoa(n + 1)
	_, err = b.Put(t.Context(), "counter", strings.NewReader(next), int64(len(next)), blob.Condition{Tag: o.Tag})
	if errors.Is(err, blob.ErrConflict) {
		return false, nil
	}
	return err == nil, err
}

func testCompleteVersions(t *testing.T, b blob.Blobs) {
	version := func(i int) string { return strings.Repeat(string(rune('a'+i)), 64<<10) }
	put(t, b, "key", version(0), blob.Condition{})
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for !stop.Load() {
				o, err := b.Get(t.Context(), "key")
				if err != nil {
					t.Errorf("Get() = %v", err)
					return
				}
				text, err := io.ReadAll(o.Body)
				if err = errors.Join(err, o.Body.Close()); errors.Is(err, blob.ErrUnavailable) {
					continue // replaced during the read, in an adapter that reports it
				} else if err != nil {
					t.Errorf("Read() = %v", err)
					return
				}
				if len(text) != 64<<10 || strings.Trim(string(text), string(text[:1])) != "" {
					t.Errorf("Get() = %d bytes, of more than one version", len(text))
					return
				}
			}
		})
	}
	for i := range 20 {
		put(t, b, "key", version(i), blob.Condition{})
	}
	stop.Store(true)
	wg.Wait()
}
