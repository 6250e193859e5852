package s3_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/vacancy-host/vacancy/shared/store/blob"
	"github.com/vacancy-host/vacancy/shared/store/blob/s3"
)

// fault is a failure of a PUT before or after it is applied.
type fault int

const (
	none fault = iota
	lost       // applied, and the connection ends without an answer
	busy       // 409: another conditional write is under way
)

// oneObject is an S3 server with one object. It evaluates If-Match and If-None-Match and applies
// faults to each PUT. It produces responses that a real server does not give on demand; the other
// tests use a real server.
type oneObject struct {
	mu     sync.Mutex
	body   []byte
	put    string // the metadata; "" without an object
	tag    int
	puts   int
	faults []fault
}

func (o *oneObject) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	tag := fmt.Sprintf("%q", fmt.Sprint(o.tag))
	if r.Method != http.MethodPut {
		if o.put == "" {
			refuse(w, http.StatusNotFound, "NoSuchKey")
			return
		}
		w.Header().Set("ETag", tag)
		w.Header().Set("X-Amz-Meta-Vacancy-Put", o.put)
		_, _ = w.Write(o.body)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	now := none
	if o.puts < len(o.faults) {
		now = o.faults[o.puts]
	}
	o.puts++
	match := r.Header.Get("If-Match")
	switch {
	case now == busy:
		refuse(w, http.StatusConflict, "ConditionalRequestConflict")
		return
	case match != "" && o.put == "":
		refuse(w, http.StatusNotFound, "NoSuchKey")
		return
	case r.Header.Get("If-None-Match") == "*" && o.put != "", match != "" && match != tag:
		refuse(w, http.StatusPreconditionFailed, "PreconditionFailed")
		return
	}
	o.tag++
	o.body, o.put = body, r.Header.Get("X-Amz-Meta-Vacancy-Put")
	if now == lost {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("ETag", fmt.Sprintf("%q", fmt.Sprint(o.tag)))
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>m</Message></Error>", code)
}

func at(t *testing.T, h http.Handler) *s3.Bucket {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return s3.New(clientAt(server.URL), "bucket", rand.Reader)
}

func write(t *testing.T, b *s3.Bucket, text string, cond blob.Condition) (string, error) {
	return b.Put(t.Context(), "key", strings.NewReader(text), int64(len(text)), cond)
}

func TestAPutWhoseAcknowledgementIsLostIsKnownByItsOwnObject(t *testing.T) {
	for name, faults := range map[string][]fault{
		"once": {lost}, "after a busy one": {busy, lost}, "and then busy": {lost, busy},
	} {
		t.Run(name, func(t *testing.T) {
			o := &oneObject{faults: faults}
			b := at(t, o)
			tag, err := write(t, b, "mine", blob.Condition{Absent: true})
			if err != nil || tag != `"1"` {
				t.Fatalf("Put() = %s, %v, want the tag of what it wrote", tag, err)
			}
			o.mu.Lock()
			o.puts = 0
			o.mu.Unlock()
			if tag, err = write(t, b, "mine again", blob.Condition{Tag: tag}); err != nil || tag != `"2"` {
				t.Errorf("Put() on a tag = %s, %v, want the tag of what it wrote", tag, err)
			}
		})
	}
}

func TestAnothersObjectIsAConflictEvenOfTheSameBytes(t *testing.T) {
	o := &oneObject{}
	b := at(t, o)
	if _, err := write(t, b, "same", blob.Condition{Absent: true}); err != nil {
		t.Fatal(err)
	}
	o.mu.Lock()
	o.puts, o.faults = 0, []fault{busy, busy}
	o.mu.Unlock()
	if _, err := write(t, b, "same", blob.Condition{Absent: true}); !errors.Is(err, blob.ErrConflict) {
		t.Errorf("Put() = %v, want ErrConflict", err)
	}
}

func TestAConditionThatS3CannotJudgeIsUnavailable(t *testing.T) {
	b := at(t, &oneObject{faults: []fault{busy, busy, busy, busy, busy, busy, busy, busy, busy}})
	if _, err := write(t, b, "x", blob.Condition{Absent: true}); !errors.Is(err, blob.ErrUnavailable) || errors.Is(err, blob.ErrConflict) {
		t.Errorf("Put() = %v, want ErrUnavailable", err)
	}
}

func TestS3ErrorsAreUnavailableNotAbsent(t *testing.T) {
	for _, answer := range []struct {
		status int
		code   string
	}{
		{http.StatusForbidden, "AccessDenied"}, {http.StatusServiceUnavailable, "SlowDown"}, {http.StatusNotFound, "NoSuchBucket"},
	} {
		t.Run(answer.code, func(t *testing.T) {
			b := at(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { refuse(w, answer.status, answer.code) }))
			check := func(op string, err error) {
				t.Helper()
				if !errors.Is(err, blob.ErrUnavailable) || errors.Is(err, blob.ErrAbsent) || errors.Is(err, blob.ErrConflict) {
					t.Errorf("%s = %v, want ErrUnavailable", op, err)
				}
			}
			_, err := b.Get(t.Context(), "key")
			check("Get()", err)
			_, err = write(t, b, "x", blob.Condition{})
			check("Put()", err)
			_, err = write(t, b, "x", blob.Condition{Absent: true})
			check("Put(Absent)", err)
			check("Delete()", b.Delete(t.Context(), "key"))
			_, _, err = b.List(t.Context(), "", 1, "")
			check("List()", err)
		})
	}
}

func TestABodyThatBreaksOffIsUnavailable(t *testing.T) {
	b := at(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		w.Header().Set("ETag", `"1"`)
		_, _ = w.Write(make([]byte, 500))
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}))
	o, err := b.Get(t.Context(), "key")
	if err != nil {
		t.Fatalf("Get() = %v", err)
	}
	defer o.Body.Close()
	if n, err := io.Copy(io.Discard, o.Body); !errors.Is(err, blob.ErrUnavailable) || n > 500 {
		t.Errorf("Read() = %d bytes, %v, want ErrUnavailable", n, err)
	}
}
