package billing_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/billing/money"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

// A key makes no key that may do more than itself.
func TestAKeyMakesNoGreaterKey(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", 0, money.Dollar)
	end := w.clock.Now(0)().Add(24 * time.Hour)
	all := []billing.Scope{billing.ScopeCall, billing.ScopeRead, billing.ScopeManage}
	makers := map[string]billing.KeyOptions{
		"whole":    {},
		"test":     {Test: true, Scopes: all},
		"capped":   {Cap: money.Dollar, Scopes: all},
		"expiring": {Expires: end, Scopes: all},
		"manage":   {Scopes: all[2:]},
		"agp":      {Tier: billing.Pro, Agents: []string{"a", "b"}, Scopes: append([]billing.Scope{billing.ScopeAGP}, all...)},
		"vacants":  {Scopes: append([]billing.Scope{billing.ScopeVacants}, all...)},
	}
	call, manage, agp := all[:1], all[2:], []billing.Scope{billing.ScopeAGP}
	for _, c := range []struct {
		maker string
		o     billing.KeyOptions
		field string // of the refusal; "": the key is made
	}{
		{"whole", billing.KeyOptions{}, ""},
		{"whole", billing.KeyOptions{Cap: 5 * money.Dollar, Expires: end}, ""},
		{"whole", billing.KeyOptions{Test: true}, ""},
		{"whole", billing.KeyOptions{Tier: billing.Free}, ""},
		{"whole", billing.KeyOptions{Tier: billing.Pro}, "scopes"},
		{"whole", billing.KeyOptions{Tier: billing.Free, Quota: 1000}, "tier"},
		{"whole", billing.KeyOptions{Scopes: []billing.Scope{billing.ScopeVacants}}, "scopes"},
		{"vacants", billing.KeyOptions{Scopes: []billing.Scope{billing.ScopeVacants}}, "scopes"},
		{"manage", billing.KeyOptions{}, "scopes"},
		{"manage", billing.KeyOptions{Scopes: call}, "scopes"},
		{"manage", billing.KeyOptions{Scopes: manage}, ""},
		{"test", billing.KeyOptions{}, "test"},
		{"test", billing.KeyOptions{Test: true}, ""},
		{"test", billing.KeyOptions{Test: true, Scopes: all}, ""},
		{"capped", billing.KeyOptions{}, "scopes"},
		{"capped", billing.KeyOptions{Scopes: call, Cap: 1}, "scopes"},
		{"capped", billing.KeyOptions{Scopes: manage}, "cap"},
		{"capped", billing.KeyOptions{Scopes: manage, Cap: money.Dollar + 1}, "cap"},
		{"capped", billing.KeyOptions{Scopes: manage, Cap: money.Dollar}, ""},
		{"expiring", billing.KeyOptions{}, "expires"},
		{"expiring", billing.KeyOptions{Expires: end.Add(time.Second)}, "expires"},
		{"expiring", billing.KeyOptions{Expires: end}, ""},
		{"agp", billing.KeyOptions{Tier: billing.Pro, Agents: []string{"a"}}, "tier"},
		{"agp", billing.KeyOptions{Tier: billing.Free, Scopes: agp}, "agent_ids"},
		{"agp", billing.KeyOptions{Tier: billing.Free, Scopes: agp, Agents: []string{"a", "c"}}, "agent_ids"},
		{"agp", billing.KeyOptions{Tier: billing.Free, Scopes: agp, Agents: []string{"b"}}, ""},
	} {
		maker, _, err := w.billing.MakeKey(t.Context(), a.ID, makers[c.maker])
		w.must(err)
		before, err := w.billing.Keys(t.Context(), a.ID)
		w.must(err)
		k, _, err := w.billing.MakeKeyBy(t.Context(), &maker, a.ID, c.o)
		after, listErr := w.billing.Keys(t.Context(), a.ID)
		w.must(listErr)
		what := fmt.Sprintf("%s makes %+v", c.maker, c.o)
		if c.field == "" {
			if err != nil || len(after) != len(before)+1 {
				t.Errorf("%s: %v", what, err)
			}
			if k.Cap > maker.Cap && maker.Cap > 0 || maker.Test && !k.Test || k.Has(billing.ScopeManage) && !maker.Has(billing.ScopeManage) {
				t.Errorf("%s: %+v", what, k)
			}
			continue
		}
		if !problem.Is(err, problem.Forbidden) || !strings.Contains(err.Error(), c.field+":") || len(after) != len(before) {
			t.Errorf("%s = %v, %d keys more, want a refusal of %s", what, err, len(after)-len(before), c.field)
		}
	}
}

