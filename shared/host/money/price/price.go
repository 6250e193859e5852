// Package price computes the price of a call: pure values, no I/O.
package price

import (
	"fmt"
	"strconv"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Limits of a price.
const (
	Max     = 1_000_000 * money.Dollar // of a call, and of a listing
	maxRate = 1000 * money.Dollar      // for a million tokens
	MaxFree = 1_000_000_000            // free calls a day
	MaxFee  = 10_000                   // basis points
	million = 1_000_000

	// MaxBooking bounds the price of a booking, which is whole cents.
	MaxBooking = 1000 * money.Dollar
	cent       = money.Dollar / 100
	// maxTokens bounds the tokens of a call, so that Charge does not overflow.
	maxTokens = 1 << 32
)

// CheckBooking refuses an amount that cannot be the price of a booking.
func CheckBooking(p money.Amount) error {
	if p <= 0 || p > MaxBooking || p%cent != 0 {
		return problem.Invalid("the price of a booking", "whole cents, 0.01 to 1000", p.String())
	}
	return nil
}

// Price is one version of a vacant's price. Versions are kept for ever: rows name them.
type Price struct {
	Version uint64       `json:"version"` // from 1
	Flat    money.Amount `json:"flat"`    // for a call
	// In and Out are for a million tokens that the vacant's agent reports, or that are estimated
	// for an answer that ends early. Most bounds the charge of a call that pays for tokens; it is
	// held until the answer.
	In   money.Amount `json:"in,omitempty"`
	Out  money.Amount `json:"out,omitempty"`
	Most money.Amount `json:"most,omitempty"`
	// Free calls of a UTC day: for each caller that signs, for each address, and
	// altogether. Zero means no bound. They are for callers that no account pays for.
	Free        int64 `json:"free,omitempty"`
	FreeAddress int64 `json:"free_address,omitempty"`
	FreeAll     int64 `json:"free_all,omitempty"`
	// Fee is the host's share in basis points, as it was when the version was made.
	Fee int64     `json:"fee,omitempty"`
	Set time.Time `json:"set"`
}

// BoundFree bounds the free calls of a price that has some for each caller that signs: an
// address has three times as many, and all together have a hundred times as many. Keys of
// callers cost nothing, so without these bounds one sender has any number of them. address
// and all say whether those bounds were stated.
func (p *Price) BoundFree(address, all bool) {
	if !address {
		p.FreeAddress = min(3*p.Free, MaxFree)
	}
	if !all {
		p.FreeAll = min(100*p.Free, MaxFree)
	}
}

// IsFree reports whether calls cost nothing.
func (p *Price) IsFree() bool { return p == nil || p.Hold() == 0 }

// AdmitsGuests reports whether a caller without an identity and without an account may call.
func (p *Price) AdmitsGuests() bool { return p.IsFree() || p.FreeAddress > 0 }

// AdmitsSigners reports whether a caller with an identity and without an account may call.
func (p *Price) AdmitsSigners() bool { return p.IsFree() || p.Free > 0 }

// Hold is the most that a call can cost. It is debited when the call is accepted.
func (p *Price) Hold() money.Amount {
	if p.ByTokens() {
		return p.Most
	}
	return p.Flat
}

// ByTokens reports whether tokens have a price.
func (p *Price) ByTokens() bool { return p != nil && (p.In > 0 || p.Out > 0) }

// Charge returns the price of a call whose agent used so many tokens, rounded
// up to a micro-dollar, and never above Hold.
func (p *Price) Charge(in, out uint64) money.Amount {
	tokens := p.In*money.Amount(min(in, maxTokens)) + p.Out*money.Amount(min(out, maxTokens))
	return min(p.Flat+(tokens+million-1)/million, p.Hold())
}

// HostFee is the host's part of a charge, rounded down.
func (p *Price) HostFee(charge money.Amount) money.Amount {
	whole, rest := charge/MaxFee, charge%MaxFee
	return whole*money.Amount(p.Fee) + rest*money.Amount(p.Fee)/MaxFee
}

// SameTerms reports whether p and q differ at most in version and time.
func (p Price) SameTerms(q Price) bool {
	p.Version, q.Version, p.Set, q.Set = 0, 0, time.Time{}, time.Time{}
	return p == q
}

// Check returns an error that names the wrong field.
func (p *Price) Check() error {
	for _, one := range []struct {
		field string
		is    int64
		most  int64
		unit  string
	}{
		{"flat", int64(p.Flat), int64(Max), "micro-dollars"},
		{"in", int64(p.In), int64(maxRate), "micro-dollars"},
		{"out", int64(p.Out), int64(maxRate), "micro-dollars"},
		{"most", int64(p.Most), int64(Max), "micro-dollars"},
		{"free", p.Free, MaxFree, "calls"},
		{"free_address", p.FreeAddress, MaxFree, "calls"},
		{"free_all", p.FreeAll, MaxFree, "calls"},
		{"fee", p.Fee, MaxFee, "basis points"},
	} {
		if one.is < 0 || one.is > one.most {
			return problem.Invalid(one.field, fmt.Sprintf("0 to %d %s", one.most, one.unit), strconv.FormatInt(one.is, 10))
		}
	}
	tokens := p.ByTokens()
	switch {
	case tokens && p.Most == 0:
		return problem.Invalid("most", "the most that a call may cost, because tokens have a price", "none")
	case tokens && p.Most < p.Flat:
		return problem.Invalid("most", "at least flat, "+p.Flat.String(), p.Most.String())
	case !tokens && p.Most != 0:
		return problem.Invalid("most", "none, because tokens have no price", p.Most.String())
	case p.FreeAll > 0 && p.Free == 0 && p.FreeAddress == 0:
		return problem.Invalid("free_all", "free or free_address beside it", "none of them")
	}
	return nil
}

// String is the price in words, such as "$0.002 a call".
func (p *Price) String() string {
	if p.IsFree() {
		return "free"
	}
	if !p.ByTokens() {
		return p.Flat.String() + " a call"
	}
	flat := ""
	if p.Flat > 0 {
		flat = p.Flat.String() + " a call and "
	}
	return fmt.Sprintf("%s%s in/%s out for a million tokens, at most %s a call", flat, p.In, p.Out, p.Most)
}
