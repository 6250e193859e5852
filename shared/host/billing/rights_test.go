package billing_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

// A key makes no key that may do more than itself.
func TestAKeyMakesNoGreaterKey(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", 0, money.Dollar)
	end := w.clock.NowFunc(0)().Add(24 * time.Hour)
	all := []billing.Scope{billing.ScopeCall, billing.ScopeRead, billing.ScopeManage}
	makers := map[string]billing.KeyOptions{
		"whole":    {Scopes: all},
		"test":     {Test: true, Scopes: all},
		"capped":   {DailyCap: money.Dollar, Scopes: all},
		"bounded":  {MaxPrice: money.Dollar, Scopes: all},
		"expiring": {Expires: end, Scopes: all},
		"manage":   {Scopes: all[2:]},
		"agp":      {Tier: billing.Pro, AgentIDs: []string{"a", "b"}, Scopes: append([]billing.Scope{billing.ScopeAGP}, all...)},
		"vacants":  {Scopes: append([]billing.Scope{billing.ScopeVacants}, all...)},
	}
	call, manage, agp := all[:1], all[2:], []billing.Scope{billing.ScopeAGP}
	for _, c := range []struct {
		maker string
		o     billing.KeyOptions
		field string // field of the refusal; "" if the key is made
	}{
		{"whole", billing.KeyOptions{}, ""},
		{"whole", billing.KeyOptions{DailyCap: 5 * money.Dollar, Expires: end}, ""},
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
		{"capped", billing.KeyOptions{Scopes: call, DailyCap: 1}, "scopes"},
		{"capped", billing.KeyOptions{Scopes: manage}, "cap"},
		{"capped", billing.KeyOptions{Scopes: manage, DailyCap: money.Dollar + 1}, "cap"},
		{"capped", billing.KeyOptions{Scopes: manage, DailyCap: money.Dollar}, ""},
		{"whole", billing.KeyOptions{MaxPrice: money.Dollar}, ""},
		{"bounded", billing.KeyOptions{}, "most"},
		{"bounded", billing.KeyOptions{MaxPrice: money.Dollar + 1}, "most"},
		{"bounded", billing.KeyOptions{MaxPrice: money.Dollar, Scopes: all}, ""},
		{"expiring", billing.KeyOptions{}, "expires"},
		{"expiring", billing.KeyOptions{Expires: end.Add(time.Second)}, "expires"},
		{"expiring", billing.KeyOptions{Expires: end}, ""},
		{"agp", billing.KeyOptions{Tier: billing.Pro, AgentIDs: []string{"a"}}, "tier"},
		{"agp", billing.KeyOptions{Tier: billing.Free, Scopes: agp}, "agent_ids"},
		{"agp", billing.KeyOptions{Tier: billing.Free, Scopes: agp, AgentIDs: []string{"a", "c"}}, "agent_ids"},
		{"agp", billing.KeyOptions{Tier: billing.Free, Scopes: agp, AgentIDs: []string{"b"}}, ""},
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
			if k.DailyCap > maker.DailyCap && maker.DailyCap > 0 || k.MaxPrice > maker.MaxPrice && maker.MaxPrice > 0 || maker.Test && !k.Test || k.HasScope(billing.ScopeManage) && !maker.HasScope(billing.ScopeManage) {
				t.Errorf("%s: %+v", what, k)
			}
			continue
		}
		if !problem.Is(err, problem.Forbidden) || !strings.Contains(err.Error(), c.field+":") || len(after) != len(before) {
			t.Errorf("%s = %v, %d keys more, want a refusal of %s", what, err, len(after)-len(before), c.field)
		}
	}
}

