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

// maxBulk is the approximate maximum size of one bulk request in bytes. Managed clusters refuse
// requests of 10 MB.
const maxBulk = 4 << 20

// Apply implements search.Index. It writes the mark after all other writes are stored and visible.
// If Apply fails before the refresh, its writes remain invisible until the next Apply, which
// repeats them.
func (x *Index) Apply(ctx context.Context, b search.Batch) error {
	return x.using(func() error {
		changed, err := x.write(ctx, b)
		if err != nil {
			return err
		}
		if changed {
			if err := x.do(ctx, http.MethodPost, "/"+x.name+"/_refresh", nil, nil, nil); err != nil {
				return err
			}
		}
		if b.Mark == "" {
			return ctx.Err()
		}
		return x.do(ctx, http.MethodPut, "/"+x.name+"/_doc/"+markID,
			url.Values{"require_alias": {"true"}}, object{fieldMark: b.Mark}, nil)
	})
}

func (x *Index) write(ctx context.Context, b search.Batch) (changed bool, err error) {
	var bulk bytes.Buffer
	lines := json.NewEncoder(&bulk)
	lines.SetEscapeHTML(false)
	flush := func(least int) error {
		if bulk.Len() <= least {
			return nil
		}
		changed = true
		err := x.bulk(ctx, bulk.Bytes())
		bulk.Reset()
		return err
	}
	for i := range b.Put {
		e := &b.Put[i]
		if err := lines.Encode(object{"index": object{"_id": e.ID.String()}}); err != nil {
			return changed, unavailable(err)
		}
		if err := lines.Encode(document(e)); err != nil {
			return changed, unavailable(err)
		}
		if err := flush(maxBulk); err != nil {
			return changed, err
		}
	}
	for _, id := range b.Remove {
		if err := lines.Encode(object{"delete": object{"_id": id.String()}}); err != nil {
			return changed, unavailable(err)
		}
		if err := flush(maxBulk); err != nil {
			return changed, err
		}
	}
	return changed, flush(0)
}

// bulk sends lines and checks the result of each line, because a bulk request succeeds even if all
// its lines fail.
func (x *Index) bulk(ctx context.Context, lines []byte) error {
	var answer struct {
		Errors bool
		Items  []map[string]struct {
			ID     string `json:"_id"`
			Status int
			Error  *struct{ Type, Reason string }
		}
	}
	err := x.send(ctx, request{http.MethodPost, "/" + x.name + "/_bulk", url.Values{"require_alias": {"true"}}, lines}, &answer)
	if err != nil || !answer.Errors {
		return err
	}
	for _, item := range answer.Items {
		for action, did := range item {
			if did.Error != nil {
				return unavailable(fmt.Errorf("%s of %s: %w", action, did.ID, &answerError{did.Status, did.Error.Type, did.Error.Reason}))
			}
		}
	}
	return unavailable(fmt.Errorf("OpenSearch reported errors in a batch but did not say which items failed"))
}
