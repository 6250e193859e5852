package billing_test

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

// subjects takes secrets such as "t.ann.x" for tokens of an issuer, and "t.ann.ACCOUNT.x" for tokens of an account.
type subjects struct {
	billing.TokenCheckerConfig
	url string
}

func (subjects) LooksLikeToken(secret string) bool { return strings.HasPrefix(secret, "t.") }

func (s subjects) Check(ctx context.Context, token string, _ *http.Request) (billing.Subject, error) {
	all, err := s.Issuers(ctx)
	words := strings.Split(token, ".")
	i := slices.IndexFunc(all, func(i billing.Issuer) bool { return i.URL == s.url && (len(words) < 4 || i.Account == words[2]) })
	if err == nil && i < 0 {
		err = problem.New(problem.Unauthorized, "no such issuer")
	}
	if err != nil {
		return billing.Subject{}, err
	}
	name := words[1]
	return billing.Subject{Issuer: all[i], ID: strings.Repeat("0", 32-len(name)) + strings.Repeat("a", len(name)), Name: name, Scopes: all[i].Scopes}, nil
}

const issuerURL = "https://login.example.com"

// taking is the billing of a process that takes tokens.
func (w *world) taking() *billing.Billing {
	c := w.billing.Config
	c.NewTokenChecker = func(t billing.TokenCheckerConfig) billing.TokenChecker { return subjects{t, issuerURL} }
	return billing.New(c)
}

func withToken(subject string) *http.Request {
	r := httptest.NewRequest("GET", "https://host.example/v/clerk", nil)
	r.Header.Set("Authorization", "Bearer t."+subject+".x")
	return r
}