// No key manages unless it is asked for.
func TestKeysDoNotManageByDefault(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", 0, 0)
	for what, c := range map[string]struct {
		o      billing.KeyOptions
		manage bool
	}{
		"a key":                  {billing.KeyOptions{}, false},
		"a test key":             {billing.KeyOptions{Test: true}, false},
		"a capped key":           {billing.KeyOptions{DailyCap: 1}, false},
		"a key with a bound":     {billing.KeyOptions{MaxPrice: 1}, false},
		"an expiring key":        {billing.KeyOptions{Expires: w.clock.NowFunc(0)().Add(time.Hour)}, false},
		"one that is asked to":   {billing.KeyOptions{DailyCap: 1, Scopes: []billing.Scope{billing.ScopeManage}}, true},
		"one of AGP":             {billing.KeyOptions{Tier: billing.Free}, false},
		"a test key for all":     {billing.KeyOptions{Test: true, Scopes: []billing.Scope{billing.ScopeManage}}, true},
		"a key that manages":     {billing.KeyOptions{Scopes: []billing.Scope{billing.ScopeManage}}, true},
		"a key that only calls":  {billing.KeyOptions{Scopes: []billing.Scope{billing.ScopeCall}}, false},
		"a capped key of AGP":    {billing.KeyOptions{Tier: billing.Pro, DailyCap: 1}, false},
		"an expiring test key":   {billing.KeyOptions{Test: true, Expires: w.clock.NowFunc(0)().Add(time.Hour)}, false},
		"a capped, expiring key": {billing.KeyOptions{DailyCap: 1, Expires: w.clock.NowFunc(0)().Add(time.Hour)}, false},
	} {
		k, _, err := w.billing.MakeKey(t.Context(), a.ID, c.o)
		w.must(err)
		if k.HasScope(billing.ScopeManage) != c.manage {
			t.Errorf("%s: scopes %v", what, k.Scopes)
		}
	}
}

// For a test key there is no live key, revoked or not.
func TestATestKeyRevokesTestKeysOnly(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", 0, 0)
	key := func(o billing.KeyOptions) billing.Key {
		k, _, err := w.billing.MakeKey(t.Context(), a.ID, o)
		w.must(err)
		return k
	}
	tester := key(billing.KeyOptions{Test: true, Scopes: []billing.Scope{billing.ScopeManage}})
	one := key(billing.KeyOptions{})
	_, err := w.billing.RevokeKey(t.Context(), &tester, a.ID, one.ID)
	w.wantRefusal("a test key revokes a live one", err, problem.NotFound)
	_, err = w.billing.RevokeKey(t.Context(), nil, a.ID, one.ID)
	w.must(err)
	_, err = w.billing.RevokeKey(t.Context(), &tester, a.ID, one.ID)
	w.wantRefusal("a test key revokes a live one again", err, problem.NotFound)
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
			want = []billing.ChangeKind{billing.KeyMade, billing.KeyRevoked, billing.TreeEnded}
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
	end := w.clock.NowFunc(0)().Add(time.Hour)
	maker, _, err = w.billing.MakeKey(t.Context(), a.ID, billing.KeyOptions{Expires: end, Test: true, Scopes: []billing.Scope{billing.ScopeManage}})
	w.must(err)
	w.clock.Advance(time.Hour - time.Nanosecond) // the new key would end with its maker
	late := billing.New(w.billing.Config)
	late.Store = &interrupted{Store: w.store, read: func() { w.clock.Advance(time.Nanosecond) }}
	_, _, err = late.MakeKeyBy(t.Context(), &maker, a.ID, billing.KeyOptions{Expires: end, Test: true, Scopes: []billing.Scope{billing.ScopeManage}})
	if !errors.Is(err, billing.ErrExpiredKey) {
		t.Errorf("an expired key makes a key: %v, want %v", err, billing.ErrExpiredKey)
	}
}

// interrupted calls read before the first read of an account, and commit before the first
// commit.
type interrupted struct {
	store.Store
	reads, commits sync.Once
	read, commit   func()
}

func (s *interrupted) Doc(ctx context.Context, k store.Key) (store.Doc, error) {
	if k.Sort == "account" && s.read != nil {
		s.reads.Do(s.read)
	}
	return s.Store.Doc(ctx, k)
}

func (s *interrupted) Commit(ctx context.Context, writes ...store.Write) error {
	if s.commit != nil {
		s.commits.Do(s.commit)
	}
	return s.Store.Commit(ctx, writes...)
}

