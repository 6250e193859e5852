// Package blobtest is the contract suite of blob.Blobs, which every adapter passes. It requires
// only behavior that package blob documents.
package blobtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/store/blob"
)

// Open returns an empty adapter that is closed when the test ends.
type Open func(t *testing.T) blob.Blobs

func Run(t *testing.T, open Open) {
	for name, test := range map[string]func(*testing.T, blob.Blobs){
		"Get returns the complete object with its tag":                testPutGet,
		"an absent object is ErrAbsent, and its deletion succeeds":    testAbsent,
		"a violated condition prevents the change":                    testConditions,
		"Put reads the body from its current offset":                  testBodyOffset,
		"invalid arguments are errors without a change":               testInvalidArguments,
		"keys are listed in byte order, page by page":                 testList,
		"a key may be a prefix of another key":                        testNestedKeys,
		"an ended context is ErrUnavailable with the context's error": testEndedContext,
		"an open object stays complete while it is replaced":          testReplaceWhileOpen,
		"exactly one of many concurrent creators succeeds":            testOneCreator,
		"no conditional update is lost":                               testNoLostUpdate,
		"readers see complete versions during replacements":           testCompleteVersions,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

func put(t *testing.T, b blob.Blobs, key, text string, cond blob.Condition) string {
	t.Helper()
	tag, err := b.Put(t.Context(), key, strings.NewReader(text), int64(len(text)), cond)
	if err != nil {
		t.Fatalf("Put(%s) = %v", key, err)
	}
	if tag == "" {
		t.Fatalf("Put(%s) = no tag", key)
	}
	return tag
}

func get(t *testing.T, b blob.Blobs, key string) (string, blob.Info) {
	t.Helper()
	o, err := b.Get(t.Context(), key)
	if err != nil {
		t.Fatalf("Get(%s) = %v", key, err)
	}
	text, err := io.ReadAll(o.Body)
	if err = errors.Join(err, o.Body.Close()); err != nil {
		t.Fatalf("Get(%s) = body that ends with %v", key, err)
	}
	return string(text), o.Info
}

func testPutGet(t *testing.T, b blob.Blobs) {
	large := strings.Repeat("0123456789abcdef", 1<<19) // 8 MiB
	for key, text := range map[string]string{"empty": "", "one/two-three_4.txt": "text", "large": large} {
		tag := put(t, b, key, text, blob.Condition{})
		got, info := get(t, b, key)
		if got != text {
			t.Errorf("Get(%s) = %d bytes, not the %d that were put", key, len(got), len(text))
		}
		head, err := b.Head(t.Context(), key)
		if err != nil {
			t.Fatalf("Head(%s) = %v", key, err)
		}
		want := blob.Info{Key: key, Size: int64(len(text)), Tag: tag, Modified: info.Modified}
		if diff := cmp.Diff(want, info); diff != "" {
			t.Errorf("Get(%s): %s", key, diff)
		}
		want.Modified = head.Modified
		if diff := cmp.Diff(want, head); diff != "" {
			t.Errorf("Head(%s): %s", key, diff)
		}
		if clockDifference := time.Since(head.Modified).Abs(); clockDifference > time.Hour {
			t.Errorf("Head(%s) = modified %v from now", key, clockDifference)
		}
	}
	first := put(t, b, "tags", "a", blob.Condition{})
	if second := put(t, b, "tags", "b", blob.Condition{}); first == second {
		t.Errorf("Put() of other bytes = the same tag %s", second)
	}
}

func testAbsent(t *testing.T, b blob.Blobs) {
	if _, err := b.Get(t.Context(), "none"); !errors.Is(err, blob.ErrAbsent) {
		t.Errorf("Get() = %v, want ErrAbsent", err)
	}
	if _, err := b.Head(t.Context(), "none/of/it"); !errors.Is(err, blob.ErrAbsent) {
		t.Errorf("Head() = %v, want ErrAbsent", err)
	}
	put(t, b, "some", "text", blob.Condition{})
	for range 2 {
		if err := b.Delete(t.Context(), "some"); err != nil {
			t.Errorf("Delete() = %v", err)
		}
	}
	if _, err := b.Get(t.Context(), "some"); !errors.Is(err, blob.ErrAbsent) {
		t.Errorf("Get() after Delete() = %v, want ErrAbsent", err)
	}
}

func testConditions(t *testing.T, b blob.Blobs) {
	checkConflict := func(key string, cond blob.Condition) {
		t.Helper()
		_, err := b.Put(t.Context(), key, strings.NewReader("other"), 5, cond)
		if !errors.Is(err, blob.ErrConflict) {
			t.Errorf("Put(%s, %+v) = %v, want ErrConflict", key, cond, err)
		}
	}
	checkConflict("key", blob.Condition{Tag: "0123456789abcdef"})
	if _, err := b.Head(t.Context(), "key"); !errors.Is(err, blob.ErrAbsent) {
		t.Fatalf("Head() after a refused Put() = %v, want ErrAbsent", err)
	}
	first := put(t, b, "key", "first", blob.Condition{Absent: true})
	checkConflict("key", blob.Condition{Absent: true})
	second := put(t, b, "key", "second", blob.Condition{Tag: first})
	checkConflict("key", blob.Condition{Tag: first})
	checkConflict("key", blob.Condition{Absent: true})
	if got, info := get(t, b, "key"); got != "second" || info.Tag != second {
		t.Errorf("Get() = %q at %s, want %q at %s", got, info.Tag, "second", second)
	}
	if err := b.Delete(t.Context(), "key"); err != nil {
		t.Fatal(err)
	}
	checkConflict("key", blob.Condition{Tag: second})
	put(t, b, "key", "again", blob.Condition{Absent: true})
}

func testBodyOffset(t *testing.T, b blob.Blobs) {
	body := strings.NewReader("not this, but this")
	if _, err := body.Seek(10, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Put(t.Context(), "half", body, 8, blob.Condition{}); err != nil {
		t.Fatalf("Put() = %v", err)
	}
	if got, _ := get(t, b, "half"); got != "but this" {
		t.Errorf("Get() = %q, want %q", got, "but this")
	}
}

func testInvalidArguments(t *testing.T, b blob.Blobs) {
	put(t, b, "good", "text", blob.Condition{})
	checkRefused := func(op string, err error) {
		t.Helper()
		if err == nil || errors.Is(err, blob.ErrAbsent) || errors.Is(err, blob.ErrConflict) || errors.Is(err, blob.ErrUnavailable) {
			t.Errorf("%s = %v, want a refusal of its arguments", op, err)
		}
	}
	for _, key := range []string{
		"", "/", "a/", "/a", "a//b", ".", "..", "../good", "a/../good", ".hidden", "a/.b", "a.", "A", "a b", "a%b",
		"a\\b", "a\x00b", "ä", strings.Repeat("a", 129), strings.Repeat("a/", 256) + "a",
	} {
		_, err := b.Put(t.Context(), key, strings.NewReader("x"), 1, blob.Condition{})
		checkRefused("Put("+key+")", err)
		_, err = b.Get(t.Context(), key)
		checkRefused("Get("+key+")", err)
		_, err = b.Head(t.Context(), key)
		checkRefused("Head("+key+")", err)
		checkRefused("Delete("+key+")", b.Delete(t.Context(), key))
	}
	_, err := b.Put(t.Context(), "good", strings.NewReader("x"), 1, blob.Condition{Absent: true, Tag: "t"})
	checkRefused("Put() on two conditions", err)
	for _, size := range []int64{-1, 0, 2, blob.MaxSize + 1} {
		_, err := b.Put(t.Context(), "good", strings.NewReader("x"), size, blob.Condition{})
		checkRefused("Put() of another size", err)
	}
	for _, n := range []int{-1, 0, blob.MaxPage + 1} {
		_, _, err := b.List(t.Context(), "", n, "")
		checkRefused("List()", err)
	}
	_, _, err = b.List(t.Context(), "a*", 1, "")
	checkRefused("List(a*)", err)
	if got, _ := get(t, b, "good"); got != "text" {
		t.Errorf("Get() after refusals = %q, want %q", got, "text")
	}
}

func listKeys(t *testing.T, b blob.Blobs, prefix string, n int) (keys []string) {
	t.Helper()
	for cursor, hasMore := "", true; hasMore; hasMore = cursor != "" {
		page, next, err := b.List(t.Context(), prefix, n, cursor)
		if err != nil {
			t.Fatalf("List(%s) = %v", prefix, err)
		}
		if len(page) > n {
			t.Fatalf("List(%s) = %d objects, want at most %d", prefix, len(page), n)
		}
		for _, o := range page {
			keys = append(keys, o.Key)
			if o.Size != int64(len(o.Key)) || o.Modified.IsZero() {
				t.Errorf("List(%s) = %+v, want its size and time", prefix, o)
			}
		}
		cursor = next
	}
	return keys
}

func testList(t *testing.T, b blob.Blobs) {
	keys := []string{"a", "a-b", "a.b", "a/b", "a/b/c", "a0", "a_b", "ab", "b/0", "b/1", "b/2"}
	for i := range keys {
		key := keys[(i*7)%len(keys)]
		put(t, b, key, key, blob.Condition{})
	}
	for _, n := range []int{1, 2, 5, len(keys), blob.MaxPage} {
		if diff := cmp.Diff(keys, listKeys(t, b, "", n)); diff != "" {
			t.Errorf("List() by %d: %s", n, diff)
		}
	}
	if diff := cmp.Diff(keys[3:5], listKeys(t, b, "a/", 1)); diff != "" {
		t.Errorf("List(a/): %s", diff)
	}
	if diff := cmp.Diff([]string{"b/0", "b/1", "b/2"}, listKeys(t, b, "b", 2)); diff != "" {
		t.Errorf("List(b): %s", diff)
	}
	if got := listKeys(t, b, "c", 1); len(got) != 0 {
		t.Errorf("List(c) = %v, want none", got)
	}
}

func testNestedKeys(t *testing.T, b blob.Blobs) {
	for _, key := range []string{"x/y", "x", "x/y/z"} {
		put(t, b, key, key, blob.Condition{Absent: true})
	}
	if err := b.Delete(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"x/y", "x/y/z"} {
		if got, _ := get(t, b, key); got != key {
			t.Errorf("Get(%s) = %q", key, got)
		}
	}
}

func testEndedContext(t *testing.T, b blob.Blobs) {
	put(t, b, "key", "text", blob.Condition{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	check := func(op string, err error) {
		t.Helper()
		if !errors.Is(err, blob.ErrUnavailable) || !errors.Is(err, context.Canceled) {
			t.Errorf("%s = %v, want ErrUnavailable and the context's error", op, err)
		}
	}
	_, err := b.Get(ctx, "key")
	check("Get()", err)
	_, err = b.Head(ctx, "key")
	check("Head()", err)
	_, err = b.Put(ctx, "key", strings.NewReader("x"), 1, blob.Condition{})
	check("Put()", err)
	_, _, err = b.List(ctx, "", 1, "")
	check("List()", err)
	check("Delete()", b.Delete(ctx, "key"))
}

func testReplaceWhileOpen(t *testing.T, b blob.Blobs) {
	old := bytes.Repeat([]byte("old "), 1<<18)
	if _, err := b.Put(t.Context(), "key", bytes.NewReader(old), int64(len(old)), blob.Condition{}); err != nil {
		t.Fatal(err)
	}
	o, err := b.Get(t.Context(), "key")
	if err != nil {
		t.Fatal(err)
	}
	defer o.Body.Close()
	head := make([]byte, 1000)
	if _, err := io.ReadFull(o.Body, head); err != nil {
		t.Fatal(err)
	}
	put(t, b, "key", "new", blob.Condition{})
	rest, err := io.ReadAll(o.Body)
	if err != nil && !errors.Is(err, blob.ErrUnavailable) {
		t.Errorf("Read() after a replacement = %v, want the end or ErrUnavailable", err)
	}
	if got := append(head, rest...); err == nil && !bytes.Equal(got, old) {
		t.Errorf("Read() after a replacement = %d bytes, not the %d of the version that was opened", len(got), len(old))
	}
}
