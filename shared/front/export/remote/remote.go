// Package remote reads another host through the pages of its export. It provides a source for fsck
// and transcript, and a vault that opens text keys.
//
// The host is not trusted: if a page does not match its request, reading ends with an error. The
// package never writes to the host.
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

type Config struct {
	// HTTP sends the requests. It must add the operator's key and must not follow redirects.
	HTTP *http.Client
	URL  string // URL of the export handler, without a trailing slash
	// Wait sleeps between tries. The default is retry.Sleep.
	Wait func(context.Context, time.Duration) error
}

const (
	maxPageBytes = 8 << 20 // a page has about 1.5 MB
	tryTimeout   = time.Minute
	// maxTries limits the tries of a request. All tries take about a minute and a half, because a
	// failure would end a check that takes hours.
	maxTries     = 8
	firstBackoff = 500 * time.Millisecond
	maxBackoff   = 30 * time.Second
)

// Host is another host. Its methods are safe for concurrent use.
type Host struct {
	Config
	retention time.Duration
}

// Connect connects to a host and checks its export format. The error is Unauthorized if the key is
// not the operator's.
func Connect(ctx context.Context, c Config) (*Host, error) {
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
	const maxRetention = 100 * 365 * 24 * time.Hour
	if about.RetentionSeconds < 0 || about.RetentionSeconds > int64(maxRetention/time.Second) {
		return nil, mismatchError("retention_seconds", "up to a hundred years", strconv.FormatInt(about.RetentionSeconds, 10))
	}
	h.retention = time.Duration(about.RetentionSeconds) * time.Second
	return h, nil
}

func (h *Host) Retention() time.Duration { return h.retention }

// Docs lists documents, or only their keys if r.Index is set.
func (h *Host) Docs(ctx context.Context, r store.Range, n int, cursor string) ([]store.Doc, string, error) {
	if err := store.CheckRange(r, n); err != nil {
		return nil, "", err
	}
	start, err := store.ParseCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	q := url.Values{"limit": {strconv.Itoa(n)}}
	name := "partition"
	if r.Index {
		name = "index"
	}
	for name, value := range map[string]string{name: r.Partition, "first": r.Start, "last": r.End, "cursor": cursor} {
		if value != "" {
			q.Set(name, value)
		}
	}
	var page export.DocsPage
	if err := h.get(ctx, "/v1/admin/export/docs", q, &page); err != nil {
		return nil, "", err
	}
	docs, err := checkOrder(r, n, &page, start)
	if err != nil {
		return nil, "", err
	}
	return docs, page.Next, damageError(page.Damaged)
}

// checkOrder checks that a page continues after its cursor, in order and without duplicates.
// Otherwise the host could send the reader in circles.
func checkOrder(r store.Range, n int, page *export.DocsPage, start store.Cursor) ([]store.Doc, error) {
	startKey := start.Key.Sort
	if r.Index {
		startKey = start.IndexSort
	}
	lastKey := startKey
	docs := make([]store.Doc, 0, len(page.Docs))
	for i := range page.Docs {
		d := &page.Docs[i]
		sortKey, ok := d.Sort, d.Partition == r.Partition && d.Sort > lastKey
		if r.Index {
			sortKey, ok = d.Index, d.Partition != "" && d.Sort != "" && d.Index >= lastKey
		}
		if !ok || d.Version == 0 || len(docs) == n {
			return nil, mismatchError("docs", fmt.Sprintf("at most %d documents of %q after %.80q", n, r.Partition, lastKey), fmt.Sprintf("%.80q", d.Partition+"/"+sortKey))
		}
		lastKey = sortKey
		docs = append(docs, docOf(d))
	}
	if page.Next == "" {
		return docs, nil
	}
	next, err := store.ParseCursor(page.Next)
	sortKey := next.Key.Sort
	if r.Index {
		sortKey = next.IndexSort
	}
	if err != nil || sortKey != lastKey || lastKey == startKey {
		return nil, mismatchError("docs", "a cursor that continues after the page", fmt.Sprintf("%.80q", page.Next))
	}
	return docs, nil
}

// Vault returns a vault that opens text keys on the host. It opens no other boxes and cannot seal.
func (h *Host) Vault() custody.Vault { return vault{h} }

type vault struct{ host *Host }

