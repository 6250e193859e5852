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

const (
	MaxPriceParam  = "max_price"
	MaxPriceHeader = "Vacancy-Max-Price"
)

const ReceiptHeader = "Vacancy-Receipt"

// ParseCredential does not set the payer.
func ParseCredential(r *http.Request) (c call.Credential, err error) {
	if prefix := RateLimitPrefix(r.RemoteAddr); prefix.IsValid() {
		c.Address = prefix.String()
	}
	values, field := r.Header.Values(MaxPriceHeader), MaxPriceHeader
	if r.URL.RawQuery != "" {
		query, err := url.ParseQuery(r.URL.RawQuery)
		if err != nil && strings.Contains(r.URL.RawQuery, MaxPriceParam) {
			return c, problem.Invalid(MaxPriceParam, "a query that can be decoded completely, for example max_price=5000", httpapi.QuoteTruncated(r.URL.RawQuery))
		}
		if query.Has(MaxPriceParam) {
			values, field = append(query[MaxPriceParam], values...), MaxPriceParam
		}
	}
	if len(values) == 0 {
		return c, nil
	}
	value := strings.Join(values, ", ")
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 0 || value[0] == '+' {
		return c, problem.Invalid(field, "one whole number of micro-dollars, 0 or more", httpapi.QuoteTruncated(value))
	}
	maxPrice := money.Amount(n)
	c.MaxPrice = &maxPrice
	return c, nil
}

func RateLimitPrefix(remoteAddr string) netip.Prefix {
	addr, err := netip.ParseAddr(remoteAddr)
	// Invalid addresses share one rate limit.
	if err != nil {
		addrPort, err := netip.ParseAddrPort(remoteAddr)
		if err != nil {
			return netip.Prefix{}
		}
		addr = addrPort.Addr()
	}
	addr = addr.Unmap().WithZone("")
	// A customer usually has an IPv6 /64.
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
