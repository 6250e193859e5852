// Package remote reads another host through the pages of its export. It provides a source for fsck
// and transcript, and a vault that opens text keys.
//
// The host is not trusted: if a page does not match the request, reading ends with an error. Fsck
// checks the content of the pages. The package never writes to the host. Memory does not grow with
// the size of the host. A page that cannot be read is an error, never the end of a list.
package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/export"
	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/retry"
	"github.com/vacancy-host/vacancy/shared/store"
)

// Config contains the address of a host and the means to reach it.
type Config struct {
	// HTTP sends the requests. It must add the operator's key and must not follow redirects.
	HTTP *http.Client
	URL  string // URL of the export handler, without a trailing slash
	// Wait sleeps between tries, and returns early when its context ends. The default is
	// retry.Sleep.
	Wait func(context.Context, time.Duration) error
}

// Limits of a request.
const (
	maxPage = 8 << 20 // bytes of an answer; a page has about 1.5 MB
	perTry  = time.Minute
	// tries limits how often a request is sent to a host that is overloaded, throttled or being
	// deployed. All tries take about a minute and a half. They are worth it because a failure would
	// end a check that takes hours.
	tries       = 8
	firstWait   = 500 * time.Millisecond
	longestWait = 30 * time.Second
)

// Host is another host. Its methods are safe for concurrent use.
type Host struct {
	Config
	retention time.Duration
}

// Open connects to a host and checks its export format. The error is Unauthorized if the key is not
// the operator's.
func Open(ctx context.Context, c Config) (*Host, error) {
	if c.Wait == nil {
		c.Wait = retry.Sleep
	}
	h := &Host{Config: c}
	var about export.About
	// The first request is not repeated, so that a mistyped address is reported immediately.
	if _, err := h.tryOnce(ctx, http.MethodGet, "/v1/admin/export", nil, &about); err != nil {
		return nil, err
	}
	if about.Format != export.ExportFormat {
		return nil, problem.New(problem.Untrusted, "%s exports in format %d; this program reads %d", c.URL, about.Format, export.ExportFormat)
	}
	const most = 100 * 365 * 24 * time.Hour
	if about.RetentionSeconds < 0 || about.RetentionSeconds > int64(most/time.Second) {
		return nil, mismatch("retention_seconds", "up to a hundred years", strconv.FormatInt(about.RetentionSeconds, 10))
	}
	h.retention = time.Duration(about.RetentionSeconds) * time.Second
	return h, nil
}

// Retention returns the time for which the host stores the text keys of a day after the end of the
// day.
func (h *Host) Retention() time.Duration { return h.retention }

// Docs lists documents. If r.Index is set, it returns only the keys of the documents that the index
// lists (documents.IsListed).
func (h *Host) Docs(ctx context.Context, r store.Range, n int, cursor string) ([]store.Doc, string, error) {
	if err := store.CheckRange(r, n); err != nil {
		return nil, "", err
	}
	before, err := store.ParseCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	q := url.Values{"limit": {strconv.Itoa(n)}}
	name := "partition"
	if r.Index {
		name = "index"
	}
	for name, value := range map[string]string{name: r.Partition, "first": r.First, "last": r.Last, "cursor": cursor} {
		if value != "" {
			q.Set(name, value)
		}
	}
	var page export.DocsPage
	if err := h.get(ctx, "/v1/admin/export/docs", q, &page); err != nil {
		return nil, "", err
	}
	docs, err := checkOrder(r, n, &page, before)
	if err != nil {
		return nil, "", err
	}
	return docs, page.Next, damageError(page.Damaged)
}

// checkOrder checks that a page continues after its cursor, in order and without duplicates. An index
// may list several documents with the same sort key, but each page must advance the sort key.
// Otherwise the host could send the reader in circles.
func checkOrder(r store.Range, n int, page *export.DocsPage, before store.Cursor) ([]store.Doc, error) {
	began := before.Key.Sort
	if r.Index {
		began = before.Sort
	}
	last := began
	docs := make([]store.Doc, 0, len(page.Docs))
	for i := range page.Docs {
		d := &page.Docs[i]
		sortKey, ok := d.Sort, d.Partition == r.Partition && d.Sort > last
		if r.Index {
			sortKey, ok = d.Index, d.Partition != "" && d.Sort != "" && d.Index >= last
		}
		if !ok || d.Version == 0 || len(docs) == n {
			return nil, mismatch("docs", fmt.Sprintf("at most %d documents of %q after %.80q", n, r.Partition, last), fmt.Sprintf("%.80q", d.Partition+"/"+sortKey))
		}
		last = sortKey
		docs = append(docs, docOf(d))
	}
	if page.Next == "" {
		return docs, nil
	}
	next, err := store.ParseCursor(page.Next)
	sortKey := next.Key.Sort
	if r.Index {
		sortKey = next.Sort
	}
	if err != nil || sortKey != last || last == began {
		return nil, mismatch("docs", "a cursor that continues after the page", fmt.Sprintf("%.80q", page.Next))
	}
	return docs, nil
}