func (v vault) Open(ctx context.Context, vaultContext string, box []byte) ([]byte, error) {
	body, err := json.Marshal(export.Sealed{VaultContext: vaultContext, Box: box})
	if err != nil {
		return nil, problem.Wrap(problem.Internal, err, "")
	}
	if !textkeys.IsVaultContext(vaultContext) {
		return nil, withheldError(nil)
	}
	var s export.Secret
	err = v.host.send(ctx, http.MethodPost, "/v1/admin/export/open", body, &s)
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

func damageError(message string) error {
	if message == "" {
		return nil
	}
	return problem.New(problem.Damaged, "%s", message)
}

func mismatchError(field, want, got string) error {
	return &problem.Error{Kind: problem.Untrusted, Field: "the host's export: " + field, Want: want, Got: got}
}

func (h *Host) get(ctx context.Context, path string, q url.Values, into any) error {
	if len(q) > 0 {
		path += "?" + q.Encode()
	}
	return h.send(ctx, http.MethodGet, path, nil, into)
}

// send may repeat requests, because all requests only read.
func (h *Host) send(ctx context.Context, method, path string, body []byte, into any) error {
	backoff := firstBackoff
	for attempt := 1; ; attempt++ {
		pause, err := h.tryOnce(ctx, method, path, body, into)
		if err == nil || pause < 0 || attempt == maxTries {
			return err
		}
		if pause == 0 {
			pause, backoff = backoff, min(2*backoff, maxBackoff)
		}
		if h.Wait(ctx, min(pause, maxBackoff)) != nil {
			return store.NotAppliedError(ctx.Err())
		}
	}
}

// tryOnce sends a request once. If retryAfter is negative, the request must not be repeated. Zero
// means the default pause.
func (h *Host) tryOnce(ctx context.Context, method, path string, body []byte, into any) (retryAfter time.Duration, err error) {
	const noRetry = -1
	if ctx.Err() != nil {
		return noRetry, store.NotAppliedError(ctx.Err())
	}
	tryCtx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(tryCtx, method, h.URL+path, bytes.NewReader(body))
	if err != nil {
		return noRetry, problem.Wrap(problem.Usage, err, "%.200q is not a URL", h.URL)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := h.HTTP.Do(req)
	if err != nil {
		return 0, h.unreachableError(ctx, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxPageBytes+1))
	switch {
	case err != nil:
		return 0, h.unreachableError(ctx, err)
	case len(b) > maxPageBytes:
		return noRetry, mismatchError("page", fmt.Sprintf("at most %d bytes", maxPageBytes), "more")
	case resp.StatusCode != http.StatusOK:
		return h.parseRefusal(resp, b)
	}
	if err := json.Unmarshal(b, into); err != nil {
		return noRetry, problem.Wrap(problem.Untrusted, err, "the host's export contains a page that cannot be decoded")
	}
	return noRetry, nil
}

func (h *Host) unreachableError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return store.NotAppliedError(ctx.Err())
	}
	return problem.Wrap(problem.Unavailable, store.NotAppliedError(err), "the host's export at %s cannot be reached", h.URL)
}

func (h *Host) parseRefusal(resp *http.Response, body []byte) (retryAfter time.Duration, err error) {
	retryAfter = -1
	switch status := resp.StatusCode; {
	case status == http.StatusTooManyRequests, status == http.StatusBadGateway, status == http.StatusServiceUnavailable, status == http.StatusGatewayTimeout:
		retryAfter = 0
		if n, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && n > 0 {
			retryAfter = time.Duration(min(n, 3600)) * time.Second
		}
	case status >= 300 && status < 400:
		return retryAfter, problem.New(problem.Forbidden, "%s redirects; the operator's key is not sent to another host", h.URL)
	}
	var r httpapi.Refusal
	if json.Unmarshal(body, &r) == nil && r.Code != "" {
		err = r.Problem()
	} else {
		kind := problem.Internal
		if retryAfter >= 0 {
			kind = problem.Unavailable
		}
		err = problem.New(kind, "the host's export at %s answered with status %d", h.URL, resp.StatusCode)
	}
	if retryAfter >= 0 {
		return retryAfter, problem.Wrap(problem.Unavailable, store.NotAppliedError(err), "the host's export at %s cannot be read now: %s", h.URL, problem.AsError(err).Text())
	}
	return retryAfter, err
}