// Of a revocation and a change that the revoked key asks for, one commits first, and the
// other one sees it.
func TestAKeyThatIsRevokedGainsNothing(t *testing.T) {
	for what, change := range map[string]func(w *world, b *billing.Billing, a billing.Account, by *billing.Key) error{
		"a key": func(_ *world, b *billing.Billing, a billing.Account, by *billing.Key) error {
			_, _, err := b.MakeKeyBy(context.Background(), by, a.ID, billing.KeyOptions{})
			return err
		},
		"a link": func(w *world, b *billing.Billing, a billing.Account, by *billing.Key) error {
			_, err := b.LinkBy(context.Background(), by, a.ID, w.caller().claim(a.ID, 0))
			return err
		},
	} {
		w := newWorld(t)
		a := w.account("acme", 1, 0)
		all := func() (keys []billing.Key, n int) {
			keys, err := w.billing.Keys(t.Context(), a.ID)
			w.must(err)
			links, err := w.billing.Links(t.Context(), a.ID)
			w.must(err)
			return keys, len(keys) + len(links)
		}
		maker, _, err := w.billing.MakeKey(t.Context(), a.ID, billing.KeyOptions{})
		w.must(err)
		revoke := func(b *billing.Billing) {
			_, err := b.RevokeKey(context.Background(), nil, a.ID, maker.ID)
			w.must(err)
		}
		err = change(w, w.instance(&interrupted{Store: w.store, commit: func() { revoke(w.billing) }}), a, &maker)
		if _, n := all(); !errors.Is(err, billing.ErrRevokedKey) || n != 1 {
			t.Errorf("%s by a key that is revoked meanwhile: %v, %d keys and links, want a refusal", what, err, n)
		}
		maker, _, err = w.billing.MakeKey(t.Context(), a.ID, billing.KeyOptions{})
		w.must(err)
		revoke(w.instance(&interrupted{Store: w.store, commit: func() { w.must(change(w, w.billing, a, &maker)) }}))
		keys, n := all()
		if slices.ContainsFunc(keys, func(k billing.Key) bool { return k.RevokedAt.IsZero() }) || n != len(keys) {
			t.Errorf("a key that is revoked while it makes %s leaves %d links and the keys %+v", what, n-len(keys), keys)
		}
		w.wantRefusal(what+" afterwards", change(w, w.billing, a, &maker), problem.Unauthorized)
	}
}

// A link spends without the key that made it, so the key must be one that may spend as much.
func TestALinkSpendsNoMoreThanItsMaker(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", 1, 0)
	call, manage := billing.ScopeCall, billing.ScopeManage
	for what, c := range map[string]struct {
		o    billing.KeyOptions
		want problem.Kind
	}{
		"a key":            {billing.KeyOptions{}, 0},
		"a test key":       {billing.KeyOptions{Test: true, Scopes: []billing.Scope{call, manage}}, problem.TestKeyNotAllowed},
		"one that manages": {billing.KeyOptions{Scopes: []billing.Scope{manage}}, problem.ScopeRequired},
		"one of AGP":       {billing.KeyOptions{Tier: billing.Pro, Scopes: []billing.Scope{billing.ScopeAGP, manage}}, problem.ScopeRequired},
		"a capped one":     {billing.KeyOptions{Scopes: []billing.Scope{call, manage}, DailyCap: 10}, problem.Forbidden},
		"one with a bound": {billing.KeyOptions{Scopes: []billing.Scope{call, manage}, MaxPrice: 10}, problem.Forbidden},
		"an expiring one":  {billing.KeyOptions{Scopes: []billing.Scope{call, manage}, Expires: w.clock.NowFunc(0)().Add(time.Hour)}, problem.Forbidden},
	} {
		k, _, err := w.billing.MakeKey(t.Context(), a.ID, c.o)
		w.must(err)
		if k.CanLink() != (c.want == 0) {
			t.Errorf("CanLink() of %s = %t", what, k.CanLink())
		}
		// A cap in the claim helps nobody: a key makes any number of links.
		_, err = w.billing.LinkBy(t.Context(), &k, a.ID, w.caller().claim(a.ID, 5))
		if c.want == 0 {
			w.must(err)
			continue
		}
		w.wantRefusal("a link by "+what, err, c.want)
	}
	links, err := w.billing.Links(t.Context(), a.ID)
	w.must(err)
	if len(links) != 1 {
		t.Errorf("%d links, want 1", len(links))
	}
}

