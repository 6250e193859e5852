package export

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/host/documents"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// maxPageBytes limits the stored data in a page. A function's answer may take 6 MB.
const maxPageBytes = 1 << 20

const defaultPageLimit = 256

// PagesHandler returns the handler of the paged export. Each page is read at its own time, so the
// pages of a busy host are not a snapshot. The handler must be wrapped in admin.RequireKey.
func PagesHandler(c Config) http.Handler {
	return httpapi.API{Name: "export", Log: c.Log}.Mux(op.RoutesByPath((&pages{c}).routes()...))
}

type pages struct{ Config }

func (p *pages) about(r *http.Request) (any, error) {
	if q := parseQuery(r, op.None{}); q.err != nil {
		return nil, q.err
	}
	retention := max(p.Retention, textkeys.MinRetention)
	return About{Format: ExportFormat, RetentionSeconds: int64(retention / time.Second)}, nil
}

func (p *pages) streams(r *http.Request) (any, error) {
	q := parseQuery(r, StreamsRequest{})
	prefix, limit := q.parseStream("prefix"), q.parseNumber("limit")
	if q.err != nil {
		return nil, q.err
	}
	if _, err := store.ParseStreamCursor(q.values["cursor"]); err != nil {
		return nil, err
	}
	page := StreamsPage{Streams: [][]byte{}}
	return &page, p.Source.Walk(r.Context(), func(v store.View) error {
		names, next, err := v.Streams(r.Context(), prefix, int(limit), q.values["cursor"])
		for _, name := range names {
			page.Streams = append(page.Streams, []byte(name))
		}
		page.Next = next
		return err
	})
}

func (p *pages) rows(r *http.Request) (any, error) {
	q := parseQuery(r, RowsRequest{})
	name := q.parseStream("stream")
	if name == "" {
		q.setError("stream", "the name of a stream", "none")
	}
	from, limit, head := q.parseNumber("from"), q.parseNumber("limit"), q.parseNumber("head")
	if q.err != nil {
		return nil, q.err
	}
	order := store.Ascending
	switch q.values["order"] {
	case "", ascending:
	case descending:
		order = store.Descending
	default:
		return nil, problem.Invalid("order", ascending+" or "+descending, quoteTruncated(q.values["order"]))
	}
	page := RowsPage{}
	return &page, p.Source.Walk(r.Context(), func(v store.View) (err error) {
		page.Rows, err = readRows(r.Context(), v, name, from, int(limit), order)
		if err == nil && head > 0 {
			page.Head = &RowsPart{}
			*page.Head, err = readRows(r.Context(), v, name, 1, int(head), store.Ascending)
		}
		return err
	})
}

// readRows describes damage in the page instead of failing, so that a check can continue.
func readRows(ctx context.Context, v store.View, name store.Stream, from uint64, maxRows int, direction store.Direction) (part RowsPart, err error) {
	rows, err := v.Rows(ctx, name, from, maxRows, direction)
	part.Rows = make([]Row, 0, len(rows))
	remainingBytes := maxPageBytes
	for i, row := range rows {
		if remainingBytes -= len(row.Data); i > 0 && remainingBytes < 0 {
			return part, nil // the next page reports damage after this row
		}
		part.Rows = append(part.Rows, Row{row.Position, row.WriteID[:], row.Data})
	}
	part.Damaged, err = damageText(err)
	return part, err
}

func damageText(err error) (string, error) {
	if problem.Is(err, problem.Damaged) && !errors.Is(err, store.ErrUnavailable) {
		return problem.AsError(err).Error(), nil
	}
	return "", err
}

func (p *pages) doc(r *http.Request) (any, error) {
	q := parseQuery(r, DocRequest{})
	if q.err != nil {
		return nil, q.err
	}
	k := store.Key{Partition: q.values["partition"], Sort: q.values["sort"]}
	for name, part := range map[string]string{"partition": k.Partition, "sort": k.Sort} {
		if part == "" || len(part) > store.MaxKey {
			return nil, problem.Invalid(name, "1 to 512 bytes", quoteTruncated(part))
		}
	}
	if !documents.IsExported(k) {
		return nil, problem.New(problem.Forbidden, "the document %.80q is not part of an export", k.String())
	}
	page := DocPage{}
	return &page, p.Source.Walk(r.Context(), func(v store.View) error {
		d, err := v.Doc(r.Context(), k)
		if page.Damaged, err = damageText(err); err == nil && page.Damaged == "" {
			page.Doc = docOf(&d)
		}
		return err
	})
}

func (p *pages) docs(r *http.Request) (any, error) {
	q := parseQuery(r, DocsRequest{})
	docRange, limit := q.parseRange(), q.parseNumber("limit")
	if q.err != nil {
		return nil, q.err
	}
	if _, err := store.ParseCursor(q.values["cursor"]); err != nil {
		return nil, err
	}
	docs, next, err := p.Source.Docs(r.Context(), docRange, int(limit), q.values["cursor"])
	page := DocsPage{Docs: make([]Doc, 0, len(docs)), Next: next}
	remainingBytes := maxPageBytes
	for i := range docs {
		d := &docs[i]
		if docRange.Index {
			// An index may lag behind its documents, so the reader fetches each document
			// separately.
			page.Docs = append(page.Docs, Doc{Partition: d.Key.Partition, Sort: d.Key.Sort, Version: d.Version, Index: d.Index.Sort})
			continue
		}
		if remainingBytes -= len(d.Data); i > 0 && remainingBytes < 0 {
			page.Next = store.Cursor{Key: docs[i-1].Key}.String()
			return &page, nil // the next page reports damage after this document
		}
		page.Docs = append(page.Docs, docOf(d))
	}
	page.Damaged, err = damageText(err)
	return &page, err
}

