package registryclient_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/client/registryclient"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/trust/reputation"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/review"
)

// generated is a host that makes the reviews of a vacant while they are read, page by page.
type generated struct {
	t      *testing.T
	target identity.ID
	total  uint64
	record review.Record
	book   reputation.Book // of the pages that were read
	whole  reputation.Book
	inUse  uint64 // bytes of the heap at the last page
}

func (g *generated) row(b *reputation.Book) []byte {
	row := review.NewRow(g.record, nil)
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(b.Rows) * time.Minute)
	row.Prev, row.At, row.AnsweredAt, row.Class, row.ReviewNumber, row.Substrate = b.Tip, at, at, review.ClassQuarter, 1, "echo"
	row.Weights = b.ComputeWeights(g.record.Ratings, row.Class, reputation.Factors{Source: reputation.SourceCallerReview, ReviewNumber: 1}, at)
	data, err := json.Marshal(row)
	if err == nil {
		err = b.Add(&row, data)
	}
	if err != nil {
		g.t.Fatal(err)
	}
	return data
}

func (g *generated) Do(_ context.Context, r outbound.Request) (outbound.Reply, error) {
	u, err := url.Parse(r.URL)
	if err != nil {
		return outbound.Reply{}, err
	}
	var answer any = registryclient.Reputation{ID: g.target, Earned: registryclient.Earned{Score: g.whole.State().EarnedScore(), Evidence: g.whole.State().Evidence()}, Book: g.whole}
	if strings.HasPrefix(u.Path, "/v1/reputation_history/") {
		var page registryclient.History
		for len(page.Reviews) < registryclient.MaxReviewsPerPage && g.book.Rows < g.total {
			page.Reviews = append(page.Reviews, registryclient.Review{Position: g.book.Rows + 1, Row: g.row(&g.book)})
		}
		if g.book.Rows < g.total {
			page.Next = strconv.FormatUint(g.book.Rows+1, 10)
		} else {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			g.inUse = m.HeapAlloc
		}
		answer = page
	}
	body, err := json.Marshal(answer)
	return outbound.Reply{Status: http.StatusOK, Body: body}, err
}

func recounted(t *testing.T, total uint64, spoil func(*generated)) (uint64, error) {
	t.Helper()
	key, err := identity.KeyFromSeed(make([]byte, identity.Size))
	if err != nil {
		t.Fatal(err)
	}
	g := &generated{t: t, target: key.ID(), total: total}
	g.record = review.Record{Members: review.Members{
		Target: g.target, Ratings: review.Ratings{"factual": 1, "logical": 0.5, "relevance": 1}, CallHash: identity.Hash{1}, IssuedAt: canon.FormatTime(time.Unix(1_700_000_000, 0)),
	}}
	if err := g.record.Sign(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	for range total {
		g.row(&g.whole)
	}
	if spoil != nil {
		spoil(g)
	}
	c := registryclient.Client{Transport: g, URL: "http://127.0.0.1:1"}
	_, _, err = c.Recount(t.Context(), g.target)
	return g.inUse, err
}

func TestARecountKeepsOnePageInMemory(t *testing.T) {
	rows := uint64(100_000)
	if testing.Short() {
		rows = 2000
	}
	few, err := recounted(t, 500, nil)
	if err != nil {
		t.Fatal(err)
	}
	many, err := recounted(t, rows, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d KiB in use at the last of 500 reviews, %d KiB at the last of %d", few>>10, many>>10, rows)
	if many > few+4<<20 {
		t.Errorf("a recount of %d reviews keeps %d KiB, want not much more than the %d KiB of 500", rows, many>>10, few>>10)
	}
	for what, spoil := range map[string]func(*generated){
		"a score":  func(g *generated) { s := g.whole.States["echo"]; s.Logical.Alpha += 1e-6; g.whole.States["echo"] = s },
		"a number": func(g *generated) { g.whole.Rows++ },
	} {
		if _, err := recounted(t, 150, spoil); !problem.Is(err, problem.Untrusted) {
			t.Errorf("%s: Recount() = %v, want %v", what, err, problem.Untrusted)
		}
	}
}
