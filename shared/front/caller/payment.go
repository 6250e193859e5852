package caller

import (
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// MaxPrice is the query parameter that bounds what a call may cost, in micro-dollars, and
// MaxPriceHeader a header that does the same. A request has one of them.
const (
	MaxPrice       = "max_price"
	MaxPriceHeader = "Vacancy-Max-Price"
)

// ReceiptHeader names the receipt of an answered call that had a price, beside the answer.
const ReceiptHeader = "Vacancy-Receipt"

// Payment reads a request's means to pay besides its keys: the client's address, and
// the most that the call may cost.
func Payment(r *http.Request) (c call.Credential, err error) {
	if at := Origin(r.RemoteAddr); at.IsValid() {
		c.Address = at.String()
	}
	values, field := r.Header.Values(MaxPriceHeader), MaxPriceHeader
	if r.URL.RawQuery != "" {
		query, err := url.ParseQuery(r.URL.RawQuery)
		if err != nil && strings.Contains(r.URL.RawQuery, MaxPrice) {
			return c, problem.Invalid(MaxPrice, "a query that decodes, because a part that does not is left out", httpapi.Clip(r.URL.RawQuery))
		}
		if query.Has(MaxPrice) {
			values, field = append(query[MaxPrice], values...), MaxPrice
		}
	}
	if len(values) == 0 {
		return c, nil
	}
	given := strings.Join(values, ", ")
	n, err := strconv.ParseInt(given, 10, 64)
	if err != nil || n < 0 || given[0] == '+' {
		return c, problem.Invalid(field, "one whole number of micro-dollars from 0", httpapi.Clip(given))
	}
	most := money.Amount(n)
	c.Most = &most
	return c, nil
}

// Origin returns the prefix whose bucket an address uses: the address itself,
// or its /64 for IPv6, because one customer has the whole /64. All texts that
// are not addresses share one bucket.
func Origin(remote string) netip.Prefix {
	addr, err := netip.ParseAddr(remote)
	if err != nil {
		at, err := netip.ParseAddrPort(remote)
		if err != nil {
			return netip.Prefix{}
		}
		addr = at.Addr()
	}
	addr = addr.Unmap().WithZone("")
	bits := 64
	if addr.Is4() {
		bits = 32
	}
	p, err := addr.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}