const maxOpenBytes = 32 << 10

// openTextKey decrypts the key of a day's texts. It cannot decrypt a seed, because the vault binds
// each encrypted seed to its vacant.
func (p *pages) openTextKey(r *http.Request) (any, error) {
	if q := parseQuery(r, op.None{}); q.err != nil {
		return nil, q.err
	}
	if ct := r.Header.Get("Content-Type"); ct != "application/json" {
		return nil, problem.New(problem.UnsupportedMedia, "unsupported content-type %s; expected application/json", quoteTruncated(ct))
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxOpenBytes+1))
	if err != nil {
		return nil, problem.Wrap(problem.Malformed, err, "the body could not be read")
	}
	if len(body) > maxOpenBytes {
		return nil, problem.New(problem.TooLarge, "body: expected at most %d bytes", maxOpenBytes)
	}
	var req struct {
		Bound string `json:"bound"`
		Box   string `json:"box" canon:"secret"`
	}
	if err := canon.Unmarshal(body, &req, canon.Limits{Bytes: maxOpenBytes, Depth: 2, Keys: 2}); err != nil {
		return nil, err
	}
	box, err := base64.StdEncoding.Strict().DecodeString(req.Box)
	if err != nil || len(box) == 0 {
		return nil, problem.Invalid("box", "a sealed box in base64", "other data")
	}
	if !textkeys.IsVaultContext(req.Bound) {
		return nil, problem.Wrap(problem.Forbidden, custody.ErrWithheld, "an export opens only text keys")
	}
	secret, err := p.Vault.Open(r.Context(), req.Bound, box)
	if err != nil {
		return nil, err
	}
	return Secret{secret}, nil
}

type query struct {
	values map[string]string
	ranges map[string]op.Range
	err    error
}

func (q *query) setError(name, want, got string) {
	if q.err == nil {
		q.err = problem.Invalid(name, want, got)
	}
}

// parseQuery refuses unknown parameters, because ignoring a misspelt parameter would return a
// different page.
func parseQuery(r *http.Request, request any) *query {
	q := &query{values: map[string]string{}}
	if ranged, ok := request.(op.Ranged); ok {
		q.ranges = ranged.Ranges()
	}
	var names []string
	for _, f := range (op.Spec{In: reflect.TypeOf(request)}).Fields() {
		names = append(names, f.Name)
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		q.setError("query", "NAME=VALUE&...", quoteTruncated(r.URL.RawQuery))
	}
	for name, got := range values {
		switch {
		case !slices.Contains(names, name) && len(names) == 0:
			q.setError(quoteTruncated(name), "no query parameters", "a parameter")
		case !slices.Contains(names, name):
			q.setError(quoteTruncated(name), strings.Join(names, ", "), "an unknown parameter")
		case len(got) != 1 || got[0] == "":
			q.setError(name, "one value", strconv.Itoa(len(got))+" times "+quoteTruncated(got[0]))
		}
		q.values[name] = got[0]
	}
	return q
}

func (q *query) parseNumber(name string) uint64 {
	bounds := q.ranges[name]
	s, ok := q.values[name]
	if !ok {
		n, _ := bounds.Default.(int64)
		return uint64(n)
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < bounds.Min || n > bounds.Max || strconv.FormatInt(n, 10) != s {
		q.setError(name, fmt.Sprintf("%d to %d", bounds.Min, bounds.Max), quoteTruncated(s))
	}
	return uint64(n)
}

func (q *query) parseRange() store.Range {
	r := store.Range{Partition: q.values["partition"], Start: q.values["first"], End: q.values["last"]}
	if index := q.values["index"]; index != "" {
		if r != (store.Range{}) {
			q.setError("index", "no index together with partition, first or last", quoteTruncated(index))
		}
		r = store.Range{Partition: index, Index: true}
	}
	if r.Partition == "" {
		q.setError("partition", "a partition or an index", "none")
	}
	if q.err == nil && !documents.IsListed(r) {
		q.err = problem.New(problem.Forbidden, "an export does not list the documents of %.80q from %.80q to %.80q", r.Partition, r.Start, r.End)
	}
	return r
}

func (q *query) parseStream(name string) store.Stream {
	b, err := base64.RawURLEncoding.Strict().DecodeString(q.values[name])
	if err != nil || len(b) > store.MaxKey {
		q.setError(name, "at most 512 bytes in base64url", quoteTruncated(q.values[name]))
	}
	return store.Stream(b)
}

func quoteTruncated(s string) string { return strconv.Quote(s[:min(len(s), 80)]) }
