// Package price computes the prices of calls. It does no I/O.
package price

import (
	"fmt"
	"strconv"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/problem"
)

const (
	MaxPrice          = 1_000_000 * money.Dollar // limit for a call, and for a listing's price
	maxTokenPrice     = 1000 * money.Dollar      // limit for a million tokens
	MaxFreeCalls      = 1_000_000_000            // limit of free calls per day
	MaxFeeBasisPoints = 10_000                   // limit in basis points, 100 %
	million           = 1_000_000

	// MaxBookingPrice limits the price of a booking, which must be in whole cents.
	MaxBookingPrice = 1000 * money.Dollar
	cent            = money.Dollar / 100
	// maxTokens limits the tokens of a call, so that Charge cannot overflow.
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
	Version uint64       `json:"version"` // starts at 1
	Flat    money.Amount `json:"flat"`    // price per call
	// InputPrice and OutputPrice are prices of a million tokens. The vacant's agent reports the
	// tokens, or they are estimated if an answer ends early. MaxCharge is the maximum charge for a
	// call if tokens have a price. It is held (reserved in the caller's account) until the answer
	// is complete.
	InputPrice  money.Amount `json:"in,omitempty"`
	OutputPrice money.Amount `json:"out,omitempty"`
	MaxCharge   money.Amount `json:"most,omitempty"`
	// FreePerSigner limits the free calls per UTC day for each signing caller, FreePerAddress for
	// each address, and FreeTotal for all callers together. They apply only to callers without an
	// account. If FreePerSigner is zero, signers have no free calls. If FreePerAddress is zero,
	// guests have no free calls, and calls of signers are not counted per address. If FreeTotal is
	// zero, there is no common limit.
	FreePerSigner  int64 `json:"free,omitempty"`
	FreePerAddress int64 `json:"free_address,omitempty"`
	FreeTotal      int64 `json:"free_all,omitempty"`
	// FeeBasisPoints is the host's share in basis points when this version was created.
	FeeBasisPoints int64     `json:"fee,omitempty"`
	SetAt          time.Time `json:"set"`
}

// SetDefaultFreeLimits derives FreePerAddress and FreeTotal from FreePerSigner, unless the
// parameters say that they are already set. An address gets three times as many free calls as a
// signer, and all callers together get a hundred times as many. A caller can create keys at no
// cost, so without these limits one sender would have unlimited free calls.
func (p *Price) SetDefaultFreeLimits(isAddressSet, isTotalSet bool) {
	if !isAddressSet {
		p.FreePerAddress = min(3*p.FreePerSigner, MaxFreeCalls)
	}
	if !isTotalSet {
		p.FreeTotal = min(100*p.FreePerSigner, MaxFreeCalls)
	}
}

func (p *Price) IsFree() bool { return p == nil || p.Hold() == 0 }

// AdmitsGuests reports whether guests, who have neither an identity nor an account, may call.
// AdmitsSigners reports the same for callers with an identity but without an account.
func (p *Price) AdmitsGuests() bool { return p.IsFree() || p.FreePerAddress > 0 }

func (p *Price) AdmitsSigners() bool { return p.IsFree() || p.FreePerSigner > 0 }

// Hold returns the maximum charge for a call. It is reserved when the call is accepted.
func (p *Price) Hold() money.Amount {
	if p.HasTokenPrice() {
		return p.MaxCharge
	}
	return p.Flat
}

func (p *Price) HasTokenPrice() bool { return p != nil && (p.InputPrice > 0 || p.OutputPrice > 0) }

// Charge returns the price of a call that used the given tokens. It is rounded up to a micro-dollar
// and never exceeds Hold.
func (p *Price) Charge(inTokens, outTokens uint64) money.Amount {
	tokens := p.InputPrice*money.Amount(min(inTokens, maxTokens)) + p.OutputPrice*money.Amount(min(outTokens, maxTokens))
	return min(p.Flat+(tokens+million-1)/million, p.Hold())
}

func (p *Price) HostFee(charge money.Amount) money.Amount {
	// The share is rounded down.
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
