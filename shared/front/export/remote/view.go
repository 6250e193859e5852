package remote

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/export"
	"github.com/vacancy-host/vacancy/shared/store"
)

// Walk implements store.Walker. The view is not a snapshot: each page shows the host at the time of
// its request.
func (h *Host) Walk(ctx context.Context, fn func(store.View) error) error {
	if err := ctx.Err(); err != nil {
		return store.NotAppliedError(err)
	}
	v := &view{host: h}
	defer v.checker.close()
	return fn(v)
}

// view is a store.View of a host's pages, for use by one goroutine.
type view struct {
	host    *Host
	checker streamChecker
	head    head
}

const headRowCount = 256

// head contains the first rows of a stream, which were requested together with its last row. A
// reader of the last row usually reads the first rows next.
type head struct {
	stream        store.Stream
	rows          *export.RowsPart
	recentStreams [2]store.Stream // last two streams whose heads were requested
}

func (v *view) Rows(ctx context.Context, s store.Stream, from uint64, n int, d store.Direction) ([]store.Row, error) {
	if err := store.CheckPage(n); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, store.NotAppliedError(ctx.Err())
	}
	from = max(from, 1)
	if d == store.Ascending && from == 1 && v.head.stream == s && v.head.rows != nil && n >= len(v.head.rows.Rows) {
		part := v.head.rows
		v.head.rows = nil
		return convertRows(part, 1, n, d)
	}
	q := url.Values{"stream": {base64.RawURLEncoding.EncodeToString([]byte(s))}, "from": {strconv.FormatUint(from, 10)}, "limit": {strconv.Itoa(n)}}
	if d == store.Descending {
		q.Set("order", "desc")
		if n == 1 && s != v.head.recentStreams[0] && s != v.head.recentStreams[1] {
			q.Set("head", strconv.Itoa(headRowCount))
		}
	}
	var page export.RowsPage
	if err := v.host.get(ctx, "/v1/admin/export/rows", q, &page); err != nil {
		return nil, err
	}
	if q.Has("head") {
		v.head = head{s, page.Head, [2]store.Stream{v.head.recentStreams[1], s}}
	}
	return convertRows(&page.Rows, from, n, d)
}

// convertRows returns the rows of a part, or an error if they do not match the request.
func convertRows(part *export.RowsPart, from uint64, n int, d store.Direction) ([]store.Row, error) {
	if len(part.Rows) > n {
		return nil, mismatchError("rows", fmt.Sprintf("at most %d", n), strconv.Itoa(len(part.Rows)))
	}
	rows := make([]store.Row, len(part.Rows))
	for i, r := range part.Rows {
		switch {
		case d == store.Ascending && r.Position < from, d == store.Descending && (r.Position > from || r.Position == 0):
			return nil, mismatchError("rows", fmt.Sprintf("positions %s %d", map[store.Direction]string{store.Ascending: "from", store.Descending: "down from"}[d], from), strconv.FormatUint(r.Position, 10))
		case len(r.WriteID) != len(store.WriteID{}):
			return nil, mismatchError("attempt", "16 bytes", strconv.Itoa(len(r.WriteID)))
		}
		if from = r.Position + 1; d == store.Descending {
			from = r.Position - 1
		}
		rows[i] = store.Row{Position: r.Position, WriteID: store.WriteID(r.WriteID), Data: r.Data}
	}
	return rows, damageError(part.Damaged)
}

func (v *view) Doc(ctx context.Context, k store.Key) (store.Doc, error) {
	if ctx.Err() != nil {
		return store.Doc{}, store.NotAppliedError(ctx.Err())
	}
	var page export.DocPage
	if err := v.host.get(ctx, "/v1/admin/export/doc", url.Values{"partition": {k.Partition}, "sort": {k.Sort}}, &page); err != nil {
		return store.Doc{}, err
	}
	d := &page.Doc
	if page.Damaged == "" && (d.Partition != k.Partition || d.Sort != k.Sort) {
		return store.Doc{}, mismatchError("doc", fmt.Sprintf("%.80q", k.String()), fmt.Sprintf("%.80q", d.Partition+"/"+d.Sort))
	}
	return docOf(d), damageError(page.Damaged)
}

func (v *view) Streams(ctx context.Context, prefix store.Stream, n int, cursor string) ([]store.Stream, string, error) {
	if err := store.CheckPage(n); err != nil {
		return nil, "", err
	}
	if ctx.Err() != nil {
		return nil, "", store.NotAppliedError(ctx.Err())
	}
	q := url.Values{"limit": {strconv.Itoa(n)}}
	if prefix != "" {
		q.Set("prefix", base64.RawURLEncoding.EncodeToString([]byte(prefix)))
	}
	if cursor == "" {
		v.checker.close()
	} else {
		q.Set("cursor", cursor)
	}
	var page export.StreamsPage
	if err := v.host.get(ctx, "/v1/admin/export/streams", q, &page); err != nil {
		return nil, "", err
	}
	if len(page.Streams) > n {
		return nil, "", mismatchError("streams", fmt.Sprintf("at most %d", n), strconv.Itoa(len(page.Streams)))
	}
	names := make([]store.Stream, len(page.Streams))
	for i, b := range page.Streams {
		if len(b) == 0 || len(b) > store.MaxKey || !strings.HasPrefix(string(b), string(prefix)) {
			return nil, "", mismatchError("streams", "names of 1 to 512 bytes with the requested prefix", fmt.Sprintf("%.80q", b))
		}
		names[i] = store.Stream(b)
	}
	if err := v.checker.addPage(names, page.Next); err != nil {
		return nil, "", err
	}
	return names, page.Next, nil
}

func docOf(d *export.Doc) store.Doc {
	out := store.Doc{Key: store.Key{Partition: d.Partition, Sort: d.Sort}, Version: d.Version, Data: d.Data, Number: d.Number}
	copy(out.WriteID[:], d.WriteID)
	return out
}