// A key that another key made has at most its maker's rights, and so have the
// keys that it makes.
func TestKeysOfKeysAreWithinTheFirst(test *testing.T) {
	rapid.Check(test, func(t *rapid.T) {
		w := newWorld(test)
		a := w.account("acme", 1, 0)
		draw := func(by *billing.Key) (billing.Key, error) {
			o := billing.KeyOptions{
				Test: rapid.Bool().Draw(t, "test"), DailyCap: rapid.SampledFrom([]money.Amount{0, 0, 5, 10}).Draw(t, "cap"),
				MaxPrice: rapid.SampledFrom([]money.Amount{0, 0, 5, 10}).Draw(t, "most"),
				Tier:     rapid.SampledFrom([]billing.Tier{billing.NoTier, billing.Free, billing.Pro}).Draw(t, "tier"),
				AgentIDs: rapid.SampledFrom([][]string{nil, nil, {"a"}, {"b"}}).Draw(t, "agents"),
			}
			if hours := rapid.IntRange(0, 3).Draw(t, "hours"); hours > 0 {
				o.Expires = w.clock.NowFunc(0)().Add(time.Duration(hours) * time.Hour)
			}
			for _, s := range billing.Scopes() {
				if rapid.Bool().Draw(t, string(s)) {
					o.Scopes = append(o.Scopes, s)
				}
			}
			k, _, err := w.billing.MakeKeyBy(context.Background(), by, a.ID, o)
			return k, err
		}
		first, err := draw(nil)
		if err != nil {
			t.Skip("no key")
		}
		by := first
		for range 3 {
			k, err := draw(&by)
			if err != nil {
				continue
			}
			books := k.HasScope(billing.ScopeAGP) && k.Tier != billing.Free
			switch f := first; {
			case slices.ContainsFunc(k.Scopes, func(s billing.Scope) bool { return !f.HasScope(s) && s != billing.ScopeAGP }), books && !f.HasScope(billing.ScopeAGP),
				f.Test && !k.Test, f.MaxPrice > 0 && (k.MaxPrice == 0 || k.MaxPrice > f.MaxPrice), f.DailyCap > 0 && (k.HasScope(billing.ScopeCall) || books),
				!f.Expires.IsZero() && (k.Expires.IsZero() || k.Expires.After(f.Expires)):
				t.Fatalf("%+v led to %+v, which may do more", f, k)
			}
			by = k
		}
	})
}

// A key ends at its instant, not after it.
func TestAKeyEndsAtItsInstant(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", 0, 0)
	end := w.clock.NowFunc(0)().Add(time.Hour).Truncate(time.Second)
	_, secret, err := w.billing.MakeKey(t.Context(), a.ID, billing.KeyOptions{Expires: end})
	w.must(err)
	w.clock.Advance(end.Sub(w.clock.NowFunc(0)()) - time.Nanosecond)
	if _, err := w.billing.Authenticate(t.Context(), secret); err != nil {
		t.Errorf("a nanosecond before its end: %v", err)
	}
	w.clock.Advance(time.Nanosecond)
	_, err = w.billing.Authenticate(t.Context(), secret)
	w.wantRefusal("at its end", err, problem.Unauthorized)
}

// All keys of tier free of an account share one daily quota.
func TestFreeKeysShareTheQuotaOfTheirAccount(t *testing.T) {
	w := newWorld(t)
	a, b := w.account("acme", 0, 0), w.account("other", 0, 0)
	use := func(account billing.Account, o billing.KeyOptions) error {
		k, _, err := w.billing.MakeKey(t.Context(), account.ID, o)
		w.must(err)
		w.clock.Advance(time.Second)
		if left, err := w.billing.CheckQuota(t.Context(), &k); err != nil {
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
	w.wantRefusal("the 101st request of an account, with a new key", use(a, free), problem.TooManyRequests)
	for what, c := range map[string]struct {
		account billing.Account
		o       billing.KeyOptions
	}{
		"another account":          {b, free},
		"a key of tier pro":        {a, billing.KeyOptions{Tier: billing.Pro}},
		"a key with its own quota": {a, billing.KeyOptions{Tier: billing.Free, Quota: 5}},
		"a test key":               {a, billing.KeyOptions{Tier: billing.Free, Test: true}},
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