func TestIssuersThatCannotBe(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", 1, 0)
	good := billing.IssuerOptions{SubjectDailyCap: 1, TotalDailyCap: 1, AllowAll: true}
	for name, c := range map[string]struct {
		url    string
		change func(*billing.IssuerOptions)
		field  string
	}{
		"no claim, and not anybody": {issuerURL, func(o *billing.IssuerOptions) { o.AllowAll = false }, "require"},
		"both":                      {issuerURL, func(o *billing.IssuerOptions) { o.RequiredClaims = map[string]string{"a": "b"} }, "anybody"},
		"an empty value":            {issuerURL, func(o *billing.IssuerOptions) { o.AllowAll, o.RequiredClaims = false, map[string]string{"a": ""} }, "require.a"},
		"no cap":                    {issuerURL, func(o *billing.IssuerOptions) { o.SubjectDailyCap = 0 }, "cap"},
		"a negative cap":            {issuerURL, func(o *billing.IssuerOptions) { o.SubjectDailyCap = -1 }, "cap"},
		"no most":                   {issuerURL, func(o *billing.IssuerOptions) { o.TotalDailyCap = 0 }, "most"},
		"manage":                    {issuerURL, func(o *billing.IssuerOptions) { o.Scopes = []billing.Scope{billing.ScopeManage} }, "scopes"},
		"vacants":                   {issuerURL, func(o *billing.IssuerOptions) { o.Scopes = []billing.Scope{billing.ScopeVacants} }, "scopes"},
		"AGP":                       {issuerURL, func(o *billing.IssuerOptions) { o.Scopes = []billing.Scope{billing.ScopeAGP} }, "scopes"},
		"e-mail":                    {issuerURL, func(o *billing.IssuerOptions) { o.SubjectClaim = "email" }, "subject_claim"},
		"e-mail in capitals":        {issuerURL, func(o *billing.IssuerOptions) { o.SubjectClaim = "EMAIL" }, "subject_claim"},
		"a name":                    {issuerURL, func(o *billing.IssuerOptions) { o.SubjectClaim = "preferred_username" }, "subject_claim"},
		"a control character":       {issuerURL, func(o *billing.IssuerOptions) { o.SubjectClaim = "a\nb" }, "subject_claim"},
		"an empty audience":         {issuerURL, func(o *billing.IssuerOptions) { o.Audiences = []string{""} }, "audiences[0]"},
		"many audiences":            {issuerURL, func(o *billing.IssuerOptions) { o.Audiences = make([]string, 17) }, "audiences"},
		"http":                      {"http://login.example.com", nil, "issuer"},
		"a query":                   {issuerURL + "?a=b", nil, "issuer"},
		"a fragment":                {issuerURL + "#", nil, "issuer"},
		"a password":                {"https://a:b@login.example.com", nil, "issuer"},
		"no URL":                    {"login.example.com", nil, "issuer"},
		"a long URL":                {issuerURL + "/" + strings.Repeat("a", 512), nil, "issuer"},
	} {
		o := good
		if c.change != nil {
			c.change(&o)
		}
		_, err := w.billing.AddIssuer(t.Context(), a.ID, c.url, o)
		if !problem.Is(err, problem.Malformed) || problem.AsError(err).Field != c.field {
			t.Errorf("%s: %v, want a refusal of %s", name, err, c.field)
		}
	}
	for _, url := range []string{issuerURL, issuerURL + "/", issuerURL + "/realms/a", "http://127.0.0.1:9000", "http://localhost:9000"} {
		if _, err := w.billing.AddIssuer(t.Context(), a.ID, url, good); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	if _, err := w.billing.AddIssuer(t.Context(), strings.Repeat("0", 64), issuerURL, good); !problem.Is(err, problem.NotFound) {
		t.Errorf("for no account: %v", err)
	}
}

func TestAnIssuerIsChangedAndRemoved(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", 1, 0)
	here, there := w.taking(), w.taking()
	first, err := here.AddIssuer(t.Context(), a.ID, issuerURL, billing.IssuerOptions{SubjectDailyCap: 1, TotalDailyCap: 2, AllowAll: true})
	w.must(err)
	if k, err := here.AuthenticateRequest(t.Context(), withToken("ann"), billing.KeyRequirement{Scope: billing.ScopeCall}); err != nil || k.Account != a.ID || k.DailyCap != 1 {
		t.Errorf("a token: %+v, %v", k, err)
	}
	if _, err := here.AuthenticateRequest(t.Context(), withToken("ann"), billing.KeyRequirement{Scope: billing.ScopeRead}); !problem.Is(err, problem.ScopeRequired) {
		t.Errorf("a token with the scope call reads: %v", err)
	}
	changed, err := here.AddIssuer(t.Context(), a.ID, issuerURL, billing.IssuerOptions{SubjectDailyCap: 5, TotalDailyCap: 6, AllowAll: true, Scopes: []billing.Scope{billing.ScopeRead}})
	if err != nil || changed.ID != first.ID {
		t.Errorf("a change: %+v, %v, want the issuer %s", changed, err, first.ID)
	}
	if _, err := here.AuthenticateRequest(t.Context(), withToken("ann"), billing.KeyRequirement{Scope: billing.ScopeCall}); !problem.Is(err, problem.ScopeRequired) {
		t.Errorf("after the change, a token calls: %v", err)
	}
	if _, err := there.AuthenticateRequest(t.Context(), withToken("ann"), billing.KeyRequirement{Scope: billing.ScopeRead}); err != nil {
		t.Errorf("in another process: %v", err)
	}
	_, err = here.RemoveIssuer(t.Context(), first.ID)
	w.must(err)
	if _, err := here.AuthenticateRequest(t.Context(), withToken("ann"), billing.KeyRequirement{}); !problem.Is(err, problem.Unauthorized) {
		t.Errorf("after the removal: %v", err)
	}
	w.clock.Advance(time.Second)
	if _, err := there.AuthenticateRequest(t.Context(), withToken("ann"), billing.KeyRequirement{}); !problem.Is(err, problem.Unauthorized) {
		t.Errorf("in another process, a second after the removal: %v", err)
	}
	if _, err := here.RemoveIssuer(t.Context(), first.ID); !problem.Is(err, problem.NotFound) {
		t.Errorf("a second removal: %v", err)
	}
	// Each change is a row of the account.
	var kinds []billing.ChangeKind
	rows, err := w.store.Rows(t.Context(), must(billing.AccountStream(a.ID)), 1, 10, store.Ascending)
	w.must(err)
	for _, row := range rows {
		c, err := billing.DecodeChange(row)
		w.must(err)
		kinds = append(kinds, c.Kind)
	}
	if want := []billing.ChangeKind{billing.Opened, billing.IssuerAdded, billing.IssuerAdded, billing.IssuerRemoved}; !slices.Equal(kinds, want) {
		t.Errorf("changes of the account: %v, want %v", kinds, want)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestTwoPeopleOfAnAccountAreTwoOwners(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", 1, 0)
	b := w.taking()
	_, err := b.AddIssuer(t.Context(), a.ID, issuerURL, billing.IssuerOptions{SubjectDailyCap: 1, TotalDailyCap: 2, AllowAll: true})
	w.must(err)
	owners := map[call.Owner]string{}
	for _, who := range []string{"ann", "bo"} {
		p, err := b.Identify(t.Context(), withToken(who))
		w.must(err)
		owners[p.Owner()] = who
	}
	owners[call.AccountOwner(a.ID, "")] = "a key"
	if len(owners) != 3 {
		t.Errorf("owners: %v, want three", slices.Collect(maps.Values(owners)))
	}
	names, err := b.Subjects(t.Context(), a.ID)
	if err != nil || len(names) != 2 {
		t.Errorf("Subjects() = %+v, %v, want two", names, err)
	}
	for _, s := range names {
		got, err := b.ForgetSubject(t.Context(), a.ID, s.ID)
		if err != nil || got.Name != s.Name {
			t.Errorf("ForgetSubject() = %+v, %v", got, err)
		}
	}
	if names, err := b.Subjects(t.Context(), a.ID); err != nil || len(names) != 0 {
		t.Errorf("after that: %+v, %v", names, err)
	}
	if _, err := b.ForgetSubject(t.Context(), a.ID, strings.Repeat("a", 32)); !problem.Is(err, problem.NotFound) {
		t.Errorf("a subject of nobody: %v", err)
	}
}

// 64 writers of two subjects at once spend what the caps allow, and not a micro-dollar more.
func TestCapsOfSubjectsAndOfTheirIssuerHoldAtOnce(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", 4, money.Dollar)
	b := w.taking()
	// Each call costs 2,000: a subject may make 5, and all together 8.
	_, err := b.AddIssuer(t.Context(), a.ID, issuerURL, billing.IssuerOptions{SubjectDailyCap: 11_000, TotalDailyCap: 17_000, AllowAll: true})
	w.must(err)
	host := w.hostOf(w.store, b)
	var mu sync.Mutex
	paid := map[string]int{}
	var all sync.WaitGroup
	for n := range 64 {
		who := []string{"ann", "bo"}[n%2]
		all.Go(func() {
			p, err := b.Identify(t.Context(), withToken(who))
			if err != nil {
				t.Error(err)
				return
			}
			c := w.caller()
			out := c.say(host, "hi", call.Credential{Payer: p})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case out.Problem == nil:
				if r := c.row(out.Position); r.Subject != p.Subject {
					t.Errorf("the row of %s has the subject %q, want %q", who, r.Subject, p.Subject)
				}
				paid[who]++
			case out.Problem.Kind != problem.SpendCapReached:
				t.Errorf("%s: %v", who, out.Problem)
			}
		})
	}
	all.Wait()
	if paid["ann"] > 5 || paid["bo"] > 5 || paid["ann"]+paid["bo"] != 8 {
		t.Errorf("calls that were paid: %v, want at most 5 each and 8 together", paid)
	}
	w.wantBalance(a, money.Dollar-8*2000)
	w.clock.Advance(12 * time.Hour) // the next UTC day
	p, err := b.Identify(t.Context(), withToken("ann"))
	w.must(err)
	if out := w.caller().say(host, "hi", call.Credential{Payer: p}); out.Problem != nil {
		t.Errorf("the next day: %v", out.Problem)
	}
}

// A person with tokens of one issuer for two accounts has caps of the day, a name and an owner in each.
func TestAPersonOfTwoAccountsIsTwoSubjects(t *testing.T) {
	w := newWorld(t)
	b := w.taking()
	host := w.hostOf(w.store, b)
	owners := map[call.Owner]bool{}
	for _, tenant := range []string{"acme", "other"} {
		a := w.account(tenant, 1, 10_000)
		_, err := b.AddIssuer(t.Context(), a.ID, issuerURL, billing.IssuerOptions{SubjectDailyCap: 2000, TotalDailyCap: 2000, AllowAll: true})
		w.must(err)
		p, err := b.Identify(t.Context(), withToken("ann."+a.ID))
		w.must(err)
		if p.Account != a.ID || p.Tenant != tenant {
			t.Errorf("the token of %s is for account %s of %s", tenant, p.Account, p.Tenant)
		}
		owners[p.Owner()] = true
		by := call.Credential{Payer: p}
		w.wantOutcome("a call of ann of "+tenant, w.caller().say(host, "hi", by), 0)
		w.wantOutcome("over the cap of ann of "+tenant, w.caller().say(host, "hi", by), problem.SpendCapReached)
		if names, err := b.Subjects(t.Context(), a.ID); err != nil || len(names) != 1 || names[0].Account != a.ID {
			t.Errorf("subjects of %s: %+v, %v, want ann", tenant, names, err)
		}
	}
	if len(owners) != 2 {
		t.Errorf("ann has %d owners, want one in each account", len(owners))
	}
}

func TestAFaultOfTheStoreIsNoWrongToken(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", 1, 0)
	_, err := w.billing.AddIssuer(t.Context(), a.ID, issuerURL, billing.IssuerOptions{SubjectDailyCap: 1, TotalDailyCap: 2, AllowAll: true})
	w.must(err)
	c := w.taking().Config
	c.Store = failing{w.store}
	if _, err := billing.New(c).Identify(t.Context(), withToken("ann")); !problem.Is(err, problem.Unavailable) {
		t.Errorf("Identify() = %v, want unavailable", err)
	}
}

// failing is a store that cannot be read.
type failing struct{ store.Store }

func (failing) Docs(context.Context, store.Range, int, string) ([]store.Doc, string, error) {
	return nil, "", store.ErrUnavailable
}

// slowLists is a store whose first list of documents takes its time.
type slowLists struct {
	store.Store
	began, goOn chan struct{}
	lists       atomic.Int64
}

func (s *slowLists) Docs(ctx context.Context, r store.Range, n int, cursor string) ([]store.Doc, string, error) {
	all, next, err := s.Store.Docs(ctx, r, n, cursor)
	if s.lists.Add(1) == 1 {
		close(s.began)
		<-s.goOn
	}
	return all, next, err
}

func TestARequestThatHangsUpDoesNotWaitForTheIssuers(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", 1, 0)
	_, err := w.billing.AddIssuer(t.Context(), a.ID, issuerURL, billing.IssuerOptions{SubjectDailyCap: 1, TotalDailyCap: 2, AllowAll: true})
	w.must(err)
	slow := &slowLists{Store: w.store, began: make(chan struct{}), goOn: make(chan struct{})}
	b := w.instance(slow)
	first := make(chan error)
	go func() { _, err := b.RecentIssuers(t.Context()); first <- err }()
	<-slow.began
	gone, hangUp := context.WithCancel(t.Context())
	hangUp()
	if _, err := b.RecentIssuers(gone); !problem.Is(err, problem.Unavailable) {
		t.Errorf("while another reads: %v, want unavailable", err)
	}
	// The list that is read lacks a change of this process.
	_, err = b.AddIssuer(t.Context(), a.ID, issuerURL+"/other", billing.IssuerOptions{SubjectDailyCap: 1, TotalDailyCap: 2, AllowAll: true})
	w.must(err)
	close(slow.goOn)
	w.must(<-first)
	if all, err := b.RecentIssuers(t.Context()); err != nil || len(all) != 2 {
		t.Errorf("after a change: %+v, %v, want two", all, err)
	}
}
