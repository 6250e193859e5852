package opensearch

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/vacancy-host/vacancy/shared/host/registry/search"
)

// maxBulkBytes is the approximate maximum size of one bulk request in bytes. Managed clusters refuse
// requests of 10 MB.
const maxBulkBytes = 4 << 20

// Apply writes the mark last. If Apply fails before the refresh, its writes remain invisible
// until the next Apply, which repeats them.
func (x *Index) Apply(ctx context.Context, b search.Batch) error {
	return x.whileOpen(func() error {
		changed, err := x.sendEntries(ctx, b)
		if err != nil {
			return err
		}
		if changed {
			if err := x.sendJSON(ctx, http.MethodPost, "/"+x.name+"/_refresh", nil, nil, nil); err != nil {
				return err
			}
		}
		if b.Mark == "" {
			return ctx.Err()
		}
		return x.sendJSON(ctx, http.MethodPut, "/"+x.name+"/_doc/"+markID,
			url.Values{"require_alias": {"true"}}, object{fieldMark: b.Mark}, nil)
	})
}

func (x *Index) sendEntries(ctx context.Context, b search.Batch) (changed bool, err error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	flush := func(threshold int) error {
		if buf.Len() <= threshold {
			return nil
		}
		changed = true
		err := x.sendBulk(ctx, buf.Bytes())
		buf.Reset()
		return err
	}
	for i := range b.Put {
		e := &b.Put[i]
		if err := enc.Encode(object{"index": object{"_id": e.ID.String()}}); err != nil {
			return changed, unavailableError(err)
		}
		if err := enc.Encode(newDocument(e)); err != nil {
			return changed, unavailableError(err)
		}
		if err := flush(maxBulkBytes); err != nil {
			return changed, err
		}
	}
	for _, id := range b.Remove {
		if err := enc.Encode(object{"delete": object{"_id": id.String()}}); err != nil {
			return changed, unavailableError(err)
		}
		if err := flush(maxBulkBytes); err != nil {
			return changed, err
		}
	}
	return changed, flush(0)
}

// sendBulk checks the result of each line, because a bulk request succeeds even if all its lines
// fail.
func (x *Index) sendBulk(ctx context.Context, lines []byte) error {
	var resp struct {
		Errors bool
		Items  []map[string]struct {
			ID     string `json:"_id"`
			Status int
			Error  *struct{ Type, Reason string }
		}
	}
	err := x.send(ctx, request{http.MethodPost, "/" + x.name + "/_bulk", url.Values{"require_alias": {"true"}}, lines}, &resp)
	if err != nil || !resp.Errors {
		return err
	}
	for _, item := range resp.Items {
		for action, result := range item {
			if result.Error != nil {
				return unavailableError(fmt.Errorf("%s of %s: %w", action, result.ID, &responseError{result.Status, result.Error.Type, result.Error.Reason}))
			}
		}
	}
	return unavailableError(fmt.Errorf("OpenSearch reported errors in a batch but did not say which items failed"))
}
