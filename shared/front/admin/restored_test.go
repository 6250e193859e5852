package admin_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

// metered is a store that counts commits and fails those to one document.
type metered struct {
	store.Store
	commits int
	broken  store.Key
}

func (m *metered) Commit(ctx context.Context, writes ...store.Write) error {
	for _, w := range writes {
		if put, ok := w.(store.Put); ok && put.Key == m.broken {
			return errors.New("out of order")
		}
	}
	m.commits++
	return m.Store.Commit(ctx, writes...)
}

// A function has half a minute for a request, and a host any number of vacants.
// One request could set the floors of only the first few hundred.
func TestARestoreIsToldPageByPage(t *testing.T) {
	const count = 120
	m := &metered{}
	var v *vacants.Directory
	h := newTestServer(t, func(c *admin.Config) { c.AllowedHost, v = "", c.Vacants })
	for i := range count {
		if w := h.ask("POST", "/v1/admin/vacants", fmt.Sprintf(`{"name":"v%03d","capability":"c"}`, i)); w.Code != 201 {
			t.Fatalf("create = %d %s", w.Code, w.Body)
		}
	}
	m.Store, v.Store = v.Store, m
	most := 0
	s := httptest.NewServer(h.handler)
	t.Cleanup(s.Close)
	c := &admin.Client{HTTP: s.Client(), URL: s.URL}
	for cursor, more := "", true; more; {
		before := m.commits
		w := h.ask("POST", "/v1/admin/restored?cursor="+cursor, "")
		most = max(most, m.commits-before)
		_, next, _ := strings.Cut(w.Body.String(), `"next":"`)
		cursor, _, _ = strings.Cut(next, `"`)
		more = w.Code == 200 && cursor != ""
	}
	if m.commits != count || most > 50 {
		t.Errorf("%d vacants changed, up to %d by one request; want %d, at most 50", m.commits, most, count)
	}
	if all, err := c.ReportRestore(t.Context()); all.VacantCount != count || all.LatestFloor.IsZero() || err != nil {
		t.Errorf("Restored() = %+v, %v, want %d, and until when they refuse", all, err, count)
	}
	// A vacant that fails does not keep the others from their floor.
	r, err := v.GetByName(t.Context(), vacants.OperatorAsker(), "v007")
	must(t, err)
	m.broken = vacants.RecordKey(r.ID)
	all, err := c.ReportRestore(t.Context())
	if all.VacantCount != count-1 || err == nil || !strings.Contains(problem.AsError(err).Text(), "119 vacants accept only messages signed later than five minutes from now, 1 could not be changed") {
		t.Errorf("Restored() with one out of order = %+v, %v, want %d, and why", all, err, count-1)
	}
	if w := h.ask("POST", "/v1/admin/restored?cursor=odd", ""); w.Code != 400 {
		t.Errorf("POST with an odd cursor = %d %s, want 400", w.Code, w.Body)
	}
}