// Only keys without limits manage unless they are asked for it.
func TestKeysWithLimitsDoNotManageByDefault(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", 0, 0)
	for what, c := range map[string]struct {
		o      billing.KeyOptions
		manage bool
		link   bool
	}{
		"a key":                  {billing.KeyOptions{}, true, true},
		"a test key":             {billing.KeyOptions{Test: true}, false, false},
		"a capped key":           {billing.KeyOptions{Cap: 1}, false, false},
		"an expiring key":        {billing.KeyOptions{Expires: w.clock.Now(0)().Add(time.Hour)}, false, false},
		"one that is asked to":   {billing.KeyOptions{Cap: 1, Scopes: []billing.Scope{billing.ScopeManage}}, true, false},
		"one of AGP":             {billing.KeyOptions{Tier: billing.Free}, false, true},
		"a test key for all":     {billing.KeyOptions{Test: true, Scopes: []billing.Scope{billing.ScopeManage}}, true, false},
		"a key that manages":     {billing.KeyOptions{Scopes: []billing.Scope{billing.ScopeManage}}, true, true},
		"a key that only calls":  {billing.KeyOptions{Scopes: []billing.Scope{billing.ScopeCall}}, false, true},
		"a capped key of AGP":    {billing.KeyOptions{Tier: billing.Pro, Cap: 1}, false, false},
		"an expiring test key":   {billing.KeyOptions{Test: true, Expires: w.clock.Now(0)().Add(time.Hour)}, false, false},
		"a capped, expiring key": {billing.KeyOptions{Cap: 1, Expires: w.clock.Now(0)().Add(time.Hour)}, false, false},
	} {
		k, _, err := w.billing.MakeKey(t.Context(), a.ID, c.o)
		w.must(err)
		if k.Has(billing.ScopeManage) != c.manage || (k.MayLink() == nil) != c.link {
			t.Errorf("%s: scopes %v, MayLink() = %v", what, k.Scopes, k.MayLink())
		}
	}
}

func TestATestKeyRevokesTestKeysOnly(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", 0, 0)
	key := func(o billing.KeyOptions) billing.Key {
		k, _, err := w.billing.MakeKey(t.Context(), a.ID, o)
		w.must(err)
		return k
	}
	tester := key(billing.KeyOptions{Test: true, Scopes: []billing.Scope{billing.ScopeManage}})
	_, err := w.billing.RevokeKey(t.Context(), &tester, a.ID, key(billing.KeyOptions{}).ID)
	w.wantRefusal("a test key revokes a live one", err, problem.TestKey)
	_, err = w.billing.RevokeKey(t.Context(), &tester, a.ID, key(billing.KeyOptions{Test: true}).ID)
	w.must(err)
}

