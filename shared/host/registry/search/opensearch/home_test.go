package opensearch_test

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/registry/registrytest"
	"github.com/vacancy-host/vacancy/shared/host/registry/search"
	"github.com/vacancy-host/vacancy/shared/host/registry/search/live"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// A host with its index in a cluster: a vacant is published, indexed by the
// feed of changes and found; unpublished, it disappears although the index
// still has it.
func TestAHostFindsItsVacantsInTheCluster(t *testing.T) {
	clock := registrytest.NewClock()
	home := registrytest.Open(memory.New(), clock)
	publish := func(n int, seq int64, text string, v lifecycle.Visibility) identity.ID {
		t.Helper()
		k := registrytest.Key(n)
		if _, err := home.Publish(t.Context(), registrytest.Publication(t, k, registrytest.Draft{
			Text: text, State: lifecycle.Active, Visibility: v, Seq: seq, Key: fmt.Sprint(seq), At: clock.Now(),
		})); err != nil {
			t.Fatalf("Publish() = %v", err)
		}
		registrytest.Reach(t, home)
		return k.ID()
	}
	x := opened(t, nil, fresh())
	follow := live.New(x, home, clock.Now)
	finder := search.New(search.Config{Index: x, Registry: home, Now: clock.Now, Log: slog.New(slog.DiscardHandler)})
	find := func(query string, want ...identity.ID) {
		t.Helper()
		page, err := finder.Find(t.Context(), search.Request{Query: query})
		if err != nil {
			t.Fatalf("Find(%s) = %v", query, err)
		}
		var got []identity.ID
		for _, m := range page.Matches {
			got = append(got, m.Registration.ID)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Find(%s) (-want +got):\n%s", query, diff)
		}
	}
	catchUp := func() {
		t.Helper()
		if err := follow.CatchUp(t.Context()); err != nil {
			t.Fatalf("CatchUp() = %v", err)
		}
	}
	first := publish(1, 1, "translates contracts", lifecycle.Public)
	second := publish(2, 1, "合同翻译 into English", lifecycle.Public)
	third := publish(3, 1, "Translation of anything", lifecycle.Public)
	catchUp()
	find("translat", first, third)
	find("翻译", second)
	find("ontract", first)

	publish(3, 2, "Translation of anything", lifecycle.Hidden)
	find("translat", first) // the index does not have it yet
	catchUp()
	find("translat", first)
	if n, err := x.Count(t.Context()); err != nil || n != 2 {
		t.Errorf("Count() = %d, %v, want 2", n, err)
	}

	another := opened(t, nil, fresh())
	if err := live.Rebuild(t.Context(), another, home, clock.Now, func(live.Progress) {}); err != nil {
		t.Fatalf("Rebuild() = %v", err)
	}
	mark, err := x.Mark(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	marked(t, another, mark)
	if n, err := another.Count(t.Context()); err != nil || n != 2 {
		t.Errorf("Count() of an index made again = %d, %v, want 2", n, err)
	}
}
