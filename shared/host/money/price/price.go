// Package price computes the prices of calls.
package price

import (
	"fmt"
	"strconv"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/problem"
)

const (
	MaxPrice          = 1_000_000 * money.Dollar
	maxTokenPrice     = 1000 * money.Dollar
	MaxFreeCalls      = 1_000_000_000 // per day
	MaxFeeBasisPoints = 10_000
	million           = 1_000_000

	MaxBookingPrice = 1000 * money.Dollar
	cent            = money.Dollar / 100
	// maxTokens prevents an overflow in Charge.
	maxTokens = 1 << 32
)

func CheckBookingPrice(p money.Amount) error {
	if p <= 0 || p > MaxBookingPrice || p%cent != 0 {
		return problem.Invalid("the price of a booking", "whole cents, 0.01 to 1000", p.String())
	}
	return nil
}

// Price is one version of a vacant's price. Versions are never deleted, because rows refer to them.
type Price struct {
	Version uint64       `json:"version"`
	Flat    money.Amount `json:"flat"`
	// InputPrice and OutputPrice are prices of a million tokens.
	InputPrice  money.Amount `json:"in,omitempty"`
	OutputPrice money.Amount `json:"out,omitempty"`
	MaxCharge   money.Amount `json:"most,omitempty"`
	// FreePerSigner, FreePerAddress and FreeTotal limit the free calls per UTC day of callers
	// without an account. If FreePerAddress is zero, guests have no free calls, and signers are not
	// counted by address. If FreeTotal is zero, there is no common limit.
	FreePerSigner  int64     `json:"free,omitempty"`
	FreePerAddress int64     `json:"free_address,omitempty"`
	FreeTotal      int64     `json:"free_all,omitempty"`
	FeeBasisPoints int64     `json:"fee,omitempty"`
	SetAt          time.Time `json:"set"`
}

// SetDefaultFreeLimits sets limits that are not set yet. A caller can create keys at no cost, so
// without FreePerAddress and FreeTotal one sender would have unlimited free calls.
func (p *Price) SetDefaultFreeLimits(isAddressSet, isTotalSet bool) {
	if !isAddressSet {
		p.FreePerAddress = min(3*p.FreePerSigner, MaxFreeCalls)
	}
	if !isTotalSet {
		p.FreeTotal = min(100*p.FreePerSigner, MaxFreeCalls)
	}
}

func (p *Price) IsFree() bool { return p == nil || p.Hold() == 0 }

func (p *Price) AdmitsGuests() bool { return p.IsFree() || p.FreePerAddress > 0 }

func (p *Price) AdmitsSigners() bool { return p.IsFree() || p.FreePerSigner > 0 }

// Hold returns the maximum charge for a call.
func (p *Price) Hold() money.Amount {
	if p.HasTokenPrice() {
		return p.MaxCharge
	}
	return p.Flat
}

func (p *Price) HasTokenPrice() bool { return p != nil && (p.InputPrice > 0 || p.OutputPrice > 0) }

// Charge rounds up to a micro-dollar and never exceeds Hold.
func (p *Price) Charge(inTokens, outTokens uint64) money.Amount {
	tokens := p.InputPrice*money.Amount(min(inTokens, maxTokens)) + p.OutputPrice*money.Amount(min(outTokens, maxTokens))
	return min(p.Flat+(tokens+million-1)/million, p.Hold())
}

func (p *Price) HostFee(charge money.Amount) money.Amount {
	whole, rest := charge/MaxFeeBasisPoints, charge%MaxFeeBasisPoints
	return whole*money.Amount(p.FeeBasisPoints) + rest*money.Amount(p.FeeBasisPoints)/MaxFeeBasisPoints
}

func (p Price) HasSameTerms(other Price) bool {
	p.Version, other.Version, p.SetAt, other.SetAt = 0, 0, time.Time{}, time.Time{}
	return p == other
}

func (p *Price) Check() error {
	for _, limit := range []struct {
		field string
		is    int64
		most  int64
		unit  string
	}{
		{"flat", int64(p.Flat), int64(MaxPrice), "micro-dollars"},
		{"in", int64(p.InputPrice), int64(maxTokenPrice), "micro-dollars"},
		{"out", int64(p.OutputPrice), int64(maxTokenPrice), "micro-dollars"},
		{"most", int64(p.MaxCharge), int64(MaxPrice), "micro-dollars"},
		{"free", p.FreePerSigner, MaxFreeCalls, "calls"},
		{"free_address", p.FreePerAddress, MaxFreeCalls, "calls"},
		{"free_all", p.FreeTotal, MaxFreeCalls, "calls"},
		{"fee", p.FeeBasisPoints, MaxFeeBasisPoints, "basis points"},
	} {
		if limit.is < 0 || limit.is > limit.most {
			return problem.Invalid(limit.field, fmt.Sprintf("0 to %d %s", limit.most, limit.unit), strconv.FormatInt(limit.is, 10))
		}
	}
	isPerToken := p.HasTokenPrice()
	switch {
	case isPerToken && p.MaxCharge == 0:
		return problem.Invalid("most", "a maximum charge per call, because tokens have a price", "none")
	case isPerToken && p.MaxCharge < p.Flat:
		return problem.Invalid("most", "at least flat, "+p.Flat.String(), p.MaxCharge.String())
	case !isPerToken && p.MaxCharge != 0:
		return problem.Invalid("most", "none, because tokens have no price", p.MaxCharge.String())
	case p.FreeTotal > 0 && p.FreePerSigner == 0 && p.FreePerAddress == 0:
		return problem.Invalid("free_all", "free or free_address together with it", "neither")
	}
	return nil
}

func (p *Price) String() string {
	if p.IsFree() {
		return "free"
	}
	if !p.HasTokenPrice() {
		return p.Flat.String() + " a call"
	}
	flat := ""
	if p.Flat > 0 {
		flat = p.Flat.String() + " a call and "
	}
	return fmt.Sprintf("%s%s in/%s out for a million tokens, at most %s a call", flat, p.InputPrice, p.OutputPrice, p.MaxCharge)
}
