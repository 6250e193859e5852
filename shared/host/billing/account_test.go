package billing_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

func TestATenantHasOneAccount(t *testing.T) {
	w := newWorld(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { _, _ = w.billing.OpenAccount(context.Background(), "acme", 0) })
	}
	all.Wait()
	_, err := w.billing.OpenAccount(t.Context(), "acme", 16)
	w.wantRefusal("OpenAccount() again", err, problem.Conflict)
	_, err = w.billing.OpenAccount(t.Context(), "--help", 1)
	w.wantRefusal("OpenAccount() of a flag", err, problem.Malformed)
	a, err := w.billing.FindAccount(t.Context(), "acme")
	w.must(err)
	if a.Shards != billing.DefaultShards || len(a.ID) != 64 {
		t.Errorf("FindAccount() = %+v", a)
	}
	if byID, err := w.billing.FindAccount(t.Context(), a.ID); err != nil || !reflect.DeepEqual(byID, a) {
		t.Errorf("FindAccount(id) = %+v, %v", byID, err)
	}
	for field, err := range map[string]error{
		"shards": func() error { _, err := w.billing.OpenAccount(t.Context(), "b", 3); return err }(),
		"tenant": func() error { _, err := w.billing.OpenAccount(t.Context(), "", 0); return err }(),
	} {
		if problem.AsError(err) == nil || problem.AsError(err).Field != field {
			t.Errorf("OpenAccount() with a wrong %s = %v", field, err)
		}
	}
	_, err = w.billing.FindAccount(t.Context(), "nobody")
	w.wantRefusal("FindAccount() of nobody", err, problem.NotFound)
}

func TestACreditIsMadeOnce(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", 16, 0)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if _, _, err := w.billing.Credit(context.Background(), a.ID, 1001, "invoice 7", "by bank"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	w.wantBalance(a, 1001)
	_, _, err := w.billing.Credit(t.Context(), a.ID, 1002, "invoice 7", "")
	w.wantRefusal("Credit() of another amount", err, problem.IdempotencyConflict)
	_, _, err = w.billing.Adjust(t.Context(), a.ID, 1001, "invoice 7", "again")
	w.wantRefusal("Adjust() with a credit's key", err, problem.IdempotencyConflict)
	for _, amount := range []money.Amount{0, -1, money.Max + 1} {
		_, _, err := w.billing.Credit(t.Context(), a.ID, amount, "x", "")
		w.wantRefusal("Credit()", err, problem.Malformed)
	}
	_, _, err = w.billing.Credit(t.Context(), a.ID, 5, "", "")
	w.wantRefusal("Credit() without a key", err, problem.Malformed)
	changes, err := w.billing.Changes(t.Context(), a.ID, 1, 10)
	w.must(err)
	if len(changes) != 2 || changes[0].Kind != billing.Opened || changes[1].Kind != billing.Credited || changes[1].Amount != 1001 || changes[1].Note != "by bank" {
		t.Errorf("Changes() = %+v", changes)
	}
}

func TestABalanceNeverFallsBelowZero(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", 4, 1000)
	_, _, err := w.billing.Adjust(t.Context(), a.ID, -1001, "k1", "too much")
	w.wantRefusal("Adjust()", err, problem.Conflict)
	_, _, err = w.billing.Adjust(t.Context(), a.ID, -400, "k2", "a mistake")
	w.must(err)
	w.wantBalance(a, 600)
	_, err = w.billing.SetCreditLine(t.Context(), a.ID, 5000, "contract")
	w.must(err)
	w.wantBalance(a, 5600)
	_, _, err = w.billing.Adjust(t.Context(), a.ID, -5000, "k3", "spent")
	w.must(err)
	_, err = w.billing.SetCreditLine(t.Context(), a.ID, 4000, "")
	w.wantRefusal("SetCreditLine() below what is owed", err, problem.Conflict)
	a, err = w.billing.SetCreditLine(t.Context(), a.ID, 4500, "")
	w.must(err)
	w.wantBalance(a, 100)
	if a.CreditLine != 4500 {
		t.Errorf("Line = %v", a.CreditLine)
	}
}

// sums adds up the amounts of an account's rows.
func sums(t *testing.T, w *world, a billing.Account) (total money.Amount) {
	t.Helper()
	changes, err := w.billing.Changes(t.Context(), a.ID, 1, 1000)
	w.must(err)
	for _, c := range changes {
		total += c.Amount
	}
	return total
}