// A key that is revoked while it makes another: either the other was made before, or it is
// not made at all.
func TestAKeyThatIsRevokedMakesNoKey(t *testing.T) {
	for range 50 {
		w := newWorld(t)
		a := w.account("acme", 0, 0)
		maker, _, err := w.billing.MakeKey(t.Context(), a.ID, billing.KeyOptions{})
		w.must(err)
		var revoked, made error
		var all sync.WaitGroup
		all.Go(func() { _, revoked = w.billing.RevokeKey(context.Background(), nil, a.ID, maker.ID) })
		all.Go(func() { _, _, made = w.billing.MakeKeyBy(context.Background(), &maker, a.ID, billing.KeyOptions{}) })
		all.Wait()
		w.must(revoked)
		changes, err := w.billing.Changes(t.Context(), a.ID, 1, 100)
		w.must(err)
		var kinds []billing.ChangeKind
		for _, c := range changes[2:] { // opened, and the maker made
			kinds = append(kinds, c.Kind)
		}
		want := []billing.ChangeKind{billing.KeyRevoked}
		if made == nil {
			want = []billing.ChangeKind{billing.KeyMade, billing.KeyRevoked}
		} else {
			w.wantRefusal("a revoked key makes a key", made, problem.Unauthorized)
		}
		if fmt.Sprint(kinds) != fmt.Sprint(want) {
			t.Fatalf("changes %v with %v, want %v", kinds, made, want)
		}
	}
	// Between its authentication and the commit.
	w := newWorld(t)
	a := w.account("acme", 0, 0)
	maker, _, err := w.billing.MakeKey(t.Context(), a.ID, billing.KeyOptions{})
	w.must(err)
	_, err = w.billing.RevokeKey(t.Context(), nil, a.ID, maker.ID)
	w.must(err)
	_, _, err = w.billing.MakeKeyBy(t.Context(), &maker, a.ID, billing.KeyOptions{})
	w.wantRefusal("a revoked key makes a key", err, problem.Unauthorized)
}

// A key ends at its instant, not after it.
func TestAKeyEndsAtItsInstant(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", 0, 0)
	end := w.clock.Now(0)().Add(time.Hour).Truncate(time.Second)
	_, secret, err := w.billing.MakeKey(t.Context(), a.ID, billing.KeyOptions{Expires: end})
	w.must(err)
	w.clock.Advance(end.Sub(w.clock.Now(0)()) - time.Nanosecond)
	if _, err := w.billing.Authenticate(t.Context(), secret); err != nil {
		t.Errorf("a nanosecond before its end: %v", err)
	}
	w.clock.Advance(time.Nanosecond)
	_, err = w.billing.Authenticate(t.Context(), secret)
	w.wantRefusal("at its end", err, problem.Unauthorized)
}

// The requests of a day with tier free are those of all such keys of an account.
func TestFreeKeysShareTheQuotaOfTheirAccount(t *testing.T) {
	w := newWorld(t)
	a, b := w.account("acme", 0, 0), w.account("other", 0, 0)
	use := func(account billing.Account, o billing.KeyOptions) error {
		k, _, err := w.billing.MakeKey(t.Context(), account.ID, o)
		w.must(err)
		w.clock.Advance(time.Second)
		if left, err := w.billing.CheckUse(t.Context(), &k); err != nil {
			return err
		} else if left.Limit == 0 && o.Tier == billing.Free {
			t.Error("a free key has no limit")
		}
		return store.Updater{Store: w.store, Rand: rand.Reader, Wait: func(context.Context, time.Duration) error { return nil }}.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
			_, _, err := w.billing.CountUse(ctx, tx, &k, "agent")
			return err
		})
	}
	free := billing.KeyOptions{Tier: billing.Free}
	for n := range 100 {
		if err := use(a, free); err != nil {
			t.Fatalf("request %d of the day: %v", n+1, err)
		}
	}
	w.wantRefusal("the 101st request of an account, with a new key", use(a, free), problem.TooMany)
	for what, c := range map[string]struct {
		account billing.Account
		o       billing.KeyOptions
	}{
		"another account":          {b, free},
		"a key of tier pro":        {a, billing.KeyOptions{Tier: billing.Pro}},
		"a key with its own quota": {a, billing.KeyOptions{Tier: billing.Free, Quota: 5}},
	} {
		if err := use(c.account, c.o); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	w.clock.Advance(24 * time.Hour)
	if err := use(a, free); err != nil {
		t.Errorf("the next day: %v", err)
	}
}