// Vault returns a vault that opens text keys on the host. It opens no other boxes and cannot seal.
func (h *Host) Vault() custody.Vault { return vault{h} }

type vault struct{ host *Host }

func (v vault) Open(ctx context.Context, bound string, box []byte) ([]byte, error) {
	body, err := json.Marshal(export.Sealed{Bound: bound, Box: box})
	if err != nil {
		return nil, problem.Wrap(problem.Internal, err, "")
	}
	if !textkeys.IsVaultContext(bound) {
		return nil, withheldError(nil)
	}
	var s export.Secret
	err = v.host.do(ctx, http.MethodPost, "/v1/admin/export/open", body, &s)
	if problem.Is(err, problem.Forbidden) {
		return nil, withheldError(err)
	}
	return s.Secret, err
}

func (v vault) Seal(context.Context, string, []byte) ([]byte, error) {
	return nil, withheldError(nil)
}

func withheldError(cause error) error {
	return problem.Wrap(problem.Forbidden, errors.Join(custody.ErrWithheld, cause), "a host opens only text keys for an export")
}

// damageError returns an error for damage that the host reported, or nil.
func damageError(message string) error {
	if message == "" {
		return nil
	}
	return problem.New(problem.Damaged, "%s", message)
}

func mismatch(field, want, got string) error {
	return &problem.Error{Kind: problem.Untrusted, Field: "the host's export: " + field, Want: want, Got: got}
}

func (h *Host) get(ctx context.Context, path string, q url.Values, into any) error {
	if len(q) > 0 {
		path += "?" + q.Encode()
	}
	return h.do(ctx, http.MethodGet, path, nil, into)
}

// do sends a request until it is answered or refused, at most tries times. All requests only read,
// so they may be repeated.
func (h *Host) do(ctx context.Context, method, path string, body []byte, into any) error {
	wait := firstWait
	for try := 1; ; try++ {
		pause, err := h.tryOnce(ctx, method, path, body, into)
		if err == nil || pause < 0 || try == tries {
			return err
		}
		if pause == 0 {
			pause, wait = wait, min(2*wait, longestWait)
		}
		if h.Wait(ctx, min(pause, longestWait)) != nil {
			return store.NotApplied(ctx.Err())
		}
	}
}

// tryOnce sends a request once. retryAfter is the pause before the next try: zero means the default
// pause, and a negative value means that the request must not be repeated.
func (h *Host) tryOnce(ctx context.Context, method, path string, body []byte, into any) (again time.Duration, err error) {
	const never = -1
	if ctx.Err() != nil {
		return never, store.NotApplied(ctx.Err())
	}
	limited, cancel := context.WithTimeout(ctx, perTry)
	defer cancel()
	req, err := http.NewRequestWithContext(limited, method, h.URL+path, bytes.NewReader(body))
	if err != nil {
		return never, problem.Wrap(problem.Usage, err, "no request can be made of %.200q", h.URL)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := h.HTTP.Do(req)
	if err != nil {
		return 0, h.unreachable(ctx, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxPage+1))
	switch {
	case err != nil:
		return 0, h.unreachable(ctx, err)
	case len(b) > maxPage:
		return never, mismatch("page", fmt.Sprintf("at most %d bytes", maxPage), "more")
	case resp.StatusCode != http.StatusOK:
		return h.refusalOf(resp, b)
	}
	if err := json.Unmarshal(b, into); err != nil {
		return never, problem.Wrap(problem.Untrusted, err, "the host's export: a page that cannot be decoded")
	}
	return never, nil
}

func (h *Host) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return store.NotApplied(ctx.Err())
	}
	return problem.Wrap(problem.Unavailable, store.NotApplied(err), "the host's export at %s cannot be reached", h.URL)
}

func (h *Host) refusalOf(resp *http.Response, body []byte) (again time.Duration, err error) {
	again = -1
	switch s := resp.StatusCode; {
	case s == http.StatusTooManyRequests, s == http.StatusBadGateway, s == http.StatusServiceUnavailable, s == http.StatusGatewayTimeout:
		again = 0
		if n, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && n > 0 {
			again = time.Duration(min(n, 3600)) * time.Second
		}
	case s >= 300 && s < 400:
		return again, problem.New(problem.Forbidden, "%s redirects; the operator's key is not sent to another host", h.URL)
	}
	var r httpapi.Refusal
	if json.Unmarshal(body, &r) == nil && r.Code != "" {
		err = r.Problem()
	} else {
		kind := problem.Internal
		if again >= 0 {
			kind = problem.Unavailable
		}
		err = problem.New(kind, "the host's export at %s answered with status %d", h.URL, resp.StatusCode)
	}
	if again >= 0 {
		return again, problem.Wrap(problem.Unavailable, store.NotApplied(err), "the host's export at %s cannot be read now: %s", h.URL, problem.AsError(err).Text())
	}
	return again, err
}