func TestManyChangesAtOnceAddUp(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", 16, 10_000)
	var all sync.WaitGroup
	for i := range 24 {
		all.Go(func() {
			amount := money.Amount(i%5 + 1)
			if i%3 == 0 {
				amount = -amount
			}
			if _, _, err := w.billing.Adjust(context.Background(), a.ID, amount, name(i), "race"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	w.wantBalance(a, sums(t, w, a))
}

func TestAKeyIsShownOnceAndFailsOnceRevoked(t *testing.T) {
	s := &recording{Store: newWorld(t).store}
	w := newWorldOver(t, s)
	a, b := w.account("acme", 1, 0), w.account("other", 1, 0)
	k, secret, err := w.billing.MakeKey(t.Context(), a.ID, billing.KeyOptions{DailyCap: 7, Scopes: []billing.Scope{billing.ScopeManage}})
	w.must(err)
	if len(secret) != len("vac_live_")+32 || !strings.HasPrefix(secret, "vac_live_") || !strings.HasPrefix(secret, k.Prefix) || len(k.Prefix) > 16 {
		t.Errorf("MakeKey() = %q, shown as %q", secret, k.Prefix)
	}
	got, err := w.billing.Authenticate(t.Context(), secret)
	if err != nil || got.ID != k.ID || got.Account != a.ID || got.Tenant != "acme" || got.DailyCap != 7 || !got.HasScope(billing.ScopeManage) {
		t.Errorf("Authenticate() = %+v, %v", got, err)
	}
	if bytes.Contains(s.written.Bytes(), []byte(secret)) {
		t.Error("the store has the secret")
	}
	_, err = w.billing.RevokeKey(t.Context(), nil, b.ID, k.ID)
	w.wantRefusal("RevokeKey() by another account", err, problem.NotFound)
	for range 2 {
		_, err = w.billing.RevokeKey(t.Context(), nil, a.ID, k.ID)
		w.must(err)
	}
	_, err = w.billing.Authenticate(t.Context(), secret)
	w.wantRefusal("Authenticate() of a revoked key", err, problem.Unauthorized)
	if strings.Contains(err.Error(), secret) {
		t.Error("the error shows the secret")
	}
	if all, err := w.billing.Keys(t.Context(), a.ID); err != nil || len(all) != 1 || all[0].RevokedAt.IsZero() {
		t.Errorf("Keys() = %+v, %v", all, err)
	}
	_, _, err = w.billing.MakeKey(t.Context(), a.ID, billing.KeyOptions{Scopes: []billing.Scope{"all"}})
	w.wantRefusal("MakeKey() with a scope of none", err, problem.Malformed)
}

func TestAMalformedKeyCostsNoRead(t *testing.T) {
	s := &recording{Store: newWorld(t).store}
	w := newWorldOver(t, s)
	a := w.account("acme", 1, 0)
	_, secret, err := w.billing.MakeKey(t.Context(), a.ID, billing.KeyOptions{})
	w.must(err)
	s.reads = 0
	for _, wrong := range []string{"", "x", secret[:len(secret)-1], secret + "a", "vac_xxxx_" + secret[9:], secret[:len(secret)-1] + "-", secret[:len(secret)-2] + "é"} {
		_, err := w.billing.Authenticate(t.Context(), wrong)
		w.wantRefusal("Authenticate()", err, problem.Unauthorized)
	}
	if s.reads != 0 {
		t.Errorf("malformed keys cost %d reads", s.reads)
	}
}

func TestIdentifyWantsTheScopeToCall(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", 1, 0)
	_, reader, err := w.billing.MakeKey(t.Context(), a.ID, billing.KeyOptions{Test: true, Scopes: []billing.Scope{billing.ScopeRead}})
	w.must(err)
	_, caller, err := w.billing.MakeKey(t.Context(), a.ID, billing.KeyOptions{Test: true, Scopes: []billing.Scope{billing.ScopeCall}})
	w.must(err)
	for _, tt := range []struct {
		header string
		want   problem.Kind
	}{
		{"Bearer " + caller, 0}, {"bearer  " + caller, 0}, {"Bearer " + reader, problem.ScopeRequired},
		{"Basic " + caller, problem.Unauthorized}, {caller, problem.Unauthorized}, {"Bearer", problem.Unauthorized},
	} {
		r := httptest.NewRequest("POST", "/", nil)
		r.Header.Set("Authorization", tt.header)
		p, err := w.billing.Identify(t.Context(), r)
		if tt.want != 0 {
			w.wantRefusal("Identify()", err, tt.want)
			continue
		}
		if err != nil || p.Account != a.ID || p.Tenant != "acme" || !p.Test {
			t.Errorf("Identify(%q) = %+v, %v", tt.header[:6], p, err)
		}
	}
	if p, err := w.billing.Identify(t.Context(), httptest.NewRequest("POST", "/", nil)); p != nil || err != nil {
		t.Errorf("Identify() of nobody = %v, %v", p, err)
	}
}

// A suspended account is not identified, by any credential, and identifying its keys costs one read more
// a second. Another process notices the suspension within that second.
func TestASuspendedAccountCallsNothing(t *testing.T) {
	s := &recording{Store: newWorld(t).store}
	w := newWorldOver(t, s)
	a := w.account("acme", 1, 0)
	here, there := w.taking(), w.taking()
	_, err := here.AddIssuer(t.Context(), a.ID, issuerURL, billing.IssuerOptions{SubjectDailyCap: 1, TotalDailyCap: 1, AllowAll: true})
	w.must(err)
	requests := map[string]*http.Request{"a token": withToken("ann")}
	for what, o := range map[string]billing.KeyOptions{"a key": {Scopes: []billing.Scope{billing.ScopeCall, billing.ScopeRead, billing.ScopeManage}}, "a test key": {Test: true}} {
		_, secret, err := here.MakeKey(t.Context(), a.ID, o)
		w.must(err)
		requests[what] = httptest.NewRequest("POST", "/", nil)
		requests[what].Header.Set("Authorization", "Bearer "+secret)
	}
	want := func(b *billing.Billing, kind problem.Kind) {
		t.Helper()
		for what, r := range requests {
			if _, err := b.Identify(t.Context(), r); kind == 0 && err != nil || kind != 0 && !problem.Is(err, kind) {
				t.Errorf("%s = %v, want %v", what, err, kind)
			}
		}
	}
	want(here, 0)
	want(there, 0)
	before := s.reads
	_, err = here.Identify(t.Context(), requests["a key"])
	w.must(err)
	if n := s.reads - before; n != 1 {
		t.Errorf("identifying a key again reads %d documents, want 1", n)
	}
	_, err = here.SetSuspended(t.Context(), a.ID, true, "")
	w.must(err)
	want(here, problem.AccountSuspended)
	w.clock.Advance(time.Second)
	want(there, problem.AccountSuspended)
	for _, scope := range []billing.Scope{billing.ScopeRead, billing.ScopeManage} { // it reads, and pays in
		if _, err := here.AuthenticateRequest(t.Context(), requests["a key"], billing.KeyRequirement{Scope: scope}); err != nil {
			t.Errorf("the scope %s of a suspended account = %v", scope, err)
		}
	}
	_, err = here.SetSuspended(t.Context(), a.ID, false, "")
	w.must(err)
	want(here, 0)
	w.clock.Advance(time.Second)
	want(there, 0)
}

// recording is a store that keeps what is written and counts reads.
type recording struct {
	store.Store
	mu      sync.Mutex
	written bytes.Buffer
	reads   int
}

func (s *recording) Doc(ctx context.Context, k store.Key) (store.Doc, error) {
	s.mu.Lock()
	s.reads++
	s.mu.Unlock()
	return s.Store.Doc(ctx, k)
}

func (s *recording) Commit(ctx context.Context, writes ...store.Write) error {
	s.mu.Lock()
	for _, w := range writes {
		switch w := w.(type) {
		case store.Put:
			s.written.WriteString(w.Key.String())
			s.written.Write(w.Data)
		case store.Append:
			s.written.Write(w.Data)
		}
	}
	s.mu.Unlock()
	return s.Store.Commit(ctx, writes...)
}

// The words that keys begin with are the host's choice, and may change: keys that were made
// before stay good.
func TestKeysBeginWithTheHostsWords(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", 1, 0)
	_, old, err := w.billing.MakeKey(t.Context(), a.ID, billing.KeyOptions{})
	w.must(err)
	c := w.billing.Config
	c.KeyPrefix, c.AGPKeyPrefix = "shop", "net7"
	renamed := billing.New(c)
	for _, tt := range []struct {
		options billing.KeyOptions
		prefix  string
	}{
		{billing.KeyOptions{}, "shop_live_"}, {billing.KeyOptions{Test: true}, "shop_test_"},
		{billing.KeyOptions{Tier: billing.Free}, "net7_live_"}, {billing.KeyOptions{Tier: billing.Free, Test: true}, "net7_test_"},
	} {
		k, secret, err := renamed.MakeKey(t.Context(), a.ID, tt.options)
		if err != nil || !strings.HasPrefix(secret, tt.prefix) || !strings.HasPrefix(k.Prefix, tt.prefix) {
			t.Errorf("MakeKey() = %q, %v, want %s…", k.Prefix, err, tt.prefix)
		}
		for _, b := range []*billing.Billing{renamed, w.billing} {
			for _, one := range []string{secret, old} {
				if _, err := b.Authenticate(t.Context(), one); err != nil {
					t.Errorf("Authenticate(%s…) = %v", one[:10], err)
				}
			}
		}
	}
	for _, bad := range []string{"", "Vac", "v_c", "thirteenchars", "é"} {
		if billing.CheckKeyPrefix(bad) == nil {
			t.Errorf("CheckKeyPrefix(%q) = nil", bad)
		}
	}
	letters := strings.Repeat("a", 32)
	c.Store = nil // it is not asked
	unread := billing.New(c)
	for _, malformed := range []string{"", "vac_live_", "vac_live_" + letters + "a", "vac_live_" + letters[1:], "_live_" + letters, "vac_dead_" + letters, "v c_live_" + letters, "vac_live_" + letters[1:] + "-"} {
		if _, err := unread.Authenticate(t.Context(), malformed); !problem.Is(err, problem.Unauthorized) || !strings.Contains(err.Error(), "such as shop_live_") {
			t.Errorf("Authenticate(%q) = %v", malformed, err)
		}
	}
}
