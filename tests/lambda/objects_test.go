//go:build unix

package lambda

import (
	"crypto/sha256"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// objects is the part of S3 that the search index uses, for functions that run
// beside DynamoDB Local: one bucket, conditions on a PUT, a list. The adapter's
// own tests use a real S3.
type objects struct {
	mu   sync.Mutex
	kept map[string]object3
	log  []string // METHOD key
}

type object3 struct {
	body []byte
	put  string // the metadata of the adapter
	at   time.Time
}

func (o object3) tag() string {
	return fmt.Sprintf("%q", fmt.Sprintf("%x", sha256.Sum256(o.body))[:32])
}

const sampleBucket = "vacancy-test-blobs"

// bucket starts a server with one empty bucket, and returns it with the
// environment for functions.
func bucket(t testing.TB) (*objects, []string) {
	t.Helper()
	o := &objects{kept: map[string]object3{}}
	s := httptest.NewServer(o)
	t.Cleanup(s.Close)
	return o, []string{"AWS_ENDPOINT_URL_S3=" + s.URL, "VACANCY_BLOBS=" + sampleBucket}
}

// asked are the requests since the last call.
func (o *objects) asked() (log []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	log, o.log = o.log, nil
	return log
}

// keys are those stored, sorted.
func (o *objects) keys() (keys []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for k := range o.kept {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func (o *objects) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/"+sampleBucket), "/")
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.log = append(o.log, r.Method+" "+key)
	there, ok := o.kept[key]
	switch {
	case r.Method == http.MethodPut && (r.Header.Get("If-None-Match") == "*" && ok || r.Header.Get("If-Match") != "" && r.Header.Get("If-Match") != there.tag()):
		refused(w, http.StatusPreconditionFailed, "PreconditionFailed")
	case r.Method == http.MethodPut:
		kept := object3{body, r.Header.Get("X-Amz-Meta-Vacancy-Put"), time.Now()}
		o.kept[key] = kept
		w.Header().Set("ETag", kept.tag())
	case r.Method == http.MethodDelete:
		delete(o.kept, key)
		w.WriteHeader(http.StatusNoContent)
	case key == "":
		o.list(w, r.URL.Query().Get("prefix"))
	case !ok:
		refused(w, http.StatusNotFound, "NoSuchKey")
	default:
		w.Header().Set("ETag", there.tag())
		w.Header().Set("Last-Modified", there.at.UTC().Format(http.TimeFormat))
		w.Header().Set("X-Amz-Meta-Vacancy-Put", there.put)
		w.Header().Set("Content-Length", fmt.Sprint(len(there.body)))
		if r.Method == http.MethodGet {
			_, _ = w.Write(there.body)
		}
	}
}

func (o *objects) list(w http.ResponseWriter, prefix string) {
	type entry struct {
		Key, ETag    string
		Size         int
		LastModified string
	}
	var page struct {
		XMLName  xml.Name `xml:"ListBucketResult"`
		Contents []entry
	}
	for key, kept := range o.kept {
		if strings.HasPrefix(key, prefix) {
			page.Contents = append(page.Contents, entry{key, kept.tag(), len(kept.body), kept.at.UTC().Format(time.RFC3339)})
		}
	}
	slices.SortFunc(page.Contents, func(a, b entry) int { return strings.Compare(a.Key, b.Key) })
	w.Header().Set("Content-Type", "application/xml")
	_ = xml.NewEncoder(w).Encode(page)
}

func refused(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>refused</Message></Error>", code)
}
