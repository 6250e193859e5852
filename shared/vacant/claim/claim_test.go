package claim_test

import (
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/claim"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

var now = time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)

func signed(t testing.TB, host identity.ID, account string) claim.PaymentClaim {
	t.Helper()
	key, err := identity.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := claim.PaymentClaim{Host: host, Account: account, DailyCap: 5}
	if err := c.Sign(t.Context(), key, now); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAClaimCountsAtItsHostForAFewMinutes(t *testing.T) {
	host := identity.ID{1}
	c := signed(t, host, strings.Repeat("ab", 32))
	back, err := claim.Parse(c.String())
	if err != nil || back.String() != c.String() {
		t.Fatalf("Parse(%q) = %v, %v", c.String(), back, err)
	}
	for _, tt := range []struct {
		name   string
		host   identity.ID
		at     time.Time
		change func(*claim.PaymentClaim)
		want   problem.Kind
	}{
		{"as it is", host, now, nil, 0},
		{"at its latest", host, now.Add(claim.MaxSkew), nil, 0},
		{"too late", host, now.Add(claim.MaxSkew + time.Second), nil, problem.ClockSkew},
		{"too early", host, now.Add(-claim.MaxSkew - time.Second), nil, problem.ClockSkew},
		{"at another host", identity.ID{2}, now, nil, problem.Malformed},
		{"for another account", host, now, func(c *claim.PaymentClaim) { c.Account = strings.Repeat("cd", 32) }, problem.BadSignature},
		{"to unlink", host, now, func(c *claim.PaymentClaim) { c.Account = "" }, problem.BadSignature},
		{"with a higher cap", host, now, func(c *claim.PaymentClaim) { c.DailyCap = 6 }, problem.BadSignature},
		{"of another vacant", host, now, func(c *claim.PaymentClaim) { c.Vacant[0]++ }, problem.BadSignature},
		{"with another time", host, now, func(c *claim.PaymentClaim) { c.Time = c.Time.Add(time.Second) }, problem.BadSignature},
	} {
		changed := back
		if tt.change != nil {
			tt.change(&changed)
		}
		err := changed.Verify(tt.host, tt.at)
		if (tt.want == 0) != (err == nil) || tt.want != 0 && !problem.Is(err, tt.want) {
			t.Errorf("Verify() of a claim %s = %v, want %v", tt.name, err, tt.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	c := signed(f, identity.ID{1}, "")
	f.Add(c.String())
	f.Add(strings.Replace(c.String(), ".5.", ".05.", 1))
	f.Add(".....")
	f.Fuzz(func(t *testing.T, text string) {
		if c, err := claim.Parse(text); err == nil && c.String() != text {
			t.Errorf("Parse(%q) reads %q", text, c.String())
		}
	})
}
