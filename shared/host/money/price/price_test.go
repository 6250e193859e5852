package price_test

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func TestACallCostsItsTokensUpToTheMost(t *testing.T) {
	tokens := price.Price{Flat: 100, InputPrice: 3 * money.Dollar, OutputPrice: 15 * money.Dollar, MaxCharge: 50_000}
	for _, tt := range []struct {
		p       price.Price
		in, out uint64
		want    money.Amount
	}{
		{price.Price{Flat: 2000}, 1 << 60, 1 << 60, 2000},
		{tokens, 0, 0, 100},
		{tokens, 1000, 100, 100 + 3000 + 1500},
		{tokens, 1 << 60, 0, 50_000},
		{price.Price{InputPrice: 1, MaxCharge: 10}, 1, 0, 1}, // rounded up
		{tokens, math.MaxUint64, math.MaxUint64, 50_000},
	} {
		if got := tt.p.Charge(tt.in, tt.out); got != tt.want {
			t.Errorf("(%+v).Charge(%d, %d) = %d, want %d", tt.p, tt.in, tt.out, got, tt.want)
		}
	}
}

func TestAChargeIsWithinTheHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount := func(name string, most money.Amount) money.Amount {
			return money.Amount(rapid.Int64Range(0, int64(most)).Draw(t, name))
		}
		p := price.Price{Flat: amount("flat", price.MaxPrice), InputPrice: amount("in", 1000*money.Dollar), OutputPrice: amount("out", 1000*money.Dollar),
			MaxCharge: amount("most", price.MaxPrice), FeeBasisPoints: rapid.Int64Range(0, price.MaxFeeBasisPoints).Draw(t, "fee")}
		if p.Check() != nil {
			t.Skip("no price")
		}
		c := p.Charge(rapid.Uint64().Draw(t, "in tokens"), rapid.Uint64().Draw(t, "out tokens"))
		if c < 0 || c > p.Hold() {
			t.Fatalf("(%+v).Charge() = %d, want 0 to %d", p, c, p.Hold())
		}
		want := new(big.Int).Mul(big.NewInt(int64(c)), big.NewInt(p.FeeBasisPoints))
		if want.Quo(want, big.NewInt(10_000)); big.NewInt(int64(p.HostFee(c))).Cmp(want) != 0 {
			t.Fatalf("(%+v).HostFee(%d) = %d, want %v", p, c, p.HostFee(c), want)
		}
	})
}

func TestTheHostsFeeIsRoundedDown(t *testing.T) {
	for _, tt := range []struct {
		charge money.Amount
		fee    int64
		want   money.Amount
	}{
		{charge: 0, fee: 10_000, want: 0}, {charge: 1, fee: 9999, want: 0}, {charge: 1, fee: 10_000, want: 1}, {charge: 9999, fee: 1, want: 0}, {charge: 10_000, fee: 1, want: 1},
		{charge: 19_999, fee: 9999, want: 19_997}, {charge: 20_001, fee: 0, want: 0}, {charge: price.MaxPrice, fee: 10_000, want: price.MaxPrice},
	} {
		if p := (price.Price{FeeBasisPoints: tt.fee}); p.HostFee(tt.charge) != tt.want {
			t.Errorf("HostFee(%d) at %d basis points = %d, want %d", tt.charge, tt.fee, p.HostFee(tt.charge), tt.want)
		}
	}
}

func TestWrongPricesAreRefusedByField(t *testing.T) {
	for field, p := range map[string]price.Price{
		"flat":         {Flat: -1},
		"in":           {InputPrice: 1000*money.Dollar + 1, MaxCharge: 1},
		"out":          {OutputPrice: -1, MaxCharge: 1},
		"most":         {InputPrice: 1},
		"free":         {Flat: 1, FreePerSigner: -1},
		"free_address": {Flat: 1, FreePerAddress: price.MaxFreeCalls + 1},
		"free_all":     {Flat: 1, FreeTotal: 5},
		"fee":          {Flat: 1, FeeBasisPoints: 10_001},
	} {
		if err := p.Check(); problem.AsError(err) == nil || problem.AsError(err).Field != field {
			t.Errorf("(%+v).Check() = %v, want one of %s", p, err, field)
		}
	}
	for _, p := range []price.Price{{Flat: 5, MaxCharge: 6}, {Flat: 9, InputPrice: 1, MaxCharge: 8}} {
		if err := p.Check(); problem.AsError(err) == nil || problem.AsError(err).Field != "most" {
			t.Errorf("(%+v).Check() = %v, want one of most", p, err)
		}
	}
}

func TestAPriceIsWrittenInWords(t *testing.T) {
	for want, p := range map[string]*price.Price{
		"free":          nil,
		"$0.002 a call": {Flat: 2000},
		"$3 in/$15 out for a million tokens, at most $0.05 a call": {InputPrice: 3 * money.Dollar, OutputPrice: 15 * money.Dollar, MaxCharge: 50_000},
	} {
		if got := p.String(); got != want {
			t.Errorf("String() = %q, want %q", got, want)
		}
	}
}

// SetDefaultFreeLimits limits free calls per address and for all callers together, unless these limits were
// set.
func TestFreeCallsAreBounded(t *testing.T) {
	for _, c := range []struct {
		p            price.Price
		address, all bool
		wantAddress  int64
		wantAll      int64
	}{
		{price.Price{Flat: 1, FreePerSigner: 10}, false, false, 30, 1000},
		{price.Price{Flat: 1, FreePerSigner: 10}, true, true, 0, 0},
		{price.Price{Flat: 1, FreePerSigner: 10, FreePerAddress: 5}, true, false, 5, 1000},
		{price.Price{Flat: 1, FreePerSigner: 10, FreeTotal: 20}, false, true, 30, 20},
		{price.Price{Flat: 1}, false, false, 0, 0},
		{price.Price{Flat: 1, FreePerAddress: 5}, true, false, 5, 0},
		{price.Price{Flat: 1, FreePerSigner: price.MaxFreeCalls}, false, false, price.MaxFreeCalls, price.MaxFreeCalls},
	} {
		p := c.p
		if p.SetDefaultFreeLimits(c.address, c.all); p.FreePerAddress != c.wantAddress || p.FreeTotal != c.wantAll || p.Check() != nil {
			t.Errorf("%+v: %d an address, %d in all, %v; want %d, %d", c.p, p.FreePerAddress, p.FreeTotal, p.Check(), c.wantAddress, c.wantAll)
		}
	}
}
